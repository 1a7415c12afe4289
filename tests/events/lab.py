"""A fresh events module for a test in this process, and fresh processes for what only a whole process can show."""

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from jobtape import events
from jobtape.events import context, handlers, notices

AGENT_METADATA = {
    "run_id": "job-7",
    "global_rank": 3,
    "group_rank": 1,
    "worker_id": "4711",
    "role": "default",
    "hostname": "node-a",
    "state": "SUCCEEDED",
    "total_run_time": 12,
    "rdzv_backend": "c10d",
    "raw_error": None,
    "metadata": '{"group_world_size": 2, "local_rank": [1]}',
    "agent_restarts": 0,
    "duration_ms": 1.5,
}
"""What torch's agent says of a worker: 13 keys."""


def agent_event(**changes):
    """An event as torch's agent makes it."""
    metadata = {**AGENT_METADATA, **changes}
    return events.Event("torchelastic.worker.status.SUCCEEDED", events.EventSource.AGENT, metadata=metadata)


def rdzv_event(**changes):
    """A rendezvous event with all fields set."""
    fields = {
        "name": "dynamic_rendezvous.py:next_rendezvous",
        "run_id": "job-7",
        "message": "joined round 0",
        "hostname": "node-a",
        "pid": 4711,
        "node_state": events.NodeState.RUNNING,
        "master_endpoint": "node-a:29500",
        "rank": 1,
        "local_id": 0,
        "error_trace": "",
    }
    return events.RdzvEvent(**{**fields, **changes})


class Keeping(logging.Handler):
    """Keeps the records it is given."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        """Keep it."""
        self.records.append(record)

    @property
    def texts(self):
        """The messages, as a formatter would show them."""
        return [record.getMessage() for record in self.records]


class Raising(logging.Handler):
    """Fails at every record."""

    def emit(self, record):
        """Fail."""
        raise RuntimeError("disk on fire")


def lines(capsys):
    """What has been said on stderr."""
    return capsys.readouterr().err.splitlines()


@pytest.fixture
def fresh(monkeypatch):
    """The events module as a new process has it: nothing registered, said or counted."""
    forget_loggers()
    null = {name: handlers.prepare(logging.NullHandler()) for name in ("dynamic_rendezvous", "null")}
    builtin = {name: make for name, make in handlers._factories.items() if name in ("console", "pretty", "tape")}
    monkeypatch.setattr(handlers, "_log_handlers", null)
    monkeypatch.setattr(handlers, "_factories", builtin)
    monkeypatch.setattr(handlers, "_tallies", {})
    monkeypatch.setattr(handlers, "_unusable", {})
    monkeypatch.setattr(handlers, "_found_entry_points", None)
    monkeypatch.setattr(handlers, "_to_end", [])
    monkeypatch.setattr(notices, "_said", set())
    monkeypatch.setattr(context, "_cached", None)
    yield events
    handlers._end()
    forget_loggers()


def forget_loggers():
    """Bring every logger of a destination back to what it was before it was one."""
    handlers._events_loggers.clear()
    for name in [name for name in logging.Logger.manager.loggerDict if name.startswith("torchelastic-events-")]:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.filters.clear()
        logger.disabled = False
        logger.setLevel(logging.NOTSET)
        logger.propagate = True  # pytest puts a handler of its own on every logger that does not


@pytest.fixture
def python(tmp_path):
    """Runs a script in a new interpreter, in an empty directory; gives exit code, stdout, stderr."""

    def run(script, *arguments, env=None, cwd=None, timeout_s=60):
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd or tmp_path,
            env={**os.environ, **(env or {})},
            timeout=timeout_s,
        )
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)

    return run
