"""Many ranks or nodes in few words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jobtape.views.escape import visible

NUMBERED = re.compile(r"\A(.*?)([0-9]{1,9})([^0-9]*)\Z", re.DOTALL)


LONGEST_NAME = 256
"""Characters of a host's name; a record may claim any."""
LEAST_FOLDED = 3
"""Fewer names than this are written out, so that each can be copied."""


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as ranges.

    >>> ranges([3, 0, 1, 2, 7])
    '0-3,7'
    """
    pieces: list[str] = []
    first = last = None
    for number in [*sorted(set(numbers)), None]:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            pieces.append(str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}")
        first = last = number
    return ",".join(pieces)


def rank_phrase(ranks: Sequence[int]) -> str:
    """``rank 7``, ``ranks 0-3,7``, or with very many separate ones how many there are.

    >>> rank_phrase([7]), rank_phrase([0, 1, 2])
    ('rank 7', 'ranks 0-2')
    """
    if len(set(ranks)) == 1:
        return f"rank {ranks[0]}"
    if len(set(ranks)) == 2:
        return "ranks {} and {}".format(*sorted(set(ranks)))
    text = ranges(ranks)
    if len(text) <= 60:
        return f"ranks {text}"
    cut = text[:24].rsplit(",", 1)[0]
    return f"{len(set(ranks)):,} ranks ({cut},…)"


def node_names(hosts: Iterable[str], limit: int = 60) -> str:
    """Host names, consecutive numbers folded as schedulers do.

    >>> node_names(["gpu03", "gpu01", "gpu02", "head"])
    'gpu[01-03], head'
    """
    numbered: dict[tuple[str, str], list[str]] = {}
    names: list[str] = []
    for host in dict.fromkeys(host[:LONGEST_NAME] for host in hosts):
        name, dot, domain = host.partition(".")
        if name.isdecimal():
            name, dot, domain = host, "", ""
        match = NUMBERED.match(name)
        if match is None:
            names.append(visible(host))
        else:
            numbered.setdefault((match[1], match[3] + dot + domain), []).append(match[2])
    for (before, after), numbers in numbered.items():
        names += [f"{visible(before)}{piece}{visible(after)}" for piece in number_pieces(numbers)]
    names.sort()
    text = ", ".join(names)
    if len(text) <= limit or (len(names) == 1 and len(text) <= 2 * limit):
        return text
    kept: list[str] = []
    while names and len(", ".join([*kept, names[0]])) <= limit:
        kept.append(names.pop(0))
    if not kept:
        cut, comma, _ = names[0][:limit].rpartition(",")
        first = f"{cut},…]" if comma and "[" in cut else f"{names[0][:limit]}…"
        return first + (f" and {len(names) - 1:,} more" if len(names) > 1 else "")
    return f"{', '.join(kept)} and {len(names):,} more"


def change_of_nodes(before: Iterable[str], after: Iterable[str]) -> str:
    """Which nodes joined and which left between two attempts; empty when none did.

    >>> change_of_nodes(["edge-01", "edge-02"], ["edge-02", "edge-03"])
    'edge-03 joined, edge-01 left'
    """
    was, now = dict.fromkeys(before), dict.fromkeys(after)
    joined, left = [node for node in now if node not in was], [node for node in was if node not in now]
    told = [f"{node_names(nodes)} {verb}" for nodes, verb in ((joined, "joined"), (left, "left")) if nodes]
    return ", ".join(told)


def number_pieces(numbers: Sequence[str]) -> list[str]:
    """The numbers of equal names, as pieces to put between their common ends: ``[01-03]``, or one number alone."""
    widths = {len(number) for number in numbers if number.startswith("0") and len(number) > 1}
    pieces = []
    # n1 and n01 are two names: a number belongs to the padded ones when it is as wide as they are.
    for width in [*sorted(widths), 0]:
        mine = [int(n) for n in numbers if (len(n) if len(n) in widths else 0) == width]
        if len(mine) < LEAST_FOLDED:
            pieces += [f"{number:0{width}d}" for number in mine]
        else:
            folded = re.sub(r"[0-9]+", lambda number, width=width: number[0].zfill(width), ranges(mine))  # type: ignore[misc]
            pieces.append(f"[{folded}]")
    return pieces


def count(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``, ``1,024 nodes``.

    >>> count(1, "node"), count(2048, "rank")
    ('1 node', '2,048 ranks')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
