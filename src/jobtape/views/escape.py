"""Text from a tape made harmless for a terminal.

Everything that is not printable — control characters, ANSI escapes, changes of writing direction, odd line separators,
lone surrogates — is shown as its escape (``\\x1b``, ``\\u202e``), so that no record can move the cursor, hide itself or
pass for our own output.
"""

from __future__ import annotations

ELLIPSIS = "…"


def visible(text: str) -> str:
    """The text on one line, what cannot be seen written out.

    >>> visible("a" + chr(27) + "[2J" + chr(10) + "b")
    'a\\\\x1b[2J\\\\nb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def visible_lines(text: str) -> list[str]:
    """The text as lines, broken at line feeds alone; tabs become spaces, the rest is made visible."""
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return [visible(line.expandtabs(8)) for line in lines]


def brief(text: str, limit: int) -> str:
    """The text on one line and cut to `limit` characters, saying how many are not shown.

    >>> brief("x" * 50, 10)
    'xxxxxxxxxx… (40 more characters)'
    """
    shown = visible(text[: limit * 8].strip())
    rest = len(text) - limit
    if rest <= 0 and len(shown) <= limit * 4:
        return shown
    return f"{shown[:limit]}{ELLIPSIS} ({max(rest, len(shown) - limit):,} more characters)"


def brief_place(place: str, limit: int) -> str:
    """A place on one line and cut to `limit` characters from its front: its end is what a person looks for.

    >>> brief_place("/usr/lib/python3.11/site-packages/job/train.py:12", 20)
    '…/job/train.py:12'
    """
    end = place.strip()[-limit - 1 :]
    shown = visible(end)
    if len(end) <= limit and len(shown) <= limit * 4:
        return shown
    shown = shown[-limit + 1 :] if limit > 1 else ""
    folder = shown.find("/")
    return f"{ELLIPSIS}{shown[max(folder, 0) :]}"


def folded(lines: list[str], head: int, tail: int) -> list[str]:
    """The first and last lines of many, and between them how many are left out."""
    if len(lines) <= head + tail + 1:
        return lines
    left_out = len(lines) - head - tail
    return [*lines[:head], f"{ELLIPSIS} {left_out:,} lines left out; --full shows them", *lines[len(lines) - tail :]]
