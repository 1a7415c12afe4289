"""Workers that fail by themselves on one node; nobody else waits in a collective."""

from __future__ import annotations

import os
import signal

from .performance import Performance
from .scenario import INDEPENDENT, STOPPED, Attempt, Fault, Scenario
from .stage import Stage

FIRST = "first"

CHOSEN_EXIT = Scenario(
    name="exit_code_of_its_own",
    about="One rank leaves with a code that the script chose, past every handler of Python's.",
    ranks=3,
    script="""
        import os, witness
        witness.together()
        if witness.due("os._exit(7)", rank=1):
            os._exit(7)
        witness.wait()
    """,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="os._exit(7)", kind="exit_code", ranks=(1,), status=7),
            roles={0: STOPPED, 1: FIRST, 2: STOPPED},
            world_size=3,
        ),
    ),
)


def _kill_rank_1(stage: Stage) -> None:
    stage.start_agent()
    ups = stage.until_up(2, world_size=2)
    pid = next(up.pid for up in ups if up.rank == 1)
    stage.inject("kill -9 rank 1", lambda: os.kill(pid, signal.SIGKILL), pid=pid)


KILLED = Scenario(
    name="killed_from_outside",
    about="Somebody sends SIGKILL to one worker; it says nothing, and nobody says why.",
    script="import witness; witness.wait()",
    play=_kill_rank_1,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="kill -9 rank 1", kind="signal", ranks=(1,), status=-9),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)


def _terminate_rank_0(stage: Stage) -> None:
    stage.start_agent()
    ups = stage.until_up(2, world_size=2)
    pid = next(up.pid for up in ups if up.rank == 0)
    stage.inject("kill -15 rank 0", lambda: os.kill(pid, signal.SIGTERM), pid=pid)


TERMINATED = Scenario(
    name="sigterm_that_the_agent_did_not_send",
    about="Somebody else sends one worker the signal that agents stop workers with.",
    script="import witness; witness.wait()",
    play=_terminate_rank_0,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="kill -15 rank 0", kind="signal", ranks=(0,), status=-15),
            roles={0: FIRST, 1: STOPPED},
        ),
    ),
)

MISSING_FILE = Scenario(
    name="the_same_for_all",
    about="A file that none of the ranks can find: nobody is to blame more than the others.",
    ranks=3,
    args=("--monitor-interval=1",),
    script="""
        import witness
        witness.together()
        if witness.due("open", rank=(0, 1, 2), before=lambda: witness.moment("open", after_s=0.3)):
            open("/nowhere/shard-00017.bin")
        witness.wait()
    """,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="open",
                kind="exception",
                ranks=(0, 1, 2),
                status=1,
                says=("FileNotFoundError: [Errno 2]",),
                error_type="FileNotFoundError",
                message="[Errno 2] No such file or directory: '/nowhere/shard-00017.bin'",
            ),
            roles={0: INDEPENDENT, 1: INDEPENDENT, 2: INDEPENDENT},
        ),
    ),
)

TWO_AT_ONCE = Scenario(
    name="two_causes_at_the_same_time",
    about="Two ranks fail of two causes, 0.2 s apart, before their agent looks; both failures are real.",
    ranks=3,
    args=("--monitor-interval=2",),
    script="""
        import witness
        witness.together()
        if witness.due("ValueError", rank=2, before=lambda: witness.moment("both", after_s=0.3)):
            raise ValueError("label 1000 is out of bounds")
        if witness.due("KeyError", rank=0, before=lambda: witness.moment("both", after_s=0.5)):
            raise KeyError("lr_scheduler")
        witness.wait()
    """,
    proof=lambda performance: _both_failed(performance),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="ValueError",
                kind="exception",
                ranks=(2,),
                status=1,
                says=("ValueError: label 1000", "KeyError: 'lr_scheduler'"),
                error_type="ValueError",
                message="label 1000 is out of bounds",
            ),
            roles={0: INDEPENDENT, 1: STOPPED, 2: FIRST},
        ),
    ),
)


def _both_failed(performance: Performance) -> list[str]:
    statuses = [performance.status(line.pid) for line in performance.said("KeyError")]
    return [] if statuses == [1] else [f"the other failure ended with {statuses}, not with 1"]


THREAD = Scenario(
    name="noise_of_a_thread",
    about="A thread of rank 0 raises and is survived; a second later rank 1 fails of something else.",
    script="""
        import sys, threading, time, witness
        def log_metrics():
            raise ConnectionError("metrics server is gone")
        witness.together()
        if witness.RANK == 0 and witness.ARMED:
            threading.Thread(target=log_metrics, name="metrics").start()
        if witness.due("sys.exit(3)", rank=1, before=lambda: time.sleep(1)):
            sys.exit(3)
        witness.wait()
    """,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="sys.exit(3)",
                kind="exit_code",
                ranks=(1,),
                status=3,
                says=("ConnectionError: metrics server is gone",),
            ),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)

MEMORY_ERROR = Scenario(
    name="memory_error",
    about="An address space limit makes an allocation fail: Python's MemoryError, and no kernel has killed anybody.",
    script="""
        import resource, witness
        witness.together()
        if witness.due("allocate", rank=1):
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            batch = bytearray(4 << 30)
        witness.wait()
    """,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="allocate",
                kind="exception",
                ranks=(1,),
                status=1,
                says=("MemoryError",),
                error_type="MemoryError",
            ),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)


def _kernel_killed(performance: Performance) -> list[str]:
    return [] if performance.oom_kills > 0 else ["the kernel counts no out-of-memory kill"]


OUT_OF_MEMORY = Scenario(
    name="out_of_memory_kill",
    about="The kernel kills one worker because the control group of the job is out of memory.",
    memory_limit=700 << 20,
    script="""
        import witness
        witness.together()
        if witness.due("allocate", rank=1):
            batches = [bytearray(16 << 20) for _ in range(200)]
        witness.wait()
    """,
    proof=_kernel_killed,
    truth=(
        Attempt(
            outcome="failed",
            # How long the kernel takes to run out of memory is its own affair.
            fault=Fault(what="allocate", kind="oom_kill", ranks=(1,), status=-9, late_s=10.0),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)

LOADER = Scenario(
    name="data_loader_worker_killed",
    about="A data loader's worker process is killed; the rank that needs its batch raises.",
    script="""
        import os, signal, time, witness
        witness.together()
        if witness.RANK == 1:
            from torch.utils.data import DataLoader, Dataset
            class Numbers(Dataset):
                def __len__(self):
                    return 8
                def __getitem__(self, index):
                    if index == 5 and witness.due("kill the loader", rank=1):
                        time.sleep(1)  # until the batches before it, which it hands over itself, have been taken
                        os.kill(os.getpid(), signal.SIGKILL)
                    return index
            try:
                for batch in DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context="fork"):
                    pass
            except RuntimeError:
                witness.say("rank 1 loses its loader")
                raise
        witness.wait()
    """,
    proof=lambda performance: _loader_died(performance),
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="rank 1 loses its loader",
                kind="exception",
                ranks=(1,),
                status=1,
                says=("RuntimeError: DataLoader worker (pid",),
                error_type="RuntimeError",
            ),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)


def _loader_died(performance: Performance) -> list[str]:
    lines = performance.said("kill the loader")
    return [] if len(lines) == 1 else ["the loader's worker was not killed"]


AFTER_SUCCESS = Scenario(
    name="failure_after_the_work_was_done",
    about="All the work is done; a handler that runs at exit ends one process with a code of its own.",
    script="""
        import atexit, os, time, witness
        def upload_logs():
            if witness.due("os._exit(9) at exit", rank=1):
                os._exit(9)
        atexit.register(upload_logs)
        witness.together()
        if witness.RANK == 0:
            witness.wait()
    """,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(what="os._exit(9) at exit", kind="exit_code", ranks=(1,), status=9),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)

SCENARIOS = (
    CHOSEN_EXIT, KILLED, TERMINATED, MISSING_FILE, TWO_AT_ONCE, THREAD, MEMORY_ERROR, OUT_OF_MEMORY, LOADER,
    AFTER_SUCCESS,
)  # fmt: skip
