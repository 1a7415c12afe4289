"""What torch's rendezvous logs as text, in the words of its events (``elastic/rendezvous/dynamic_rendezvous.py``).

The text names the node by its descriptor (``<host>_<process id>_<number>``) and the rendezvous by its run id, which is
all that an event says besides. Only with ``LOGLEVEL=INFO`` or lower are these lines on a console.
"""

from __future__ import annotations

import re
from typing import Any

from jobtape.importers.prefixes import Prefix

_NODE = re.compile(r"The node '(?P<host>[^'\n]{1,255})_(?P<pid>\d{1,10})_(?P<local>\d{1,9})' (?P<rest>.+)", re.DOTALL)
_RUN = re.compile(r" the rendezvous '(?P<run>.+?)'(?= as rank |\.|$)", re.DOTALL)
_RANK = re.compile(r"' as rank (?P<rank>\d{1,9}) in a world of size \d{1,9}\.$")
_LONGEST = 4096


def read_rendezvous(prefix: Prefix) -> dict[str, Any] | None:
    """The event's fields that a line of the rendezvous' logger states; None when it is no such line."""
    text = prefix.text
    if "dynamic_rendezvous" not in prefix.writer or prefix.worker or len(text) > _LONGEST:
        return None
    node, run = _NODE.fullmatch(text), _RUN.search(text)
    if node is None or run is None or " has failed to shutdown " in text:
        return None
    rank = _RANK.search(text)
    return {
        "name": "dynamic_rendezvous.py:log",
        "run_id": run["run"],
        "message": text,
        "hostname": node["host"],
        "pid": int(node["pid"]),
        "node_state": "",
        "rank": int(rank["rank"]) if rank is not None else None,
        "local_id": int(node["local"]),
    }
