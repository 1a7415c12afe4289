"""The events of torchelastic: what happened, as plain data with torch's own JSON.

Both classes mirror ``torch.distributed.elastic.events.api`` field for field (torch 2.13): the same repr, equality and
pickling, and for every event that torch can write as valid JSON the same text, byte for byte. What torch writes as
something else (a bare ``NaN``) or not at all is an `EventError` that names the key.

Example:
    >>> event = Event("step", EventSource.WORKER, metadata={"loss": 0.5})
    >>> event.serialize()
    '{"name": "step", "source": "WORKER", "timestamp": 0, "metadata": {"loss": 0.5}}'
    >>> Event.deserialize(event.serialize()) == event
    True
"""

# No `from __future__ import annotations` here: `dataclasses.fields` must show types, as torch's do, not strings.
import json
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any, Callable, NoReturn, TypeVar, Union  # noqa: UP035 - evaluated at run time on Python 3.10

from jobtape.errors import EventError

__all__ = ["Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent"]

EventMetadataValue = str | int | float | bool | None
"""What a value of `Event.metadata` is meant to be."""


class EventSource(str, Enum):
    """Who produced an event."""

    AGENT = "AGENT"
    WORKER = "WORKER"


@dataclass
class Event:
    """Something that happened in an elastic job.

    Args:
        name: what happened.
        source: who says so, the agent or a worker.
        timestamp: unix time in milliseconds; 0, as torch's agent leaves it, is no time.
        metadata: plain values by name.
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: Union[str, "Event"]) -> "Event":
        """The event that `serialize` wrote; an event is returned as it is.

        UTF-8 bytes are read too, and so are the bare ``NaN`` and ``Infinity`` that torch writes.

        Raises:
            EventError: `data` is no event; names the field and the value at fault.
        """
        if isinstance(data, Event):
            return data
        return _build(Event, data, "source", EventSource)

    def serialize(self) -> str:
        """This event as one line of strict JSON, the bytes of torch's ``serialize``.

        Raises:
            EventError: a value has no place in JSON; names the metadata key and the type.
        """
        try:
            metadata = self.metadata
            if (
                type(self) is Event
                and type(metadata) is dict
                and _PLAIN.issuperset(map(type, metadata.values()))
                and _TEXT.issuperset(map(type, metadata))
                and type(self.name) is str
                and type(self.source) in _PLAIN
                and type(self.timestamp) in _PLAIN
            ):
                return _encode_plain(
                    {"name": self.name, "source": self.source, "timestamp": self.timestamp, "metadata": metadata}
                )
        except (ValueError, RuntimeError, AttributeError):
            pass  # NaN, changed by another thread meanwhile, or incomplete: the general way finds out which
        return _serialize(self)


class NodeState(str, Enum):
    """The states of a node in a rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class RdzvEvent:
    """Something that happened in a rendezvous.

    Args:
        name: what was done, and where.
        run_id: the rendezvous' run id.
        message: what happened, for people.
        hostname: the node's host.
        pid: the agent's process.
        node_state: the node's state at the time.
        master_endpoint: the rendezvous store's address, if known.
        rank: the node's rank (torch's group rank), if known.
        local_id: the agent's number among those of its process, if there is one.
        error_trace: the traceback, when the event is an error.
    """

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: Union[str, "RdzvEvent"]) -> "RdzvEvent":
        """The event that `serialize` wrote; an event is returned as it is.

        Raises:
            EventError: `data` is no rendezvous event; names the field and the value at fault.
        """
        if isinstance(data, RdzvEvent):
            return data
        return _build(RdzvEvent, data, "node_state", NodeState)

    def serialize(self) -> str:
        """This event as one line of strict JSON, the bytes of torch's ``serialize``.

        Raises:
            EventError: a value has no place in JSON; names the field and the type.
        """
        values = self.__dict__
        if type(self) is RdzvEvent and len(values) == _RDZV_FIELDS and _PLAIN.issuperset(map(type, values.values())):
            try:
                return _encode_plain({name: values[name] for name in _RDZV_NAMES})
            except (ValueError, RuntimeError, KeyError):
                pass
        return _serialize(self)


_PLAIN = frozenset((str, int, float, bool, type(None), EventSource, NodeState))
_TEXT = frozenset((str,))
_RDZV_NAMES = tuple(each.name for each in fields(RdzvEvent))
_RDZV_FIELDS = len(_RDZV_NAMES)

_encode_plain: Callable[[Any], str] = json.JSONEncoder(allow_nan=False, check_circular=False).encode
_encode_strict: Callable[[Any], str] = json.JSONEncoder(allow_nan=False).encode

_E = TypeVar("_E", Event, RdzvEvent)


def _serialize(event: Event | RdzvEvent) -> str:
    """Torch's own way to write an event, and what is wrong with it where that is not JSON."""
    try:
        return _to_json(asdict(event))
    except Exception as error:
        raise _fault_of(event, error) from error


def _to_json(value: Any) -> str:
    try:
        return _encode_strict(value)
    except ValueError:
        # A NaN is refused anywhere above, but as a key of a dict it is the text "NaN" and valid.
        text = json.dumps(value)
        json.loads(text, parse_constant=_refuse_constant)
        return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _fault_of(event: Event | RdzvEvent, error: Exception) -> EventError:
    """The error that names the innermost value at fault."""
    kind = type(event).__name__
    for each in fields(event):
        try:
            value = getattr(event, each.name)
        except AttributeError:
            return EventError(f"{kind} has no field {each.name!r}", field=each.name)
        path, culprit = _find_fault(each.name, value, 0)
        if path:
            what = f"{type(culprit).__module__}.{type(culprit).__qualname__}".removeprefix("builtins.")
            value_text = f" {culprit!r}" if type(culprit) is float else ""
            return EventError(
                f"{path} is of type {what}{value_text}, which JSON cannot hold", field=path, value=culprit
            )
    return EventError(f"{kind} cannot be written as JSON: {type(error).__name__}: {error}", value=event)


@dataclass
class _Probe:
    """Carries one value through `asdict`, which treats it as it treats an event's field."""

    value: Any


def _find_fault(path: str, value: Any, depth: int) -> tuple[str, Any]:
    """Path and value of what cannot be written, innermost; an empty path when nothing is wrong with `value`."""
    try:
        _to_json(asdict(_Probe(value)))
    except Exception:  # noqa: BLE001 - whatever a user's object raises, it is the culprit
        pass
    else:
        return "", None
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for key, part in list(value.items()):
            if not isinstance(key, (str, int, float, bool, type(None))):
                return f"a key of {path}", key
            parts.append((f"{path}[{key!r}]", part))
    elif isinstance(value, (list, tuple)):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    if depth < 8:
        for name, part in parts:
            found = _find_fault(name, part, depth + 1)
            if found[0]:
                return found
    return path, value


def _build(kind: type[_E], data: Any, enum_field: str, enum: type[Enum]) -> _E:
    """An event from its JSON text."""
    name = kind.__name__
    if not isinstance(data, (str, bytes, bytearray)):
        raise EventError(f"{name} is read from text, not from {type(data).__name__}", field=name, value=data)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EventError(f"{name} is not JSON: {error}: {_cut(data)}", field=name, value=data) from error
    if not isinstance(found, dict):
        raise EventError(f"{name} is not a JSON object: {_cut(data)}", field=name, value=found)
    known = {each.name for each in fields(kind)}
    for key in found:
        if key not in known:
            raise EventError(f"{name} has no field {key!r}: {_cut(found[key])}", field=key, value=found[key])
    try:
        found[enum_field] = enum[found[enum_field]]
    except (KeyError, TypeError):
        if enum_field in found:
            value = found[enum_field]
            raise EventError(
                f"{name}.{enum_field} must be one of {', '.join(enum.__members__)}: {_cut(value)}",
                field=enum_field,
                value=value,
            ) from None
    try:
        return kind(**found)
    except TypeError as error:
        missing = next((each for each in _REQUIRED[name] if each not in found), "")
        raise EventError(f"{name} lacks the field {missing!r}: {_cut(data)}", field=missing, value=found) from error


_REQUIRED = {
    "Event": ("name", "source"),
    "RdzvEvent": ("name", "run_id", "message", "hostname", "pid", "node_state"),
}


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
