"""Faults behind their victims: one rank fails, hangs or leaves, and those who wait for it are louder."""

from __future__ import annotations

from .performance import Performance
from .scenario import FIRST, SEPARATE_STORE, STOPPED, VICTIM, Attempt, Fault, Proof, Scenario

TIMEOUT_S = 3
SLOW_AGENT = ("--monitor-interval=1",)
"""An agent that looks once a second gives the victims the time to fail by themselves."""

JOINED = f"""
        import ctypes, datetime, os, sys, time, witness
        import torch, torch.distributed as dist
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={TIMEOUT_S}))
        gradients = torch.ones(1000)
        for step in range(3):
            dist.all_reduce(gradients)
"""

PEER_GONE = "gloo/transport/tcp/pair.cc"


def together(then: str, *, last: str = "dist.all_reduce(gradients)") -> str:
    """A script whose ranks have met in gloo and go on with `then`, and then into one more collective."""
    return f"{JOINED}{then}\n        witness.say('waits')\n        {last}\n        dist.destroy_process_group()\n"


def victims_say(text: str, *victims: int) -> Proof:
    """That the victims waited, printed this text, and ended by themselves or by their agent's signal."""

    def proof(performance: Performance) -> list[str]:
        waiting = {line.rank: line.pid for line in performance.said("waits")}
        found = [f"rank {rank} did not wait for the others" for rank in victims if rank not in waiting]
        statuses = {rank: performance.status(waiting[rank]) for rank in victims if rank in waiting}
        found += [f"rank {rank} ended with {code}" for rank, code in statuses.items() if code not in (1, -15, -6, None)]
        if text not in performance.console:
            found.append(f"no victim printed {text!r}")
        return found

    return proof


EXCEPTION = Scenario(
    name="exception_behind_its_victims",
    about="The last rank raises in front of a collective; lower ranks lose their connections and say so louder.",
    ranks=3,
    args=SLOW_AGENT,
    script=together("""
        if witness.due("KeyError", rank=2):
            raise KeyError("token 50257")
"""),
    proof=victims_say(PEER_GONE, 0, 1),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="KeyError",
                kind="exception",
                ranks=(2,),
                status=1,
                says=("KeyError: 'token 50257'",),
                error_type="KeyError",
                message="'token 50257'",
            ),
            roles={0: VICTIM, 1: VICTIM, 2: FIRST},
            world_size=3,
        ),
    ),
)

CRASH = Scenario(
    name="crash_behind_its_victims",
    about="One rank reads from address 0 in native code and says nothing at all.",
    ranks=3,
    args=SLOW_AGENT,
    script=together("""
        if witness.due("SIGSEGV", rank=1):
            ctypes.string_at(0)
"""),
    proof=victims_say(PEER_GONE, 0, 2),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="SIGSEGV", kind="signal", ranks=(1,), status=-11, late_s=1.0),  # a core may be dumped
            roles={0: VICTIM, 1: FIRST, 2: VICTIM},
        ),
    ),
)

HANG = Scenario(
    name="hang_with_a_collective_timeout",
    about="One rank hangs in its own code; the collective of the others times out, and only they speak.",
    ranks=3,
    args=SLOW_AGENT,
    script=together("""
        if witness.due("hang", rank=1):
            witness.hang()
"""),
    proof=lambda performance: _hung(performance, 1) + victims_say("Timed out waiting", 0, 2)(performance),
    truth=(
        Attempt(
            outcome="failed",
            # Seen from outside the waiting begins when the others come to the collective.
            fault=Fault(what="hang", kind="stall", ranks=(1,), confidence="suspected", late_s=1.0, timed=False),
            roles={0: VICTIM, 1: FIRST, 2: VICTIM},
        ),
    ),
)

BARRIER = Scenario(
    name="hang_in_front_of_a_monitored_barrier",
    about="One rank never comes to a monitored barrier; rank 0 names it, and the rest fail with rank 0.",
    ranks=3,
    args=SLOW_AGENT,
    script=together(
        """
        if witness.due("hang", rank=2):
            witness.hang()
""",
        last=f"dist.monitored_barrier(timeout=datetime.timedelta(seconds={TIMEOUT_S - 1}))",
    ),
    proof=lambda performance: _hung(performance, 2) + victims_say("failed to pass monitoredBarrier", 0)(performance),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="hang", kind="stall", ranks=(2,), confidence="suspected", late_s=1.0, timed=False),
            roles={0: VICTIM, 1: VICTIM, 2: FIRST},
        ),
    ),
)


def _hung(performance: Performance, rank: int) -> list[str]:
    """The rank that hung never woke, did not end by itself, and outlived the timeout of the others."""
    found = ["the rank that hung woke up"] if performance.said("woke") else []
    hung = [line for line in performance.said("hang") if line.rank == rank]
    others = [line for line in performance.said("waits") if line.rank != rank]
    if not hung or not others:
        return [*found, "nobody hung, or nobody waited"]
    deaths = [performance.deaths[line.pid].time for line in others if line.pid in performance.deaths]
    if not deaths or min(deaths) - min(line.time for line in others) < TIMEOUT_S - 1.1:
        found.append("the others did not wait until the timeout")
    end = performance.deaths.get(hung[0].pid)
    if end is None or end.time < min(deaths, default=0.0) or end.status not in (-15, -9, None):
        found.append("the rank that hung did not have to be stopped")
    return found


LEFT = Scenario(
    name="left_early_with_success",
    about="One rank believes that it is done and leaves with 0; the others wait for it in vain.",
    ranks=3,
    args=SLOW_AGENT,
    script=together("""
        if witness.due("sys.exit(0)", rank=1):
            sys.exit(0)
"""),
    proof=victims_say(PEER_GONE, 0, 2),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="sys.exit(0)", kind="left_early", ranks=(1,), status=0, confidence="likely", late_s=0.3),
            roles={0: VICTIM, 1: FIRST, 2: VICTIM},
        ),
    ),
)

SECOND_NODE = Scenario(
    name="fault_on_the_second_node",
    about="Two nodes: a rank of one raises, the rank of the other loses its peer; each agent sees one failure.",
    agents=2,
    ranks=1,
    args=("--nnodes=2", *SLOW_AGENT),
    exit_codes=(1, 1),
    script=together("""
        if witness.due("OverflowError", rank=1):
            raise OverflowError("loss scale 0")
"""),
    proof=victims_say(PEER_GONE, 0),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="OverflowError",
                kind="exception",
                ranks=(1,),
                status=1,
                says=("OverflowError: loss scale 0",),
                error_type="OverflowError",
                message="loss scale 0",
            ),
            roles={0: VICTIM, 1: FIRST},
            world_size=2,
        ),
    ),
)

TWO_CAUSES = Scenario(
    name="two_causes_in_two_attempts",
    about="Rank 1 raises; after the restart rank 0 aborts. torch's record keeps the last one only.",
    args=(*SLOW_AGENT, "--max-restarts=1"),
    env=SEPARATE_STORE,
    restarts=(1, 0, 0),
    script=together("""
        if witness.due("ValueError", rank=1, attempt=0):
            raise ValueError("bad row 17")
        if witness.due("SIGABRT", rank=0, attempt=1):
            os.abort()
"""),
    proof=lambda performance: _waited_twice(performance),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="ValueError",
                kind="exception",
                ranks=(1,),
                status=1,
                says=("ValueError: bad row 17",),
                error_type="ValueError",
                message="bad row 17",
            ),
            roles={0: VICTIM, 1: FIRST},
        ),
        Attempt(
            outcome="failed",
            # An abort may be a watchdog's doing, so that it is the first end on one clock makes it likely and no more.
            fault=Fault(what="SIGABRT", kind="signal", ranks=(0,), status=-6, confidence="likely", late_s=1.0),
            roles={0: FIRST, 1: VICTIM},
        ),
    ),
)


def _waited_twice(performance: Performance) -> list[str]:
    waiting = [(line.attempt, line.rank) for line in performance.said("waits")]
    return [] if waiting == [(0, 0), (1, 1)] else [f"those who waited were {waiting}"]


EXHAUSTED = Scenario(
    name="restarts_exhausted",
    about="Three restarts, and each time another rank fails in another way.",
    args=("--max-restarts=3",),
    restarts=(3, 0, 0),
    script="""
        import os, signal, sys, witness
        witness.together()
        if witness.due("RuntimeError", rank=0, attempt=0):
            raise RuntimeError("CUDA error: device-side assert triggered")
        if witness.due("sys.exit(4)", rank=1, attempt=1):
            sys.exit(4)
        if witness.due("SIGKILL", rank=0, attempt=2):
            os.kill(os.getpid(), signal.SIGKILL)
        if witness.due("SIGUSR1", rank=1, attempt=3):
            os.kill(os.getpid(), signal.SIGUSR1)
        witness.wait()
    """,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="RuntimeError",
                kind="exception",
                ranks=(0,),
                status=1,
                says=("RuntimeError: CUDA error",),
                error_type="RuntimeError",
                message="CUDA error: device-side assert triggered",
            ),
            roles={0: FIRST, 1: STOPPED},
        ),
        Attempt(
            outcome="failed",
            fault=Fault(what="sys.exit(4)", kind="exit_code", ranks=(1,), status=4),
            roles={0: STOPPED, 1: FIRST},
        ),
        Attempt(
            outcome="failed",
            fault=Fault(what="SIGKILL", kind="signal", ranks=(0,), status=-9),
            roles={0: FIRST, 1: STOPPED},
        ),
        Attempt(
            outcome="failed",
            fault=Fault(what="SIGUSR1", kind="signal", ranks=(1,), status=-10),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)

SCENARIOS = (
    HANG, BARRIER, EXCEPTION, CRASH, LEFT, SECOND_NODE, TWO_CAUSES, EXHAUSTED,
)  # fmt: skip
