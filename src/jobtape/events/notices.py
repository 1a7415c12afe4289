"""What jobtape has to say to the people running a job: each thing once, one line on stderr, and never an exception.

Not the ``warnings`` module, which can be turned into exceptions, nor ``logging``, which may be what has just failed.
"""

from __future__ import annotations

import sys
import time

_said: set[str] = set()
_MOST = 256
"""Different notices in one process; a destination name made from a counter must not fill stderr or the memory."""


def warn_once(text: str, *, key: str | None = None, error: BaseException | None = None) -> None:
    """Print `text` on stderr as one line, unless that was done before in this process.

    Args:
        text: what happened and what to do about it.
        key: what counts as the same notice; the text itself by default.
        error: the exception at fault, shown behind the text.
    """
    try:
        key = text if key is None else key
        if key in _said or len(_said) >= _MOST:
            return
        _said.add(key)
        if error is not None:
            text = f"{text}: {description(error)}"
        stream = sys.stderr
        if stream is not None:
            stream.write(f"jobtape: {' '.join(one_line(text).split())}\n")
            stream.flush()
    except Exception:  # noqa: BLE001 - stderr is closed or full; there is nobody left to tell
        return


def description(error: BaseException) -> str:
    """Type and message of an exception, also of one whose own message cannot be made."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001 - a __str__ of anyone's
        return name


def one_line(text: str) -> str:
    """The text with every control character, line separator and lone surrogate shown as an escape.

    >>> one_line("a\\x1b[31m\\nb")
    'a\\\\x1b[31m\\\\nb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class Pause:
    """When to try again what has failed: after 1 s, then twice as long each time, at most a minute."""

    FIRST_S = 1.0
    LONGEST_S = 60.0

    def __init__(self) -> None:
        self._wait_s = 0.0
        self._until = 0.0

    @property
    def over(self) -> bool:
        """Whether it may be tried (again) now."""
        return not self._wait_s or time.monotonic() >= self._until

    def fail(self) -> None:
        """It has failed: wait, longer than last time."""
        self._wait_s = min(self._wait_s * 2 or self.FIRST_S, self.LONGEST_S)
        self._until = time.monotonic() + self._wait_s

    def succeed(self) -> None:
        """It works again."""
        self._wait_s = 0.0
