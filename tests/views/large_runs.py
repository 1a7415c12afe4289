"""Runs that are large or odd, for the views to fold."""

from functools import cache

from jobtape.diagnose.model import Loss, Restarts, Run, Warning_
from tests.views.runs_to_show import STACK, START, a_cause, a_rank, a_run, an_attempt

HOSTS = tuple(f"node-{number:04}" for number in range(1, 2001))
NOTHING_SAID = {"error_type": None, "message": None, "location": None, "traceback": None}
PEER = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.{}.1]:{}"
HOSTILE = "\x1b[2J\u202e\n" * 40 + "boom " * 4000


@cache
def ranks_of(number, first=77):
    """Eight ranks a node: one failed, a third lost their peer, the rest were stopped where they waited."""
    made = []
    for rank in range(number):
        host = HOSTS[rank // 8]
        if rank == first:
            made.append(a_rank(rank, "first", host=host, exit_code=1))
        elif rank % 3:
            made.append(a_rank(rank, host=host, stack=STACK.replace("740", f"{rank:x}")))
        else:
            said = PEER.format(rank % 250, rank)
            made.append(a_rank(rank, "collateral", host=host, exit_code=1, error_type="RuntimeError", message=said))
    return tuple(made)


def a_lost_node(host, start=START):
    """A node that fell silent."""
    return a_cause(start, kind="node_lost", rank=None, pid=None, host=host, confidence="likely", **NOTHING_SAID)


def many_causes():
    """Fifty attempts of 4,000 ranks on 500 nodes, which ended in six ways, with many warnings."""
    attempts = []
    for index in range(50):
        start = START + 150 * index
        host = HOSTS[index * 7]
        cause = a_cause(start, rank=index * 56, host=host, message=f"CUDA out of memory. Tried to allocate {index} GiB")
        outcome = "failed"
        if index < 17:
            cause = a_cause(
                start, rank=5, error_type="ValueError", message=f"bad batch {index}", location="train.py:88"
            )
        elif index in (20, 25):
            cause, outcome = None, "membership"
        elif index == 30:
            cause = a_cause(start, kind="preempted", rank=None, signal="SIGTERM", host=host, **NOTHING_SAID)
            outcome = "stopped"
        elif index % 5 == 2:
            cause = a_cause(
                start, kind="node_lost", rank=None, pid=None, host=host, confidence="likely", **NOTHING_SAID
            )
        elif index % 2:
            cause = a_cause(
                start, kind="oom_kill", signal="SIGKILL", exit_code=-9, rank=index * 56, host=host, **NOTHING_SAID
            )
        attempts.append(
            an_attempt(index, start, outcome=outcome, cause=cause, ranks=ranks_of(4000), world_size=4000,
                       nodes=HOSTS[: 500 - index], ended=start + 120 + index)
        )  # fmt: skip
    warnings = [Warning_(kind="clock_skew", text=f"the clock of {host} is 7.2 s ahead") for host in HOSTS[:300]]
    warnings += [Warning_(kind="orphan_workers", text=f"workers on {host} lived on for 12.1 s") for host in HOSTS[:7]]
    return a_run(*attempts, nodes=500, world_size=4000, warnings=tuple(warnings))


def one_crowd():
    """One attempt of 16,000 ranks on 2,000 nodes."""
    return a_run(an_attempt(nodes=HOSTS, world_size=16_000, ranks=ranks_of(16_000), cause=a_cause(rank=77)))


def hostile():
    """Long texts with escapes wherever a text may stand."""
    ranks = tuple(
        a_rank(rank, role, message=HOSTILE[rank:], host=HOSTILE, stack=HOSTILE, note=HOSTILE, location=HOSTILE)
        for rank, role in enumerate(("collateral", "stopped", "independent", "first", "unknown") * 8)
    )
    cause = a_cause(
        message=HOSTILE, traceback=HOSTILE, location=HOSTILE, error_type=HOSTILE, host=HOSTILE, note=HOSTILE,
        evidence=(HOSTILE,) * 9,
    )  # fmt: skip
    warnings = tuple(Warning_(kind=f"odd_{number}", text=HOSTILE) for number in range(100))
    attempts = [
        an_attempt(n, cause=cause if n else a_cause(), nodes=(HOSTILE, HOSTILE[1:]), ranks=ranks) for n in range(3)
    ]
    return a_run(*attempts, run_id=HOSTILE, warnings=warnings)


def independents():
    """Four thousand ranks that failed by themselves, in eight hundred ways."""
    ranks = tuple(
        a_rank(rank, "independent", host=HOSTS[rank // 8], exit_code=1, error_type="ValueError",
               message=f"bad shard {'abcdefghijklmnop'[rank % 16]}", location=f"data.py:{rank % 50}")
        for rank in range(4000)
    )  # fmt: skip
    cause = a_cause(rank=None, ranks=tuple(range(0, 4000, 3)), host=None, note="look at what they have in common")
    return a_run(an_attempt(cause=cause, ranks=ranks, nodes=HOSTS[:500], world_size=4000))


def nodes_lost():
    """Another node each time, with names that do not fold."""
    attempts = [
        an_attempt(n, START + 60 * n, ranks=(), cause=a_lost_node(f"ip-10-{n}-{n * 37 % 255}-x")) for n in range(30)
    ]
    return a_run(*attempts, state="lost")


def memberships():
    """Nodes joined and left all the time, with failures between, and it still runs."""
    attempts = [
        an_attempt(n, START + 60 * n, ranks=(), nodes=HOSTS[n * 3 : 100 + n * 40],
                   **({} if n % 4 == 0 else {"outcome": "membership", "cause": None}))
        for n in range(20)
    ]  # fmt: skip
    last = an_attempt(20, START + 2000, outcome="running", cause=None, ended=None, nodes=HOSTS[:900])
    return a_run(*attempts, last, state="running", restarts=Restarts(membership=15, failure=5))


def nothing():
    """No attempt, and a damaged record."""
    return Run(run_id="demo", state="unknown", loss=Loss(events_missing=9, damaged_lines=400, files=3))


LARGE = {
    made.__name__: made for made in (many_causes, one_crowd, hostile, independents, nodes_lost, memberships, nothing)
}
"""Runs that are large or odd, by name."""
