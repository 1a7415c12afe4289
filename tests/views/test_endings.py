"""Attempts that ended alike."""

from jobtape.views.endings import Ending, endings, spread, ways, which
from jobtape.views.sentence import blame_of
from tests.views.runs_to_show import a_cause, an_attempt


def attempts_of(*causes):
    """Attempts with these causes."""
    return [an_attempt(index, cause=cause) for index, cause in enumerate(causes)]


A, B = a_cause(), a_cause(error_type="ValueError")


def test_consecutive_and_all():
    """Those that follow one another, and all of a kind, the commonest first."""
    made = attempts_of(A, A, B, A, B, B, B)
    assert [2, 1, 1, 3] == [len(group.attempts) for group in endings(made)]
    assert ["attempts 2,4-6", "attempts 0,1,3"] == [which(way) for way in ways(made)]


def test_several_ranks_that_failed_together_are_a_way_of_their_own():
    """A failure of ranks together is not that of one rank, and not that of ranks nobody can order."""
    made = attempts_of(A, a_cause(rank=None, ranks=(0, 1)), a_cause(rank=None))
    assert 3 == len(ways(made))


def test_which_is_short():
    """Of very many separate attempts the first are named."""
    said = which(Ending([an_attempt(index) for index in range(0, 400, 2)]))
    assert said.startswith("attempts 0,2,4,")
    assert said.endswith(",…")
    assert len(said) < 45


def test_ranks_that_failed_together_are_not_always_the_same():
    """Crowds that differ from one attempt to the next are one way, and said to differ."""
    crowds = [a_cause(rank=None, ranks=ranks, location=None, message="boom") for ranks in ((0, 1), (1, 2), (0, 1))]
    (way,) = ways(attempts_of(*crowds))
    assert "not with the same ranks each time, always on the same host" == spread(way)
    assert "ranks 0-2, not all of them each time, on node-a raised RuntimeError: boom" == blame_of(way, 80)
    (same,) = ways(attempts_of(crowds[0], crowds[0]))
    assert ("", "ranks 0 and 1 on node-a raised RuntimeError: boom") == (spread(same), blame_of(same, 80))


def test_blame_of_many():
    """Who it was in attempts that ended alike, in one phrase."""

    def told(kind, *firsts, **fields):
        fields = {"message": None, "error_type": None, "location": None, "kind": kind, "pid": None, **fields}
        return blame_of(Ending(attempts_of(*(a_cause(rank=rank, host=host, **fields) for rank, host in firsts))), 80)

    assert "2 different ranks (1,2) on a were killed by the kernel because memory ran out" == told(
        "oom_kill", (1, "a"), (2, "a")
    )
    assert "rank 1 on 2 different hosts (a, b) stopped making progress" == told("stall", (1, "a"), (1, "b"))
    assert "2 different hosts (a, b) fell silent" == told("node_lost", (None, "a"), (None, "b"))
    assert "2 different ranks (1,2) stopped making progress" == told("stall", (1, None), (2, None))
    assert "agents on 2 different hosts (a, b) vanished" in told("node_lost", (None, "a"), (None, "b"), pid=4)


def test_spread():
    """Another rank each time, another host each time, both, or neither."""

    def told(*firsts):
        return spread(Ending(attempts_of(*(a_cause(rank=rank, host=host) for rank, host in firsts))))

    assert "" == told((1, "a"), (1, "a"))
    assert "with 2 different ranks first (1,2), always on the same host" == told((1, "a"), (2, "a"))
    assert "on 2 different hosts (a, b)" == told((1, "a"), (1, "b"))
    assert "with 2 different ranks first (1,2), on 2 different hosts (a, b)" == told((1, "a"), (2, "b"))
    assert "on 2 different hosts (a, b)" == told((None, "a"), (None, "b"))
