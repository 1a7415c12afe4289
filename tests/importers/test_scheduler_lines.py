"""What schedulers and the kernel say in a console."""

import pytest

from jobtape.importers.prefixes import read_prefix
from jobtape.importers.scheduler_lines import read_scheduler_line

CUT = "slurmstepd: error: *** {} ON node-a CANCELLED AT 2026-02-17T09:30:00{} ***"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (CUT.format("JOB 123", " DUE TO PREEMPTION"), {"what": "preemption", "host": "node-a", "job_id": "123"}),
        (CUT.format("STEP 123.0", " DUE TO TIME LIMIT"), {"what": "time_limit", "host": "node-a", "job_id": "123"}),
        (CUT.format("JOB 7", " DUE TO JOB REQUEUE"), {"what": "requeued", "host": "node-a", "job_id": "7"}),
        (CUT.format("STEP 7.batch", ""), {"what": "cancelled", "host": "node-a", "job_id": "7"}),
        (
            CUT.format("JOB 7", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
            {"what": "node_failure", "host": "node-a", "job_id": "7"},
        ),
        ("srun: error: node-a: task 0: Out Of Memory", {"what": "out_of_memory", "host": "node-a", "tasks": "0"}),
        ("srun: error: node-b: tasks 8-15: Killed", {"what": "killed", "host": "node-b", "tasks": "8-15"}),
        (
            "srun: error: node-b: task 3: Exited with exit code 1",
            {"what": "exited", "host": "node-b", "tasks": "3", "exit_code": 1},
        ),
        (
            "srun: error: node-b: task 3: Segmentation fault (core dumped)",
            {"what": "signalled", "host": "node-b", "tasks": "3"},
        ),
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", {"what": "aborted"}),
        ("srun: forcing job termination", {"what": "terminating"}),
        ("srun: Terminating StepId=9.0", {"what": "terminating", "job_id": "9"}),
        ("srun: error: Node failure on node-c", {"what": "node_failure", "host": "node-c"}),
        (
            "slurmstepd-node-a: error: Detected 1 oom_kill event in StepId=12.0. Some tasks have been OOM Killed.",
            {"what": "out_of_memory", "host": "node-a", "job_id": "12"},
        ),
        (
            "slurmstepd: error: Detected 2 oom-kill event(s) in step 370626.batch cgroup.",
            {"what": "out_of_memory", "job_id": "370626"},
        ),
    ],
)
def test_slurm(line, found):
    """What happened, to whom, and of which job, as far as the line says it."""
    name, metadata, _ = read_scheduler_line(read_prefix(line))
    assert ("torchelastic.log.scheduler", {"scheduler": "slurm", "text": line, **found}) == (name, metadata)


def test_slurm_says_when():
    """A cancellation states its time."""
    _, _, stamp = read_scheduler_line(read_prefix(CUT.format("JOB 1", "")))
    assert (2026, 9, 30) == (stamp.year, stamp.hour, stamp.minute)


@pytest.mark.parametrize(
    ("line", "what", "place"),
    [
        ("5m  Warning  Evicted  pod/train-1  The node was low on resource: memory.", "evicted", ("pod", "train-1")),
        (
            "2s Warning NodeNotReady node/gpu-3 Node gpu-3 status is now: NodeNotReady",
            "node_failure",
            ("node", "gpu-3"),
        ),
        ("1m Normal Preempted pod/train-0 Preempted by high/x on node gpu-1", "preemption", ("pod", "train-0")),
    ],
)
def test_kubernetes(line, what, place):
    """A line of `kubectl get events` tells of pod or node."""
    _, metadata, _ = read_scheduler_line(read_prefix(line))
    assert {"scheduler": "kubernetes", "what": what, "text": line, place[0]: place[1]} == metadata


OOM = "Killed process 4242 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB"


@pytest.mark.parametrize(
    "line",
    [
        f"Out of memory: {OOM}",
        f"Memory cgroup out of memory: {OOM}",
        f"[ 8124.120394] Out of memory: {OOM}",
        f"[Tue Feb 17 09:30:00 2026] Memory cgroup out of memory: {OOM}",
        f"Feb 17 09:30:00 node-a kernel: Out of memory: {OOM}",
        f"Feb 17 09:30:00 node-a kernel: [ 8124.120394] Out of memory: {OOM}",
        "Memory cgroup out of memory: Kill process 4242 (python) score 99 or sacrifice child",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,task_memcg=/y,task=python,pid=4242,uid=0",
    ],
)
def test_kernel_out_of_memory(line):
    """The kernel names the process that it killed."""
    name, metadata, _ = read_scheduler_line(read_prefix(line))
    assert ("torchelastic.log.kernel_oom", 4242, "python") == (name, metadata["pid"], metadata["process"])


@pytest.mark.parametrize(
    "line",
    [
        f"[rank0]: Out of memory: {OOM}",
        "[default0]:srun: error: node-b: task 3: Killed",
        f"RuntimeError: Out of memory: {OOM}",
        f"ERROR: Out of memory: {OOM}",
        "srun: job 12 queued and waiting for resources",
        "slurmstepd: error: something else",
        "the process was killed",
        "  srun: forcing job termination",
    ],
)
def test_what_workers_say_is_theirs(line):
    """Behind a label, a level or other words such a text is nobody's word."""
    assert read_scheduler_line(read_prefix(line)) is None
