"""What torch's agent says in several lines: a head, and below it a name and a value in each line.

Two are read, of ``elastic/agent/server/api.py`` and ``launcher/api.py`` of torch 1.9 to 2.14::

    [default] Rendezvous complete for workers. Result:
      restart_count=0
      group_rank=0
      global_ranks=[0, 1]
    Starting elastic_operator with launch configs:
      run_id                   : resnet-31
      max_restarts             : 3

The lines stand behind the head's prefix (torch 2.3 and later repeats it) or behind none.
"""

from __future__ import annotations

import re
from typing import Any

from jobtape.importers.prefixes import Prefix

_ROUND_HEAD = re.compile(r"\[(?P<role>.{0,200}?)\] Rendezvous complete for workers\. Result: ?", re.DOTALL)
_LAUNCH_HEAD = re.compile(r"Starting elastic_operator with launch configs: ?")
_ITEM = re.compile(r" {1,2}(?P<name>[a-z_]{1,40})(?:=| *: )(?P<value>.{0,4096})", re.DOTALL)
_RANKS = re.compile(r"\[(?:\d{1,9}(?:, \d{1,9})*)?\]")
_MOST_ITEMS = 64


class Listing:
    """A head and what is read below it so far."""

    def __init__(self, prefix: Prefix, name: str, metadata: dict[str, Any]) -> None:
        self._prefix = prefix
        self._left = _MOST_ITEMS
        self.name = name
        self.pid = prefix.pid
        self.metadata = metadata

    def take(self, prefix: Prefix) -> bool:
        """Whether the line is an item of it."""
        match = _ITEM.fullmatch(prefix.text)
        if prefix.worker or match is None or not _same_or_bare(prefix, self._prefix) or not self._left:
            return False
        self._left -= 1
        self.metadata.setdefault(match["name"], _value(match["value"].strip()))
        return True


def open_listing(prefix: Prefix) -> Listing | None:
    """The listing that an agent's line is the head of."""
    if match := _ROUND_HEAD.fullmatch(prefix.text):
        return Listing(prefix, "torchelastic.log.rendezvous_complete", {"role": match["role"]})
    if _LAUNCH_HEAD.fullmatch(prefix.text):
        return Listing(prefix, "torchelastic.log.launch", {})
    return None


def _same_or_bare(prefix: Prefix, head: Prefix) -> bool:
    if not prefix.writer and not prefix.level:
        return True
    return (prefix.level, prefix.writer, prefix.pid) == (head.level, head.writer, head.pid)


def _value(text: str) -> object:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    if _RANKS.fullmatch(text):
        return [int(part) for part in text[1:-1].split(",") if part]
    return None if text == "None" else text
