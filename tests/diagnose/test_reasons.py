"""Each verdict names the rule that decided."""

import pytest

from jobtape.views.reasons import REASONS
from tests.diagnose.lab import PEER_CLOSED, diagnosed
from tests.diagnose.live import Agent, Worker


def running(ranks=3):
    """An agent with running workers of process ids 200 and up."""
    return Agent().start(1, range(ranks), range(200, 200 + ranks))


def own_failures(*times, kinds=("ValueError", "KeyError")):
    """Ranks 0 and 1 raise errors of their own, and their agent stops rank 2."""
    agent = running().exit(6, 200, 1).exit(6.01, 201, 1).stop(6.1, 202).ended(6.2, failed=[0, 1]).close(7)
    return [agent, *(agent.worker(200 + n).error(t, kinds[n], "x") for n, t in enumerate(times))]


def wordless(*codes):
    """Ranks exit with these codes, a tenth of a second between them, and say nothing; the others are stopped."""
    agent = running()
    for number, code in enumerate(codes):
        agent.exit(5 + number / 10, 200 + number, code)
    agent.stop(6, *range(200 + len(codes), 203)).ended(6.2, failed=range(len(codes))).close(7)
    return [agent]


def victims(**left):
    """Rank 0 loses a peer; rank 2 has left early, or was stopped as rank 1 was."""
    agent = running()
    if left:
        agent.exit(4, 202, 0)
    agent.exit(5.1, 200, 1).stop(5.2, 201, *([] if left else [202])).ended(5.3, failed=[0]).close(6)
    return [agent, agent.worker(200).error(5.0, "RuntimeError", PEER_CLOSED).close(5.1)]


def told_to_stop():
    """A scheduler's signal reaches the agent."""
    agent = running().own(5, "agent.signal", signal="SIGTERM").stop(5.1, 200, 201, 202, reason="agent_signal")
    return [agent.close(6, "signal")]


def orphaned():
    """The agent's tape stops, its workers' go on."""
    agent = running()
    return [agent, agent.worker(200).close(30), agent.worker(201).close(30), agent.worker(202).close(30)]


def without_an_agent():
    """One of two workers that no agent watched has no end."""
    ranks = [Worker(pid=50 + n, start=n / 10, SLURM_PROCID=n, SLURM_LOCALID=n, WORLD_SIZE=2) for n in range(2)]
    return [ranks[0].close(30), ranks[1]]


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (own_failures(5.0), "only_own_failure"),
        (own_failures(5.0, 5.5), "first_own_failure"),
        (own_failures(5.0, 5.5, kinds=("ValueError", "ValueError")), "alike_at_once"),
        (wordless(1), "only_failure"),
        (wordless(1, 1), "first_failure"),
        (wordless(3, 3), "alike_wordless"),
        (victims(left=True), "left_early"),
        (victims(), "first_victim"),
        (told_to_stop(), "agent_signalled"),
        (orphaned(), "agent_gone"),
        ([running()], "silent_node"),
        (without_an_agent(), "vanished_rank"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_rule_that_decided(job, reason):
    """The cause of each job carries its rule, and the rule has its words."""
    (attempt,) = diagnosed(*job).attempts
    assert (reason, True) == (attempt.cause.reason, reason in REASONS)


def test_the_last_step_of_a_rank():
    """What a worker recorded of its steps is told with how it ended."""
    agent, worker = own_failures(5.0)
    worker.records.clear()
    for step in (7, 8):
        worker.event("step", "WORKER", 2 + step / 10, step=step)
    worker.error(5.0, "ValueError", "x")
    assert [8, None, None] == [rank.step for rank in diagnosed(agent, worker).attempts[0].ranks]
