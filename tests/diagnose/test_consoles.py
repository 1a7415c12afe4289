"""What consoles alone, or beside the events, tell of a job."""

import pytest

from jobtape.diagnose.reconstruct import diagnose
from jobtape.importers import import_files
from jobtape.tape.reader import read_tape
from tests.importers.lines import event, rdzv, written

WORKERS = "torch/distributed/elastic/multiprocessing/api.py:1002"
AGENT = "torch/distributed/elastic/agent/server/api.py:942"


def line(second, text, agent=2101, writer=WORKERS):
    """A line of an agent's at that second."""
    return f"W0217 09:30:{second:02}.000000 {agent} {writer}] {text}"


def stopped(second, pid, agent=2101):
    """The agent stops a worker."""
    return line(second, f"Sending process {pid} closing signal SIGTERM", agent)


def failed(second, pid, local_rank=1, code=1, agent=2101, of="binary: python"):
    """The agent names a worker that failed."""
    return line(second, f"failed (exitcode: {code}) local_rank: {local_rank} (pid: {pid}) of {of}", agent)


def group(second, ranks, size=2, restarts=0, group_rank=0, agent=2101):
    """The agent lists what a rendezvous gave it."""
    local = list(range(len(ranks)))
    items = [
        "[default] Rendezvous complete for workers. Result:",
        f"  restart_count={restarts}",
        f"  local_ranks={local}",
    ]
    items += [f"  group_rank={group_rank}", f"  global_ranks={ranks}", f"  global_world_sizes={[size] * len(ranks)}"]
    return [line(second, item, agent, AGENT) for item in items]


def raised(text, label="", path="/srv/train.py"):
    """A traceback as a worker prints it."""
    lines = ["Traceback (most recent call last):", f'  File "{path}", line 7, in <module>', "    run()", text]
    return [f"{label}{printed}" for printed in lines]


def block(*failures, host="node-a"):
    """torchrun's closing block: rank, local rank, process id and exit code of each failure."""
    entries = [
        f"[{n}]:\n  time      : 2026-02-17_09:31:28\n  host      : {host}\n  rank      : {rank} (local_rank: {local})\n"
        f"  exitcode  : {code} (pid: {pid}) \n  error_file: <N/A>\n  traceback : To enable traceback see: https://x"
        for n, (rank, local, pid, code) in enumerate(failures)
    ]
    others = "\n".join(entries[:-1]) or "  <NO_OTHER_FAILURES>"
    top = ["=" * 60, "train.py FAILED", "-" * 60, "Failures:"]
    root = ["-" * 60, "Root Cause (first observed failure):"]
    return [*top, *others.split("\n"), *root, *entries[-1].split("\n"), "=" * 60]


def answer(tmp_path, **consoles):
    """The answer to consoles, one a file."""
    files = [written(tmp_path / f"{name}.log", *lines) for name, lines in consoles.items()]
    import_files(files, tmp_path / "shelf", "UTC")
    return diagnose([read_tape(path) for path in sorted((tmp_path / "shelf").glob("*/*.jsonl"))])


def causes(run):
    """Kind, rank, message and confidence of each attempt's cause."""
    found = [attempt.cause for attempt in run.attempts]
    return [None if c is None else (c.kind, c.rank, c.message, c.confidence) for c in found]


def roles(attempt):
    """Each rank's role."""
    return {outcome.rank: outcome.role for outcome in attempt.ranks}


def test_restarts_of_a_quiet_console(tmp_path):
    """torch logs no more than failures by default: each is an attempt, with the words printed before it."""
    run = answer(
        tmp_path,
        a=[
            *raised("KeyError: 'caught'"),
            *raised("ValueError: bad row 0"),
            stopped(10, 11),
            failed(10, 12),
            *raised("ValueError: bad row 1"),
            stopped(20, 21),
            failed(20, 22),
            *block((0, 0, 21, -15), (1, 1, 22, 1)),
        ],
    )
    assert [("exception", 1, "bad row 0", "likely"), ("exception", 1, "bad row 1", "likely")] == causes(run)
    assert (1, "failed", 2) == (run.restarts.failure, run.state, run.world_size)
    assert {0: "stopped", 1: "first"} == roles(run.attempts[1])


def test_ranks_of_a_listing(tmp_path):
    """What a rendezvous gave the agent names the ranks of every attempt, also of workers that are only stopped."""
    run = answer(
        tmp_path,
        a=[
            *group(1, [2, 3], size=4, group_rank=1),
            *raised("ValueError: bad", "[default1]:"),
            stopped(10, 11),
            failed(10, 12),
            line(11, "[default] Worker group FAILED. 1/1 attempts left; will restart worker group", writer=AGENT),
            *group(12, [2, 3], size=4, group_rank=1, restarts=1),
            line(20, "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish."),
        ],
    )
    first, second = run.attempts
    assert [("exception", 3, "bad", "likely"), None] == causes(run)
    assert ({2: "stopped", 3: "first"}, "succeeded", 4) == (roles(first), second.outcome, run.world_size)
    assert (1771320601.0, 1771320610.0) == (first.started, first.ended)


def test_caught_exception_is_not_the_cause(tmp_path):
    """A worker that was killed, or chose its exit code, did not end of a traceback it had printed."""
    for code, kind in ((-9, "signal"), (3, "exit_code")):
        (tmp_path / kind).mkdir()
        lines = [
            *group(1, [0, 1]),
            *raised("KeyError: 'caught'", "[default1]:"),
            stopped(9, 11),
            failed(9, 12, code=code),
        ]
        run = answer(tmp_path / kind, a=lines)
        assert [(kind, 1, None, "certain")] == causes(run)


def test_words_are_given_to_the_right_rank(tmp_path):
    """Labels with a local rank, a global rank, or both, tell whose words they are."""
    for number, labels in enumerate(
        [("[default0]:", "[default1]:"), ("[rank0]: ", "[rank1]: "), ("[default0]:[rank0]: ", "[default1]:[rank1]: ")]
    ):
        (tmp_path / str(number)).mkdir()
        lines = [
            *raised("ValueError: bad", labels[1]),
            *raised("KeyError: 'caught'", labels[0]),
            stopped(9, 11),
            failed(9, 12),
        ]
        run = answer(tmp_path / str(number), a=[*lines, *block((0, 0, 11, -15), (1, 1, 12, 1))])
        assert [("exception", 1, "bad", "certain")] == causes(run)


def test_different_words_without_a_label_are_nobodys(tmp_path):
    """Two workers failed and two different tracebacks stand there: which is whose is not on the record."""
    lines = [*raised("ValueError: a"), *raised("KeyError: b"), failed(9, 12), *block((0, 0, 11, 1), (1, 1, 12, 1))]
    (attempt,) = answer(tmp_path, a=lines).attempts
    assert [None, None] == [outcome.message for outcome in attempt.ranks]


def test_same_words_of_all_are_everybodys(tmp_path):
    """Where all that failed said the same, each of them did."""
    lines = [*raised("ValueError: a"), *raised("ValueError: a"), failed(9, 12), *block((0, 0, 11, 1), (1, 1, 12, 1))]
    (attempt,) = answer(tmp_path, a=lines).attempts
    assert ["a", "a"] == [outcome.message for outcome in attempt.ranks]


def test_function_is_stopped_after_the_failure_is_told(tmp_path):
    """An agent that runs a function logs the failure first: the workers stopped after it are of the same attempt."""
    lines = [
        *group(1, [0, 1]),
        failed(9, 12, of="fn: main (start_method: spawn)"),
        line(9, "Closing process 11 via signal SIGTERM"),
    ]
    (attempt,) = answer(tmp_path, a=lines).attempts
    assert {0: "stopped", 1: "first"} == roles(attempt)


def test_nodes_of_one_job_in_files_of_their_own(tmp_path):
    """Consoles that are named together are one job; a node that no line names is called by its file."""
    run = answer(
        tmp_path,
        gpu_a=[*group(1, [0, 1], 4), stopped(10, 11), stopped(10, 12)],
        gpu_b=[
            *group(1, [2, 3], 4, group_rank=1, agent=7),
            *raised("ValueError: bad", "[rank3]: "),
            failed(9, 12, agent=7),
        ],
    )
    assert (2, 4, ("gpu_a", "gpu_b")) == (run.nodes, run.world_size, run.attempts[0].nodes)
    assert ("exception", 3, "bad") == causes(run)[0][:3]
    assert {0: "stopped", 1: "stopped", 2: "unknown", 3: "first"} == roles(run.attempts[0])


def test_nodes_of_one_job_in_one_file(tmp_path):
    """Labels tell nodes apart whose agents and workers have the same process ids."""
    node_a = [*group(1, [0, 1], 4), stopped(10, 11), stopped(10, 12)]
    node_b = [
        *group(1, [2, 3], 4, group_rank=1),
        *raised("ValueError: bad", "[rank3]: "),
        stopped(9, 11),
        failed(9, 12),
    ]
    mixed = []
    for number in range(max(len(node_a), len(node_b))):
        mixed += [
            f"{host}: {lines[number]}" for host, lines in (("gpu-a", node_a), ("gpu-b", node_b)) if number < len(lines)
        ]
    run = answer(tmp_path, job=mixed)
    assert (1, ("gpu-a", "gpu-b"), ("exception", 3, "bad")) == (
        len(run.attempts),
        run.attempts[0].nodes,
        causes(run)[0][:3],
    )
    assert {0: "stopped", 1: "stopped", 2: "stopped", 3: "first"} == roles(run.attempts[0])


def events(host="node-a", pid=2101, workers=(11, 12)):
    """A node's events: a rendezvous and the start of its workers."""
    message = f"The node '{host}_{pid}_0' has joined round 0 of the rendezvous 'job-7' as rank 0 in a world of size 1."
    found = [rdzv(message, hostname=host, pid=pid, time=1771320600.0)]
    for rank, worker in enumerate(workers):
        fields = {
            "hostname": host,
            "worker_id": str(worker),
            "global_rank": rank,
            "run_id": "job-7",
            "agent_restarts": 0,
        }
        fields["metadata"] = f'{{"local_rank": [{rank}], "role_world_size": [{len(workers)}]}}'
        found.append(event(metadata=fields, time=1771320601.0))
    return found


def test_console_beside_the_events(tmp_path):
    """The words in a console go to the workers that the events in another file tell of."""
    console = [*raised("ValueError: bad", "[default1]:"), stopped(10, 11), failed(10, 12)]
    run = answer(tmp_path, events=events(), console=console)
    assert [("exception", 1, "bad", "certain")] == causes(run)
    assert (1, {0: "stopped", 1: "first"}) == (run.nodes, roles(run.attempts[0]))


def test_console_of_a_container_beside_events_of_several(tmp_path):
    """Containers share process ids: label and file name tell whose console it is."""
    run = answer(
        tmp_path,
        node_a=events("node_a", 1),
        node_b=[text.replace("as rank 0", "as rank 1") for text in events("node_b", 1)],
        node_b_console=[stopped(10, 11, agent=1), failed(10, 12, agent=1)],
    )
    failures = [(cause.host, cause.exit_code) for attempt in run.attempts if (cause := attempt.cause) is not None]
    assert ("node_b", 1) in failures


def test_agent_that_is_stopped_after_a_restart(tmp_path):
    """Workers stopped before the death signal were restarted; what the signal ended is the next attempt."""
    told = line(40, "Received 15 death signal, shutting down workers", writer=AGENT)
    run = answer(tmp_path, a=[stopped(10, 11), stopped(10, 12), told, stopped(40, 21)])
    assert (2, "stopped") == (len(run.attempts), run.state)


@pytest.mark.parametrize(
    ("error", "kind"),
    [("RendezvousTimeoutError", "rendezvous_timeout"), ("RendezvousClosedError", "rendezvous_closed")],
)
def test_rendezvous_that_never_formed(tmp_path, error, kind):
    """torchrun's own exception is all that such a console holds."""
    frames = ['  File "/venv/torch/distributed/launcher/api.py", line 300, in launch_agent', "    result = agent.run()"]
    name = f"torch.distributed.elastic.rendezvous.api.{error}"
    run = answer(tmp_path, a=[line(1, "text"), "Traceback (most recent call last):", *frames, name])
    assert ([kind], "incomplete") == ([cause[0] for cause in causes(run)], run.attempts[0].outcome)


def test_two_launches_in_one_console(tmp_path):
    """A job that was started anew in the same container has the agent's process id again."""
    begins = "[default] starting workers for entrypoint: python"
    run = answer(
        tmp_path,
        a=[
            line(0, begins, 1, AGENT),
            *group(1, [0], 1, agent=1),
            failed(9, 12, 0, agent=1),
            line(20, begins, 1, AGENT),
            *group(21, [0], 1, agent=1),
            failed(29, 12, 0, agent=1),
        ],
    )
    assert [0, 0] == [cause[1] for cause in causes(run)]
    assert [1771320601.0, 1771320621.0] == [attempt.started for attempt in run.attempts]
