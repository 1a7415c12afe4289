"""The text and the JSON of a comparison of two runs."""

from jobtape.diagnose.comparison import compare
from jobtape.views.difference import difference, difference_json
from tests.views.runs_to_show import START, a_cause, a_run, an_attempt


def a_failed_run(**cause):
    """A run of one attempt with such a cause."""
    return a_run(an_attempt(cause=a_cause(**cause)))


def told(a, b, text, columns=None, **options):
    """The comparison of two runs as text."""
    environment = {"torch": "2.9.0"}, {"torch": "2.10.0"}
    return text(difference(compare(a, b, *environment), a, b, ("monday", "tuesday"), **options), columns)


def test_the_same_failure(text):
    """The answer first, then both failures, then what differs and what does not."""
    lines = told(a_failed_run(), a_failed_run(rank=3, location="train.py:14"), text).splitlines()
    assert "The two runs failed in the same way: RuntimeError." == lines[0]
    assert lines[2].startswith("monday   failed; attempt 0: rank 1 on node-a raised RuntimeError")
    assert lines[3].startswith("tuesday  failed; attempt 0: rank 3 on node-a raised RuntimeError")
    assert [
        ["DIFFERS", "monday", "tuesday"],
        ["location", "train.py:12", "train.py:14"],
        ["first", "rank", "1", "3"],
        ["torch", "2.9.0", "2.10.0"],
    ] == [line.split() for line in lines[5:9]]
    assert lines[10].startswith("The same in both: kind exception; error type RuntimeError; message shapes differ")


def test_different_failures(text):
    """Different failures are said to be, with the failures of each."""
    killed = a_cause(kind="oom_kill", error_type=None, message=None)
    a = a_run(an_attempt(0, cause=killed), an_attempt(1, START + 10, cause=killed))
    said = told(a, a_failed_run(), text)
    assert said.startswith("The two runs failed in different ways.\n")
    assert "monday   failed; attempt 1 (of 2): rank 1 on node-a was killed by the kernel" in said
    assert "  only monday, 2 times: rank 1 on node-a was killed" in said
    assert "  only tuesday, 1 time: rank 1 on node-a raised" in said


def test_only_one_failed(text):
    """Where only one run has a failure nothing of it is set beside nothing."""
    well = a_run(an_attempt(outcome="succeeded", cause=None), state="succeeded")
    said = told(a_failed_run(), well, text)
    assert said.startswith("Only one of the two runs has a failure on the record.\n")
    assert "tuesday  succeeded, no failure on the record\n" in said
    assert "error type" not in said


def test_nobody_can_say(text):
    """Two failures of which nothing is known are not called the same."""
    unknown = a_failed_run(kind="unknown", rank=None, error_type=None, message=None, location=None)
    assert told(unknown, unknown, text).startswith("Nobody can say whether the two runs failed in the same way: too")


def test_ranks_that_failed_alike(text):
    """Several ranks are told as ranges."""
    crowd = a_failed_run(rank=None, ranks=tuple(range(500)))
    assert ["first", "rank", "0-499", "1"] in [line.split() for line in told(crowd, a_failed_run(), text).splitlines()]


def test_json():
    """Programs get the same facts."""
    said = difference_json(compare(a_failed_run(), a_failed_run(rank=3)), ("a", "b"))
    assert (True, ["a", "b"], [0, 0]) == (said["same"], said["runs"], said["attempts"])
    facts = {fact["what"]: fact for fact in said["facts"]}
    assert {"what": "first_rank", "a": 1, "b": 3, "same": False} == facts["first_rank"]
    assert 2.759 == facts["time_to_failure_s"]["a"]
    assert {"both": [{"attempt": 0, "a": 1, "b": 1}], "only_a": [], "only_b": []} == said["failures"]
