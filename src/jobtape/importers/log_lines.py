"""What torch's agent and launcher log about workers, read from their log lines.

The texts are those of torch 1.9 to 2.14: ``elastic/multiprocessing/api.py``, ``elastic/agent/server/api.py`` and
``elastic/rendezvous/dynamic_rendezvous.py``. A line counts only behind a prefix that names one of torch's own files or
loggers, and never behind a worker's label: a worker's output can say anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jobtape.importers.prefixes import Prefix
from jobtape.importers.signals import signal_name

Reading = tuple[str, dict[str, Any]]
"""Name and metadata of the tape's record."""

_LONGEST = 1 << 16
"""Characters; no line that is read here is as long, and a longer one is not worth a search."""

_WRITERS = (
    "torch/distributed/elastic/",
    "torch.distributed.elastic.",
    "torch/distributed/launcher/",
    "torch.distributed.launcher.",
)


def is_of_torch(prefix: Prefix) -> bool:
    """Whether the prefix names one of the files or loggers of torch's agent and launcher."""
    return not prefix.worker and any(writer in prefix.writer for writer in _WRITERS)


def read_log_line(prefix: Prefix) -> Reading | None:
    """What an agent's line tells; None when it is none of those that are known."""
    if len(prefix.text) > _LONGEST or not is_of_torch(prefix):
        return None
    for start, pattern, read in _LINES:
        if start in prefix.text and (match := pattern.fullmatch(prefix.text)):
            name, metadata = read(match)
            if prefix.pid is not None:
                metadata["agent_pid"] = prefix.pid
            return name, metadata
    return None


def _worker_failed(match: re.Match[str]) -> Reading:
    exit_code = _number(match["code"])
    return "torchelastic.log.worker_failed", {
        "local_rank": int(match["local_rank"]),
        "pid": _number(match["pid"]),
        "exit_code": exit_code,
        "signal": signal_name(-exit_code) if exit_code is not None and exit_code < 0 else None,
        "of": match["of"],
        "entrypoint": match["entrypoint"],
    }


def _signal_sent(match: re.Match[str]) -> Reading:
    return "torchelastic.log.signal_sent", {"pid": int(match["pid"]), "signal": signal_name(match["signal"])}


def _signal_forced(match: re.Match[str]) -> Reading:
    return "torchelastic.log.signal_forced", {"pid": int(match["pid"]), "signal": signal_name(match["signal"])}


def _group_failed(match: re.Match[str]) -> Reading:
    return "torchelastic.log.group_failed", {
        "role": match["role"],
        "state": match["state"],
        "attempts_left": int(match["left"]),
        "max_restarts": int(match["max"]),
    }


def _membership(match: re.Match[str]) -> Reading:
    return "torchelastic.log.membership", {
        "role": match["role"],
        "waiting": int(match["waiting"]),
        "group_rank": _number(match["group_rank"]),
    }


def _agent_signal(match: re.Match[str]) -> Reading:
    return "torchelastic.log.agent_signal", {"signal": signal_name(match["signal"])}


def _group_succeeded(match: re.Match[str]) -> Reading:
    return "torchelastic.log.group_succeeded", {"role": match["role"]}


def _of_role(name: str) -> Callable[[re.Match[str]], Reading]:
    return lambda match: (f"torchelastic.log.{name}", {"role": match["role"]})


def _agent_started(match: re.Match[str]) -> Reading:
    return "torchelastic.log.agent_started", {"role": match["role"], "entrypoint": match["entrypoint"]}


def _group_finished(match: re.Match[str]) -> Reading:
    return "torchelastic.log.group_finished", {
        "state": match["state"].rpartition(".")[2],
        "wait_s": float(match["wait"]),
    }


def _barrier_passed(match: re.Match[str]) -> Reading:
    return "torchelastic.log.barrier_passed", {"elapsed_s": float(match["elapsed"])}


def _worker_stuck(match: re.Match[str]) -> Reading:
    return "torchelastic.log.worker_stuck", {"pid": int(match["pid"]), "text": match[0]}


def _rendezvous_left(match: re.Match[str]) -> Reading:
    return "torchelastic.log.rendezvous_left", {"text": match["text"]}


def _barrier_failed(match: re.Match[str]) -> Reading:
    return "torchelastic.log.barrier_failed", {"elapsed_s": float(match["elapsed"]), "error": None}


def _shutdown_failed(match: re.Match[str]) -> Reading:
    return "torchelastic.log.rendezvous_shutdown_failed", {
        "node": match["node"],
        "error_type": match["type"],
        "run_id": match["run"],
    }


def _number(text: str) -> int | None:
    return None if text == "None" else int(text)


_INT = r"\d{1,10}"
_SECONDS = r"\d{1,15}(?:\.\d{1,20})?(?:e-\d\d)?"
_LINES: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], Reading]], ...] = tuple(
    (start, re.compile(pattern, re.DOTALL), read)
    for start, pattern, read in (
        (
            "failed (exitcode: ",
            rf"failed \(exitcode: (?P<code>-?{_INT}|None)\) local_rank: (?P<local_rank>{_INT})"
            rf" \(pid: (?P<pid>{_INT}|None)\) of (?P<of>binary|fn): (?P<entrypoint>.*?)(?: \(start_method: \w+\))?",
            _worker_failed,
        ),
        ("Sending process ", rf"Sending process (?P<pid>{_INT}) closing signal (?P<signal>\S+)", _signal_sent),
        ("Closing process ", rf"Closing process (?P<pid>{_INT}) via signal (?P<signal>\S+)", _signal_sent),
        (
            "Unable to shutdown process ",
            rf"Unable to shutdown process (?P<pid>{_INT}) via \S+, forcefully exiting via (?P<signal>\S+)",
            _signal_forced,
        ),
        (
            "] Worker group ",
            rf"\[(?P<role>.*?)\] Worker group (?P<state>[A-Z_]+)\. (?P<left>{_INT})/(?P<max>{_INT}) attempts left;"
            r" will restart worker group",
            _group_failed,
        ),
        (
            " new nodes from group_rank=",
            rf"\[(?P<role>.*?)\] Detected (?P<waiting>{_INT}) new nodes from group_rank=(?P<group_rank>{_INT}|None);"
            r" will restart worker group",
            _membership,
        ),
        (" death signal", r"Received (?P<signal>\S+) death signal, shutting down workers", _agent_signal),
        ("Got termination signal", r"Got termination signal: (?P<signal>\S+)", _agent_signal),
        (
            " worker group successfully finished.",
            r"\[(?P<role>.*?)\] worker group successfully finished\. Waiting \S+ seconds for other agents to finish\.",
            _group_succeeded,
        ),
        (
            "Error waiting on exit barrier.",
            rf"Error waiting on exit barrier\. Elapsed: (?P<elapsed>{_SECONDS}) seconds",
            _barrier_failed,
        ),
        (
            "] starting workers for entrypoint: ",
            r"\[(?P<role>.*?)\] starting workers for entrypoint: (?P<entrypoint>.*)",
            _agent_started,
        ),
        (
            "] Rendezvous'ing worker group",
            r"\[(?P<role>.*?)\] Rendezvous'ing worker group",
            _of_role("rendezvous_begun"),
        ),
        ("] Starting worker group", r"\[(?P<role>.*?)\] Starting worker group", _of_role("group_started")),
        (
            "Local worker group finished (",
            rf"Local worker group finished \((?P<state>[\w.]{{1,60}})\)\."
            rf" Waiting (?P<wait>{_SECONDS}) seconds for other agents to finish",
            _group_finished,
        ),
        (
            "Done waiting for other agents.",
            rf"Done waiting for other agents\. Elapsed: (?P<elapsed>{_SECONDS}) seconds",
            _barrier_passed,
        ),
        (
            "] Worker pid=",
            rf"\[.*?\] Worker pid=(?P<pid>{_INT}) (?:stuck in|entered) uninterruptible sleep.*",
            _worker_stuck,
        ),
        (" did not exit after ", rf"Process (?P<pid>{_INT}) did not exit after SIG\w+ within .*", _worker_stuck),
        ("Rendezvous gracefully exited: ", r"Rendezvous gracefully exited: (?P<text>.*)", _rendezvous_left),
        (
            " has failed to shutdown the rendezvous ",
            r"The node '(?P<node>.*?)' has failed to shutdown the rendezvous '(?P<run>.*)'"
            r" due to an error of type (?P<type>\w+)\.",
            _shutdown_failed,
        ),
    )
)


class BarrierError:
    """The traceback below an exit barrier's line, each line of it behind the same prefix or behind none."""

    def __init__(self, prefix: Prefix, metadata: dict[str, Any]) -> None:
        self._prefix = prefix
        self._metadata = metadata
        self._started = False

    def take(self, prefix: Prefix) -> bool:
        """Whether the line is one of the traceback; its last one is the error."""
        same = (prefix.level, prefix.writer, prefix.pid) == (self._prefix.level, self._prefix.writer, self._prefix.pid)
        bare = not prefix.writer and not prefix.level and prefix.stamp is None
        if prefix.worker or not (same or bare) or self._metadata["error"] is not None:
            return False
        if not self._started:
            self._started = prefix.text.startswith("Traceback (most recent call last):")
            return self._started
        if prefix.text and not prefix.text[0].isspace():
            self._metadata["error"] = prefix.text
        return True
