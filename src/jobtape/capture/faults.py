"""An exception, or the place where a process left, as bounded plain text."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from types import FrameType, TracebackType
from typing import Any

MESSAGE_MAX = 256 * 1024
"""Characters of an exception's own text that are kept."""

TRACEBACK_MAX = 64 * 1024
"""Characters of a traceback that are kept: its head and, mostly, its tail, where the fault stands."""

_LIBRARY_DIRS = tuple(
    {path for key in ("stdlib", "platstdlib") if (path := sysconfig.get_path(key))} | {sys.base_prefix + "/lib/python"}
)


def describe(
    kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
) -> dict[str, Any]:
    """Type, message, traceback and location of an exception; never raises.

    Returns:
        ``error_type`` (qualified unless builtin), ``message``, ``traceback`` and ``location`` (``file:line``), each
        text or None.
    """
    if kind is None:
        kind = type(value) if value is not None else Exception
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(value)
    except Exception:  # noqa: BLE001 - a __str__ that raises must not hide the error it belongs to
        message = f"<{name}: its text could not be made>"
    try:
        text = "".join(traceback.format_exception(kind, value, trace))
    except Exception:  # noqa: BLE001 - as above
        text = ""
    return {
        "error_type": name,
        "message": cut(message, MESSAGE_MAX),
        "traceback": cut(text, TRACEBACK_MAX) or None,
        "location": _fault_location(value, trace),
    }


def cut(text: str, limit: int) -> str:
    """The text, or its first quarter and its end with the number of characters left out between them."""
    if len(text) <= limit:
        return text
    head = limit // 4
    tail = limit - head
    return f"{text[:head]}\n… {len(text) - limit} characters left out …\n{text[-tail:]}"


def caller_location(frame: FrameType | None) -> tuple[str | None, str]:
    """Where in the user's code a call came from, and the stack that led there (innermost last)."""
    try:
        summary = traceback.extract_stack(frame)
        return _user_location([(entry.filename, entry.lineno or 0) for entry in summary]), cut(
            "".join(summary.format()), TRACEBACK_MAX
        )
    except Exception:  # noqa: BLE001 - the process is about to leave; that it does matters more than from where
        return None, ""


def _fault_location(value: BaseException | None, trace: TracebackType | None) -> str | None:
    if isinstance(value, SyntaxError) and value.filename:
        return f"{value.filename}:{value.lineno}"
    places = []
    while trace is not None:
        places.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return _user_location(places)


def _user_location(places: list[tuple[str, int]]) -> str | None:
    """The innermost place in the user's own code, else the innermost of all."""
    if not places:
        return None
    own = [place for place in places if not _is_library(place[0])]
    file, line = (own or places)[-1]
    return f"{file}:{line}"


def _is_library(path: str) -> bool:
    return path.startswith("<frozen") or "/site-packages/" in path or path.startswith(_LIBRARY_DIRS)
