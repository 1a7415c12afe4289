"""What recording costs, beside torch's own events module and beside the least that could be done, all in one run.

    record.py [--json FILE] [--rounds N]

The event is one of torch's agent with 13 metadata keys. All files lie in one folder, so on one file system. The floor
is a dataclass encoded by msgspec and written by one os.write: no clock, no sequence number, no error kept from anybody.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import measure
import msgspec
import torch
from torch.distributed.elastic import events as torch_events
from torch.distributed.elastic.events import handlers as torch_handlers
from torch.distributed.elastic.events.api import NodeState as TorchNodeState

import jobtape
from jobtape import events

METADATA = {
    "run_id": "gpt-nano-42",
    "global_rank": None,
    "group_rank": 0,
    "worker_id": None,
    "role": "default",
    "hostname": "node-a.example.org",
    "state": "SUCCEEDED",
    "total_run_time": 5121,
    "rdzv_backend": "c10d",
    "raw_error": None,
    "metadata": '{"group_world_size": 2, "entry_point": "python3"}',
    "agent_restarts": 0,
    "duration_ms": 31,
}
NAME = "torchelastic.worker.status.SUCCEEDED"
DEPTHS = (5, 50)
STARTS = 15


@dataclass
class Plain:
    """The floor's event."""

    name: str
    source: str
    timestamp: int = 0
    metadata: dict[str, object] = field(default_factory=dict)


def at_depth(depth: int, call: Callable[[], None]) -> Callable[[], None]:
    """The same call, made from `depth` frames further down."""

    def descend(left: int) -> None:
        if left:
            descend(left - 1)
        else:
            call()

    return lambda: descend(depth)


def ways(folder: Path) -> list[measure.Way]:
    """Every way of recording, ready to be called."""
    tape = folder.as_uri()
    os.environ["JOBTAPE_RECORD"] = tape
    events.register_handler("dynamic_rendezvous", events.get_logging_handler(tape), replace=True)
    torch_handlers._log_handlers["file"] = logging.FileHandler(folder / "torch.log")

    event = events.Event(NAME, events.EventSource.AGENT, 0, METADATA)
    torch_event = torch_events.Event(NAME, torch_events.EventSource.AGENT, 0, METADATA)
    plain = Plain(NAME, "AGENT", 0, METADATA)
    fd = os.open(folder / "floor.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    encode, write = msgspec.json.Encoder().encode, os.write

    def floor_emit() -> None:
        write(fd, encode(Plain("step", "WORKER", time.time_ns(), {"step": 12, "loss": 0.25, "lr": 1e-4})) + b"\n")

    def torch_emit() -> None:
        made = torch_events.Event(
            "step", torch_events.EventSource.WORKER, time.time_ns() // 1_000_000, {"step": 12, "loss": 0.25, "lr": 1e-4}
        )
        torch_events.record(made, "file")

    def ours_rdzv() -> None:
        events.construct_and_record_rdzv_event("gpt-nano-42", "attempts to join", events.NodeState.RUNNING, rank=1)

    def torch_rdzv() -> None:
        torch_events.construct_and_record_rdzv_event("gpt-nano-42", "attempts to join", TorchNodeState.RUNNING, rank=1)

    to_null, to_file = "record to null", "record to a file, 13 keys"
    emit = "emit, three values, to a file"
    found = [
        measure.Way(to_null, "jobtape", lambda: events.record(event)),
        measure.Way(to_null, "torch", lambda: torch_events.record(torch_event)),
        measure.Way(to_file, "jobtape", lambda: events.record(event, tape)),
        measure.Way(to_file, "torch, logging.FileHandler", lambda: torch_events.record(torch_event, "file")),
        measure.Way(to_file, "floor", lambda: write(fd, encode(plain) + b"\n")),
        measure.Way(emit, "jobtape", lambda: events.emit("step", step=12, loss=0.25, lr=1e-4)),
        measure.Way(emit, "torch, Event and record to a FileHandler", torch_emit),
        measure.Way(emit, "floor", floor_emit),
    ]
    for depth in DEPTHS:
        path = f"rendezvous event, {depth} frames deep"
        found.append(measure.Way(path, "jobtape, to a file", at_depth(depth, ours_rdzv)))
        found.append(measure.Way(path, "torch, to null", at_depth(depth, torch_rdzv)))
    for way in found:
        way.who = way.who.replace("jobtape, to a file", "jobtape")
    return found


def starts() -> list[measure.Figures]:
    """What loading costs, over an interpreter that has logging and json."""
    hook = "from jobtape.capture import hook; hook.activate()"
    return measure.interleave_starts(
        [
            ("import of the events module", "jobtape", "import jobtape.events", STARTS),
            ("import of the events module", "torch", "import torch.distributed.elastic.events", 3),
            ("torch's hook, in a process that does not record", "jobtape", hook, STARTS),
        ]
    )


def lost() -> int:
    """How many events ours did not record; the figures are worth nothing when there are any."""
    return sum(counts["dropped"] + counts["failed"] for counts in events.stats().values())


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures there")
    parser.add_argument("--rounds", type=int, default=150, help="batches of each way (default: 150)")
    options = parser.parse_args()

    place = options.json.resolve().parent if options.json else Path.cwd()
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as folder:
        rows = measure.interleave(ways(Path(folder)), options.rounds)
        missing = lost()
    rows += starts()

    versions = {"python": platform.python_version(), "torch": torch.__version__, "jobtape": jobtape.__version__}
    print(" · ".join(f"{name} {version}" for name, version in versions.items()), f"· {os.cpu_count()} cores")
    print(measure.table(rows))
    if options.json:
        kept = {**versions, "cores": os.cpu_count(), "lost": missing, "figures": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    if missing:
        print(f"record.py: {missing} events were not recorded; the figures say nothing", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
