"""Files as DLRover, NVRx, torchtitan and torch's error handler write them, for files that tests import."""

import json
from pathlib import Path
from types import SimpleNamespace

from jobtape.diagnose.reconstruct import diagnose
from jobtape.errors import ImportFailed
from jobtape.importers import import_files
from jobtape.tape.reader import read_tape
from jobtape.tape.records import EventRecord, LossRecord

DAY = "2026-02-17"
TRACE = 'Traceback (most recent call last):\n  File "/srv/train.py", line 88, in step\n    x()\n{}\n'
FAILURE = (
    "{{{rank}: ProcessFailure(local_rank={rank}, pid={pid}, exitcode={code}, error_file='/tmp/e.json', "
    "error_file_data={{}}, message={{'message': {said!r}, 'extraInfo': {{'py_callstack': {trace!r}, "
    "'timestamp': '1771320688'}}}}, timestamp=1771320688)}}"
)


def brought(tmp_path, *paths, tz="UTC", format_="auto"):
    """Import files; the report, the records of all tapes, and what the newest run's diagnosis is."""
    report = import_files(list(paths), tmp_path / "shelf", tz, format_)
    tapes = [read_tape(path) for path in sorted((tmp_path / "shelf").glob("*/*.jsonl"))]
    assert not any(tape.missing or tape.damage for tape in tapes)
    records = [record for tape in tapes for record in tape.records]
    return SimpleNamespace(
        report=report,
        tapes=tapes,
        records=[record for record in records if isinstance(record, EventRecord)],
        losses={record.reason: record for record in records if isinstance(record, LossRecord)},
        run=diagnose(tapes),
    )


def brought_or_refused(tmp_path, *paths, **options):
    """What `brought` returns; None where the import says in one line what is wrong."""
    try:
        return brought(tmp_path, *paths, **options)
    except ImportFailed as error:
        said = str(error)
    assert "\n" not in said
    return None


def error_file(root, attempt, local_rank, said, second=1771320622, **message):
    """An error file of torch in its place below ``root``, the directory of one agent."""
    path = Path(root) / f"attempt_{attempt}" / str(local_rank) / "error.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    extra = {"py_callstack": TRACE.format(said), "timestamp": str(second)}
    path.write_text(json.dumps({"message": {"message": said, "extraInfo": extra, **message}}))
    return path


def dlrover(clock, target, name, kind, content=None, *, pid=100, span="a1"):
    """A line of DLRover's events."""
    said = json.dumps(content or {}, ensure_ascii=False)
    return f"[{DAY}T{clock}] [{pid}] [{span}] [{target}] [{name}] [{kind}] {said}"


def rendezvous(clock, round_, *, node="pod-0", kind="elastic-training", pid=100, **result):
    """An agent's rendezvous that has ended well."""
    content = {"rendezvous_type": kind, "node_name": node, "node_rank": 0, "timeout": 600}
    result = {"round": round_, "rank": 0, "world_size": 1, "success": True, **result}
    return dlrover(clock, "dlrover-agent", "#rendezvous", "END", {**content, **result}, pid=pid)


def step(minute, second, number, *, pid):
    """The two lines of a training step that takes a second."""
    span = f"s{pid}-{number}"
    return [
        dlrover(
            f"09:{minute}:{second:02}.5", "AtorchTrainerV2", "#step", kind, {"global_step": count}, pid=pid, span=span
        )
        for second, kind, count in ((second, "BEGIN", number - 1), (second + 1, "END", number))
    ]


def failed(clock, *, rank=1, pid=202, code=1, said="ValueError: bad", name="#process_restart"):
    """An agent's event of a failed worker."""
    failures = FAILURE.format(rank=rank, pid=pid, code=code, said=said, trace=TRACE.format(said))
    content = {"node_rank": 0, "restart_count": 0, "remaining_restarts": 3, "state": "FAILED", "failures": failures}
    return dlrover(clock, "dlrover-agent", name, "INSTANT", content)


def cycle(folder, number, began, ended="", **fields):
    """A cycle file of NVRx."""
    told = {
        "job_id": "991",
        "attempt_index": 0,
        "cycle_number": number,
        "cycle_start_time": f"{DAY}T{began}Z",
        "cycle_end_time": f"{DAY}T{ended}Z" if ended else "",
        "cycle_log_file": f"/logs/train_cycle{number}.log",
        "active_nodes": "node[01-02]",
        "standby_nodes": "node03",
        "generation": "1",
        "active_ranks": "0-1",
        **fields,
    }
    path = Path(folder) / f"cycle_info.{told['job_id']}.{told['attempt_index']}.{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=2))
    return path


def titan(name, second, seq, *, rank=0, kind="event", **fields):
    """A line of torchtitan's structured logger."""
    time = 1771320600 + second
    return json.dumps(
        {
            "delta_ms": 0.1,
            "tid": 5,
            "rank": rank,
            "global_rank": rank,
            "local_rank": rank,
            "source": "training",
            "host_name": "node-a",
            "pid": 900 + rank,
            "time": int(time),
            "time_ms": int(time * 1000),
            "time_us": round(time * 1e6),
            "log_type": kind,
            "log_type_name": name,
            "event_name": None,
            "caller": "trainer.py:1:train",
            "seq_id": seq,
            "message": f"[step 1] {name}",
            **fields,
        }
    )
