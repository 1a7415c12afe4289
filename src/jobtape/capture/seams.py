"""What of torch is patched, in a process in which torch's agent modules are imported.

Each patch looks at what it replaces and steps aside with one line on stderr when torch has changed (names as of torch
2.4 to 2.13). Until an agent names a destination of ours, every patched function does what torch's did.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from jobtape import events

TORCH_DESTINATIONS = ("null", "console", "dynamic_rendezvous")
"""Torch's own names; they keep torch's own handlers."""


class Destinations(dict[str, logging.Handler]):
    """Torch's private table of handlers, which also resolves the destinations jobtape knows."""

    def __missing__(self, destination: str) -> logging.Handler:
        return events.get_logging_handler(destination)


def patch_events(module: Any) -> None:
    """``torch.distributed.elastic.events``: every destination of ours works, and an unknown one kills no agent."""
    handlers = module.handlers
    original_record, original_logger = module.record, module._get_or_create_logger
    if type(handlers._log_handlers) is not dict or not callable(original_record):
        raise RuntimeError(
            "torch.distributed.elastic.events is not as expected; torch's own events are left as they are"
        )
    handlers._log_handlers = Destinations(handlers._log_handlers)

    @functools.wraps(original_record)
    def record(event: Any, destination: str = "null") -> None:
        if destination in TORCH_DESTINATIONS:
            original_record(event, destination)
        else:
            events.record(event, destination)

    @functools.wraps(original_logger)
    def get_or_create_logger(destination: str = "null") -> logging.Logger:
        if destination in TORCH_DESTINATIONS:
            found: logging.Logger = original_logger(destination)
            return found
        return events._get_or_create_logger(destination)

    module.record = record
    module._get_or_create_logger = get_or_create_logger


def patch_launcher(module: Any) -> None:
    """``torch.distributed.launcher.api``: the launch begins when an `elastic_launch` is made.

    Its ``__init__`` and not the launch itself is wrapped, so that no frame of ours stands in torchrun's traceback.
    """
    original = module.elastic_launch.__init__

    @functools.wraps(original)
    def init(self: Any, config: Any, entrypoint: Any, *args: Any, **kwargs: Any) -> None:
        original(self, config, entrypoint, *args, **kwargs)
        from jobtape.capture import agent

        agent.begin(config, entrypoint)

    module.elastic_launch.__init__ = init


def patch_agent(module: Any) -> None:
    """``torch.distributed.elastic.agent.server.api``: every agent made is attached to its launch, subclasses too."""
    original = module.SimpleElasticAgent.__init__

    @functools.wraps(original)
    def init(self: Any, spec: Any, *args: Any, **kwargs: Any) -> None:
        original(self, spec, *args, **kwargs)
        from jobtape.capture import agent

        agent.attach(self)

    module.SimpleElasticAgent.__init__ = init


def route_rendezvous(handler: logging.Handler) -> None:
    """Send torch's rendezvous events to `handler`; torch gives them a `logging.NullHandler` and no way to change it.

    The level is set on torch's logger, which would otherwise drop them all under ``LOGLEVEL=WARNING``.
    """
    from torch.distributed.elastic import events as torch_events

    torch_events.handlers._log_handlers["dynamic_rendezvous"] = handler
    logger = logging.getLogger("torchelastic-events-dynamic_rendezvous")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for old in list(logger.handlers):
        if isinstance(old, logging.NullHandler) or old is handler:
            logger.removeHandler(old)
    logger.addHandler(handler)
    torch_events._events_loggers["dynamic_rendezvous"] = logger
