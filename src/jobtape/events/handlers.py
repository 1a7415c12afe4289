"""Where events go: the handler of a destination, found by name, URL, list or entry point.

A destination is a name (`null`, `console`, …, or one made known with `register_handler`), ``file:///dir``, or several
of these joined by commas. Handlers are made when first asked for, so importing this module loads no destination.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from jobtape.errors import UnknownDestination
from jobtape.events.delivery import FanOut, Part, Tally, prepare
from jobtape.events.notices import Pause, description, warn_once

__all__ = ["get_logging_handler", "register_handler", "warn_once"]

ENTRY_POINTS = "jobtape.handlers"
"""Entry-point group of handlers that other packages bring; asked only for a name that is otherwise unknown."""

_MOST_NAMES = 1000
"""Names that are counted one by one; a destination made from a counter must not fill the memory."""

HandlerOrFactory = logging.Handler | Callable[[], logging.Handler]


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a destination, always the same one.

    Example:
        >>> from jobtape import events
        >>> events.get_logging_handler(destination="null").info(events.Event("hello", events.EventSource.WORKER))

    Raises:
        UnknownDestination: nothing is known by that name; a `KeyError`, as in torch.
    """
    handler = _log_handlers.get(destination) if isinstance(destination, str) else None
    if handler is None:
        with _making:
            handler = _log_handlers[destination] = _make(destination)
            if hasattr(handler, "at_exit") and handler not in _to_end:
                _to_end.append(handler)
    if not hasattr(handler, "info"):
        handler = _log_handlers[destination] = prepare(handler)
    return handler


def register_handler(name: str, handler_or_factory: HandlerOrFactory, *, replace: bool = False) -> None:
    """Make a destination known by a name.

    Args:
        name: what to call it in `record`, ``--event-log-handler`` and lists.
        handler_or_factory: any `logging.Handler`, or a callable without arguments that makes one when it is first used.
        replace: take the place of a destination that has this name, also of jobtape's own.

    Raises:
        ValueError: the name is taken, empty, or has a comma or ``://`` in it.
        TypeError: it is neither a handler nor callable.
    """
    if not isinstance(name, str) or not name or name != name.strip() or "," in name or "://" in name:
        raise ValueError(f"a destination's name is text without commas, spaces around it and '://': {name!r}")
    is_handler = isinstance(handler_or_factory, logging.Handler)
    if not is_handler and not callable(handler_or_factory):
        raise TypeError(f"destination {name!r} needs a logging.Handler or a callable that makes one")
    with _making:
        if not replace and (name in _log_handlers or name in _factories):
            raise ValueError(f"destination {name!r} is registered already; replace=True takes its place")
        _forget(name)
        if is_handler:
            _log_handlers[name] = prepare(handler_or_factory)  # type: ignore[arg-type]
        else:
            _factories[name] = handler_or_factory  # type: ignore[assignment]


def parts_of(destination: str, handler: logging.Handler) -> tuple[Part, ...]:
    """The handlers behind a destination, each with its own count."""
    if isinstance(handler, FanOut):
        return tuple(handler.parts)
    tally = getattr(handler, "tally", None)
    if not isinstance(tally, Tally):
        tally = Tally() if type(handler) is logging.NullHandler else tally_of(destination)
    return (Part(destination, handler, tally),)


def part_of(handler: logging.Handler) -> Part:
    """A handler with the name it is registered by."""
    name = next((name for name, each in list(_log_handlers.items()) if each is handler), type(handler).__name__)
    if isinstance(handler, FanOut):
        return Part(name, handler, Tally())
    return parts_of(name, handler)[0]


def tally_of(name: str) -> Tally:
    """The counts kept under a name."""
    tally = _tallies.get(name)
    if tally is None:
        name = name if len(_tallies) < _MOST_NAMES else "(others)"
        tally = _tallies.setdefault(name, Tally())
    return tally


def all_tallies() -> dict[str, Tally]:
    """Every count there is, by the destination's name; `null` counts nothing."""
    found = dict(_tallies)
    for name, handler in list(_log_handlers.items()):
        own = getattr(handler, "tally", None)
        if isinstance(own, Tally):
            found[getattr(handler, "destination", name)] = own
    return found


def drop(destination: str, error: BaseException) -> None:
    """Count an event for a destination that cannot be had, say so once, and leave it alone for a while."""
    tally_of(str(destination)).dropped += 1
    if not isinstance(destination, str) or destination not in _unusable:
        if len(_unusable) >= _MOST_NAMES:
            _unusable.clear()
        _unusable[str(destination)] = Pause()
        if error.__cause__ is None:  # else the entry point at fault has been named already
            what = str(error) if isinstance(error, UnknownDestination) else description(error)
            warn_once(f"events for destination {str(destination)!r} are dropped: {what}", key=f"drop {destination}")
    _unusable[str(destination)].fail()


def is_paused(destination: str) -> bool:
    """Whether `destination` could not be had a moment ago; counts one more event as dropped if so."""
    pause = _unusable.get(destination)
    if pause is None or pause.over:
        return False
    tally_of(destination).dropped += 1
    return True


def known_destinations() -> tuple[str, ...]:
    """The names that `get_logging_handler` takes."""
    names = {*_log_handlers, *_factories, *_entry_points()}
    return (*sorted(name for name in names if "," not in name and "://" not in name), "file:///dir")


def _make(destination: str) -> logging.Handler:
    if not isinstance(destination, str):
        raise UnknownDestination(str(destination), known_destinations())
    handler = _log_handlers.get(destination)  # made by another thread meanwhile
    if handler is not None:
        return handler
    if "," in destination:
        return _make_list(destination)
    factory = _factories.get(destination)
    if factory is not None:
        return prepare(_checked(destination, factory()))
    scheme, mark, _ = destination.partition("://")
    if mark and scheme.lower() in _SCHEMES:
        return prepare(_SCHEMES[scheme.lower()](destination))
    return prepare(_load_entry_point(destination))


def _make_list(destination: str) -> logging.Handler:
    parts: dict[int, Part] = {}
    for name in destination.split(","):
        if name.strip():
            handler = get_logging_handler(name.strip())
            for part in parts_of(name.strip(), handler):
                parts.setdefault(id(part.handler), part)
    if not parts:
        raise UnknownDestination(destination, known_destinations())
    if len(parts) == 1:
        return next(iter(parts.values())).handler
    return prepare(FanOut(list(parts.values())))


def _checked(name: str, made: Any) -> logging.Handler:
    if not isinstance(made, logging.Handler):
        raise TypeError(f"the factory of destination {name!r} made a {type(made).__name__}, not a logging.Handler")
    return made


def _load_entry_point(name: str) -> logging.Handler:
    point = _entry_points().get(name)
    if point is None:
        raise UnknownDestination(name, known_destinations())
    try:
        found = point.load()
        return _checked(name, found if isinstance(found, logging.Handler) else found())
    except Exception as error:
        warn_once(f"destination {name!r} cannot be loaded from {point.value}", error=error)
        raise UnknownDestination(name, known_destinations()) from error


def _entry_points() -> dict[str, Any]:
    """The group's entry points by name; read once, since looking through all installed packages takes milliseconds."""
    global _found_entry_points
    if _found_entry_points is None:
        try:
            from importlib.metadata import entry_points

            _found_entry_points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        except Exception as error:  # noqa: BLE001 - one package's damaged metadata must not take the others away
            warn_once(f"entry points of {ENTRY_POINTS} cannot be read", error=error)
            _found_entry_points = {}
    return _found_entry_points


def _forget(name: str) -> None:
    """Take away what was made of a name: its handler, the lists it is in, and their loggers' handlers."""
    _factories.pop(name, None)
    _unusable.clear()
    old = _log_handlers.get(name)
    for key, handler in list(_log_handlers.items()):
        in_list = isinstance(handler, FanOut) and name in (each.strip() for each in key.split(","))
        if key == name or in_list or (handler is old and "," in key):
            del _log_handlers[key]
            logger = _events_loggers.pop(key, None)
            if logger is not None:
                logger.removeHandler(handler)


def _make_console() -> logging.Handler:
    from jobtape.destinations.console import ConsoleHandler

    return ConsoleHandler()


def _make_pretty() -> logging.Handler:
    from jobtape.destinations.pretty import PrettyHandler

    return PrettyHandler()


def _make_tape() -> logging.Handler:
    from jobtape.destinations.tape import tape_in

    return tape_in(None)


def _make_file(url: str) -> logging.Handler:
    from urllib.parse import unquote, urlsplit

    split = urlsplit(url)
    if split.netloc not in ("", "localhost") or split.path in ("", "/"):
        raise UnknownDestination(url, ("file:///absolute/directory",))
    from jobtape.destinations.tape import tape_in

    return tape_in(unquote(split.path))


def _end() -> None:
    for handler in _to_end:
        handler.at_exit()


def _new_lock() -> None:
    """In a forked child: the lock may have been held by a thread that is not there."""
    global _making
    _making = threading.RLock()


# Torch's own names: people look handlers up, and put theirs, in this private dict of torch's for want of another way.
_log_handlers: dict[str, logging.Handler] = {
    "dynamic_rendezvous": prepare(logging.NullHandler()),
    "null": prepare(logging.NullHandler()),
}
_events_loggers: dict[str, logging.Logger] = {}
_factories: dict[str, Callable[[], logging.Handler]] = {
    "console": _make_console,
    "pretty": _make_pretty,
    "tape": _make_tape,
}
_SCHEMES: dict[str, Callable[[str], logging.Handler]] = {"file": _make_file}
_tallies: dict[str, Tally] = {}
_unusable: dict[str, Pause] = {}
_found_entry_points: dict[str, Any] | None = None
_to_end: list[Any] = []
_making = threading.RLock()
# What is registered first is called last: so at the import, and not when a destination is first used.
atexit.register(_end)
os.register_at_fork(after_in_child=_new_lock)
