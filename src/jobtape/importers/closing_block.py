"""torchrun's closing block: which workers failed in the last attempt, and which of them torch holds for the first.

::

    ============================================================
    train.py FAILED
    ------------------------------------------------------------
    Failures:
    [1]:
      time      : 2026-02-17_09:31:28
      host      : node-a
      rank      : 0 (local_rank: 0)
      exitcode  : -15 (pid: 2170)  (SIGTERM)
      error_file: <N/A>
      traceback : Signal 15 (SIGTERM) received by PID 2170
    ------------------------------------------------------------
    Root Cause (first observed failure):
    [0]:
      …
    ============================================================

A traceback is a worker's text, each line of it behind two blanks, and may say anything: the block ends at the line of
``=`` of the same width that stands at the line's start after the root cause, and nothing before is a record. A block
that was cut off ends where a line begins that cannot be of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from jobtape.importers.clock import FileClock, Stamp
from jobtape.importers.foreign import Lines
from jobtape.importers.signals import signal_name

LONGEST_BLOCK = 64 << 20
"""Bytes; what goes on beyond is not taken for a block."""

_ROOT = b"Root Cause (first observed failure):"
_HEAD = re.compile(rb"\[\d+\]:")
_TIME = re.compile(r"  time      : (\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)")
_FIELDS = (
    _TIME,
    re.compile(r"  host      : (.*)"),
    re.compile(r"  rank      : (\d{1,9}) \(local_rank: (\d{1,9})\)"),
    re.compile(r"  exitcode  : (-?\d{1,9}) \(pid: (\d{1,9})\)(?: +\((\w+)\))? *"),
    re.compile(r"  error_file: (.*)"),
    re.compile(r"  traceback : (.*)", re.DOTALL),
)


class Failure(NamedTuple):
    """One worker's entry of the block, as the tape keeps it."""

    rank: int
    local_rank: int
    host: str
    exit_code: int
    pid: int
    signal: str | None
    error_file: str | None
    time_s: float | None
    message: str
    first: bool


@dataclass(frozen=True)
class ClosingBlock:
    """A whole block, or what there is of one that was cut off."""

    entrypoint: str
    failures: list[Failure]
    cut: bool
    damaged: list[int] = field(default_factory=list)
    """Lines in it that are not UTF-8."""


def opens(line: bytes) -> bool:
    """Whether a block may begin with this line: nothing but ``=``."""
    return line[:4] == b"====" and not line.strip(b"=")


def is_dated(line: bytes) -> Stamp | None:
    """The time of a failure, as its entry's first line states it."""
    if not line.startswith(b"  time      : ") or (match := _TIME.fullmatch(line.decode("utf-8", "replace"))) is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups())
    return Stamp(None, year, month, day, hour, minute, second)


def read_block(lines: Lines, border: bytes, clock: FileClock) -> ClosingBlock | None:
    """Read the block that ``border`` opens; None, with all lines handed back, when it opens none."""
    taken: list[tuple[int, bytes | None]] = []
    if not _has_top(lines, border, taken):
        lines.push_back(taken)
        return None
    title = (taken[0][1] or b"")[: -len(b" FAILED")]
    whole = _collect(lines, border, taken)
    if not whole:
        keep = _end_of_cut(taken, border)
        lines.push_back(taken[keep:])
        del taken[keep:]
    damaged = []
    texts = []
    for n, line in taken[3:]:
        text = (line or b"").decode("utf-8", "replace")
        if line is None or b"\0" in line or ("\ufffd" in text and b"\xef\xbf\xbd" not in line):
            damaged.append(n)
        texts.append(text)
    return ClosingBlock(title.decode("utf-8", "replace"), _failures(texts, len(border), clock), not whole, damaged)


def _has_top(lines: Lines, border: bytes, taken: list[tuple[int, bytes | None]]) -> bool:
    for item in lines:
        taken.append(item)
        line = item[1] or b""
        if len(taken) == 1 and not line.endswith(b" FAILED"):
            return False
        if len(taken) == 2 and line != b"-" * len(border):
            return False
        if len(taken) == 3:
            return line == b"Failures:"
    return False


def _collect(lines: Lines, border: bytes, taken: list[tuple[int, bytes | None]]) -> bool:
    """Take lines up to the closing border; False when there is none."""
    size, root_seen = 0, False
    for item in lines:
        line = item[1] or b""
        size += len(line)
        if line == border and root_seen:
            return True
        taken.append(item)
        root_seen = root_seen or line == _ROOT
        if line == b"Failures:" and len(taken) > 6 and _is_top([line for _, line in taken[-4:]]):
            # the first block was cut off, or a worker printed something like its top
            lines.push_back(taken[-4:])
            del taken[-4:]
            return False
        if size > LONGEST_BLOCK:
            return False
    return False


def _is_top(four: list[bytes | None]) -> bool:
    return opens(four[0] or b"") and (four[1] or b"").endswith(b" FAILED")


def _end_of_cut(taken: list[tuple[int, bytes | None]], border: bytes) -> int:
    section = b"-" * len(border)
    for i, (_, line) in enumerate(taken[3:], 3):
        if line is None or not (line[:2] == b"  " or not line or line in (section, _ROOT) or _HEAD.fullmatch(line)):
            return i
    return len(taken)


def _failures(texts: list[str], width: int, clock: FileClock) -> list[Failure]:
    starts = [i for i in range(len(texts)) if _is_entry(texts, i)]
    section = "-" * width
    roots = (i for i, text in enumerate(texts) if text == _ROOT.decode() and texts[i - 1] == section)
    root = next(roots, len(texts))
    found = []
    for i, next_start in zip(starts, [*starts[1:], len(texts)], strict=False):
        end = min(next_start, root - 1) if i < root < len(texts) else next_start
        found.append(_failure(texts[i + 1 : max(end, i + 7)], i > root, clock))
    return found


def _is_entry(texts: list[str], start: int) -> bool:
    if not _HEAD.fullmatch(texts[start].encode("utf-8", "replace")) or start + 6 >= len(texts):
        return False
    return all(_FIELDS[k].fullmatch(texts[start + 1 + k]) for k in range(6))


def _failure(lines: list[str], first: bool, clock: FileClock) -> Failure:
    matches = [pattern.fullmatch(line) for pattern, line in zip(_FIELDS, lines, strict=False)]
    time, host, ranks, exit_, file, traceback = (match.groups() if match else () for match in matches)
    year, month, day, hour, minute, second = (int(part) for part in time)
    time_ns = clock.peek(Stamp(None, year, month, day, hour, minute, second))
    exit_code = int(exit_[0])
    rest = lines[6:]
    # an exception's text is printed behind two blanks; a text without a traceback is printed as it is
    if all(line[:2] == "  " or not line for line in rest):
        rest = [line[2:] for line in rest]
    return Failure(
        rank=int(ranks[0]),
        local_rank=int(ranks[1]),
        host=host[0],
        exit_code=exit_code,
        pid=int(exit_[1]),
        signal=exit_[2] or (signal_name(-exit_code) if exit_code < 0 else None),
        error_file=None if file[0] == "<N/A>" else file[0],
        time_s=None if time_ns is None else time_ns / 1e9,
        message="\n".join([traceback[0], *rest]).rstrip("\n"),
        first=first,
    )
