"""Points in time as people give them on a command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

TIME = re.compile(
    r"\A(?:(?P<date>\d{4}-\d{2}-\d{2})(?:[T ]|\Z))?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|[A-Za-z]{1,5}|(?:UTC)?[+-]\d{2}:?\d{2})?\Z"
)


def point(text: str, first_ns: int | None) -> int:
    """Unix nanoseconds of a time: ``2026-02-17 09:30:00.019``, ``2026-02-17T09:30Z``, ``09:30``, or unix seconds.

    Args:
        text: the time; without a zone it is local, and a time as jobtape prints it is understood.
        first_ns: a time of the run, which says what day is meant where no date is given.

    Raises:
        ValueError: it is no such time.
    """
    text = text.strip()
    if re.fullmatch(r"\d{9,11}(?:\.\d{1,9})?", text):
        seconds, _, fraction = text.partition(".")
        return int(seconds) * 10**9 + int(fraction.ljust(9, "0") or 0)
    match = TIME.match(text)
    if match is None or not (match["date"] or match["hour"]):
        raise ValueError("expected a time such as '2026-02-17 09:30:00', '09:30' or unix seconds")
    if match["date"]:
        day = datetime.strptime(match["date"], "%Y-%m-%d")
    elif first_ns is not None:
        day = datetime.fromtimestamp(first_ns / 1e9, zone_of(match["zone"])).replace(tzinfo=None)
    else:
        raise ValueError("the run has no times, so a time of day does not say when: give a date")
    naive = day.replace(
        hour=int(match["hour"] or 0), minute=int(match["minute"] or 0), second=int(match["second"] or 0), microsecond=0
    )
    zoned = naive.replace(tzinfo=zone_of(match["zone"])) if match["zone"] else naive
    named = match["zone"]
    if named and zone_of(named) is None and zoned.astimezone().tzname() != named:
        raise ValueError(f"unknown zone {named!r}: give an offset such as +02:00, Z, or none for local time")
    return round(zoned.timestamp()) * 10**9 + int((match["fraction"] or "").ljust(9, "0") or 0)


def zone_of(name: str | None) -> timezone | None:
    """The zone of that name: UTC or an offset; None for local time and for names only the machine's zone can have."""
    if name in {"Z", "z", "UTC", "GMT"}:
        return timezone.utc
    match = re.fullmatch(r"(?:UTC)?([+-])(\d{2}):?(\d{2})", name or "")
    if match is None:
        return None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)
