"""Live tapes in a few words: what agents and workers write about themselves while they run."""

from jobtape.tape.records import CloseRecord, Header
from tests.diagnose.lab import File


class Agent(File):
    """An agent's live tape."""

    def __init__(self, host="node-a", pid=100, run_id="job", boot="boot-a", boot_s=5000.0, skew=0.0, start=0.0):
        super().__init__(f"{host}-{pid}.jsonl", None)
        self.boot_s, self.skew = boot_s, skew
        self.header = Header(
            role="agent", run_id=run_id, host=host, boot_id=boot, pid=pid, pid_start=pid * 10, **self.stamp(start)
        )
        self.host, self.pid, self.boot, self.run_id = host, pid, boot, run_id
        self.attempt = -1

    def own(self, t, name, **metadata):
        """Add one of jobtape's own events."""
        return self.event(f"jobtape.{name}", "AGENT", t, **metadata)

    def start(self, t, ranks, pids, round_=None, group_rank=0, size=1, world=None, restarts=None):
        """Start workers."""
        self.attempt += 1
        self.workers = dict(zip(pids, zip(ranks, range(len(ranks)), strict=True), strict=True))
        return self.own(
            t,
            "attempt.start",
            attempt=self.attempt,
            restart_count=self.attempt if restarts is None else restarts,
            round=round_,
            group_rank=group_rank,
            group_world_size=size,
            world_size=world or len(ranks),
            local_world_size=len(ranks),
            node=None,
            ranks=list(ranks),
            local_ranks=list(range(len(ranks))),
            pids=list(pids),
        )

    def _worker(self, pid):
        rank, local_rank = self.workers[pid]
        return {"attempt": self.attempt, "rank": rank, "local_rank": local_rank, "pid": pid}

    def exit(self, t, pid, code, stopped=False, oom_kills=None, core=False):
        """A worker ended."""
        return self.own(
            t,
            "worker.exit",
            **self._worker(pid),
            exit_code=code,
            signal=None,
            core_dumped=core,
            oom_kills=oom_kills,
            stopped=stopped,
        )

    def stop(self, t, *pids, signal="SIGTERM", reason="failure"):
        """The agent stops workers; they end at once."""
        for pid in pids:
            self.own(t, "worker.stop", **self._worker(pid), signal=signal, reason=reason)
        for pid in pids:
            self.exit(t + 0.01, pid, -15 if signal == "SIGTERM" else -9, stopped=True)
        return self

    def ended(self, t, state="FAILED", failed=()):
        """All workers of the attempt have ended."""
        return self.own(t, "attempt.end", attempt=self.attempt, state=state, failed_ranks=list(failed))

    def membership(self, t, waiting=1):
        """Healthy workers are about to be restarted."""
        return self.own(t, "agent.membership", attempt=self.attempt, waiting=waiting)

    def close(self, t, outcome="failed", **error):
        """The launcher returns."""
        self.own(t, "launch.end", outcome=outcome, **error)
        return self.add(CloseRecord, t, reason="launch_end", recorded=len(self.records), lost=0)

    def worker(self, pid, restarts=None, start=None, **ranks):
        """The tape of one of its workers."""
        rank, local_rank = self.workers[pid]
        return Worker(
            self.host,
            pid,
            self.run_id,
            self.boot,
            self.boot_s,
            start if start is not None else 0.5,
            parent_pid=self.pid,
            skew=self.skew,
            RANK=rank,
            LOCAL_RANK=local_rank,
            TORCHELASTIC_RESTART_COUNT=self.attempt if restarts is None else restarts,
            **ranks,
        )


class Worker(File):
    """A worker's live tape."""

    def __init__(
        self,
        host="node-a",
        pid=1,
        run_id="job",
        boot="boot-a",
        boot_s=5000.0,
        start=0.0,
        parent_pid=1,
        skew=0.0,
        **ranks,
    ):
        super().__init__(f"{host}-{pid}.jsonl", None)
        self.boot_s, self.skew = boot_s, skew
        self.header = Header(
            role="worker",
            run_id=run_id,
            host=host,
            boot_id=boot,
            pid=pid,
            pid_start=pid * 10,
            parent_pid=parent_pid,
            ranks={name: str(value) for name, value in ranks.items()},
            **self.stamp(start),
        )

    def error(self, t, kind, message, location="/srv/train.py:12", name="error", **more):
        """An uncaught exception."""
        path, _, line = location.rpartition(":")
        frame = f'  File "{path}", line {line}, in main\n    step()\n'
        trace = f"Traceback (most recent call last):\n{frame}{kind}: {message}\n"
        return self.event(
            f"jobtape.worker.{name}",
            "WORKER",
            t,
            error_type=kind,
            message=message,
            traceback=trace,
            location=location,
            **more,
        )

    def exit_call(self, t, code, call="sys.exit", location="/srv/train.py:30", message=None):
        """The worker ends itself."""
        stack = f'  File "{location.rpartition(":")[0]}", line {location.rpartition(":")[2]}, in main\n    leave()\n'
        return self.event(
            "jobtape.worker.exit_call",
            "WORKER",
            t,
            call=call,
            code=code,
            message=message,
            location=location,
            stack=stack,
        )

    def close(self, t):
        """The interpreter shuts down."""
        return self.add(CloseRecord, t, reason="exit", recorded=len(self.records), lost=0)

    def stood(self, *frames, fatal=None):
        """What faulthandler wrote: the innermost frame first."""
        lines = "".join(f'  File "{path}", line {line} in {name}\n' for path, line, name in frames)
        head = f"Fatal Python error: {fatal}\n\n" if fatal else ""
        self.stacks = f"{head}Current thread 0x00007f0000000000 (most recent call first):\n{lines}"
        return self
