"""What DLRover's predefined events mean, in the names of jobtape's records.

Those of agents are in ``dlrover/python/training_event/predefined/_dlrover.py`` and are emitted in
``elastic_agent/torch/training.py``; those of trainers are in ``predefined/trainer.py``, the exceptions in
``error_handler.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobtape.importers.process_failures import failure_metadata, read_failures

if TYPE_CHECKING:
    from jobtape.importers.dlrover import Event

Told = list[tuple[str, str, dict[str, Any]]]
"""Records: name, source, metadata."""

_SPANS = {
    "#step": "step",
    "#save": "checkpoint_save",
    "#init#load_ckpt": "checkpoint_restore",
    "#evaluate": "evaluation",
}
"""Spans of a trainer -> the names that the time account knows. ``#persist_ckpt`` runs beside the training."""

_SAVER = "AsyncSaver"
"""It saves beside the training, in the agent's process."""


def foreign_record(event: Event, ours: dict[str, Any], source: str, took_s: float | None = None) -> Told:
    """An event of a meaning of its own, under its own name."""
    name = f"dlrover.{event.target or 'unknown'}.{event.name.removeprefix('#')}"
    return [(name, source, _joined(event, {**ours, **_span(event, took_s)}))]


def _joined(event: Event, ours: dict[str, Any]) -> dict[str, Any]:
    """Our metadata and the event's own content; a name that both have is the event's with a prefix."""
    told = {**ours, "dlrover.target": event.target, "dlrover.name": event.name, "dlrover.id": event.id}
    for key, value in event.content.items():
        told[f"dlrover.{key}" if key in told else key] = value
    return told


def _span(event: Event, took_s: float | None) -> dict[str, Any]:
    if event.type == "INSTANT":
        return {}
    span: dict[str, Any] = {"span.phase": event.type.lower(), "span.id": event.id}
    if event.type == "END":
        failed = event.content.get("success") is False
        span["span.outcome"] = "error" if failed else "ok"
        if took_s is not None:
            span["span.duration_s"] = took_s
        if failed and isinstance(event.content.get("error"), str):
            span["span.message"] = event.content["error"]
    return span


def trainer_event(event: Event, rank: int | None, took_s: float | None) -> tuple[Told, bool | None]:
    """The records of an event of a trainer, a saver or a master.

    Args:
        event: the event.
        rank: that of its process, where it is known.
        took_s: how long the span took that it ends.

    Returns:
        The records; and whether its process has come to its own end by then, None when the event does not say.
    """
    who = {} if rank is None else {"rank": rank}
    if event.target == "ErrorReporter" and event.name == "exception":
        stack = event.content.get("stack")
        trace = "".join(map(str, stack)) if isinstance(stack, list) else stack
        return [("jobtape.worker.error", "WORKER", _joined(event, {**who, "traceback": trace}))], False
    if event.target.startswith("dlrover-"):
        return foreign_record(event, {}, "AGENT", took_s), None
    span = _SPANS.get(event.name) if event.target != _SAVER and event.type != "INSTANT" else None
    if span is not None:
        ours = {**who, **_span(event, took_s)}
        step = event.content.get("global_step")
        if type(step) is int:
            ours["step"] = step
        return [(span, "WORKER", _joined(event, ours))], None
    ended = None
    if event.name == "#finish" or (event.name == "#train" and event.type == "END"):
        ended = event.content.get("success") is not False
    return foreign_record(event, who, "WORKER", took_s), ended


class AgentEvents:
    """One agent's events in their order: which attempt it is in."""

    def __init__(self) -> None:
        self.node_name = ""
        self._node_rank: int | None = None
        self._attempt = -1

    def translate(self, event: Event, took_s: float | None) -> Told:
        """The records of an event of the agent."""
        name, rank = event.content.get("node_name"), event.content.get("node_rank")
        if isinstance(name, str) and name:
            self.node_name = name
        if type(rank) is int:
            self._node_rank = rank
        read = _AGENT.get((event.name, event.type))
        told = read(self, event) if read is not None else None
        return told if told is not None else foreign_record(event, self._who(), "AGENT", took_s)

    def _who(self) -> dict[str, Any]:
        """The node, by its name, else by what DLRover numbers it with."""
        if self.node_name:
            return {"host": self.node_name}
        return {} if self._node_rank is None else {"host": f"node_rank={self._node_rank}"}

    def _rendezvous(self, event: Event) -> Told | None:
        kind = event.content.get("rendezvous_type")
        if event.content.get("success") is False or (isinstance(kind, str) and "network" in kind):
            return None
        self._attempt += 1
        ours = {**self._who(), "attempt": self._attempt}
        counted = event.content.get("round", event.content.get("round_num"))
        if type(counted) is int and counted > 0:
            # The master counts a round when it is complete, so that the first one is 1 (master/elastic_training).
            ours["round"] = counted - 1
        # Rank and size are those of nodes.
        for theirs, name in (("rank", "group_rank"), ("world_size", "group_world_size")):
            if type(event.content.get(theirs)) is int:
                ours[name] = event.content[theirs]
        content = {key: value for key, value in event.content.items() if key not in ("rank", "world_size")}
        return [("jobtape.attempt.start", "AGENT", _joined(event._replace(content=content), ours))]

    def _failed(self, event: Event, restarting: bool | None) -> Told:
        told: Told = []
        for rank, failure in read_failures(event.content.get("failures")).items():
            ours = {**self._who(), "attempt": max(self._attempt, 0), **failure_metadata(rank, failure)}
            told.append(("jobtape.worker.failure", "AGENT", ours))
        ours = {**self._who(), "attempt": max(self._attempt, 0), "state": "FAILED"}
        if restarting is not None:
            ours["restarting"] = restarting
        content = {key: value for key, value in event.content.items() if key != "state"}
        # What the failures say stands in their own records, when it could be read.
        content = {key: value for key, value in content.items() if key != "failures" or not told}
        return [*told, ("jobtape.attempt.end", "AGENT", _joined(event._replace(content=content), ours))]

    def _restarted(self, event: Event) -> Told:
        return self._failed(event, True)

    def _aborted(self, event: Event) -> Told:
        return self._failed(event, False)

    def _relaunched(self, event: Event) -> Told:
        # The master decides whether the node comes back.
        return self._failed(event, None)

    def _membership(self, event: Event) -> Told:
        ours = {**self._who(), "attempt": max(self._attempt, 0)}
        return [("jobtape.agent.membership", "AGENT", _joined(event, ours))]

    def _succeeded(self, event: Event) -> Told:
        ours = {**self._who(), "attempt": max(self._attempt, 0), "state": "SUCCEEDED"}
        return [("jobtape.attempt.end", "AGENT", _joined(event, ours))]

    def _exited(self, event: Event) -> Told:
        outcome = "succeeded" if event.content.get("success") is True else "failed"
        return [("jobtape.launch.end", "AGENT", _joined(event, {**self._who(), "outcome": outcome}))]


_AGENT: dict[tuple[str, str], Callable[[AgentEvents, Event], Told | None]] = {
    ("#rendezvous", "END"): AgentEvents._rendezvous,
    ("#process_restart", "INSTANT"): AgentEvents._restarted,
    ("#process_fail", "INSTANT"): AgentEvents._relaunched,
    ("#job_abortion", "INSTANT"): AgentEvents._aborted,
    ("#job_restart", "INSTANT"): AgentEvents._relaunched,
    ("#process_restart_membership", "INSTANT"): AgentEvents._membership,
    ("#process_succeeded", "INSTANT"): AgentEvents._succeeded,
    ("#agent_exit", "INSTANT"): AgentEvents._exited,
}
