"""Exceptions in the output of workers."""

from jobtape.importers import worker_output
from jobtape.importers.prefixes import read_prefix
from jobtape.importers.worker_output import WorkerOutput

TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 1', "    x()", "    ^^^"]


def read(*lines):
    """The exceptions in these lines, and how many lines belong to none."""
    output, found, foreign = WorkerOutput(), [], 0
    for number, line in enumerate(lines, 1):
        taken, done = output.take(number, read_prefix(line))
        found += done
        foreign += not taken
    return found + output.flush(), foreign


def labelled(label, *lines):
    """The lines behind a label."""
    return [f"{label}{line}" for line in lines]


def test_exception_of_a_rank():
    """Message and traceback of an exception are kept apart, the line is that of the message."""
    (error,), foreign = read(*labelled("[rank1]: ", "hello", *TRACEBACK, "RuntimeError: a", "b", "", "c", ""))
    assert (1, None, 6, 1) == (error.rank, error.local_rank, error.line, foreign)
    assert (["RuntimeError: a", "b", "", "c"], TRACEBACK) == (error.message, error.traceback)


def test_mixed_exceptions_are_told_apart():
    """Lines of several workers may come mixed."""
    one = labelled("[default0]:[rank4]: ", *TRACEBACK, "KeyError: 'a'")
    two = labelled("[default1]:", *TRACEBACK, "KeyboardInterrupt")
    errors, _ = read(*(line for pair in zip(one, two, strict=True) for line in pair))
    assert [(4, 0, ["KeyError: 'a'"]), (None, 1, ["KeyboardInterrupt"])] == [
        (error.rank, error.local_rank, error.message) for error in errors
    ]


def test_chained_exceptions_are_one():
    """Of a chain the last exception is the one that ended the worker."""
    middle = ["", "During handling of the above exception, another exception occurred:", ""]
    (error,), _ = read(*labelled("[rank0]: ", *TRACEBACK, "KeyError: 1", *middle, *TRACEBACK, "ValueError: 2"))
    assert (["ValueError: 2"], [*TRACEBACK, "KeyError: 1", *middle, *TRACEBACK]) == (error.message, error.traceback)


def test_second_traceback_is_another_exception():
    """A worker may print several exceptions before it ends; one without its last line is none."""
    errors, _ = read(*labelled("[rank0]: ", *TRACEBACK, "KeyError: 1", *TRACEBACK, *TRACEBACK, "ValueError: 2"))
    assert [["KeyError: 1"], ["ValueError: 2"]] == [error.message for error in errors]


def test_endless_output_is_bounded(monkeypatch):
    """What follows an exception is kept up to a bound, and so are the workers looked at together."""
    monkeypatch.setattr(worker_output, "LONGEST_MESSAGE", 100)
    monkeypatch.setattr(worker_output, "_MOST_WORKERS", 2)
    (error,), foreign = read(*labelled("[rank0]: ", TRACEBACK[0], "KeyError: 1", *["x" * 40] * 9))
    assert (3, 7) == (len(error.message), foreign)
    several = [line for rank in range(4) for line in labelled(f"[rank{rank}]: ", TRACEBACK[0], "KeyError: 1")]
    assert [0, 1, 2, 3] == [error.rank for error in read(*several)[0]]
