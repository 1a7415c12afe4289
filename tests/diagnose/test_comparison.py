"""What differed between the failures of two runs."""

import pytest

from jobtape.diagnose.comparison import compare, decisive
from tests.views.runs_to_show import START, a_cause, a_rank, a_run, an_attempt


def a_failed_run(**cause):
    """A run of one attempt with such a cause."""
    return a_run(an_attempt(cause=a_cause(**cause)))


def fact(told, what):
    """One of the facts of a comparison: both values and whether they are the same."""
    return next((each.a, each.b, each.same) for each in told.facts if each.what == what)


NO_FAILURE = a_run(an_attempt(outcome="succeeded", cause=None), state="succeeded")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (a_failed_run(), a_failed_run(rank=3, host="node-z", message="shapes differ: 7 and 9"), True),
        (a_failed_run(), a_failed_run(error_type="KeyError"), False),
        (a_failed_run(), NO_FAILURE, False),
        (NO_FAILURE, NO_FAILURE, True),
        (a_failed_run(), a_failed_run(kind="unknown", error_type=None, message=None), None),
        (a_failed_run(kind="unknown", error_type=None, message=None),) * 2 + (None,),
    ],
)
def test_whether_it_is_the_same(a, b, same):
    """The same failure elsewhere is the same; of an unknown one nobody can say."""
    assert same == compare(a, b).same


def test_what_is_compared():
    """The last failure of workers: not a rendezvous that could not form afterwards, nor a success."""
    futile = an_attempt(2, outcome="incomplete", cause=a_cause(kind="rendezvous_closed"))
    failed = an_attempt(1)
    assert decisive(a_run(an_attempt(0), failed, futile)) is failed
    assert decisive(a_run(futile)) is futile
    assert decisive(NO_FAILURE) is None


def test_facts_side_by_side():
    """Each fact has both values; messages are compared without what varies, durations roughly."""
    a, b = a_failed_run(), a_failed_run(time=START + 2.9, rank=3, message="shapes differ: 5 and 6")
    told = compare(a, b, {"torch": "2.9.0", "command": "train.py"}, {"torch": "2.10.0"})
    assert (1, 3, False) == fact(told, "first rank")
    assert ("shapes differ: 3 and 4", "shapes differ: 5 and 6", True) == fact(told, "message")
    assert fact(told, "time to failure_s")[2]
    assert ("2.9.0", "2.10.0", False) == fact(told, "torch")
    assert ("train.py", None, False) == fact(told, "command")
    assert (None, None, None) == fact(told, "signal")
    assert (1, 1, True) == fact(told, "victims")


def test_steps_that_were_reached():
    """The step of the rank that was first, else the highest on the record."""
    ranks = (a_rank(0, step=9), a_rank(1, "first", step=7))
    a, b = a_run(an_attempt(ranks=ranks)), a_run(an_attempt(ranks=ranks, cause=a_cause(rank=None)))
    assert (7, 9, False) == fact(compare(a, b), "last step")


def test_all_failures_of_both():
    """What went before the last failure is compared as well."""
    oom, bug, other = a_cause(kind="oom_kill"), a_cause(), a_cause(error_type="KeyError")
    a = a_run(an_attempt(0, cause=oom), an_attempt(1, cause=bug), an_attempt(2, cause=bug))
    b = a_run(an_attempt(0, cause=other), an_attempt(1, cause=bug))
    told = compare(a, b)
    assert [(2, 2, 1)] == [(attempt.index, one, two) for attempt, one, two in told.in_both]
    assert [(0, 1)] == [(attempt.index, times) for attempt, times in told.only_in_a]
    assert [("KeyError", 1)] == [(attempt.cause.error_type, times) for attempt, times in told.only_in_b]
