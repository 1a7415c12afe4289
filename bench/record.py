"""What recording costs, beside torch's own events module and beside the least that could be done, all in one run.

    record.py [--json FILE] [--rounds N]

The event is one of torch's agent with 13 metadata keys. All files lie in one folder, so on one file system. The floor
is a dataclass encoded by msgspec and written by one os.write: no clock, no sequence number, no error kept from anybody.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure

import jobtape

METADATA: dict[str, Any] = {
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

TO_NULL, TO_FILE, EMIT = "record, to null", "record, 13 keys, to a file", "emit, three values, to a file"
DEPTHS = {f"rendezvous event, to a file, {depth} frames deep": depth for depth in (5, 50)}
IMPORT, HOOK = "import of the events module", "the hook, in a process that does not record"

Ways = list[tuple[str, str, measure.Call]]


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


def serve_jobtape(folder: Path) -> int:
    """Our side; returns how many events were not recorded, for then the figures say nothing."""
    from jobtape import events
    from jobtape.destinations.tape import TapeHandler

    tape = folder.as_uri()
    os.environ["JOBTAPE_RECORD"] = tape
    handler = events.get_logging_handler(tape)
    events.register_handler("dynamic_rendezvous", handler, replace=True)
    event = events.Event(NAME, events.EventSource.AGENT, 0, METADATA)

    def rendezvous() -> None:
        events.construct_and_record_rdzv_event("gpt-nano-42", "attempts to join", events.NodeState.RUNNING, rank=1)

    ways: Ways = [
        (TO_NULL, "jobtape", lambda: events.record(event)),
        (TO_FILE, "jobtape", lambda: events.record(event, tape)),
        (EMIT, "jobtape", lambda: events.emit("step", step=12, loss=0.25, lr=1e-4)),
        *((path, "jobtape", at_depth(depth, rendezvous)) for path, depth in DEPTHS.items()),
    ]
    measure.serve(ways)
    lost = sum(counts["dropped"] + counts["failed"] for counts in events.stats().values())
    if isinstance(handler, TapeHandler):
        handler.close_tape("exit")  # the folder goes before this process does
    if lost:
        print(f"record.py: {lost} events were not recorded; the figures say nothing", file=sys.stderr)
    return lost


def serve_torch(folder: Path) -> int:
    """torch's side, with a FileHandler where its own destinations end in nothing."""
    import logging

    from torch.distributed.elastic import events
    from torch.distributed.elastic.events import handlers

    handlers._log_handlers["file"] = logging.FileHandler(folder / "torch.log")
    handlers._log_handlers["dynamic_rendezvous"] = logging.FileHandler(folder / "torch-rendezvous.log")
    event = events.Event(NAME, events.EventSource.AGENT, 0, METADATA)

    def emit() -> None:
        metadata = {"step": 12, "loss": 0.25, "lr": 1e-4}
        events.record(events.Event("step", events.EventSource.WORKER, time.time_ns() // 1_000_000, metadata), "file")

    def rendezvous() -> None:
        events.construct_and_record_rdzv_event("gpt-nano-42", "attempts to join", events.NodeState.RUNNING, rank=1)

    ways: Ways = [
        (TO_NULL, "torch", lambda: events.record(event)),
        (TO_FILE, "torch, FileHandler", lambda: events.record(event, "file")),
        (EMIT, "torch, an Event and record, FileHandler", emit),
        *((path, "torch, FileHandler", at_depth(depth, rendezvous)) for path, depth in DEPTHS.items()),
    ]
    measure.serve(ways)
    return 0


def serve_floor(folder: Path) -> int:
    """The least: no logger, no clock but the event's own."""
    import msgspec

    fd = os.open(folder / "floor.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    encode, write = msgspec.json.Encoder().encode, os.write
    event = Plain(NAME, "AGENT", 0, METADATA)

    def emit() -> None:
        made = Plain("step", "WORKER", time.time_ns() // 1_000_000, {"step": 12, "loss": 0.25, "lr": 1e-4})
        write(fd, encode(made) + b"\n")

    ways: Ways = [(TO_FILE, "floor", lambda: write(fd, encode(event) + b"\n")), (EMIT, "floor", emit)]
    measure.serve(ways)
    return 0


SIDES = {"jobtape": serve_jobtape, "torch": serve_torch, "floor": serve_floor}


def starts() -> list[measure.Figures]:
    """What loading costs, over an interpreter that has what any process has that imports torch."""
    has = "import json, logging, typing"
    hook = "from jobtape.capture import hook; hook.activate()"
    return measure.interleave_starts(
        [
            measure.Start(IMPORT, "jobtape", "import json, logging", "import jobtape.events", 21),
            measure.Start(IMPORT, "torch", "import json, logging", "import torch.distributed.elastic.events", 4),
            measure.Start(HOOK, "jobtape", has, hook, 21),
        ]
    )


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures there")
    parser.add_argument("--rounds", type=int, default=200, help="batches of each way (default: 200)")
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "FOLDER"), help="be one side of the measurement")
    options = parser.parse_args()
    if options.side:
        import torch  # noqa: F401 - all sides alike: a training process has it, and what it leaves for the collector

        return 1 if SIDES[options.side[0]](Path(options.side[1])) else 0

    # torch is measured as it is without us.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    place = options.json.resolve().parent if options.json else Path.cwd()
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as folder:
        sides = [[sys.executable, __file__, "--side", side, folder] for side in SIDES]
        rows = measure.interleave(sides, options.rounds)
    rows += starts()

    versions = {name: importlib.metadata.version(name) for name in ("torch", "msgspec")}
    versions["jobtape"] = jobtape.__version__
    print(f"python {platform.python_version()}", *(f"{n} {v}" for n, v in versions.items()), sep=" · ", end=" · ")
    print(f"{os.cpu_count()} cores")
    print(measure.table(rows))
    if options.json:
        kept = {"python": platform.python_version(), **versions, "cores": os.cpu_count()}
        options.json.write_text(json.dumps({**kept, "figures": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
