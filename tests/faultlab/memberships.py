"""Two agents: nodes that join, leave, are killed, or come when all is over."""

from __future__ import annotations

import signal
import time

from ..capture.lab import free_port
from .performance import Performance
from .scenario import ANY_RANK, FIRST, SEPARATE_STORE, STOPPED, VICTIM, Attempt, Fault, Scenario
from .stage import Stage

TRAINS = """
    import datetime, time, witness
    import torch, torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    over, trains = torch.zeros(1), False
    while not over:
        over[0] = float((witness.HERE / "finish").exists())
        dist.all_reduce(over, op=dist.ReduceOp.MAX)
        if not trains:
            witness.say("trains")
            trains = True
        time.sleep(0.05)
"""
"""A loop that every rank leaves in the same step."""


def two_nodes(stage: Stage) -> None:
    """One agent that keeps the store begins alone; another joins, and the world has two ranks that train."""
    stage.start_agent()
    stage.until_up(1, world_size=1)
    stage.start_agent()
    stage.until_up(2, world_size=2)
    if "trains" in stage.scenario.script:
        stage.until(lambda: len([line for line in stage.said("trains") if line.world_size == 2]) == 2)
    time.sleep(1.2)  # let the heartbeats get their rhythm


def _join(stage: Stage) -> None:
    stage.start_agent()
    stage.until_up(1, world_size=1)
    stage.start_agent()
    stage.until_up(2, world_size=2)
    stage.finish()


SCALE_UP = Scenario(
    name="scale_up",
    about="A second node joins a running job: its workers are started anew, and nobody has failed.",
    agents=2,
    ranks=1,
    state="succeeded",
    exit_codes=(0, 0),
    restarts=(0, 1, 0),
    args=("--nnodes=1:2",),
    env=SEPARATE_STORE,
    script="import witness; witness.wait()",
    play=_join,
    proof=lambda performance: _worlds(performance, [1, 2, 2]),
    truth=(Attempt(outcome="membership", world_size=1), Attempt(outcome="succeeded", world_size=2)),
)


def _worlds(performance: Performance, expected: list[int]) -> list[str]:
    found = [line.world_size for line in performance.said("up")]
    return [] if found == expected else [f"processes came up in worlds of {found}, not {expected}"]


def _kill_node(stage: Stage) -> None:
    two_nodes(stage)
    workers = [pid for pid in stage.workers_of(1) if pid not in stage.observer.deaths]
    stage.signal_agent("SIGKILL to a node", 1, signal.SIGKILL, *workers)
    if stage.armed:
        stage.until(lambda: len([line for line in stage.said("trains") if line.world_size == 1]) == 2)
    stage.finish()


NODE_KILLED = Scenario(
    name="node_killed",
    about="One of two nodes dies with all its processes; the other loses its peer, and goes on alone.",
    agents=2,
    ranks=1,
    state="succeeded",
    exit_codes=(0, -9),
    restarts=(1, 1, 0),
    args=("--nnodes=1:2", "--max-restarts=3"),
    env=SEPARATE_STORE,
    script=TRAINS,
    play=_kill_node,
    proof=lambda performance: _worlds(performance, [1, 2, 2, 1]),
    truth=(
        Attempt(outcome="membership", world_size=1),
        Attempt(
            outcome="failed",
            world_size=2,
            # The node is missed when its next heartbeat is due, a second after its last.
            fault=Fault(
                what="SIGKILL to a node",
                kind="node_lost",
                confidence="suspected",
                says=("gloo/transport/tcp/pair.cc",),
                late_s=1.5,
                early_s=0.2,
            ),
            roles={"agent 0": VICTIM},
        ),
        Attempt(outcome="succeeded", world_size=1),
    ),
)


def _leave(stage: Stage) -> None:
    two_nodes(stage)
    stage.signal_agent("SIGTERM to one agent", 1, signal.SIGTERM)
    if stage.armed:
        stage.until(lambda: len([line for line in stage.said("trains") if line.world_size == 1]) == 2)
    stage.finish()


NODE_LEAVES = Scenario(
    name="node_told_to_leave",
    about="One of two nodes is preempted; the other loses its peer for that reason, and goes on alone.",
    agents=2,
    ranks=1,
    state="succeeded",
    exit_codes=(0, 1),
    restarts=(0, 1, 1),
    args=("--nnodes=1:2", "--max-restarts=3"),
    env=SEPARATE_STORE,
    script=TRAINS,
    play=_leave,
    proof=lambda performance: _worlds(performance, [1, 2, 2, 1]),
    truth=(
        Attempt(outcome="membership", world_size=1),
        Attempt(
            outcome="stopped",
            world_size=2,
            fault=Fault(
                what="SIGTERM to one agent",
                kind="preempted",
                signal="SIGTERM",
                says=("gloo/transport/tcp/pair.cc", "death signal"),
            ),
            roles={"agent 0": VICTIM},
        ),
        Attempt(outcome="succeeded", world_size=1),
    ),
)


def _two_at_once(stage: Stage) -> None:
    """Two agents of which the first keeps the store."""
    stage.start_agent()
    stage.until_taped("hosts the TCP store")
    stage.start_agent()
    stage.until_up(2, world_size=2)
    time.sleep(1.2)


def _kill_agent_then_fail(stage: Stage) -> None:
    _two_at_once(stage)
    stage.signal_agent("SIGKILL to one agent", 1, signal.SIGKILL)
    time.sleep(2.5)
    stage.mark("agent-is-gone")
    stage.until(lambda: stage.agents[0].poll() is not None)
    stage.finish()


def _orphan_went_on(performance: Performance) -> list[str]:
    done = [line.pid for line in performance.said("done")]
    killed = performance.said("SIGKILL to one agent")
    found = [] if len(done) == 1 else [f"{len(done)} workers came to their end, not the orphan alone"]
    return found if killed else [*found, "no agent was killed"]


ORPHANS = Scenario(
    name="agent_killed_and_then_an_exception",
    about="One agent is killed, its worker lives on unnoticed; what ends the job is an error on the other node.",
    agents=2,
    ranks=1,
    exit_codes=(1, -9),
    args=("--nnodes=2",),
    env=SEPARATE_STORE,
    script="""
        import os, witness
        agent = os.getppid()
        witness.together()
        witness.wait_for("agent-is-gone" if witness.ARMED else "finish")
        if os.getppid() == agent and witness.due("TypeError", rank=witness.RANK):
            raise TypeError("batch is None")
        witness.wait()
        witness.say("done")
    """,
    play=_kill_agent_then_fail,
    proof=_orphan_went_on,
    warnings=("orphan_workers",),
    truth=(
        Attempt(
            outcome="failed",
            world_size=2,
            fault=Fault(
                what="TypeError",
                kind="exception",
                ranks=(ANY_RANK,),
                status=1,
                confidence="likely",
                says=("TypeError: batch is None",),
                error_type="TypeError",
                message="batch is None",
            ),
            roles={"agent 0": FIRST},
        ),
    ),
)


def _kill_store(stage: Stage) -> None:
    _two_at_once(stage)
    workers = stage.workers_of(0)
    stage.signal_agent("SIGKILL to the node with the store", 0, signal.SIGKILL, *workers)


STORE_LOST = Scenario(
    name="the_node_with_the_store_killed",
    about="The node that keeps the rendezvous store dies; the other agent loses the store and gives up.",
    agents=2,
    ranks=1,
    state="lost",
    exit_codes=(-9, 1),
    args=("--nnodes=2",),
    env=SEPARATE_STORE,
    script="import witness; witness.together(); witness.wait()",
    play=_kill_store,
    truth=(
        Attempt(
            outcome="lost",
            world_size=2,
            fault=Fault(
                what="SIGKILL to the node with the store",
                kind="node_lost",
                confidence="suspected",
                says=("RendezvousConnectionError",),
                timed=False,
                late_s=6.0,
                early_s=0.2,
            ),
            roles={"agent 1": STOPPED},
        ),
    ),
)

STORE = """
import sys, time, datetime, pathlib
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
while not pathlib.Path("over").exists():
    time.sleep(0.05)
"""


def _come_late(stage: Stage) -> None:
    stage.port = free_port()
    stage.start("python", "-c", STORE, str(stage.port))
    number = stage.start_agent()
    stage.until_up(1, world_size=1)
    stage.finish()
    stage.until(lambda: stage.agents[number].poll() is not None)
    late = stage.start_agent()
    stage.inject("one comes when all is over", pid=stage.agents[late].pid)
    stage.until(lambda: stage.agents[late].poll() is not None)
    stage.mark("over")


LATE_COMER = Scenario(
    name="rendezvous_closed_for_a_late_comer",
    about="A node comes when the job has succeeded and closed its rendezvous; its failure is not the job's.",
    agents=2,
    ranks=1,
    state="succeeded",
    exit_codes=(0, 0, 1),
    args=("--nnodes=1:2", "--rdzv-conf=is_host=0,last_call_timeout=1,join_timeout=30"),
    script="import witness; witness.wait()",
    play=_come_late,
    proof=lambda performance: (
        [] if "RendezvousClosedError" in performance.consoles[2] else ["the late comer was not turned away"]
    ),
    truth=(
        Attempt(outcome="succeeded", world_size=1),
        Attempt(
            outcome="incomplete",
            fault=Fault(
                what="one comes when all is over",
                kind="rendezvous_closed",
                error_type="RendezvousClosedError",
                says=("RendezvousClosedError",),
                late_s=20.0,
            ),
        ),
    ),
)

SCENARIOS = (NODE_KILLED, NODE_LEAVES, ORPHANS, STORE_LOST, SCALE_UP, LATE_COMER)
