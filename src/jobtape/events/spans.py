"""Stretches of work with a begin and an end: `jobtape.events.span`.

A span is two events of one name, one when it begins and one when it ends, tied together by an id. Which span another
one is within is kept in a context variable, so threads do not see each other's, and asyncio's tasks see those they
were made in. Nothing here raises into the job.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

from jobtape.events.notices import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import ContextVar
    from types import TracebackType

F = TypeVar("F")

LONGEST_MESSAGE = 1000
"""Characters that are kept of what an exception says."""

_current: ContextVar[_Entry | None] | None = None


class _Entry:
    """A span that has begun: one entering of a `Span`."""

    __slots__ = ("began_ns", "ended", "id", "outer", "owner")

    def __init__(self, owner: Span, outer: _Entry | None) -> None:
        self.owner = owner
        self.outer = outer
        self.id = os.urandom(8).hex()
        self.ended = False
        self.began_ns = time.perf_counter_ns()


class Span:
    """A stretch of work; made by `jobtape.events.span`.

    It may be entered more than once, also at the same time: each time is a span of its own.
    """

    def __init__(self, name: str, metadata: dict[str, Any]) -> None:
        self.name = name
        self.metadata = metadata
        self._entries: list[_Entry] = []

    def __enter__(self) -> Span:
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 - the work is done all the same
            warn_once("a span could not be begun", error=error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            self._end(kind, error)
        except Exception as trouble:  # noqa: BLE001 - the exception of the work is the one that counts
            warn_once("a span could not be ended", error=trouble)

    def __call__(self, function: F) -> F:
        """The function, with a span around each call of it; see `jobtape.events.span`."""
        if isinstance(function, type) or not callable(function):
            warn_once(f"span({self.name!r}) is for functions; {function!r:.100} is left as it is")
            return function
        try:
            return _wrapped(self.name, self.metadata, function)  # type: ignore[return-value]
        except Exception as error:  # noqa: BLE001 - a callable without what functions have
            warn_once(f"span({self.name!r}) cannot be put around {function!r:.100}", error=error)
            return function

    def _begin(self) -> None:
        from jobtape import events

        if events.is_emitting():
            variable = _context()
            outer = _running(variable.get())
            entry = _Entry(self, outer)
            events.emit(self.name, **{**self.metadata, **_identity(entry, "begin")})
            variable.set(entry)
            self._entries.append(entry)

    def _end(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        if not self._entries:
            return
        from jobtape import events

        now_ns = time.perf_counter_ns()
        variable = _context()
        innermost = variable.get()
        entry = innermost
        while entry is not None and (entry.owner is not self or entry.ended):
            entry = entry.outer
        if entry is None:
            # A generator may be closed by anybody, in any context.
            entry = self._entries[-1]
        self._entries.remove(entry)
        entry.ended = True
        variable.set(_running(innermost))
        facts = _identity(entry, "end")
        facts["span.duration_s"] = (now_ns - entry.began_ns) / 1e9
        # A generator that is closed has done what it was asked for.
        failed = kind is not None and not issubclass(kind, GeneratorExit)
        facts["span.outcome"] = "error" if failed else "ok"
        if failed and kind is not None:
            facts["span.error_type"] = _name(kind)
            facts["span.message"] = _said(error)
        events.emit(self.name, **{**self.metadata, **facts})


def _context() -> ContextVar[_Entry | None]:
    global _current
    if _current is None:
        from contextvars import ContextVar

        _current = ContextVar("jobtape.span", default=None)
    return _current


def _running(entry: _Entry | None) -> _Entry | None:
    """The innermost span that has not ended: spans of generators may end before those within them."""
    while entry is not None and entry.ended:
        entry = entry.outer
    return entry


def _identity(entry: _Entry, phase: str) -> dict[str, Any]:
    parent = entry.outer.id if entry.outer is not None else None
    return {"span.phase": phase, "span.id": entry.id, "span.parent": parent}


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _said(error: BaseException | None) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a __str__ of anyone's
        return "<no message>"
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


def _wrapped(name: str, metadata: dict[str, Any], function: Any) -> Callable[..., Any]:
    """A function of the same kind (plain, coroutine, generator, asynchronous generator) with a span around it."""
    if inspect.iscoroutinefunction(function):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with Span(name, metadata):
                return await function(*args, **kwargs)

        return functools.wraps(function)(coroutine)
    if inspect.isgeneratorfunction(function):

        def generator(*args: Any, **kwargs: Any) -> Any:
            with Span(name, metadata):
                return (yield from function(*args, **kwargs))

        return functools.wraps(function)(generator)
    if inspect.isasyncgenfunction(function):

        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            with Span(name, metadata):
                items = function(*args, **kwargs)
                step = items.__anext__()
                while True:
                    try:
                        item = await step
                    except StopAsyncIteration:
                        return
                    try:
                        step = items.asend((yield item))
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 - it was thrown in, and is for the generator
                        step = items.athrow(error)

        return functools.wraps(function)(asynchronous)

    def plain(*args: Any, **kwargs: Any) -> Any:
        with Span(name, metadata):
            return function(*args, **kwargs)

    return functools.wraps(function)(plain)
