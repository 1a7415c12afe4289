"""Prefixes of log lines: which are taken off, and what they say."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.importers.clock import FileClock
from jobtape.importers.prefixes import read_prefix, stamp_before

MOMENT = datetime(2026, 5, 6, 14, 2, 0, 123000, timezone.utc)
LOGGER = "torch.distributed.elastic.agent.server.api"


def time_of(stamp):
    """A prefix's time as a datetime, read in 2026 and UTC."""
    clock = FileClock(timezone.utc)
    clock.start_in(2026)
    return datetime.fromtimestamp(clock.read(stamp) / 1e9, timezone.utc)


@pytest.mark.parametrize(
    ("line", "level", "writer", "pid"),
    [
        ("I0506 14:02:00.123000 2101 torch/x.py:7] text", "I", "torch/x.py:7", 2101),
        ("I20260506 14:02:00.123000 2101 torch/x.py:7] text", "I", "torch/x.py:7", 2101),
        (f"[2026-05-06 14:02:00,123] {LOGGER}: [INFO] text", "INFO", LOGGER, None),
        (f"2026-05-06 14:02:00,123 - {LOGGER} - WARNING - text", "WARNING", LOGGER, None),
        (f"2026-05-06 14:02:00,123 WARNING {LOGGER}: text", "WARNING", LOGGER, None),
        ("1778076120.123000 pid=3780 torchelastic-events-cap text", "", "torchelastic-events-cap", 3780),
        ("2026-05-06T14:02:00.123Z stderr F text", "", "", None),
        ("2026-05-06T16:02:00.123+02:00 text", "", "", None),
        ("2026-05-06T16:02:00.123+0200 gpu-1 torchrun[77]: text", "", "", None),
        ("2026-05-06T14:02:00.123Z I0506 09:02:00.123000 2101 torch/x.py:7] text", "I", "torch/x.py:7", 2101),
    ],
)
def test_prefix_with_a_time_is_taken_off(line, level, writer, pid):
    """Each form gives the text behind it, the time, and who wrote it; a zone in it wins over a time without."""
    prefix = read_prefix(line)
    assert ("text", level, writer, pid) == (prefix.text, prefix.level, prefix.writer, prefix.pid)
    assert MOMENT == time_of(prefix.stamp)


def test_logging_prefix_has_no_time():
    """`LEVEL:logger:` of plain logging gives level and logger."""
    prefix = read_prefix(f"ERROR:{LOGGER}:failed: yes")
    assert ("failed: yes", "ERROR", LOGGER, None) == (prefix.text, prefix.level, prefix.writer, prefix.stamp)


@pytest.mark.parametrize(
    ("line", "rank", "local_rank", "text"),
    [
        ("[rank3]: RuntimeError: no", 3, None, "RuntimeError: no"),
        ("[default1]:INFO: ready", None, 1, "INFO: ready"),
        ("[trainer12]:[rank99]:  File", 99, 12, " File"),
    ],
)
def test_label_of_a_worker_is_taken_off(line, rank, local_rank, text):
    """A worker's label gives its rank or local rank, and what follows is text, also where it looks like a prefix."""
    prefix = read_prefix(line)
    assert (True, rank, local_rank, text) == (prefix.worker, prefix.rank, prefix.local_rank, prefix.text)


@pytest.mark.parametrize("month", ["506", "0506"])
def test_line_of_native_code_has_nanoseconds(month):
    """torch's C++ code writes the month with or without a zero, and nanoseconds."""
    prefix = read_prefix(f"[rank0]:[E{month} 14:02:00.123456789 ProcessGroupNCCL.cpp:642] gone")
    assert ("gone", 0, True, 123456789) == (prefix.text, prefix.rank, prefix.native, prefix.stamp.nanos)
    assert 14 == time_of(prefix.stamp).hour


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: [E] boom",
        "torch.distributed.DistStoreError: wait timeout",
        "  2026-05-06 14:02:00 indented",
        "[default] Worker group FAILED.",
        "[/build/gloo/pair.cc:553] Connection closed",
        "",
    ],
)
def test_text_is_no_prefix(line):
    """Text that only resembles a prefix stays as it is."""
    assert line == read_prefix(line).text


def test_impossible_offset_counts_as_utc():
    """A zone that cannot be is no reason to lose the time."""
    assert timedelta(0) == read_prefix("2026-05-06T14:02:00+99:99 text").stamp.zone.utcoffset(None)


def test_time_of_a_prefix_in_the_middle_is_found():
    """The prefix right before a record is found behind what a torn line left."""
    assert 30 == stamp_before('{"name": "torI0217 09:30:00.019000 2101 torch/x.py:7] ').minute
    assert stamp_before("I0217 09:30:00.019000 2101 torch/x.py:7] text ") is None


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    """No text makes the reading raise, and the text behind the prefix is the end of the line."""
    assert text.endswith(read_prefix(text).text)
