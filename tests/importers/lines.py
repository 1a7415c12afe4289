"""Lines as torch's agents and torchrun write them, for files that tests import."""

import json
import os
from types import SimpleNamespace

from jobtape.importers import import_files
from jobtape.tape.reader import read_tape
from jobtape.tape.records import EventRecord, LossRecord, RdzvRecord

FAILED_LINE = "failed (exitcode: 1) local_rank: 1 (pid: 1785) of binary: /usr/bin/python3"
API = "torch/distributed/elastic/multiprocessing/api.py:1002"
EVENTS = "torch/distributed/elastic/events/__init__.py:70"


def event(state="START", run_id="job-7", rank=0, **extra):
    """An event line about a worker."""
    metadata = {"run_id": run_id, "global_rank": rank, "hostname": "node-a", "state": state, "agent_restarts": 0}
    fields = {"name": f"torchelastic.worker.status.{state}", "source": "WORKER", "timestamp": 0, "metadata": metadata}
    return json.dumps({**fields, **extra})


def rdzv(message="joined", run_id="job-7", **extra):
    """A rendezvous event line."""
    fields = {
        "name": "dynamic_rendezvous.py:next_rendezvous",
        "run_id": run_id,
        "message": message,
        "hostname": "node-a",
        "pid": 1780,
        "node_state": "RUNNING",
        "master_endpoint": "",
        "rank": 0,
        "local_id": 0,
        "error_trace": "",
    }
    return json.dumps({**fields, **extra})


def glog(text, time="0217 09:30:00.019000", writer=API, level="I"):
    """A line with the prefix of torch 2.4 and later."""
    return f"{level}{time} 1780 {writer}] {text}"


def block(*entries, title="train.py"):
    """torchrun's closing block; an entry is (rank, exit code, text as torch prints it), the last one the root cause."""
    texts = []
    for index, (rank, code, text) in enumerate(entries):
        signal = "  (SIGTERM)" if code == -15 else " "
        texts.append(
            f"[{index}]:\n  time      : 2026-02-17_09:31:28\n  host      : node-a\n"
            f"  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {2170 + rank}){signal}\n  error_file: <N/A>\n  traceback : {text}"
        )
    others = "\n".join(texts[:-1]) or "  <NO_OTHER_FAILURES>"
    width = 60
    return (
        f"{'=' * width}\n{title} FAILED\n{'-' * width}\nFailures:\n{others}\n{'-' * width}\n"
        f"Root Cause (first observed failure):\n{texts[-1]}\n{'=' * width}"
    )


def written(path, *lines, mtime=None):
    """A file of these lines, given as text or bytes."""
    data = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    path.write_bytes(data)
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def imported(tmp_path, *lines, tz="UTC", name="node-a.log", mtime=None):
    """Import a file of these lines; its report and everything on the shelf."""
    report = import_files([written(tmp_path / name, *lines, mtime=mtime)], tmp_path / "shelf", tz)
    return on_shelf(tmp_path / "shelf", report)


def on_shelf(shelf, report):
    """What is on the shelf, file after file."""
    tapes = [read_tape(path) for path in sorted(shelf.glob("*/*.jsonl"))]
    assert all(tape.closed and not tape.missing and not tape.damage for tape in tapes)
    records = [record for tape in tapes for record in tape.records]
    return SimpleNamespace(
        report=report,
        tapes=tapes,
        records=[record for record in records if isinstance(record, (EventRecord, RdzvRecord))],
        logs=[record for record in records if record.__class__ is EventRecord and ".log." in record.name],
        losses={record.reason: record for record in records if isinstance(record, LossRecord)},
    )
