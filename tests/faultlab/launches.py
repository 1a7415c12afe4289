"""Faults of a launch as a whole: its agent is told to stop or killed, its script is broken, nobody else comes."""

from __future__ import annotations

import os
import signal
import time

from ..capture.lab import free_port
from .performance import Performance
from .scenario import FIRST, INDEPENDENT, STOPPED, VICTIM, Attempt, Fault, Scenario
from .stage import Stage

WAIT = "import witness; witness.together(); witness.wait()"


def _preempt(stage: Stage) -> None:
    stage.start_agent()
    stage.until_up(2, world_size=2)
    time.sleep(0.5)  # let the agent come back from starting its workers
    stage.signal_agent("SIGTERM to the agent", 0, signal.SIGTERM)


def _says_received(performance: Performance) -> list[str]:
    return [] if "death signal" in performance.console else ["the agent did not say that it got a signal"]


PREEMPTED = Scenario(
    name="agent_told_to_stop",
    about="A scheduler sends SIGTERM to the agent, which stops its workers.",
    script=WAIT,
    state="stopped",
    play=_preempt,
    proof=_says_received,
    truth=(
        Attempt(
            outcome="stopped",
            fault=Fault(what="SIGTERM to the agent", kind="preempted", signal="SIGTERM"),
            roles={0: STOPPED, 1: STOPPED},
        ),
    ),
)


def _signal_everybody(stage: Stage) -> None:
    stage.start_agent()
    ups = stage.until_up(2, world_size=2)
    time.sleep(0.5)
    stage.signal_agent("SIGTERM to the whole job", 0, signal.SIGTERM, *(up.pid for up in ups))


SIGNALLED_TOGETHER = Scenario(
    name="everybody_told_to_stop",
    about="A scheduler sends SIGTERM to every process of the job at once, as scancel does.",
    script=WAIT,
    state="stopped",
    play=_signal_everybody,
    proof=_says_received,
    truth=(
        Attempt(
            outcome="stopped",
            fault=Fault(what="SIGTERM to the whole job", kind="preempted", signal="SIGTERM", confidence="likely"),
            roles={0: STOPPED, 1: STOPPED},
        ),
    ),
)


def _give_up_on_a_stall(stage: Stage) -> None:
    stage.start_agent()
    stage.until(lambda: stage.said("hang") or not stage.armed)
    time.sleep(3)
    stage.signal_agent("SIGTERM to the agent", 0, signal.SIGTERM)


STALLED = Scenario(
    name="stall_without_a_timeout",
    about="One rank hangs, no timeout notices; after a while somebody stops the job. That is what ended it.",
    script="""
        import witness
        import torch, torch.distributed as dist
        from jobtape import events
        dist.init_process_group("gloo")
        for step in range(5):
            dist.all_reduce(torch.ones(10))
            events.emit("step", step=step)
        if witness.due("hang", rank=1):
            witness.hang()
        dist.all_reduce(torch.ones(10))
        dist.destroy_process_group()
    """,
    state="stopped",
    play=_give_up_on_a_stall,
    proof=lambda performance: ["the rank woke up"] if performance.said("woke") else [],
    truth=(
        Attempt(
            outcome="stopped",
            fault=Fault(what="SIGTERM to the agent", kind="preempted", signal="SIGTERM"),
            roles={0: STOPPED, 1: STOPPED},
        ),
    ),
)


def _kill_agent(stage: Stage) -> None:
    stage.start_agent()
    stage.until_up(2, world_size=2)
    time.sleep(0.5)
    stage.signal_agent("SIGKILL to the agent", 0, signal.SIGKILL)
    time.sleep(2.5)
    stage.finish()


def _workers_went_on(performance: Performance) -> list[str]:
    done = [line.rank for line in performance.said("done")]
    return [] if sorted(done) == [0, 1] else [f"of the orphans only {done} came to their end"]


KILLED_AGENT = Scenario(
    name="agent_killed_and_workers_orphaned",
    about="The only agent is killed; its workers do not notice and come to their end.",
    script="import witness; witness.together(); witness.wait(); witness.say('done')",
    state="lost",
    exit_codes=(-9,),
    play=_kill_agent,
    proof=_workers_went_on,
    warnings=("orphan_workers",),
    truth=(
        Attempt(
            outcome="lost",
            fault=Fault(
                what="SIGKILL to the agent",
                kind="node_lost",
                confidence="suspected",
                names_agent=True,
                timed=False,
                late_s=6.0,
            ),
        ),
    ),
)


def _with_a_broken_script(stage: Stage) -> None:
    if stage.armed:
        with open(stage.script, "a", encoding="utf-8") as script:
            script.write("\ndef broken(:\n")
    stage.inject("a script that is no Python", pid=os.getpid())
    stage.start_agent()


def _all_ended_with_1(performance: Performance) -> list[str]:
    codes = performance.console.count("exitcode  : 1 (pid:")
    return [] if codes == 2 and not performance.said("up") else ["not every worker failed before its first line"]


BROKEN_SCRIPT = Scenario(
    name="a_script_that_is_no_python",
    about="The script cannot be parsed: every worker fails before its first line and before any torch.",
    script="import witness; witness.together()",
    play=_with_a_broken_script,
    args=("--monitor-interval=2",),
    proof=_all_ended_with_1,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="a script that is no Python",
                kind="exception",
                exit_code=1,
                error_type="SyntaxError",
                says=("SyntaxError",),
                late_s=30.0,
            ),
            roles={0: INDEPENDENT, 1: INDEPENDENT},
        ),
    ),
)


def _alone(stage: Stage) -> None:
    if not stage.armed:
        stage.start_agent("--rdzv-conf=join_timeout=60")
        stage.start_agent("--rdzv-conf=join_timeout=60")
        return
    number = stage.start_agent()
    stage.inject("nobody else comes", pid=stage.agents[number].pid)


NOBODY_CAME = Scenario(
    name="rendezvous_timeout",
    about="A job of two nodes whose second node never comes.",
    agents=2,
    ranks=1,
    script="import witness; witness.wait()",
    args=("--nnodes=2", "--rdzv-conf=join_timeout=4"),
    play=_alone,
    proof=lambda performance: ["workers were started"] if performance.said("up") else [],
    truth=(
        Attempt(
            outcome="incomplete",
            fault=Fault(
                what="nobody else comes",
                kind="rendezvous_timeout",
                says=("RendezvousTimeoutError",),
                error_type="RendezvousTimeoutError",
                late_s=30.0,
            ),
        ),
    ),
)

RANK_WITHOUT_AGENT = """
    import os, signal, time, witness
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(10))
    if witness.due("{what}", rank=1):
        {fault}
    time.sleep(0.2)
    dist.all_reduce(torch.ones(10))
    dist.destroy_process_group()
"""


def _by_srun(stage: Stage) -> None:
    port = str(free_port())
    for rank in ("0", "1"):
        slurm = {"SLURM_JOB_ID": stage.run_id, "SLURM_PROCID": rank, "SLURM_NTASKS": "2", "SLURM_LOCALID": rank}
        torch = {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        stage.start("python", str(stage.script), env={"JOBTAPE_RECORD": "tape", **slurm, **torch})


ERROR_WITHOUT_AGENT = Scenario(
    name="error_without_an_agent",
    about="Two ranks started by srun: one raises, the other loses its peer; nobody watches them.",
    agents=0,
    exit_codes=(1, 1),
    script=RANK_WITHOUT_AGENT.format(what="IndexError", fault='raise IndexError("sample 8 of 8")'),
    play=_by_srun,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="IndexError",
                kind="exception",
                ranks=(1,),
                status=1,
                says=("IndexError: sample 8 of 8", "gloo/transport/tcp/pair.cc"),
                error_type="IndexError",
                message="sample 8 of 8",
            ),
            roles={0: VICTIM, 1: FIRST},
        ),
    ),
)

SCENARIOS = (
    PREEMPTED, SIGNALLED_TOGETHER, STALLED, KILLED_AGENT, BROKEN_SCRIPT, NOBODY_CAME, ERROR_WITHOUT_AGENT,
)  # fmt: skip
