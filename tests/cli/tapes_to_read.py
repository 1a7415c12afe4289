"""Tapes as real jobs leave them, written by the one writer."""

import time

from jobtape.tape.header import this_process
from jobtape.tape.names import safe_name
from jobtape.tape.records import Header
from jobtape.tape.writer import Writer

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 12, in <module>\n'
    "    step()\n"
    "RuntimeError: shapes differ\n"
)


def a_header(run_id, role, host="node-a", pid=100, **ranks):
    """The header of a process that is no more."""
    return Header(
        time_ns=time.time_ns(),
        mono_ns=time.monotonic_ns(),
        run_id=run_id,
        host=host,
        host_from="hostname",
        boot_id="00000000-0000-0000-0000-000000000000",
        pid=pid,
        pid_start=pid * 10,
        parent_pid=1 if role == "agent" else 100,
        role=role,
        python="3.11.0",
        jobtape="0.1.0",
        command=["train.py"],
        ranks=ranks,
    )


def record_failed_run(shelf, run_id="demo", *, attempts=1, ranks=2, message="shapes differ"):
    """Rank 1 raises in every attempt, and the others are stopped.

    Returns:
        The agent's tape file.
    """
    directory = shelf / safe_name(run_id)
    agent = Writer(directory, a_header(run_id, "agent"))
    agent.event(
        "jobtape.launch.start", "AGENT", 0, {"run_id": run_id, "nproc_per_node": ranks, "max_restarts": attempts - 1}
    )
    for attempt in range(attempts):
        pids = [200 + 10 * attempt + rank for rank in range(ranks)]
        numbers = list(range(ranks))
        agent.event(
            "jobtape.attempt.start",
            "AGENT",
            0,
            {
                "attempt": attempt, "restart_count": attempt, "round": attempt, "group_rank": 0, "group_world_size": 1,
                "world_size": ranks, "local_world_size": ranks, "node": None, "participants": ["node-a_100_0"],
                "ranks": numbers, "local_ranks": numbers, "pids": pids,
            },
        )  # fmt: skip
        where = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": str(ranks), "TORCHELASTIC_RESTART_COUNT": str(attempt)}
        worker = Writer(directory, a_header(run_id, "worker", pid=pids[1], **where))
        error = {
            "error_type": "RuntimeError", "message": message, "traceback": TRACEBACK.replace("shapes differ", message),
            "location": "train.py:12",
        }  # fmt: skip
        worker.event("jobtape.worker.error", "WORKER", 0, error)
        worker.close("exit")
        agent.event("jobtape.worker.exit", "AGENT", 0, an_exit(attempt, 1, pids[1], 1, None, stopped=False))
        for rank in (rank for rank in numbers if rank != 1):
            stop = {"attempt": attempt, "rank": rank, "local_rank": rank, "pid": pids[rank], "signal": "SIGTERM"}
            agent.event("jobtape.worker.stop", "AGENT", 0, {**stop, "reason": "failure"})
            agent.event(
                "jobtape.worker.exit", "AGENT", 0, an_exit(attempt, rank, pids[rank], -15, "SIGTERM", stopped=True)
            )
        end = {"attempt": attempt, "state": "FAILED", "restarting": attempt + 1 < attempts, "failed_ranks": [1]}
        agent.event("jobtape.attempt.end", "AGENT", 0, end)
    agent.event(
        "jobtape.launch.end", "AGENT", 0, {"outcome": "failed", "error_type": "ChildFailedError", "message": "x"}
    )
    agent.close("launch_end")
    return agent.path


def an_exit(attempt, rank, pid, exit_code, signal, *, stopped):
    """What the agent notes when a worker has ended."""
    return {
        "attempt": attempt, "rank": rank, "local_rank": rank, "pid": pid, "exit_code": exit_code, "signal": signal,
        "core_dumped": False, "oom_kills": 0, "stopped": stopped,
    }  # fmt: skip


def record_good_run(shelf, run_id="good"):
    """One rank that ends with code 0."""
    agent = Writer(shelf / safe_name(run_id), a_header(run_id, "agent"))
    agent.event("jobtape.launch.start", "AGENT", 0, {"run_id": run_id, "nproc_per_node": 1, "max_restarts": 0})
    agent.event("jobtape.attempt.start", "AGENT", 0, a_start([0], [300]))
    agent.event("jobtape.worker.exit", "AGENT", 0, an_exit(0, 0, 300, 0, None, stopped=False))
    agent.event(
        "jobtape.attempt.end", "AGENT", 0, {"attempt": 0, "state": "SUCCEEDED", "restarting": False, "failed_ranks": []}
    )
    agent.event("jobtape.launch.end", "AGENT", 0, {"outcome": "succeeded"})
    agent.close("launch_end")
    return agent.path


def a_start(ranks, pids):
    """What the agent notes when it has started the workers of its first attempt."""
    return {
        "attempt": 0, "restart_count": 0, "round": 0, "group_rank": 0, "group_world_size": 1, "world_size": len(ranks),
        "local_world_size": len(ranks), "node": None, "participants": ["node-a_100_0"], "ranks": ranks,
        "local_ranks": ranks, "pids": pids,
    }  # fmt: skip


def record_live_run(shelf, run_id="live"):
    """A run whose agent is this very process, and still writes."""
    agent = Writer(shelf / safe_name(run_id), this_process(run_id, "agent"))
    agent.event("jobtape.launch.start", "AGENT", 0, {"run_id": run_id, "nproc_per_node": 1, "max_restarts": 0})
    agent.event("jobtape.attempt.start", "AGENT", 0, a_start([0], [300]))
    return agent
