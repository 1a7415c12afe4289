"""One event to one handler: as torch's loggers would hand it over, but counted, and never an exception.

A handler of ours may have ``write_event(event) -> bool``; it is then given the event itself and counts for itself.
Every other handler gets a `logging.LogRecord` whose message is the event's JSON text, under `logging`'s conditions.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from jobtape.events.notices import warn_once


class EventText(str):
    """An event's JSON text that still knows its event, so that no handler of ours has to parse it."""

    __slots__ = ("event",)
    event: Any

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Log records are pickled on their way to other processes; there it is the text, the event may not pickle."""
        return str, (str(self),)


class Tally:
    """What a destination did with the events given to it.

    Attributes:
        recorded: events it took.
        dropped: events it was not given, because it is unknown, or failed a moment ago and pauses.
        failed: events it was given and could not take.
    """

    # `+= 1` on a plain attribute has no point at which CPython 3.10 to 3.13 switches threads.
    __slots__ = ("dropped", "failed", "recorded")

    def __init__(self) -> None:
        self.recorded = 0
        self.dropped = 0
        self.failed = 0

    def as_dict(self) -> dict[str, int]:
        """The three counts by name."""
        return {"recorded": self.recorded, "dropped": self.dropped, "failed": self.failed}


class Part(NamedTuple):
    """A handler with the name it is known and counted by."""

    name: str
    handler: logging.Handler
    tally: Tally


class FanOut(logging.Handler):
    """The handler of a list of destinations: each gets every event, whatever the others do."""

    def __init__(self, parts: list[Part]) -> None:
        super().__init__()
        self.parts = parts

    def emit(self, record: logging.LogRecord) -> None:
        """Give the record to each destination."""
        event = getattr(record.msg, "event", record.msg)
        for part in self.parts:
            deliver(part, event, record)

    def flush(self) -> None:
        """Flush each destination."""
        for part in self.parts:
            part.handler.flush()


_busy = threading.local()


def text_of(event: Any) -> EventText:
    """The event's JSON text; for an event that has none, JSON that says as much of it as can be said."""
    try:
        text = EventText(event.serialize())
    except Exception:  # noqa: BLE001 - an invalid event, or none at all: the tape's encoding takes anything
        text = EventText(_salvage(event))
    text.event = event
    return text


def make_record(logger: logging.Logger, text: EventText, function: str, file: str, line: int) -> logging.LogRecord:
    """The record that ``logger.info(text)`` would make in torch's events module."""
    return logger.makeRecord(logger.name, logging.INFO, file, line, text, (), None, function)


def deliver(part: Part, event: Any, record: logging.LogRecord, *, enabled: bool = True) -> None:
    """Hand an event over to one handler; never raises an `Exception`.

    Args:
        part: whom to give it to.
        event: the event.
        record: the same as `logging` would show it.
        enabled: whether `logging` would show it now; handlers with ``write_event`` are not asked to be quiet.
    """
    handler, tally = part.handler, part.tally
    if isinstance(handler, FanOut):
        for each in handler.parts:
            deliver(each, event, record, enabled=enabled)
        return
    try:
        write: Callable[[Any], bool] | None = getattr(handler, "write_event", None)
        if write is not None and not handler.filters:
            write(event)
            return
        if not enabled or record.levelno < handler.level or type(handler) is logging.NullHandler:
            return
        if getattr(_busy, "delivering", False):
            # The handler, or something it called, records events itself: it would be called for ever.
            tally.dropped += 1
            return
        _busy.delivering = True
        try:
            if handler.handle(record) is not False and write is None:
                tally.recorded += 1
        finally:
            _busy.delivering = False
    except Exception as error:  # noqa: BLE001 - a destination's fault is not the job's
        tally.failed += 1
        warn_once(f"destination {part.name} failed, its events are lost", error=error)


def prepare(handler: logging.Handler) -> logging.Handler:
    """Make ``handler.info(event)`` work, and let `deliver` see the failures that the handler would only print."""
    try:
        if not hasattr(handler, "info"):
            handler.info = partial(_info, handler)  # type: ignore[attr-defined]
        if getattr(type(handler), "handleError", None) is logging.Handler.handleError:
            handler.handleError = partial(_handle_error, handler)  # type: ignore[method-assign]
    except AttributeError:
        return Wrapped(handler)
    return handler


class Wrapped(logging.Handler):
    """Stands for a handler that takes no attributes of ours."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__(handler.level)
        self.wrapped = handler
        self.info = partial(_info, self)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record on."""
        self.wrapped.handle(record)

    def flush(self) -> None:
        """Flush the handler it stands for."""
        self.wrapped.flush()


def _info(handler: logging.Handler, event: Any) -> None:
    """``get_logging_handler(destination).info(event)``, as torch documents it: this handler alone gets the event."""
    from jobtape.events.handlers import part_of

    part = part_of(handler)
    text = text_of(event)
    factory = logging.getLogRecordFactory()
    name = f"torchelastic-events-{part.name}"
    deliver(part, event, factory(name, logging.INFO, __file__, 0, text, (), None, "info"))


def _handle_error(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Called by handlers of the standard library in place of raising."""
    if getattr(_busy, "delivering", False) and sys.exc_info()[0] is not None:
        raise  # what emit() is handling; `deliver` counts it
    logging.Handler.handleError(handler, record)


def _salvage(event: Any) -> str:
    if isinstance(event, str):
        return event
    try:
        from jobtape.tape.values import encode_metadata, encode_value

        values = {key: encode_value(value) for key, value in vars(event).items() if key != "metadata"}
        if hasattr(event, "metadata"):
            values["metadata"] = encode_metadata(event.metadata)
        return json.dumps(values)
    except Exception:  # noqa: BLE001 - what is left is to say that there was something
        return json.dumps({"name": "", "metadata": {"type": type(event).__name__}})
