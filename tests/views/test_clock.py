"""Moments and durations in words."""

import time

import pytest

from jobtape.views.clock import duration, moment, span


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kathmandu"])
def zone(request, monkeypatch):
    """This process lives in that zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_moments_are_local_with_their_zone(zone):
    """The zone's name stands behind the local time, its offset where it has no name."""
    said = {
        "UTC": "2026-02-28 19:05:14.250 UTC",
        "America/New_York": "2026-02-28 14:05:14.250 EST",
        "Asia/Kathmandu": "2026-03-01 00:50:14.250 UTC+0545",
    }
    assert said[zone] == moment(1772305514.25, fine=True)


@pytest.mark.parametrize("zone", ["UTC"], indirect=True)
@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (0.0, 5.0, "1970-01-01 00:00:00 to 00:00:05 UTC"),
        (0.0, 90_000.0, "1970-01-01 00:00:00 to 1970-01-02 01:00:00 UTC"),
        (0.0, None, "since 1970-01-01 00:00:00 UTC"),
    ],
)
def test_spans_say_once_what_both_ends_share(zone, start, end, said):
    """The day and the zone are not repeated."""
    assert said == span(start, end)


@pytest.mark.parametrize("seconds", [1e30, -1e30, 1e18])
def test_times_outside_of_the_calendar(seconds):
    """A time no calendar has is shown as a number."""
    assert f"time {seconds:g}" == moment(seconds)


def test_unknown_moment():
    """What nobody knows is a question mark."""
    assert ("?", "?") == (moment(None), duration(None))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (-1, "0 ms"),
        (0.0412, "41 ms"),
        (0.9996, "1.0 s"),
        (2.81, "2.8 s"),
        (59.96, "1 min 00 s"),
        (89, "1 min 29 s"),
        (3599.6, "1 h 00 min"),
        (4000, "1 h 07 min"),
        (86_399, "1 d 0 h"),
        (200_000, "2 d 8 h"),
    ],
)
def test_durations(seconds, said):
    """Durations have the unit a person would use, and never read 60 of one."""
    assert said == duration(seconds)
