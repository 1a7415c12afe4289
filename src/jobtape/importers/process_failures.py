"""torch's ``ProcessFailure`` as Python writes it, inside what other programs record of an agent's result.

The dataclass is that of ``torch/distributed/elastic/multiprocessing/errors/__init__.py``: ``local_rank``, ``pid``,
``exitcode``, ``error_file`` (``<N/A>`` without one), ``error_file_data``, ``message`` (a text, or what the error file
has as its message) and ``timestamp`` (of the error file, else of the agent's look). A mapping of them by global rank is
what ``RunResult.failures`` is.
"""

from __future__ import annotations

import ast
from typing import Any

LONGEST = 4 << 20
"""Characters of a mapping that is looked into."""

_FIELDS = ("local_rank", "pid", "exitcode", "error_file", "error_file_data", "message", "timestamp")


def read_failures(text: object) -> dict[int, dict[str, Any]]:
    """The failures in ``f"{run_result.failures}"`` by global rank; nothing where the text is anything else.

    >>> read_failures("{3: ProcessFailure(local_rank=1, pid=97, exitcode=-9, error_file='<N/A>')}")
    {3: {'local_rank': 1, 'pid': 97, 'exitcode': -9, 'error_file': '<N/A>'}}
    """
    if not isinstance(text, str) or not text.startswith("{") or len(text) > LONGEST:
        return {}
    try:
        tree = ast.parse(text, mode="eval").body
        return dict(_failures(tree)) if isinstance(tree, ast.Dict) else {}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}


def _failures(tree: ast.Dict) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for key, value in zip(tree.keys, tree.values, strict=True):
        rank = ast.literal_eval(key) if key is not None else None
        named = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
        if type(rank) is int and rank >= 0 and named and isinstance(value, ast.Call):
            fields = {part.arg: ast.literal_eval(part.value) for part in value.keywords if part.arg in _FIELDS}
            found.append((rank, {str(name): field for name, field in fields.items()}))
    return found


def failure_metadata(rank: int, failure: dict[str, Any]) -> dict[str, Any]:
    """The metadata of ``jobtape.worker.failure`` for one failure."""
    metadata: dict[str, Any] = {"rank": rank}
    for ours, theirs in (("local_rank", "local_rank"), ("pid", "pid"), ("exit_code", "exitcode")):
        if type(failure.get(theirs)) is int:
            metadata[ours] = failure[theirs]
    message = failure.get("message")
    extra = message.get("extraInfo") if isinstance(message, dict) else None
    if isinstance(message, dict):
        message = message.get("message")
    if isinstance(message, str):
        metadata["message"] = message
    if isinstance(extra, dict) and isinstance(extra.get("py_callstack"), str):
        metadata["traceback"] = extra["py_callstack"]
    error_file = failure.get("error_file")
    if isinstance(error_file, str) and error_file not in ("", "<N/A>"):
        metadata["error_file"] = error_file
        if type(failure.get("timestamp")) is int:
            # Without an error file the time is that of the agent's look.
            metadata["error_time_s"] = failure["timestamp"]
    return metadata
