"""Where and how a run was started, as the headers of its tapes say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobtape.errors import TapeError
from jobtape.tape.reader import read_header

if TYPE_CHECKING:
    from jobtape.tape.records import Header
    from jobtape.tape.shelf import ShelfRun

HEADERS_READ = 64
"""Of a run of many processes; all of them were started by one command."""


def environment(run: ShelfRun) -> dict[str, str]:
    """Versions and the command line of a run; what its processes do not agree on is told with each value.

    Returns:
        ``torch``, ``python``, ``jobtape`` and ``command``, as far as they are known. Imports say nothing of them.
    """
    headers = [header for header in _headers(run) if header.role != "import"]
    agents = [header for header in headers if header.role == "agent"]
    told = {
        "torch": [header.torch for header in headers if header.torch],
        "python": [header.python for header in headers if header.python],
        "jobtape": [header.jobtape for header in headers if header.jobtape],
        "command": [" ".join(header.command) for header in agents or headers if header.command],
    }
    return {what: ", ".join(sorted(set(values))) for what, values in told.items() if values}


def _headers(run: ShelfRun) -> Iterator[Header]:
    for path in run.files[:HEADERS_READ]:
        try:
            header = read_header(path)
        except TapeError:
            continue
        if header is not None:
            yield header
