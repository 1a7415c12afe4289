"""Values as a diagnosis makes them, for the views to show."""

from jobtape.diagnose.model import Attempt, Cause, RankOutcome, Restarts, Run

START = 1772305514.0
TRACEBACK = (
    "Traceback (most recent call last):\n"
    + "".join(f'  File "/home/me/train.py", line {line}, in f{line}\n    f{line + 1}()\n' for line in range(12))
    + "RuntimeError: shapes differ: 3 and 4\n"
)
STACK = (
    "Current thread 0x00007f0000000740 (most recent call first):\n"
    '  File "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 123 in all_reduce\n'
    '  File "/home/me/train.py", line 14 in step\n'
    '  File "/home/me/train.py", line 40 in <module>\n'
)


def a_cause(start=START, **fields):
    """Rank 1 raised an error."""
    told = {
        "kind": "exception",
        "rank": 1,
        "local_rank": 1,
        "host": "node-a",
        "pid": 121,
        "exit_code": 1,
        "error_type": "RuntimeError",
        "message": "shapes differ: 3 and 4",
        "location": "train.py:12",
        "traceback": TRACEBACK,
        "time": start + 2.759,
        "detected": start + 2.9,
        "confidence": "certain",
        "evidence": ("node-a-121-20260228T190514000.jsonl:4 #3 jobtape.worker.error",),
    }
    return Cause(**{**told, **fields})


def a_rank(rank, role="stopped", start=START, **fields):
    """A worker, stopped by the agent unless said otherwise."""
    told = {"host": "node-a", "pid": 120 + rank, "local_rank": rank, "started": start, "ended": start + 2.8}
    if role == "stopped":
        told |= {"exit_code": -15, "signal": "SIGTERM"}
    return RankOutcome(rank=rank, role=role, **{**told, **fields})


def an_attempt(index=0, start=START, **fields):
    """An attempt of four ranks that rank 1 ended after 2.8 s."""
    ranks = (
        a_rank(0, "collateral", start, exit_code=1, message="Connection closed by peer [127.0.0.1]:2212"),
        a_rank(1, "first", start, exit_code=1, error_type="RuntimeError", message="shapes differ: 3 and 4"),
        a_rank(2, start=start, stack=STACK),
        a_rank(3, start=start, stack=STACK),
    )
    told = {
        "index": index,
        "outcome": "failed",
        "round": index,
        "world_size": 4,
        "nodes": ("node-a",),
        "started": start,
        "ended": start + 2.8,
        "cause": a_cause(start),
        "ranks": ranks,
    }
    return Attempt(**{**told, **fields})


def a_run(*attempts, **fields):
    """A run of these attempts, failed unless said otherwise."""
    attempts = attempts or (an_attempt(),)
    told = {
        "run_id": "demo",
        "state": "failed",
        "started": attempts[0].started,
        "ended": attempts[-1].ended,
        "nodes": 1,
        "world_size": 4,
        "restarts": Restarts(failure=len(attempts) - 1),
        "attempts": attempts,
    }
    return Run(**{**told, **fields})
