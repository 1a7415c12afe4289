"""The facts of a file as bytes, so that several processes can read the files of one run, and back."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from jobtape.diagnose.facts import Agent, FileFacts, Stint, Worker, indexed

Pids = dict[int, tuple[Stint, Worker]]


def pack(facts: FileFacts) -> bytes | None:
    """The facts as bytes; None when they would not be the same again (a number that no other process is told).

    What only looks workers up is left out of them, and of these facts too.
    """
    for agent in facts.agents:
        if not _same(agent.by_pid, _by_pid(agent)):
            return None
        agent.by_pid = {}
        for stint in agent.stints:
            if not _is_in_order(stint):
                return None
            stint.by_rank = stint.by_local_rank = None
    try:
        return _encode(facts)
    except Exception:  # noqa: BLE001 - a record may hold text and numbers that no encoding has room for
        return None


def unpack(data: bytes) -> FileFacts:
    """The inverse of `pack`.

    Raises:
        msgspec.MsgspecError: these are no packed facts.
    """
    facts: FileFacts = _decode(data)
    for agent in facts.agents:
        agent.by_pid = _by_pid(agent)
    return facts


def _by_pid(agent: Agent) -> Pids:
    return {worker.pid: (stint, worker) for stint in agent.stints for worker in stint.workers if worker.pid is not None}


def _same(pids: Pids, others: Pids) -> bool:
    return pids.keys() == others.keys() and all(others[pid][1] is worker for pid, (_, worker) in pids.items())


def _is_in_order(stint: Stint) -> bool:
    """Whether whoever looks for its workers finds them in the order in which it has them."""
    known = stint.by_rank, stint.by_local_rank
    if known[0] is None:
        return True
    stint.by_rank = None
    made = stint.ranked(), stint.by_local_rank
    stint.by_rank, stint.by_local_rank = known
    # Of workers without a rank nobody asks by rank.
    return all(
        one is other.get(key) or list(map(id, indexed(ours, key))) == list(map(id, indexed(other, key)))
        for ours, other in zip(known, made, strict=True)
        for key, one in ours.items()
        if key is not None
    )


def _hook(value: Any) -> Any:
    if isinstance(value, array):
        return [value.typecode, value.tobytes()]
    raise NotImplementedError


def _unhook(kind: type, value: Any) -> Any:
    if kind is array or getattr(kind, "__origin__", None) is array:
        return array(value[0], value[1])
    raise NotImplementedError


_encode = msgspec.msgpack.Encoder(enc_hook=_hook).encode
_decode = msgspec.msgpack.Decoder(FileFacts, dec_hook=_unhook).decode
