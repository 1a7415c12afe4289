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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from jobtape.importers.clock import FileClock, Stamp
from jobtape.importers.signals import signal_name

LONGEST_BLOCK = 64 << 20
"""Bytes; what goes on beyond is not taken for a block."""

Taken = tuple[int, bytes | None]
"""A line's number and what it holds; None for one that is too long."""

_TOP: tuple[Callable[[bytes, bytes], bool], ...] = (
    lambda line, _: line.endswith(b" FAILED"),
    lambda line, border: line == b"-" * len(border),
    lambda line, _: line == b"Failures:",
)
ROOT = b"Root Cause (first observed failure):"
"""The line above the entry of the failure that torch holds for the first."""

_HEAD = re.compile(rb"\[\d+\]:")
_RUN_DIR = re.compile(r"/(?P<run>[^/]+)_[a-z0-9_]{8}/attempt_\d+/\d+/error\.json$")
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


def run_id_in(error_file: str | None) -> str | None:
    """The run id in an error file's path, ``<run id>_<8 characters>/attempt_0/1/error.json`` as torch lays it out."""
    match = _RUN_DIR.search(error_file) if error_file is not None else None
    return None if match is None else match["run"]


class BlockReader:
    """Takes the lines of one block as they come, until it is known what they are."""

    def __init__(self, border: bytes) -> None:
        self._border = border
        self._taken: list[Taken] = []
        self._root_seen = False
        self._whole = False
        self.size = 0

    def take(self, number: int, line: bytes | None) -> bool:
        """Whether it is known: the block is whole or cut off, or the border opened none."""
        raw = line or b""
        self._taken.append((number, line))
        self.size += len(raw) + 1
        if len(self._taken) <= len(_TOP):
            return not _TOP[len(self._taken) - 1](raw, self._border)
        if raw == self._border and self._root_seen:
            self._whole = True
            return True
        self._root_seen = self._root_seen or raw == ROOT
        # the first block was cut off, or a worker printed something like its top
        again = raw == b"Failures:" and len(self._taken) > 6 and _is_top([text for _, text in self._taken[-4:]])
        return again or self.size > LONGEST_BLOCK

    def result(self, clock: FileClock) -> tuple[ClosingBlock | None, list[Taken]]:
        """The block, None when the border opened none, and the lines that are not of it."""
        tops = zip(_TOP, self._taken, strict=False)
        if len(self._taken) < len(_TOP) or not all(fits(line or b"", self._border) for fits, (_, line) in tops):
            return None, self._taken
        taken, rest = self._taken, []
        if self._whole:
            taken = taken[:-1]
        else:
            if len(taken) > 6 and _is_top([line for _, line in taken[-4:]]) and taken[-1][1] == b"Failures:":
                taken, rest = taken[:-4], taken[-4:]
            keep = _end_of_cut(taken, self._border)
            taken, rest = taken[:keep], taken[keep:] + rest
        title = (taken[0][1] or b"")[: -len(b" FAILED")].decode("utf-8", "replace")
        damaged = []
        texts = []
        for n, line in taken[3:]:
            text = (line or b"").decode("utf-8", "replace")
            if line is None or b"\0" in line or ("\ufffd" in text and b"\xef\xbf\xbd" not in line):
                damaged.append(n)
            texts.append(text)
        failures = _failures(texts, len(self._border), clock)
        return ClosingBlock(title, failures, not self._whole, damaged), rest


def _is_top(four: list[bytes | None]) -> bool:
    return opens(four[0] or b"") and (four[1] or b"").endswith(b" FAILED")


def _end_of_cut(taken: list[Taken], border: bytes) -> int:
    section = b"-" * len(border)
    for i, (_, line) in enumerate(taken[3:], 3):
        if line is None or not (line[:2] == b"  " or not line or line in (section, ROOT) or _HEAD.fullmatch(line)):
            return i
    return len(taken)


def _failures(texts: list[str], width: int, clock: FileClock) -> list[Failure]:
    starts = [i for i in range(len(texts)) if _is_entry(texts, i)]
    section = "-" * width
    roots = (i for i, text in enumerate(texts) if text == ROOT.decode() and texts[i - 1] == section)
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
