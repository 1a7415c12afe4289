"""From the times in a file's lines to unix time: zones, missing years, the hour that comes twice.

torch's log prefix has no year and no zone. The year comes from a dated line of the same file, else from one of another
file of the same run, else from the time the file was last written; from there on time runs from line to line, over New
Year's Eve as well. A local hour that comes twice, at the end of summer time, is read so that time does not run back.
"""

from __future__ import annotations

import re
from calendar import isleap
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jobtape.errors import ImportFailed

DAY_S = 86_400
OUT_OF_ORDER_S = 5
"""Lines of several processes in one file may be this much out of order without a clock having been set back."""

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
_YEAR = 372  # days of a calendar in which each month has 31: enough to tell which of two dates comes first


class Stamp(NamedTuple):
    """A time as a line states it: unix time, or a date (``year`` may be missing) with or without a zone."""

    epoch_ns: int | None = None
    year: int | None = None
    month: int = 1
    day: int = 1
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanos: int = 0
    zone: tzinfo | None = None


def find_zone(name: str | None) -> tzinfo | None:
    """The zone of that name, ``UTC`` or an offset like ``+02:00``; None means this machine's local time.

    Raises:
        ImportFailed: there is no such zone.

    >>> find_zone("+02:00")
    datetime.timezone(datetime.timedelta(seconds=7200))
    """
    if name is None:
        return None
    if name.upper() in ("UTC", "GMT", "Z"):
        return timezone.utc
    if match := _OFFSET.fullmatch(name):
        return offset_zone(match[1], int(match[2]), int(match[3] or 0))
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:
        raise ImportFailed(f"no time zone {name!r}: use a name like Europe/Berlin, UTC or +02:00") from error


def offset_zone(sign: str, hours: int, minutes: int) -> tzinfo:
    """The fixed offset from UTC; an impossible one counts as UTC."""
    if hours > 23 or minutes > 59:
        return timezone.utc
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if sign == "-" else offset)


class YearSurvey:
    """Finds the year in which the first yearless line of a file stands, from a look through the file."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._last: Stamp | None = None
        self._years = 0  # passed since the first yearless line
        self._leap: int | None = None  # of them, until a 29 February
        self._anchor: tuple[int, Stamp | None, int] | None = None
        self._sure = False

    @property
    def anchor_ns(self) -> int | None:
        """The time of the dated line that the year is taken from."""
        return None if self._anchor is None else self._anchor[0]

    def see(self, stamp: Stamp, sure: bool) -> bool:
        """Take a line's time into account; False when the rest of the file need not be seen.

        A dated line of torch's own is ``sure``; any other, say of the training script, only counts where there is none.
        """
        if stamp.epoch_ns is None and stamp.year is None:
            if self._last is not None:
                self._years += _years_between(self._last, stamp)
            self._last = stamp
            if (stamp.month, stamp.day) == (2, 29):
                self._leap = self._years
            if self._anchor is not None and self._anchor[1] is None:
                self._anchor = self._anchor[0], stamp, self._years
        elif sure or self._anchor is None:
            time_ns = FileClock(self._zone).read(stamp)
            if time_ns is not None:
                self._anchor = time_ns, self._last, self._years
                self._sure = sure
        return not self._sure

    def clock(self, other_ns: int | None, written_s: float) -> FileClock:
        """The clock for reading this file.

        Args:
            other_ns: a dated line of another file of the same job, for a file that has none.
            written_s: when the file was last written, for a job that has none: it cannot tell of what came later.
        """
        anchor_ns, last, years = self._anchor or (other_ns, self._last, self._years)
        clock = FileClock(self._zone)
        try:
            if last is None:
                clock.start_at(written_s if anchor_ns is None else anchor_ns / 1e9)
            elif (year := self._first_year(last, years, anchor_ns, written_s)) is not None:
                clock.start_in(year)
        except (ValueError, OverflowError, OSError):
            pass  # the file's own time is none; lines without a year have no time then
        return clock

    def _first_year(self, last: Stamp, years: int, anchor_ns: int | None, written_s: float) -> int | None:
        """The year that brings the last line nearest to the anchor; without one, not beyond its file's own time."""
        near_s = written_s if anchor_ns is None else anchor_ns / 1e9
        guess = datetime.fromtimestamp(near_s, timezone.utc).year
        found: list[tuple[float, int]] = []
        for year in range(guess - 8, guess + 2):  # within eight years there is a 29 February
            if self._leap is not None and not isleap(year - years + self._leap):
                continue
            seconds = _seconds(last._replace(year=year), self._zone)
            if seconds is not None and (anchor_ns is not None or seconds <= near_s + DAY_S):
                found.append((abs(seconds - near_s), year - years))
        return min(found)[1] if found else None


class FileClock:
    """Reads the times of one file's lines, in their order."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._year: int | None = None
        self._last: Stamp | None = None
        self._last_s: float | None = None

    def start_in(self, year: int) -> None:
        """The first line without a year stands in this one."""
        self._year = year

    def start_at(self, seconds: float) -> None:
        """The first line without a year stands near this unix time."""
        moment = datetime.fromtimestamp(int(seconds), self._zone)
        self._year, self._last = moment.year, Stamp(month=moment.month, day=moment.day)

    def read(self, stamp: Stamp) -> int | None:
        """Unix time in nanoseconds; None when the line states no possible time.

        >>> clock = FileClock(timezone.utc)
        >>> clock.start_in(2026)
        >>> clock.read(Stamp(month=2, day=17, hour=9, minute=30, nanos=19_000_000))
        1771320600019000000
        """
        if stamp.epoch_ns is not None:
            self._last_s = stamp.epoch_ns / 1e9
            self.start_at(self._last_s)
            return stamp.epoch_ns
        if stamp.year is None:
            if self._year is None:
                return None
            year = self._year + (_years_between(self._last, stamp) if self._last is not None else 0)
            stamp = stamp._replace(year=year)
        seconds = _seconds(stamp, self._zone, self._last_s)
        if seconds is None:
            return None
        self._year, self._last, self._last_s = stamp.year, stamp, seconds
        return seconds * 1_000_000_000 + stamp.nanos

    def peek(self, stamp: Stamp) -> int | None:
        """Unix time of a time stated by the way, which is not that of the line."""
        seconds = _seconds(stamp, self._zone, self._last_s - DAY_S // 24 if self._last_s is not None else None)
        return None if seconds is None else seconds * 1_000_000_000 + stamp.nanos


def _years_between(before: Stamp, after: Stamp) -> int:
    """Whole years that the nearest reading of ``after`` lies from ``before``: 1 over New Year's Eve, else 0."""
    days = (after.month - before.month) * 31 + after.day - before.day
    return 1 if days < -_YEAR // 2 else -1 if days > _YEAR // 2 else 0


def _seconds(stamp: Stamp, zone: tzinfo | None, last_s: float | None = None) -> int | None:
    try:
        moment = datetime(stamp.year or 0, stamp.month, stamp.day, stamp.hour, stamp.minute, stamp.second)
        if stamp.zone is not None:
            return int(moment.replace(tzinfo=stamp.zone).timestamp())
        if zone is not None:
            moment = moment.replace(tzinfo=zone)
        first = int(moment.timestamp())
        if last_s is not None and first < last_s - OUT_OF_ORDER_S:
            second = int(moment.replace(fold=1).timestamp())
            if second > first:
                return second
        return first
    except (ValueError, OverflowError, OSError):
        return None
