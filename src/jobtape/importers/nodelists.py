"""Slurm's short form of many host names and of many numbers: ``node[001-003,7],login1`` and ``0-3,8``."""

from __future__ import annotations

import re

MOST = 100_000
"""Names that one list may stand for; what goes beyond is not unfolded."""

_PART = re.compile(r"(?:\[[^\]]*\]|[^,\[]|\[)+")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def host_names(text: str) -> list[str]:
    """The host names of a list; what is none is left as it stands.

    >>> host_names("node[08-10],login1")
    ['node08', 'node09', 'node10', 'login1']
    """
    found: list[str] = []
    for part in _PART.findall(text):
        if part.strip():
            found += _unfolded(part.strip(), MOST - len(found))
    return found


def _unfolded(part: str, room: int) -> list[str]:
    head, bracket, rest = part.partition("[")
    inner, closing, tail = rest.partition("]")
    if not bracket or not closing:
        return [part]
    numbers: list[str] = []
    for piece in inner.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            return [part]
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= room - len(numbers):
            return [part]
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    ends = _unfolded(tail, room) if tail else [""]
    if len(numbers) * len(ends) > room:
        return [part]
    return [f"{head}{number}{end}" for number in numbers for end in ends]
