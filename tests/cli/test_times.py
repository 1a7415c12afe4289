"""Points in time as people write them."""

import time

import pytest

from jobtape.cli.times import moments

FIRST = 1772305514_000_000_000
"""2026-02-28 19:05:14 UTC."""


@pytest.fixture
def paris(monkeypatch):
    """This process lives in Paris."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-28 20:05:14",
        "2026-02-28T20:05:14",
        "2026-02-28 20:05:14 CET",
        "2026-02-28T19:05:14Z",
        "2026-02-28 19:05:14.000 UTC",
        "2026-02-28 19:05:14,000 UTC",
        "2026-03-01T00:50:14+05:45",
        "2026-03-01 00:50:14 UTC+0545",
        "20:05:14",
        "19:05:14Z",
        "1772305514",
        "1772305514.000",
    ],
)
def test_ways_to_say_it(paris, text):
    """Local time, a zone, an offset, a time of the run's day, unix seconds, and what jobtape prints itself."""
    assert FIRST == moments(text, FIRST)[0] + (500_000 if ".0" in text or "," in text else 0)


@pytest.mark.parametrize(
    ("text", "beyond_ns"),
    [("2026-02-28T19:05:14.25Z", 250_000_000), ("1772305514.000000001", 1), ("2026-02-28T19:05:14Z", 499_999_999)],
)
def test_fractions(text, beyond_ns):
    """Fractions are exact to the nanosecond, what is left out is zero."""
    assert FIRST + beyond_ns == sum(moments(text, FIRST)) // 2


@pytest.mark.parametrize(
    ("text", "length_ns"),
    [("2026-02-28", 86_400 * 10**9), ("19:05", 60 * 10**9), ("19:05:14", 10**9), ("19:05:14.25", 10**7 + 1)],
)
def test_how_much_a_time_means(text, length_ns):
    """A day, a minute and a second are meant whole; of a fraction half its last digit either way."""
    first, last = moments(text, FIRST)
    assert length_ns == last - first + 1


def test_a_date_is_its_midnight(paris):
    """A day begins at local midnight."""
    assert moments("2026-02-28 00:00:00", None)[0] == moments("2026-02-28", None)[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026",
        "2026-02-30",
        "25:00",
        "10:00 Mars",
        "2026-02-28 10",
        "12345",
        "\x1b",
        "2026-02-28T10:00+99:99",
    ],
)
def test_no_time(text):
    """What is no time is refused."""
    with pytest.raises(ValueError, match=r"."):
        moments(text, FIRST)


def test_time_of_day_needs_a_day():
    """Where the run has no times, a time of day means nothing."""
    with pytest.raises(ValueError, match="give a date"):
        moments("10:00", None)
