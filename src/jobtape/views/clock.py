"""Moments and durations in words, for people; programs get `jobtape.diagnose.model.iso`."""

from __future__ import annotations

import math
from datetime import datetime


def moment(seconds: float | None, *, fine: bool = False) -> str:
    """A unix time as local time with its zone; ``?`` when nobody knows.

    Args:
        seconds: unix seconds.
        fine: with milliseconds.
    """
    if seconds is None:
        return "?"
    try:
        whole, millis = divmod(round(seconds * 1000), 1000)
        local = datetime.fromtimestamp(whole).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"time {seconds:g}"
    return f"{local:%Y-%m-%d %H:%M:%S}{f'.{millis:03d}' if fine else ''} {zone(local)}"


def span(start: float, end: float | None) -> str:
    """From when to when; what both have in common is said once."""
    first, last = moment(start).split(" "), moment(end).split(" ")
    if end is None:
        return f"since {' '.join(first)}"
    if len(first) != 3 or len(last) != 3 or first[2] != last[2]:
        return f"{' '.join(first)} to {' '.join(last)}"
    if first[0] == last[0]:
        return f"{first[0]} {first[1]} to {last[1]} {last[2]}"
    return f"{first[0]} {first[1]} to {last[0]} {last[1]} {last[2]}"


def zone(local: datetime) -> str:
    """The zone of a local time: its name, or its offset where the name is only that."""
    name = local.tzname() or ""
    return name if name.isascii() and name.isalpha() else f"UTC{local:%z}"


def duration(seconds: float | None) -> str:
    """How long, in the unit a person would use; ``?`` when nobody knows.

    >>> [duration(s) for s in (0.0412, 2.81, 89, 4000, 200_000)]
    ['41 ms', '2.8 s', '1 min 29 s', '1 h 07 min', '2 d 8 h']
    """
    if seconds is None or not math.isfinite(seconds):
        return "?"
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24:,} d {hours % 24} h"
