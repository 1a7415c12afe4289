"""Imported by the lab's scripts: says on disk who is here, and what is about to be done to whom, before it is done.

It lies beside the script while a scenario plays, so it may import nothing but the standard library. Each process has a
file of its own; its harness sees it, opens a pidfd of the process and says so, and only then does the script go on. So
no process can end unseen.
"""

import json
import os
import time
from pathlib import Path

HERE = Path(os.environ["FAULTLAB_FOLDER"])
ARMED = os.environ.get("FAULTLAB_ARMED") == "1"
PATIENCE_S = 60.0

RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
_group = f"{ATTEMPT}-{WORLD_SIZE}-{os.environ.get('MASTER_PORT', '0')}"
_file = HERE / f"{os.getpid()}.jsonl"


def say(what, *, synced=False, **facts):
    """Write one line. What is synced to the disk is written first; its time is taken after that."""
    if synced:
        _write({"what": what, "moment": "about"}, synced=True)
    _write({"what": what, "moment": "now", **facts}, synced=False)


def due(what, *, rank, attempt=0, before=None):
    """Whether this process is the one to fail now; if so it is on disk when this returns.

    Args:
        what: the injection's name.
        rank: whom it is meant for: a rank, or several.
        attempt: in which attempt (torch's restart count).
        before: done after the announcement and right before the time of the fault is taken.
    """
    meant = rank if isinstance(rank, tuple) else (rank,)
    if not ARMED or RANK not in meant or attempt != ATTEMPT:
        return False
    _write({"what": what, "moment": "about"}, synced=True)
    if before is not None:
        before()
    _write({"what": what, "moment": "now"}, synced=False)
    return True


def together():
    """Wait until every rank of this attempt is here."""
    (HERE / f"at-{_group}-{RANK}").touch()
    _until(lambda: len(list(HERE.glob(f"at-{_group}-*"))) >= WORLD_SIZE)


def wait():
    """Be at work until the harness says that the job is over, or somebody ends it."""
    _until(lambda: (HERE / "finish").exists())


def wait_for(name):
    """Wait until a file of that name is there."""
    _until(lambda: (HERE / name).exists())


def hang():
    """What a rank does that hangs."""
    time.sleep(PATIENCE_S)
    say("woke")


def moment(name, after_s=0.0):
    """Wait for a moment that all who name it share: `after_s` after the first of them came."""
    path = HERE / f"moment-{name}"
    try:
        with open(path, "x") as file:
            file.write(repr(time.monotonic()))
    except FileExistsError:
        pass
    text = ""
    while not text:
        text = path.read_text()
    time.sleep(max(0.0, float(text) + after_s - time.monotonic()))


def _until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the lab never came to the point this script waits for")
        time.sleep(0.01)


def _write(line, *, synced):
    here = {"rank": RANK, "local_rank": LOCAL_RANK, "world_size": WORLD_SIZE, "attempt": ATTEMPT}
    here |= {"pid": os.getpid(), "ppid": os.getppid()}
    line = {**line, **here, "time": time.time(), "monotonic": time.monotonic()}
    fd = os.open(_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, (json.dumps(line) + "\n").encode())
    if synced:
        os.fsync(fd)
    os.close(fd)


say("up")
_until(lambda: (HERE / f"{os.getpid()}.seen").exists())
