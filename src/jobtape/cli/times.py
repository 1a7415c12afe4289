"""Points in time as people give them on a command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

SECOND = 10**9
TIME = re.compile(
    r"\A(?:(?P<date>\d{4}-\d{2}-\d{2})(?:[T ]|\Z))?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|[A-Za-z]{1,5}|(?:UTC)?[+-]\d{2}:?\d{2})?\Z"
)


def moments(text: str, first_ns: int | None) -> tuple[int, int]:
    """The first and the last moment a time may mean, in unix nanoseconds.

    ``2026-02-17 09:30:00.019``, ``2026-02-17T09:30Z``, ``09:30`` and unix seconds are times. ``09:30`` is a whole
    minute, and milliseconds are what jobtape prints of a finer time, rounded.

    Args:
        text: the time; without a zone it is local.
        first_ns: a time of the run, which says what day is meant where no date is given.

    Raises:
        ValueError: it is no such time.
    """
    text = text.strip()
    if re.fullmatch(r"\d{9,11}(?:\.\d{1,9})?", text):
        seconds, _, fraction = text.partition(".")
        return around(int(seconds) * SECOND, fraction, SECOND)
    match = TIME.match(text)
    if match is None or not (match["date"] or match["hour"]):
        raise ValueError("expected a time such as '2026-02-17 09:30:00', '09:30' or unix seconds")
    zone = match["zone"]
    if match["date"]:
        day = datetime.strptime(match["date"], "%Y-%m-%d")
    elif first_ns is not None:
        day = datetime.fromtimestamp(first_ns / SECOND, zone_of(zone)).replace(tzinfo=None)
    else:
        raise ValueError("the run has no times, so a time of day does not say when: give a date")
    clock = day.replace(
        hour=int(match["hour"] or 0), minute=int(match["minute"] or 0), second=int(match["second"] or 0), microsecond=0
    )
    there = clock.replace(tzinfo=zone_of(zone))
    if zone and zone_of(zone) is None and there.astimezone().tzname() != zone:
        raise ValueError(f"unknown zone {zone!r}: give an offset such as +02:00, Z, or none for local time")
    unit = SECOND if match["second"] else 60 * SECOND if match["hour"] else 24 * 3600 * SECOND
    return around(round(there.timestamp()) * SECOND, match["fraction"] or "", unit)


def around(time_ns: int, fraction: str, unit: int) -> tuple[int, int]:
    """A time and its fraction as far as it is known: to its `unit`, or to half of its last digit either way."""
    if not fraction:
        return time_ns, time_ns + unit - 1
    exact = time_ns + int(fraction.ljust(9, "0"))
    half = 10 ** (9 - len(fraction)) // 2
    return exact - half, exact + half


def zone_of(name: str | None) -> timezone | None:
    """The zone of that name: UTC or an offset; None for local time and for names only the machine's zone can have."""
    if name in {"Z", "z", "UTC", "GMT"}:
        return timezone.utc
    match = re.fullmatch(r"(?:UTC)?([+-])(\d{2}):?(\d{2})", name or "")
    if match is None:
        return None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)
