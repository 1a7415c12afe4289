"""Events for people: one line each on stderr, with the time, who, what, and the facts that matter."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from jobtape.destinations.console import ConsoleHandler
from jobtape.events.notices import one_line

MAX_FACTS = 8
MAX_FACT_CHARS = 60
MAX_MESSAGE_CHARS = 200

_WHO = ("rank", "global_rank", "host", "hostname")
_NOT_SHOWN = frozenset((*_WHO, "metadata", "run_id", "raw_error", "state", "worker_id", "role", "rdzv_backend"))
"""Said elsewhere in the line, or the same in every line of a job."""
_COLOURS = {"FAILED": "31", "SUCCEEDED": "32"}


class PrettyHandler(ConsoleHandler):
    """Prints one line an event; coloured on a terminal, unless ``NO_COLOR`` is set."""

    def format(self, record: Any) -> str:
        """The line, without its end."""
        event = getattr(record.msg, "event", None)
        values = dict(getattr(event, "__dict__", ())) or _parsed(record.getMessage())
        line = line_of(values, record.created, colour=self._has_colour())
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        return line.encode(encoding, "backslashreplace").decode(encoding)

    def _has_colour(self) -> bool:
        try:
            return bool(self.stream.isatty()) and not os.environ.get("NO_COLOR")
        except (AttributeError, ValueError):
            return False


def line_of(values: dict[str, Any], now_s: float, *, colour: bool = False) -> str:
    """One line for an event's fields.

    Args:
        values: the fields of an `Event` or `RdzvEvent`.
        now_s: unix time, for events that carry none.
        colour: whether to use a terminal's colours for failed and succeeded states.
    """
    metadata = values.get("metadata")
    facts = dict(metadata) if isinstance(metadata, dict) else {}
    stamp = values.get("timestamp")
    at_s = stamp / 1000 if isinstance(stamp, (int, float)) and stamp > 0 else now_s
    state = _text(values.get("node_state") or facts.get("state") or str(values.get("name")).rpartition(".")[2])
    what = [_text(values.get("name", ""))]
    if "node_state" in values:
        facts = {key: values.get(key) for key in ("rank", "hostname", "master_endpoint", "local_id")}
        what = ["rendezvous", state, _cut(_text(values.get("message", "")), MAX_MESSAGE_CHARS)]
    words = [_clock(at_s), _who(facts), *what]
    error = _error(values, facts)
    if error:
        words.append(f"error: {_cut(error, MAX_MESSAGE_CHARS)}")
    shown = [key for key in facts if key not in _NOT_SHOWN and facts[key] not in (None, "")]
    words += [f"{_text(key)}={_cut(_text(facts[key]), MAX_FACT_CHARS)}" for key in shown[:MAX_FACTS]]
    if len(shown) > MAX_FACTS:
        words.append(f"(+{len(shown) - MAX_FACTS})")
    line = one_line(" ".join(word for word in words if word))
    code = _COLOURS.get(state) if colour else None
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


def _clock(at_s: float) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(at_s)) + f".{int(at_s * 1000) % 1000:03d}"
    except (OverflowError, ValueError, OSError):
        return "??:??:??.???"


def _who(facts: dict[str, Any]) -> str:
    rank = next((facts[key] for key in _WHO[:2] if facts.get(key) is not None), None)
    host = next((facts[key] for key in _WHO[2:] if facts.get(key)), None)
    words = ([] if host is None else [_text(host)]) + ([] if rank is None else [f"rank {_text(rank)}"])
    return f"[{' '.join(words)}]" if words else ""


def _error(values: dict[str, Any], facts: dict[str, Any]) -> str:
    """The message in torch's ``raw_error`` (JSON in a string), or the last line of a rendezvous event's trace."""
    raw = facts.get("raw_error")
    if isinstance(raw, str):
        message = _parsed(raw).get("message", raw)
        message = message.get("message", message) if isinstance(message, dict) else message
        return "" if message == "<NONE>" else _text(message)
    return _text(values.get("error_trace") or "").strip().rpartition("\n")[2]


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {"name": text}
    return found if isinstance(found, dict) else {"name": text}


def _text(value: Any) -> str:
    """The value as text; a value whose own code fails does not take the line away."""
    try:
        if isinstance(value, float):
            return f"{value:.6g}"
        return str(getattr(value, "_value_", value))
    except Exception:  # noqa: BLE001 - see above
        return f"<{type(value).__name__}>"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
