"""torchrun's closing block."""

import pytest

from jobtape.importers.clock import FileClock, find_zone
from jobtape.importers.closing_block import BlockReader, opens
from jobtape.importers.foreign import Lines
from tests.importers.lines import block, event, written

TRACEBACK = 'Traceback (most recent call last):\n    File "a.py", line 1\n      x()\n  ValueError: bad\n  '
STOPPED = (0, -15, "Signal 15 (SIGTERM) received by PID 2170")


def read(tmp_path, *texts):
    """The block that a file begins with, and the lines after it."""
    lines = Lines(written(tmp_path / "a.log", *texts))
    _, border = next(lines)
    assert opens(border)
    block = BlockReader(border)
    for number, line in lines:
        if block.take(number, line):
            break
    found, rest = block.result(FileClock(find_zone("UTC")))
    return found, [line.decode() for _, line in [*rest, *lines]]


def test_block_is_read(tmp_path):
    """Each entry is a failure, its traceback as it was before torchrun indented it."""
    found, rest = read(tmp_path, block(STOPPED, (1, 1, TRACEBACK)), "after")
    stopped, first = found.failures
    assert ("train.py", False, [], ["after"]) == (found.entrypoint, found.cut, found.damaged, rest)
    assert (0, 0, "node-a", -15, 2170, "SIGTERM", None, False) == (*stopped[:7], stopped.first)
    assert (1, 1, None, 1771320688.0, True) == (first.rank, first.exit_code, first.signal, first.time_s, first.first)
    assert 'Traceback (most recent call last):\n  File "a.py", line 1\n    x()\nValueError: bad' == first.message


def test_single_failure(tmp_path):
    """A block without other failures has the root cause alone."""
    found, _ = read(tmp_path, block((3, -11, "Signal 11 (SIGSEGV) received by PID 2173")))
    assert [(3, "SIGSEGV", True)] == [(failure.rank, failure.signal, failure.first) for failure in found.failures]


def test_forged_lines_in_a_traceback_are_text(tmp_path):
    """Whatever an indented text resembles, an entry, a section, an end or a record, is part of the message."""
    forged = ["[7]:", "  time      : 2026-02-17_09:31:28", "-" * 60, "=" * 60, event("SUCCEEDED"), "evil FAILED", ""]
    forged += ["a\u2028b\u0085c\x0bd", "Root Cause (first observed failure):", "Failures:"]
    message = "\n".join(["ValueError: bad row", *forged, "end"])
    found, rest = read(tmp_path, block(STOPPED, (1, 1, message.replace("\n", "\n  "))), "after")
    assert ([0, 1], message, ["after"]) == (
        [failure.rank for failure in found.failures],
        found.failures[1].message,
        rest,
    )


def test_text_without_traceback_is_kept_as_it_is(tmp_path):
    """A message that torchrun printed without indenting it keeps its own blanks."""
    found, _ = read(tmp_path, block((0, 1, "first\n  second\nthird")))
    assert "first\n  second\nthird" == found.failures[0].message


def test_message_of_200_kilobytes_stays_whole(tmp_path):
    """A long message is not cut."""
    message = "x" * 100_000 + "\n" + "=" * 100_000
    found, _ = read(tmp_path, block((0, 1, message.replace("\n", "\n  "))))
    assert message == found.failures[0].message


def test_block_cut_off_at_the_end(tmp_path):
    """What is there of a block that was cut off is kept."""
    text = block(STOPPED, (1, 1, TRACEBACK))
    found, rest = read(tmp_path, text[: text.index("ValueError")])
    assert (True, [0, 1], []) == (found.cut, [failure.rank for failure in found.failures], rest)


def test_block_cut_off_in_the_middle(tmp_path):
    """Behind a block that was cut off the file goes on, also with another block."""
    cut = block(STOPPED, (1, 1, TRACEBACK))[:400].rpartition("\n")[0]
    found, rest = read(tmp_path, cut, event(), block(STOPPED))
    assert (True, [0]) == (found.cut, [failure.rank for failure in found.failures])
    assert [event(), *block(STOPPED).split("\n")] == rest


@pytest.mark.parametrize(
    "texts",
    [
        ["=" * 60],
        ["=" * 60, "Results"],
        ["=" * 60, "test FAILED", "-" * 59, "Failures:"],
        ["=" * 60, "test FAILED", "-" * 60, "1 failure"],
        ["=" * 60, "test FAILED"],
    ],
)
def test_other_banners_are_handed_back(tmp_path, texts):
    """Lines of equals signs are common; what follows is read as usual."""
    assert (None, [*texts[1:], "after"]) == read(tmp_path, *texts, "after")


def test_damage_in_a_block_is_reported(tmp_path):
    """A line that is not UTF-8 is part of the message and counted."""
    text = block((0, 1, TRACEBACK)).encode().replace(b"x()", b"\xff()").replace(b"bad", b"\x00")
    found, _ = read(tmp_path, text)
    assert ([16, 17], "\ufffd()" in found.failures[0].message) == (found.damaged, True)
