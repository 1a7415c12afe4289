"""One attempt of one agent: its workers, from their start until each has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from jobtape.capture.deaths import Death, DeathWatch, exit_codes_of
from jobtape.capture.destination import Tape
from jobtape.capture.faults import MESSAGE_MAX, TRACEBACK_MAX, cut
from jobtape.capture.kernel import oom_kills
from jobtape.capture.stacks import fatal_error, has_marks_only

RELAY_MAX = 1024 * 1024
"""Bytes of a worker's fatal error that are repeated on its stderr."""


class Attempt:
    """The workers an agent started together.

    Args:
        number: which start of this agent it is, from 0.
        restart_count: torch's count of failure restarts, as the workers see it.
        worker_group: torch's ``WorkerGroup``, ranks assigned.
        pids: local rank → process id.
        context: torch's process context.
        tape: where it is recorded.
        ended: called, in another thread, when the last worker has ended.
    """

    def __init__(
        self,
        *,
        number: int,
        restart_count: int,
        worker_group: Any,
        pids: dict[int, int],
        context: Any,
        tape: Tape,
        ended: Callable[[Attempt], None],
    ) -> None:
        self.number = number
        self.restart_count = restart_count
        self.started_s = time.monotonic()
        self.ended_s: float | None = None
        self.has_failed = False
        self.first_failure: dict[str, Any] | None = None
        self.exits: list[dict[str, Any]] = []
        self._context = context
        # torch.multiprocessing, which runs workers given as functions, ends the others itself when one has failed.
        self._functions = hasattr(context, "_pc")
        self._tape = tape
        self._ended = ended
        self._stop_reasons: dict[int, str] = {}
        self._membership_said = False
        self._oom_before = oom_kills()
        self._ranks = {
            pid: {"rank": worker_group.workers[local_rank].global_rank, "local_rank": local_rank, "pid": pid}
            for local_rank, pid in pids.items()
        }
        self._rendezvous = worker_group.spec.rdzv_handler
        self._open = set(self._ranks)
        self._watch: DeathWatch | None = None
        self._start_facts = {
            "restart_count": restart_count,
            "group_rank": worker_group.group_rank,
            "group_world_size": worker_group.group_world_size,
            "world_size": next((worker.world_size for worker in worker_group.workers), None),
            "local_world_size": len(pids),
            **_round_facts(self._rendezvous, worker_group.group_rank),
            "ranks": [facts["rank"] for facts in self._ranks.values()],
            "local_ranks": [facts["local_rank"] for facts in self._ranks.values()],
            "pids": list(self._ranks),
        }

    def watch(self) -> None:
        """Record the start and watch the workers from now on."""
        self._record("jobtape.attempt.start", **self._start_facts)
        self._watch = DeathWatch(list(self._ranks), self._on_death, exit_codes_of(self._context))

    def join(self, timeout_s: float) -> None:
        """Wait for the exit records of workers that have ended, at most `timeout_s`."""
        if self._watch is not None:
            self._watch.join(timeout_s)

    def stopping(self, pid: int, signal_name: str, reason: str) -> None:
        """The agent is about to send a signal to a worker, for a reason of `jobtape.worker.stop`."""
        facts = self._ranks.get(pid)
        if facts is None:
            return
        self._stop_reasons.setdefault(pid, reason)
        if reason == "membership" and not self._membership_said:
            self._membership_said = True
            self._record("jobtape.agent.membership", waiting=_waiting(self._rendezvous))
        self._record("jobtape.worker.stop", **facts, signal=signal_name, reason=reason)

    def failed(self, failure: Any) -> None:
        """Keep what the error file of a failed worker says; its exit is recorded by the death watch."""
        facts = self._ranks.get(failure.pid)
        data = failure.error_file_data if isinstance(failure.error_file_data, dict) else {}
        if failure.pid not in self._stop_reasons:
            self.has_failed = True
        message = data.get("message")
        if facts is None or message in (None, "<NONE>"):
            return
        text, stack = str(message), None
        if isinstance(message, dict):
            extra = message.get("extraInfo")
            stack = extra.get("py_callstack") if isinstance(extra, dict) else None
            text = str(message.get("message", ""))
        error_type, _, rest = text.partition(": ")
        named = error_type.replace(".", "").replace("_", "").isalnum()
        self._record(
            "jobtape.worker.failure",
            **facts,
            exit_code=failure.exitcode,
            error_type=error_type if named else None,
            message=cut(rest if named else text, MESSAGE_MAX),
            traceback=cut(stack, TRACEBACK_MAX) if isinstance(stack, str) else None,
            error_time_s=float(failure.timestamp),
            error_file=str(failure.error_file),
        )

    def _record(self, name: str, **metadata: Any) -> None:
        self._tape.record("AGENT", name, attempt=self.number, **metadata)

    def _on_death(self, death: Death) -> None:
        """Called by the death watch, in its thread."""
        try:
            self._record_exit(death)
            self._relay_fatal_error(death)
            self._open.discard(death.pid)
            if not self._open:
                self.ended_s = time.monotonic()
                self._record("jobtape.attempt.end", state=self.state, failed_ranks=self._failed_ranks())
                self._ended(self)
        except Exception as error:  # noqa: BLE001 - the watch must go on with the other workers
            self._tape.failed(error)

    def _record_exit(self, death: Death) -> None:
        facts = self._ranks[death.pid]
        kills = None
        if death.exit_code == -signal.SIGKILL:
            now = oom_kills()
            kills = now - self._oom_before if now is not None and self._oom_before is not None else None
        if self._functions and self.has_failed and death.exit_code in (-signal.SIGTERM, -signal.SIGKILL):
            self._stop_reasons.setdefault(death.pid, "failure")
        exit_facts = {
            **facts,
            "exit_code": death.exit_code,
            "signal": signal_name(death.exit_code),
            "core_dumped": death.core_dumped,
            "oom_kills": kills,
            "stopped": death.pid in self._stop_reasons,
        }
        self.exits.append(exit_facts)
        if death.exit_code and not exit_facts["stopped"]:
            self.has_failed = True
            self.first_failure = self.first_failure or exit_facts
        self._record("jobtape.worker.exit", **exit_facts)

    @property
    def state(self) -> str:
        """``SUCCEEDED``, ``FAILED`` or ``STOPPED``, once all workers have ended."""
        if self.has_failed:
            return "FAILED"
        return "STOPPED" if self._stop_reasons else "SUCCEEDED"

    @property
    def stop_reason(self) -> str | None:
        """Why the agent stopped workers of this attempt, if it did."""
        return next(iter(self._stop_reasons.values()), None)

    def _failed_ranks(self) -> list[int]:
        return sorted(facts["rank"] for facts in self.exits if facts["exit_code"] and not facts["stopped"])

    def _relay_fatal_error(self, death: Death) -> None:
        """Print on the worker's stderr what its faulthandler would have printed there, had ours not taken it.

        A sidecar into which nothing was written is removed: a worker that was killed could not do it.
        """
        path = self._tape.path
        if not death.exit_code or death.exit_code > 0 or path is None:
            return
        host = path.name.rsplit("-", 2)[0]  # another node's worker may have the same pid
        for sidecar in sorted(path.parent.glob(f"{host}-{death.pid}-*.stacks"))[-1:]:
            with open(sidecar, "rb") as stream:
                text = stream.read(RELAY_MAX)
            error = fatal_error(text)
            if has_marks_only(text):
                sidecar.unlink()
            elif error is not None:
                self._write_to_stderr(self._ranks[death.pid]["local_rank"], error)

    def _write_to_stderr(self, local_rank: int, text: bytes) -> None:
        target = (getattr(self._context, "stderrs", None) or {}).get(local_rank)
        if target:
            with open(target, "ab") as stream:
                stream.write(text)
            return
        with contextlib.suppress(OSError):
            sys.stderr.flush()
            os.write(2, text)


def signal_name(exit_code: int | None) -> str | None:
    """``SIGSEGV`` for -11; ``SIGRTMIN+1`` and the like as ``signal 35``; None for other exit codes."""
    if exit_code is None or exit_code >= 0:
        return None
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _round_facts(handler: Any, group_rank: int | None) -> dict[str, Any]:
    """The rendezvous round as the agent's own state knows it; nothing for backends that have no rounds.

    Only the agent with group rank 0 lists all participants: one list a round is enough, and there may be thousands.
    """
    state = _rendezvous_state(handler)
    if state is None:
        return {"round": None, "node": None}
    facts: dict[str, Any] = {"round": state.round, "node": str(getattr(handler, "_this_node", "")) or None}
    if group_rank == 0:
        ranked = sorted(state.participants.items(), key=lambda item: item[1])
        facts["participants"] = [str(node) for node, _ in ranked]
    return facts


def _waiting(handler: Any) -> int | None:
    state = _rendezvous_state(handler)
    return len(state.wait_list) if state is not None else None


def _rendezvous_state(handler: Any) -> Any:
    """The state torch holds in memory; asking the store would be a round trip over the network."""
    holder = getattr(handler, "_state_holder", None)
    state = getattr(holder, "state", None)
    wanted = ("round", "participants", "wait_list")
    return state if state is not None and all(hasattr(state, name) for name in wanted) else None
