"""Where ranks stood when they were stopped, hung or crashed: python stacks as faulthandler or Python write them,
grouped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobtape.diagnose.model import RankOutcome

THREAD = re.compile(r"^(?:Current thread|Thread)\b.*$", re.MULTILINE)
FRAME = re.compile(r'^\s*File "(.*)", line (\d+)(,?) in (.*)$', re.MULTILINE)
FOREIGN = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python\d|jobtape[/\\]capture)|^<")
"""Places in which a rank may wait, but which a person did not write."""


@dataclass(frozen=True)
class Standing:
    """Ranks that stood at the same place, and the stack of one of them."""

    place: str
    ranks: list[int]
    stack: str


def standing(workers: Iterable[RankOutcome], apart_from: int | None = None) -> list[Standing]:
    """Ranks with a stack, grouped by where they stood; the largest group first.

    Args:
        workers: of one attempt.
        apart_from: a rank that is shown elsewhere.
    """
    groups: dict[str, Standing] = {}
    for worker in workers:
        if worker.rank == apart_from or not worker.stack:
            continue
        place = place_of(worker.stack)
        groups.setdefault(place, Standing(place, [], worker.stack)).ranks.append(worker.rank)
    return sorted(groups.values(), key=lambda group: (-len(group.ranks), group.ranks))


def place_of(stack: str) -> str:
    """The innermost frame of the user's own code in the main thread, and the call that frame waits in.

    >>> place_of('Current thread 0x1 (most recent call first):\\n'
    ...          '  File "/usr/lib/python3.11/threading.py", line 5 in wait\\n'
    ...          '  File "/home/me/train.py", line 40 in step\\n')
    '/home/me/train.py:40 in step, in wait'
    """
    frames = frames_of(main_thread(stack))
    if not frames:
        return stack.strip().partition("\n")[0] or "an unknown place"
    for number, (file, line, function) in enumerate(frames):
        if not FOREIGN.search(file):
            inner = f", in {frames[0][2]}" if number else ""
            return f"{file}:{line} in {function}{inner}"
    file, line, function = frames[0]
    return f"{file}:{line} in {function}"


def frames_of(stack: str) -> list[tuple[str, str, str]]:
    """File, line and function of each frame, the innermost first.

    faulthandler begins with it. Python's own way of printing stacks ends with it, and has a comma behind the line.
    """
    found = FRAME.findall(stack)
    frames = [(file, line, function) for file, line, _, function in found]
    return frames[::-1] if found and found[0][2] else frames


def main_thread(stack: str) -> str:
    """The part of a stack dump that is about the thread that got the signal; else the last, which is the main one."""
    starts = [match.start() for match in THREAD.finditer(stack)]
    if not starts:
        return stack
    for start, end in zip(starts, [*starts[1:], len(stack)], strict=True):
        if stack.startswith("Current", start):
            return stack[start:end]
    return stack[starts[-1] :]
