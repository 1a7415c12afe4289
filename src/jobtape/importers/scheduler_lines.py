"""What schedulers and the kernel say about a job in its console: cancelled, preempted, out of time or of memory.

Sources: Slurm's ``src/slurmd/slurmstepd/mgr.c`` and ``req.c`` (``*** JOB 12 ON node-a CANCELLED AT … DUE TO
PREEMPTION ***``, ``Detected 1 oom_kill event in StepId=12.0``), ``src/srun/libsrun/launch.c`` and
``src/plugins/launch`` (``srun: error: node-a: task 3: Killed``); the events of Kubernetes as ``kubectl get events``
lists them; Linux ``mm/oom_kill.c``. Such a line begins its line: what a worker says is a worker's word.
"""

from __future__ import annotations

import re
from typing import Any

from jobtape.importers.clock import Stamp
from jobtape.importers.prefixes import Prefix, find_stamp

Reading = tuple[str, dict[str, Any], Stamp | None]
"""Name and metadata of the tape's record, and the time that the text itself gives."""

_LONGEST = 4096
_SLURM = re.compile(
    r"(?:slurmstepd(?:-(?P<host>[\w.-]+))?|srun|slurmd|salloc|sbatch|scancel): ?(?:error: |Force |fatal: )?"
)
_CANCELLED = re.compile(
    r"\*\*\* (?:JOB|STEP|REBOOT JOB|HETJOB) (?:StepId=)?(?P<job>\d+)\S* ON (?P<host>\S+)"
    r" (?P<did>CANCELLED|FAILED)(?: AT (?P<at>[\d-]+T[\d:]+))?"
    r"(?: DUE TO (?P<why>[^*]{1,200}?))?(?:,? SEE [^*]*)? ?\*\*\*"
)
_WHY = (
    ("PREEMPTION", "preemption"),
    ("TIME LIMIT", "time_limit"),
    ("NODE FAILURE", "node_failure"),
    ("REQUEUE", "requeued"),
    ("MEMORY", "out_of_memory"),
)
_TASK = re.compile(r"(?P<host>[\w.-]+): tasks? (?P<tasks>[\d,-]+): (?P<how>.{1,200})")
_HOW = (
    (re.compile(r"Out Of Memory"), "out_of_memory"),
    (re.compile(r"Killed"), "killed"),
    (re.compile(r"Exited with exit code \d+"), "exited"),
    (re.compile(r"[A-Z][\w ]+(?: \(core dumped\))?"), "signalled"),
)
_OTHERS = (
    (re.compile(r"Detected (?P<count>\d+) oom[-_]kill event.* (?:StepId=|step )(?P<job>\d+)"), "out_of_memory"),
    (re.compile(r"Exceeded (?:job|step) memory limit"), "out_of_memory"),
    (re.compile(r"Node failure on (?P<host>[\w.,\[\]-]+)"), "node_failure"),
    (re.compile(r"Job step (?P<job>\d*)[\d.]* ?aborted"), "aborted"),
    (re.compile(r"(?:forcing job termination|[Tt]erminating (?:StepId=|job step )(?P<job>\d+))"), "terminating"),
    (re.compile(r"Job allocation (?P<job>\d+) has been revoked"), "cancelled"),
    (re.compile(r"Job (?P<job>\d+) .{0,80}[Pp]reempted"), "preemption"),
)
_KUBERNETES = re.compile(
    r"(?:\S+ +)?(?:Normal|Warning) +(?P<reason>Preempted|Preempting|Evicted|OOMKilling|OOMKilled|NodeNotReady"
    r"|NodeShutdown|TaintManagerEviction|Terminated|DeadlineExceeded) +(?P<kind>pod|node|job)/(?P<host>\S+) +.+"
)
_REASONS = {
    "Preempted": "preemption",
    "Preempting": "preemption",
    "OOMKilling": "out_of_memory",
    "OOMKilled": "out_of_memory",
    "NodeNotReady": "node_failure",
    "NodeShutdown": "node_failure",
    "DeadlineExceeded": "time_limit",
    "Terminated": "terminating",
}
_KERNEL = re.compile(r"(?:(?:<\d+>)?\[ *\d{1,10}\.\d{6}\] |\[(?P<at>\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})\] |kernel: )*")
_OOM = re.compile(
    r"(?:Memory cgroup out of memory|Out of memory)(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? process"
    r" (?P<pid>\d{1,10}),? \((?P<process>[^)]{0,64})\).*"
    r"|oom-kill:constraint=.*,task=(?P<task>[^,]{0,64}),pid=(?P<pid_of>\d{1,10}),uid=\d+"
)


def read_scheduler_line(prefix: Prefix) -> Reading | None:
    """What a scheduler or the kernel says in a line; None when it is neither's."""
    text = prefix.text
    if prefix.worker or prefix.level or prefix.writer or len(text) > _LONGEST:
        return None
    if match := _SLURM.match(text):
        return _slurm(text, match)
    if "rocess " in text or "oom-kill:" in text:
        return _kernel(text)
    match = _KUBERNETES.fullmatch(text) if "/" in text else None
    if match is None:
        return None
    found = {"scheduler": "kubernetes", "what": _REASONS.get(match["reason"], "evicted"), "text": text}
    return "torchelastic.log.scheduler", {**found, match["kind"]: match["host"]}, None


def _slurm(text: str, head: re.Match[str]) -> Reading | None:
    said = text[head.end() :]
    found: dict[str, Any] = {"scheduler": "slurm", "what": "", "text": text}
    stamp = None
    if match := _CANCELLED.search(said):
        why = match["why"] or ""
        found["what"] = next((what for words, what in _WHY if words in why), match["did"].lower())
        stamp = find_stamp(match["at"]) if match["at"] else None
    elif match := _TASK.match(said):
        found["what"] = next((what for pattern, what in _HOW if pattern.match(match["how"])), "ended")
        found["tasks"] = match["tasks"]
        if found["what"] == "exited":
            found["exit_code"] = int(match["how"].split()[-1][:9])
    else:
        for pattern, what in _OTHERS:
            if match := pattern.match(said):
                found["what"] = what
                break
        else:
            return None
    named = match.groupdict()
    if host := named.get("host") or head["host"]:
        found["host"] = host
    if job := named.get("job"):
        found["job_id"] = job
    return "torchelastic.log.scheduler", found, stamp


def _kernel(text: str) -> Reading | None:
    head = _KERNEL.match(text)
    match = _OOM.match(text, head.end() if head is not None else 0)
    if match is None:
        return None
    found = {
        "pid": int(match["pid"] or match["pid_of"]),
        "process": match["process"] if match["process"] is not None else match["task"],
        "text": text,
    }
    return "torchelastic.log.kernel_oom", found, None
