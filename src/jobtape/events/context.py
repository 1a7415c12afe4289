"""What the environment says about this process: the facts `emit` fills in."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_RANKS = (b"RANK", b"SLURM_PROCID", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")
_ATTEMPT = b"TORCHELASTIC_RESTART_COUNT"
_RUN = (b"JOBTAPE_RUN_ID", b"TORCHELASTIC_RUN_ID", b"SLURM_JOB_ID", b"LSB_JOBID", b"PBS_JOBID", b"JOB_ID")
_NAMES = (*_RANKS, _ATTEMPT, *_RUN)

_cached: tuple[tuple[bytes | None, ...], dict[str, Any]] | None = None


def environment_facts() -> dict[str, Any]:
    """``run_id``, ``host`` and, if the environment has them, ``rank`` and ``attempt``; the dict is shared: copy it."""
    global _cached
    # os.environ.get() takes 1 µs for a name that is not there. The dict behind it is looked at for changes only.
    raw = getattr(os.environ, "_data", None)
    if raw is None:
        return _facts()
    seen = (*map(raw.get, _NAMES), os.getpid())
    cached = _cached
    if cached is None or cached[0] != seen:
        _cached = cached = (seen, _facts())
    return cached[1]


def _facts() -> dict[str, Any]:
    from jobtape.tape.header import current_run_id, this_host

    facts: dict[str, Any] = {"run_id": current_run_id()[0], "host": this_host()[0]}
    rank = next((os.environ[name] for name in map(os.fsdecode, _RANKS) if name in os.environ), None)
    for key, text in (("rank", rank), ("attempt", os.environ.get(os.fsdecode(_ATTEMPT)))):
        if text is not None:
            facts[key] = int(text) if text.isascii() and text.isdecimal() else text
    return facts


def full_host_name() -> str:
    """This host's fully qualified name; asked for once, since finding it can mean waiting for a name server."""
    import socket

    return _full_host_name(socket.getfqdn, socket.gethostname())


@lru_cache(maxsize=8)
def _full_host_name(look_up: Callable[[], str], _host: str) -> str:
    return look_up()
