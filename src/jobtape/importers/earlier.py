"""Earlier imports of a file that has grown since.

A log is imported while its job runs, and again later. Its content, and with it the name of its tape file, has changed
by then; the events of the first import would be on the shelf twice if it stayed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

_ENDS = (b'{"kind":"loss"', b'{"kind":"close"')
_UNSETTLED = 3
"""Last records of an import that may read differently once the file goes on: what was cut off then is whole now."""


def grown_from(older: Path, body: BinaryIO) -> bool:
    """Whether the records of an earlier import are the first of ``body``, a later one's lines without its header."""
    body.seek(0)
    matched = 0
    try:
        with older.open("rb") as file:
            file.readline()
            ours: Iterable[bytes] = iter(body)
            for was, now in zip_longest(_records(file), ours):
                if was is None:
                    return matched > 0
                if was != now:
                    return matched > _UNSETTLED and sum(1 for _ in _records(file)) < _UNSETTLED
                matched += 1
    except OSError:
        return False
    return matched > 0


def _records(file: BinaryIO) -> Iterable[bytes]:
    return (line for line in file if not line.startswith(_ENDS))
