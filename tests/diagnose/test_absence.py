"""Ranks that the others waited for: named by a record, silent where all others speak, or behind with their steps."""

import pytest

from tests.cases.agent_log import (
    WATCHDOG,
    AgentLog,
    causes,
    error_file,
    restarts,
    roles,
    seconds_of,
    warning_kinds,
    why,
)
from tests.diagnose.lab import answer
from tests.diagnose.live import Agent

BARRIER = "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms"


def ended(log, t, states):
    """The last attempt is over."""
    return log.ends(t, states).returns(t + 0.1)


def test_a_rank_that_the_barrier_names(tmp_path):
    """Rank 0 says who did not come."""
    log = AgentLog("n0", 10).attempt(1, [0, 1, 2]).stops(60, 1, 2).names(60.1, 0, 1)
    states = dict.fromkeys((1, 2), ("FAILED", -15, None))
    states[0] = ("FAILED", 1, error_file("RuntimeError", BARRIER, 59))
    said = why(tmp_path, ended(log, 60.2, dict(sorted(states.items()))))
    cause = said["attempts"][0]["cause"]
    assert ("stall", 2) == (cause["kind"], cause["rank"])
    assert cause["confidence"] in ("likely", "suspected")
    assert any("node" in each or "n0" in each for each in cause["evidence"])


def test_the_rank_that_says_nothing_of_a_timeout(tmp_path):
    """The watchdogs of all ranks but one gave up: the silent one is suspected; it began ten minutes ago."""
    log = AgentLog("n0", 10).attempt(1, [0, 1, 2, 3]).stops(700, 2).names(700.1, 0, -6)
    states = {rank: ("FAILED", -6, error_file("RuntimeError", WATCHDOG.format(rank=rank), 699)) for rank in (0, 1, 3)}
    states[2] = ("FAILED", -15, None)
    said = why(tmp_path, ended(log, 700.2, dict(sorted(states.items()))))
    cause = said["attempts"][0]["cause"]
    assert ("stall", 2) == (cause["kind"], cause["rank"])
    assert cause["confidence"] != "certain"
    assert {0: "collateral", 1: "collateral", 3: "collateral"} == {
        rank: role for rank, role in roles(said["attempts"][0]).items() if rank != 2
    }
    assert 98 <= seconds_of(cause["time"]) <= 101


def test_the_rank_whose_steps_stopped_before_the_others(tmp_path):
    """Both were stopped from outside the collective's sight; rank 1 had been 20 steps behind for a minute."""
    agent = Agent().start(1.0, [0, 1, 2], [200, 201, 202], round_=0)
    tapes = []
    for pid, last in ((200, 60), (201, 40), (202, 60)):
        tape = agent.worker(pid, start=1.0)
        for step in range(last):
            tape.event("step", "WORKER", 1.5 + step, step=step)
        tapes.append(tape)
    tapes[0].error(160, "RuntimeError", "Timed out waiting 100000ms for recv operation to complete")
    agent.exit(160.2, 200, 1).stop(160.3, 201, 202).ended(161, failed=[0]).close(162)
    cause = answer(agent, *tapes)["attempts"][0]["cause"]
    assert ("stall", 1) == (cause["kind"], cause["rank"])
    assert cause["confidence"] in ("likely", "suspected")


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("CANCELLED AT 2026-04-09T08:01:00 DUE TO PREEMPTION ***", "preempt"),
        ("CANCELLED AT 2026-04-09T08:01:00 DUE TO TIME LIMIT ***", "time limit"),
    ],
)
def test_what_the_scheduler_says(tmp_path, words, note):
    """Slurm says why it ended the job; the agent's own record of the signal agrees."""
    log = AgentLog("n0", 10).attempt(1, [0, 1])
    log.raw(f"slurmstepd: error: *** JOB 4242 ON n0 {words}").signalled(60)
    said = why(tmp_path, log)
    cause = said["attempts"][0]["cause"]
    assert ("stopped", "preempted", "SIGTERM") == (said["state"], cause["kind"], cause["signal"])
    assert note in " ".join([str(cause.get("note")), *cause["evidence"]]).lower()


def test_a_kernels_word_makes_it_an_out_of_memory_kill(tmp_path):
    """SIGKILL, and the kernel's line about that very process."""
    log = AgentLog("n0", 10).attempt(1, [0, 1])
    log.raw(f"[ 4242.123456] Out of memory: Killed process {log.pids[1]} (python) total-vm:1kB, anon-rss:1kB")
    log.fails(60, 1, -9, others=[0], left=1, limit=1)
    said = why(tmp_path, log.attempt(70, [0, 1], 1).succeeds(99))
    assert ([("oom_kill", 1), None], (1, 0, 0)) == (causes(said), restarts(said))


def test_a_kernels_word_about_another_process_does_not(tmp_path):
    """The kernel killed somebody else's process."""
    log = AgentLog("n0", 10).attempt(1, [0, 1])
    log.raw("[ 4242.123456] Out of memory: Killed process 99999 (python) total-vm:1kB, anon-rss:1kB")
    log.fails(60, 1, -9, others=[0], left=1, limit=1)
    said = why(tmp_path, log.attempt(70, [0, 1], 1).succeeds(99))
    assert ("signal", 1) == causes(said)[0]
    assert "lost_events" not in warning_kinds(said)
