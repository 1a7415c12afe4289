"""Times of log lines: zones, missing years, and the hour that comes twice."""

import subprocess
import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.errors import ImportFailed
from jobtape.importers.clock import FileClock, Stamp, YearSurvey, find_zone

UTC = timezone.utc


def date(text, year=None):
    """A stamp from `month-day hour:minute`."""
    day, _, hour = text.partition(" ")
    return Stamp(None, year, *map(int, day.split("-")), *map(int, (hour or "00:00").split(":")))


def seconds(*args, zone=UTC):
    """Unix time of a date."""
    return int(datetime(*args, tzinfo=zone).timestamp())


def read_all(stamps, written_s, other_ns=None, sure=True, zone=UTC):
    """The years in which a file of these stamps is read."""
    survey = YearSurvey(zone)
    for stamp in stamps:
        if not survey.see(stamp, sure):
            break
    clock = survey.clock(other_ns, written_s)
    times = [clock.read(stamp) for stamp in stamps]
    return [None if time_ns is None else datetime.fromtimestamp(time_ns / 1e9, zone).year for time_ns in times]


@pytest.mark.parametrize(
    ("name", "hours"), [("UTC", 0), ("utc", 0), ("Z", 0), ("+02:00", 2), ("-0300", -3), ("UTC+9", 9), ("Asia/Tokyo", 9)]
)
def test_zone_is_found(name, hours):
    """Names, UTC and offsets are zones."""
    assert hours * 3600 == find_zone(name).utcoffset(datetime(2026, 6, 1)).total_seconds()


@pytest.mark.parametrize("name", ["Nowhere/Land", "", "../../etc/passwd", "America", "\0", "é" * 300])
def test_unknown_zone_says_what_to_do(name):
    """What is no zone raises one line that shows what would be."""
    with pytest.raises(ImportFailed, match="use a name like Europe/Berlin") as error:
        find_zone(name)
    assert "\n" not in str(error.value)


def test_year_is_the_last_before_the_file_was_written():
    """Without a dated line a file cannot tell of what came more than a day after it was written."""
    written_s = seconds(2026, 3, 1)
    assert [2025, 2025] == read_all([date("12-30"), date("12-31")], written_s)
    assert [2026] == read_all([date("03-01 23:00")], written_s)
    assert [2025] == read_all([date("03-03")], written_s)


def test_new_year_within_a_file():
    """Lines on both sides of New Year's Eve are one night apart, also when they come mixed."""
    stamps = [date("12-31 23:59"), date("01-01 00:00"), date("12-31 23:59"), date("01-01 00:01")]
    assert [2025, 2026, 2025, 2026] == read_all(stamps, seconds(2026, 6, 1))


def test_year_comes_from_the_dated_line():
    """A dated line decides the year of those before it, over the file's own time."""
    stamps = [date("12-31"), date("01-01"), date("01-02", 2024), date("01-03")]
    assert [2023, 2024, 2024, 2024] == read_all(stamps, seconds(2026, 6, 1))


def test_dated_line_of_torch_wins_over_one_of_the_script():
    """A date that the training script prints, perhaps of its data, only counts where torch wrote none."""
    survey = YearSurvey(UTC)
    assert survey.see(date("05-05", 1999), False)
    assert survey.see(date("02-17"), False)
    assert not survey.see(date("02-18", 2026), True)
    assert seconds(2026, 2, 17) * 10**9 == survey.clock(None, 0).read(date("02-17"))


def test_other_file_lends_its_date():
    """A file without a dated line takes the year from another file of the same job."""
    other_ns = seconds(2024, 1, 1) * 10**9
    assert [2023] == read_all([date("12-31 23:00")], seconds(2026, 6, 1), other_ns)


def test_leap_day_stands_in_a_leap_year():
    """29 February is read in the last year that has one."""
    assert [2024, 2024] == read_all([date("02-29"), date("03-01")], seconds(2026, 6, 1))


def test_impossible_dates_have_no_time():
    """A date that is none gives no time and does not disturb the next."""
    clock = FileClock(UTC)
    clock.start_in(2026)
    assert [None, None] == [clock.read(date("02-30")), clock.read(date("13-01"))]
    assert seconds(2026, 3, 1) * 10**9 == clock.read(date("03-01"))


def test_hour_that_comes_twice_does_not_run_back():
    """At the end of summer time the second pass of the hour is read as the second, small disorder left alone."""
    zone = ZoneInfo("Europe/Berlin")
    clock = FileClock(zone)
    minutes = ["01:59", "02:58", "02:01", "02:59", "03:00"]
    times = [clock.read(date(f"10-25 {minute}", 2026)) // 60_000_000_000 for minute in minutes]
    assert [-59, 0, 3, 61, 62] == [time - times[1] for time in times]
    clock = FileClock(zone)
    assert 0 < clock.read(Stamp(None, 2026, 10, 25, 2, 30, 3)) - clock.read(Stamp(None, 2026, 10, 25, 2, 30, 2)) < 2e9


def test_zone_of_the_machine_is_used_when_none_is_given():
    """Without a zone a time is the machine's local one."""
    code = "from jobtape.importers.clock import *; print(FileClock(None).read(Stamp(None, 2026, 7, 1)))"
    environment = {"TZ": "America/New_York", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert seconds(2026, 7, 1, zone=ZoneInfo("America/New_York")) * 10**9 == int(done.stdout)


@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 32), st.integers(0, 25))), st.floats(allow_nan=True))
def test_any_dates_are_read(dates, written_s):
    """No dates, possible or not, and no file time make the reading raise."""
    read_all([Stamp(None, None, month, day, hour) for month, day, hour in dates], written_s)
