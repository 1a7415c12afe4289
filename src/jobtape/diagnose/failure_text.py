"""What a failed process said: error type, message, traceback, and the line of the user's code it happened on."""

from __future__ import annotations

import json
import re

import msgspec

NOTHING = frozenset({"", "<NONE>", "<N/A>", "None", "NoneType: None"})
"""What torch writes where there is nothing to say."""

_FRAME = re.compile(
    r'^ *File "(?!<string>", line \d+, in __\w+__$)(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE
)
"""A frame, other than one of a method that `dataclasses` has made up."""
_PYTHON_FRAME = re.compile(r'^ *File "[^"\n]+", line \d+, in ', re.MULTILINE)
"""A frame of a traceback, most recent call last: faulthandler's have no comma after the line's number."""
_LIBRARY = re.compile(r"(^|/)(site-packages|dist-packages)/|/lib/python\d[^/]*/|^<frozen |/torchelastic/")
_TYPED = re.compile(r"(?P<type>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)(?:: ?(?P<message>.*))?", re.DOTALL)
_EXCEPTION_NAME = re.compile(r"(Error|Exception|Exit|Interrupt|Warning|Timeout|Iteration|Fault|Failure|Abort)$")
_SAID_BY_TORCH = re.compile(r"Signal \d+ \(.*\) received by PID \d+|To enable traceback see: ")
_WHILE_HANDLING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


class FailureText(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an error as text; each part None where nothing is.

    Attributes:
        time_s: the whole second in which torch's error file was written; the fault happened within it.
    """

    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None
    location: str | None = None
    time_s: float | None = None

    @property
    def headline(self) -> str:
        """``RuntimeError: boom``, as Python prints it."""
        return ": ".join(part for part in (self.error_type, self.message) if part)


def said(value: object) -> str | None:
    """Text that says something of its own; None for what torch puts in place of it."""
    if not isinstance(value, str) or value.strip() in NOTHING or _SAID_BY_TORCH.match(value):
        return None
    return value


def failure_text(
    error_type: object = None,
    message: object = None,
    traceback: object = None,
    location: object = None,
    time_s: object = None,
) -> FailureText | None:
    """What a failure says of itself, from parts that may each be missing or wrong."""
    kind, text, trace = said(error_type), said(message), said(traceback)
    if kind is None and text is not None:
        kind, text = split_headline(text)
    if kind is None and trace is not None:
        kind, last = last_headline(trace)
        text = text if text is not None else last
    where = said(location) or (user_location(without_message(trace, text)) if trace else None)
    if kind is None and text is None and trace is None:
        return None
    when = float(time_s) if isinstance(time_s, (int, float)) and not isinstance(time_s, bool) else None
    return FailureText(error_type=kind, message=text, traceback=trace, location=where, time_s=when)


def from_error_file(data: object) -> FailureText | None:
    """What torch's error file says.

    Its ``message`` is a text, or holds ``message`` and ``extraInfo`` with ``py_callstack`` and ``timestamp``.

    Args:
        data: the file's content, as JSON text or decoded; a text that is no JSON is a traceback.
    """
    if isinstance(data, str):
        if not data.lstrip().startswith("{"):
            return from_text(data)
        data = from_json(data)
    if not isinstance(data, dict):
        return None
    message = data.get("message")
    extra: object = data.get("extraInfo")
    if isinstance(message, dict):
        extra = message.get("extraInfo", extra)
        message = message.get("message")
    if not isinstance(extra, dict):
        extra = {}
    stamp = extra.get("timestamp")
    if isinstance(stamp, str):
        stamp = int(stamp) if stamp.isascii() and stamp.isdigit() and len(stamp) < 12 else None
    text = said(message)
    if text is not None and said(extra.get("py_callstack")) is None and _is_traceback(text):
        return from_text(text, stamp)
    kind = None
    if extra and text is not None and (match := _TYPED.fullmatch(text)) is not None and match["message"] is not None:
        # torch writes the exception's class name in front, whatever the class is called.
        kind, text = match["type"], match["message"]
    return failure_text(kind, text, extra.get("py_callstack"), None, stamp)


def from_json(text: str) -> object:
    """What a JSON text holds, None for one that is none.

    The standard library takes what msgspec refuses: escapes of lone surrogates, as Python writes the names of
    files that are not UTF-8.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None


def from_text(text: object, time_s: object = None) -> FailureText | None:
    """What a text of unknown shape says: a traceback, a line like ``ValueError: bad``, or just words."""
    words = said(text)
    if words is None:
        return None
    if _is_traceback(words):
        return failure_text(None, None, words, None, time_s)
    return failure_text(None, words, None, None, time_s)


def _is_traceback(text: str) -> bool:
    return text.startswith("Traceback (most recent call last)") or _FRAME.search(text) is not None


def split_headline(text: str) -> tuple[str | None, str | None]:
    """``ValueError: bad row`` as type and message; a text that names no type has None for it.

    >>> split_headline("ValueError: bad row")
    ('ValueError', 'bad row')
    >>> split_headline("note: nothing of that kind")
    (None, 'note: nothing of that kind')
    """
    match = _TYPED.fullmatch(text.rstrip("\n"))
    if match is None:
        return None, text
    kind = match["type"]
    named = match["message"] is not None and "." in kind and kind.rpartition(".")[2][:1].isupper()
    if named or _EXCEPTION_NAME.search(kind):
        return kind, match["message"] or None
    return None, text


def last_headline(traceback: str) -> tuple[str | None, str | None]:
    """Type and message at the end of a traceback: what follows its last frame, not indented."""
    lines = traceback.rstrip("\n").split("\n")
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    start = frames[-1] + 1 if frames else len(lines) - 1
    while start < len(lines) and lines[start].startswith("  "):
        start += 1
    return split_headline("\n".join(lines[start:])) if start < len(lines) else (None, None)


def without_message(traceback: str, message: str | None) -> str:
    """A traceback up to the message at its end: what the message says is not a frame, whatever it looks like."""
    end = traceback.rfind(message) if message else -1
    return traceback[:end] if end > 0 else traceback


def user_location(traceback: str) -> str | None:
    """``train.py:12``: the last frame that is not a library's, else the last one; the path as it stands there."""
    found: str | None = None
    any_frame: str | None = None
    for match in _FRAME.finditer(traceback):
        place = f"{match['path']}:{match['line']}"
        any_frame = place
        if not _LIBRARY.search(match["path"]):
            found = place
    return found or any_frame


def innermost_location(traceback: str) -> str | None:
    """The last frame, whoever wrote its code: where a library failed that no code of the user's called."""
    frames = _FRAME.findall(traceback)
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else None


def running_thread(stack: str) -> str:
    """The thread that crashed or took the signal, of what faulthandler wrote for all threads."""
    _, mark, current = stack.partition("Current thread ")
    if not mark:
        # Without the mark the main thread comes last.
        current = stack.rstrip().rpartition("\n\n")[2]
    return current.partition("\n\n")[0]


def crash_location(stack: str) -> str | None:
    """The user's innermost frame of a stack as faulthandler writes it, most recent call first, or as Python does."""
    if _PYTHON_FRAME.search(stack):
        return user_location(stack)
    fallback: str | None = None
    for match in _FRAME.finditer(running_thread(stack)):
        place = f"{match['path']}:{match['line']}"
        fallback = fallback or place
        if not _LIBRARY.search(match["path"]):
            return place
    return fallback


def handled_before(traceback: str) -> FailureText | None:
    """The exception that was being handled when another one was raised; None when there is one only."""
    before, mark, _ = traceback.partition(_WHILE_HANDLING)
    return from_text(before) if mark else None
