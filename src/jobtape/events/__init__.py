"""The events of an elastic job; a drop-in for ``torch.distributed.elastic.events`` that needs no torch.

Example:
    >>> from jobtape import events
    >>> event = events.Event(name="epoch", source=events.EventSource.WORKER, metadata={"epoch": 3})
    >>> events.record(event, "null")
    >>> events.get_logging_handler(destination="null").info(event)

`record` never raises: a destination that fails is counted in `stats`, said once on stderr, and tried again later. As
in torch, every destination has a logger, ``torchelastic-events-<destination>``, that does not propagate; handlers and
filters that users put on it see each event as torch would show it. Names are looked up here when they are called, so
patching ``jobtape.events.get_logging_handler`` works as patching torch's does.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

from jobtape.events import handlers
from jobtape.events.api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from jobtape.events.context import environment_facts, full_host_name
from jobtape.events.delivery import Part, deliver, make_record, text_of
from jobtape.events.handlers import _events_loggers, get_logging_handler, register_handler
from jobtape.events.notices import warn_once
from jobtape.events.spans import Span

__all__ = [
    "Event",
    "EventMetadataValue",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "emit",
    "flush",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
    "register_handler",
    "span",
    "stats",
]

_INFO = logging.INFO


class _Route:
    """What `record` has to know of a logger to leave it out while nobody but us has a handler on it."""

    __slots__ = ("alone", "destination", "handler", "parts", "write")

    def __init__(self, destination: str, handler: logging.Handler) -> None:
        self.destination = destination
        self.handler = handler
        self.parts = handlers.parts_of(destination, handler)
        self.write = getattr(handler, "write_event", None)
        # The logger's handlers while they can be left out; None is never equal to them.
        self.alone: list[logging.Handler] | None = None

    def look(self, logger: logging.Logger) -> None:
        """Find out whether the logger's handlers can be left out: ours takes events itself, and others take none."""
        if self.write is not None or type(self.handler) is logging.NullHandler:
            found = list(logger.handlers)
            others = [each for each in found if each is not self.handler and type(each) is not logging.NullHandler]
            self.alone = None if others or self.handler not in found else found


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """The logger of a destination, as torch makes it, but letting every event through whatever ``LOGLEVEL`` says.

    Raises:
        UnknownDestination: nothing is known by that name.
    """
    logger = _events_loggers.get(destination)
    if logger is None:
        handler = get_logging_handler(destination)
        logger = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(_INFO)
        logger.propagate = False
        logger.addHandler(handler)
        logger.jobtape_route = _Route(destination, handler)  # type: ignore[attr-defined]
        _events_loggers[destination] = logger
    return logger


def _is_idle(logger: logging.Logger) -> bool:
    """Whether nobody would see an event given to this logger of a null destination."""
    route: Any = getattr(logger, "jobtape_route", None)
    if route is not None and route.alone is None:
        route.look(logger)
    return bool(route and logger.handlers == route.alone and not logger.filters and not logger.propagate)


_unpatched = _get_or_create_logger


def record(event: Event, destination: str = "null") -> None:
    """Record an event; never raises, and keeps an invalid event too.

    Args:
        event: an event of jobtape's or of torch's.
        destination: a name, a URL, or several joined by commas. An unknown one is named once on stderr and its events
            are counted as dropped.
    """
    try:
        logger: Any = _events_loggers[destination]
        route = logger.jobtape_route
        if (
            logger.handlers == route.alone
            and not logger.filters
            and logger.level <= _INFO
            and not logger.propagate
            and _get_or_create_logger is _unpatched
        ):
            write = route.write
            if write is None:
                return
            if not route.handler.filters:
                write(event)
                return
    except Exception:  # noqa: BLE001 - not made yet, or not ours: the general way sorts it out
        pass
    try:
        _record_through_logger(event, destination)
    except Exception:  # noqa: BLE001 - at the recursion limit or without memory not even counting works
        pass


_record = record


def record_rdzv_event(event: RdzvEvent) -> None:
    """Record a rendezvous event at the destination ``dynamic_rendezvous``; never raises."""
    _record(event, "dynamic_rendezvous")  # type: ignore[arg-type]


def construct_and_record_rdzv_event(
    run_id: str,
    message: str,
    node_state: NodeState,
    name: str = "",
    hostname: str = "",
    pid: int | None = None,
    master_endpoint: str = "",
    local_id: int | None = None,
    rank: int | None = None,
) -> None:
    """Make a rendezvous event and record it; does nothing while the destination ``dynamic_rendezvous`` is null.

    The event's name is ``<file>:<name>`` with the calling file and, without a `name`, the calling function. When the
    state is FAILED inside an ``except`` block, the event has the exception's traceback. Never raises.

    Args:
        run_id: the rendezvous' run id.
        message: what happened, for people.
        node_state: the node's state.
        name: what was being done.
        hostname: the node's host; by default this one, fully qualified.
        pid: the node's process; by default this one.
        master_endpoint: the rendezvous store's address, if known.
        local_id: the node's number within its process, if there is one.
        rank: the node's rank, if known.
    """
    try:
        if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
            return
        code = sys._getframe(1).f_code
        error_trace = ""
        if node_state == NodeState.FAILED and sys.exc_info()[0] is not None:
            import traceback

            error_trace = traceback.format_exc()
        event = RdzvEvent(
            name=f"{code.co_filename.rpartition('/')[2]}:{name or code.co_name}",
            run_id=run_id,
            message=message,
            hostname=hostname or full_host_name(),
            pid=pid or os.getpid(),
            node_state=node_state,
            master_endpoint=master_endpoint,
            rank=rank,
            local_id=local_id,
            error_trace=error_trace,
        )
        record_rdzv_event(event)
    except Exception as error:  # noqa: BLE001 - a rendezvous must not fail for want of a record
        _warn_once("a rendezvous event could not be recorded", error)


def emit(name: str, /, **metadata: Any) -> None:
    """Record one event of this process at the destination ``JOBTAPE_RECORD`` names; never raises.

    Time, run, host, rank and attempt are filled in from the environment, as far as it has them; metadata given wins.

    Example:
        >>> emit("step", step=100, loss=0.25)
    """
    try:
        if not is_emitting():
            return
        event = Event(name, EventSource.WORKER, time.time_ns() // 1_000_000, {**environment_facts(), **metadata})
        record(event, os.environ.get("JOBTAPE_RECORD") or "null")
    except Exception as error:  # noqa: BLE001 - see above
        _warn_once("emit() failed", error)


def is_emitting() -> bool:
    """Whether anybody would see what `emit` records in this process."""
    destination = os.environ.get("JOBTAPE_RECORD") or "null"
    return destination != "null" or not _is_idle(_get_or_create_logger("null"))


def span(name: str, /, **metadata: Any) -> Span:
    """A stretch of work, recorded where `emit` records: one event when it begins, one when it ends; never raises.

    Both have the metadata given and a common ``span.id``, ``span.parent`` (the span it is within) and ``span.phase``,
    ``begin`` or ``end``. The end has ``span.duration_s`` and ``span.outcome``, ``ok`` or ``error``; an exception goes
    on its way, and its type and message are in ``span.error_type`` and ``span.message``.

    As a decorator it makes a span of each call; of a coroutine until it is done, and of a generator, plain or
    asynchronous, from its first item to its end: what its consumer does between two items is within it.

    Args:
        name: what is done. ``jobtape time`` knows ``checkpoint_save``, ``checkpoint_restore``, ``data_wait``,
            ``evaluation`` and ``step``, the last with its number in ``step``.
        metadata: what else is to be known of it.

    Example:
        >>> with span("checkpoint_save", step=100):
        ...     pass
        >>> @span("evaluation")
        ... def evaluate(model): ...
    """
    if callable(name):  # @span without parentheses must leave a function where there was one
        return Span(getattr(name, "__qualname__", "span"), metadata)(name)  # type: ignore[return-value]
    return Span(name, metadata)


def flush(timeout: float | None = None) -> bool:
    """Wait until every destination has passed on what it was given; tapes are synced to the disk.

    Args:
        timeout: seconds after which no further destination is waited for.

    Returns:
        Whether all of them did.
    """
    end = None if timeout is None else time.monotonic() + timeout
    done = True
    for handler in {id(each): each for each in list(handlers._log_handlers.values())}.values():
        if end is not None and time.monotonic() >= end:
            return False
        try:
            done = handler.flush() is not False and done  # type: ignore[func-returns-value]
        except Exception as error:  # noqa: BLE001 - e.g. a stream closed by its owner
            warn_once("a destination cannot be flushed", key=f"flush {id(handler)}", error=error)
            done = False
    return done


def stats() -> dict[str, dict[str, int]]:
    """What became of the events given to each destination.

    Returns:
        By destination: ``recorded``, ``dropped`` (never given to it: unknown, or failed a moment ago) and ``failed``
        (given to it in vain). Handlers that users have put on a destination's logger are counted under the logger's
        name. `null` counts nothing.
    """
    return {name: tally.as_dict() for name, tally in handlers.all_tallies().items()}


def _warn_once(text: str, error: Exception) -> None:
    """`warn_once` for places that must not raise even where there is no stack left to call it."""
    try:
        warn_once(text, key=text, error=error)
    except Exception:  # noqa: BLE001 - see above
        pass


def _record_through_logger(event: Any, destination: str) -> None:
    """What the standard logger would do, with each handler on its own and nothing raised."""
    try:
        if handlers.is_paused(destination):
            return
        try:
            logger = _get_or_create_logger(destination)
        except Exception as error:  # noqa: BLE001 - unknown, or its factory failed
            if isinstance(destination, str) and "," in destination.strip(", "):
                for part in destination.split(","):
                    if part.strip():
                        _record(event, part.strip())
            else:
                handlers.drop(destination, error)
            return
        route = getattr(logger, "jobtape_route", None)
        if route is None or _get_or_create_logger is not _unpatched:
            logger.info(text_of(event))
        elif logger.level <= _INFO:
            _hand_out(event, logger, route)
    except Exception as error:  # noqa: BLE001 - the job goes on
        handlers.tally_of(str(destination)).failed += 1
        warn_once(f"destination {destination!r} failed", error=error)


def _hand_out(event: Any, logger: logging.Logger, route: _Route) -> None:
    """Give the event to the handlers of a logger and, where someone has made it propagate, of those above it."""
    route.look(logger)
    function = "record_rdzv_event" if route.destination == "dynamic_rendezvous" else "record"
    code = _record.__code__
    text = text_of(event)
    entry = make_record(logger, text, function, code.co_filename, code.co_firstlineno)
    try:
        passed: Any = logger.filter(entry)
    except Exception as error:  # noqa: BLE001 - a filter that cannot tell does not take the event away
        warn_once(f"a filter of {logger.name} failed", error=error)
        passed = True
    if not passed:
        return
    entry = passed if isinstance(passed, logging.LogRecord) else entry
    enabled = logger.isEnabledFor(_INFO)
    at: logging.Logger | None = logger
    while at is not None:
        for handler in list(at.handlers):
            if handler is route.handler:
                for part in route.parts:
                    deliver(part, event, entry, enabled=enabled)
            elif not _is_torchs(handler, route.destination):
                part = Part(at.name, handler, handlers.tally_of(at.name))
                deliver(part, event, entry, enabled=enabled)
        at = at.parent if at.propagate else None


def _is_torchs(handler: logging.Handler, destination: str) -> bool:
    """Whether it is the handler that torch's own events module, used beside this one, has put on the same logger."""
    module: Any = sys.modules.get("torch.distributed.elastic.events.handlers")
    return module is not None and handler is module._log_handlers.get(destination)
