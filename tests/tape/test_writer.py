"""The writer of a tape file, in one process that goes well."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.tape.header import this_process
from jobtape.tape.reader import read_tape
from jobtape.tape.records import CloseRecord, EventRecord, LossRecord, RdzvRecord
from jobtape.tape.writer import MAX_LINE_BYTES, Writer

AGENT_EVENT: dict[str, Any] = {
    "run_id": "job-1",
    "global_rank": None,
    "group_rank": 0,
    "worker_id": None,
    "role": "default",
    "hostname": "node-a",
    "state": "RENDEZVOUS",
    "total_run_time": 3,
    "rdzv_backend": "c10d",
    "raw_error": None,
    "metadata": '{"group_world_size": null, "entry_point": "python"}',
    "agent_restarts": 0,
    "duration_ms": 208.86,
}


class Recording:
    """Its repr records an event of its own."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __repr__(self) -> str:
        self.writer.event("inner", "WORKER", 0, {})
        return "recorded"


def test_what_is_written_is_read(writer: Writer) -> None:
    """Every kind of record comes back with its fields, in order, numbered without gaps."""
    writer.event("torchelastic.worker.status.RENDEZVOUS", "AGENT", 0, AGENT_EVENT)
    writer.rdzv(name="a.py:f", run_id="job-1", message="joined", hostname="h", pid=7, node_state="RUNNING", local_id=0)
    writer.event("jobtape.worker.exit", "AGENT", 12, {"exit_code": -9}, sync=True)
    writer.loss("write_failed", 3, "no space")
    writer.close("launch_end")
    tape = read_tape(writer.path)
    event, rdzv, failure, loss, close = tape.records
    assert isinstance(event, EventRecord)
    assert ("torchelastic.worker.status.RENDEZVOUS", "AGENT", 0) == (event.name, event.source, event.timestamp)
    assert list(AGENT_EVENT.items()) == list(event.metadata.items())
    assert isinstance(rdzv, RdzvRecord)
    assert ("a.py:f", "job-1", "joined", "h", 7, "RUNNING", None, 0, "") == (
        *(rdzv.name, rdzv.run_id, rdzv.message, rdzv.hostname, rdzv.pid, rdzv.node_state),
        *(rdzv.rank, rdzv.local_id, rdzv.error_trace),
    )
    assert isinstance(failure, EventRecord)
    assert 12 == failure.timestamp
    assert isinstance(loss, LossRecord)
    assert ("write_failed", 3, "no space") == (loss.reason, loss.count, loss.detail)
    assert isinstance(close, CloseRecord)
    assert ("launch_end", 3, 3) == (close.reason, close.recorded, close.lost)
    assert [1, 2, 3, 4, 5] == [record.seq for record in tape.records]
    assert [2, 3, 4, 5, 6] == tape.lines
    assert (True, False, 0, []) == (tape.closed, tape.torn, tape.missing, tape.damage)
    assert writer.recorded == 3


def test_times_of_records_rise(writer: Writer) -> None:
    """Each record has wall and monotonic time."""
    for _ in range(3):
        writer.event("x", "WORKER", 0, {})
    tape = read_tape(writer.path)
    assert tape.header is not None
    times = [tape.header.mono_ns, *(record.mono_ns for record in tape.records)]
    assert times == sorted(times, key=lambda time_ns: time_ns or 0)
    assert all((record.time_ns or 0) >= (tape.header.time_ns or 1) for record in tape.records)


def test_a_line_is_strict_json_and_begins_with_its_kind_and_number(writer: Writer) -> None:
    """Readers in other languages find records by it, also in a damaged file."""
    writer.event("x", "WORKER", 0, {"loss": float("nan"), "big": 2**99, "text": "\udc80", "nested": {"$a": 1}})
    writer.close("exit")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    lines = writer.path.read_bytes().decode("utf-8").splitlines()
    for number, line in enumerate(lines):
        kind = json.loads(line, parse_constant=refuse)["kind"]
        assert line.startswith(f'{{"kind":"{kind}","seq":{number},"time_ns":')


def test_the_file_is_named_after_its_process_and_private(writer: Writer, run_dir: Path) -> None:
    """Tapes hold tracebacks: directories are 0700 and files 0600, whatever the umask allows."""
    host, pid, start = writer.path.stem.rsplit("-", 2)
    assert (os.uname().nodename, str(os.getpid()), 18) == (host, pid, len(start))
    assert [0o600, 0o700, 0o700] == [
        stat.S_IMODE(path.stat().st_mode) for path in (writer.path, run_dir, run_dir.parent)
    ]


def test_two_writers_of_one_process_have_two_files(run_dir: Path) -> None:
    """A file has one writer, also when two begin in the same millisecond."""
    header = this_process("job-1", "worker")
    assert 5 == len({Writer(run_dir, header).path for _ in range(5)})


def test_a_hostile_host_name_stays_in_the_directory(run_dir: Path) -> None:
    """Host names come from the environment, too."""
    header = this_process("job-1", "worker")
    header.host = "../../x\n"
    path = Writer(run_dir, header).path
    assert run_dir == path.parent
    assert "../../x\n" == getattr(read_tape(path).header, "host", None)


def test_a_planted_link_is_not_followed(run_dir: Path, tmp_path: Path) -> None:
    """A run's directory that is a link out of the shelf is refused."""
    (tmp_path / "elsewhere").mkdir()
    run_dir.parent.mkdir(parents=True)
    run_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        Writer(run_dir, this_process("job-1", "worker"))
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_a_directory_that_cannot_be_made_is_an_oserror(tmp_path: Path) -> None:
    """The caller decides what becomes of it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        Writer(tmp_path / "file" / "run", this_process("job-1", "worker"))


@pytest.mark.parametrize(
    ("name", "source", "timestamp", "metadata"),
    [
        ("\udc80", "AGENT", 0, {}),
        (7, "AGENT", 0, {}),
        (None, None, None, None),
        ("x", "AGENT", float("nan"), {}),
        ("x", "AGENT", 2**70, {}),
        ("x", "AGENT", "yesterday", {}),
        ("x", "AGENT", True, {}),
        ("x", "AGENT", 0, {1: 1, "1": 2}),
        ("x", "AGENT", 0, {"o": object()}),
        ("x", "AGENT", 0, {"deep": [[[[[[[[[[[[]]]]]]]]]]]]}),
        ("x", "AGENT", 0, {"\udc80": "\udc80"}),
        ("x", "AGENT", 0, ["not", "a", "dict"]),
    ],
)
def test_an_invalid_event_is_kept_all_the_same(
    name: Any, source: Any, timestamp: Any, metadata: Any, writer: Writer
) -> None:
    """It is one event record, whatever stood in it, and the next one is written as well."""
    writer.event(name, source, timestamp, metadata)
    writer.event("next", "WORKER", 0, {})
    tape = read_tape(writer.path)
    assert [EventRecord, EventRecord] == [type(record) for record in tape.records]
    assert ([], 0) == (tape.damage, tape.missing)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", "\udc80"),
        ("pid", None),
        ("pid", "7"),
        ("rank", 2**80),
        ("rank", 1.5),
        ("name", 3),
        ("error_trace", b"x"),
    ],
)
def test_an_invalid_rendezvous_event_is_kept_all_the_same(field: str, value: Any, writer: Writer) -> None:
    """As events are."""
    writer.rdzv(**{"name": "f", "node_state": "INIT", field: value})
    tape = read_tape(writer.path)
    assert [RdzvRecord] == [type(record) for record in tape.records]
    assert [] == tape.damage


def test_fields_that_torch_does_not_know_are_kept(writer: Writer) -> None:
    """A rendezvous event of a later torch."""
    writer.rdzv(name="f", node_state="INIT", store="etcd", load=float("inf"))
    (record,) = read_tape(writer.path).records
    assert isinstance(record, RdzvRecord)
    assert {"store": "etcd", "load": float("inf")} == record.extra


metadata_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(exclude_categories=[]))
    | st.sampled_from(["\0", "\n", "\r\n", "\u2028", '{"kind":"event","seq":1,"time_ns":1}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(metadata=st.dictionaries(st.text(), metadata_values, max_size=6), name=st.text())
def test_any_metadata_comes_back_equal(
    metadata: dict[str, Any], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What a user put into an event is what a reader gets out of it."""
    writer = Writer(tmp_path_factory.getbasetemp() / "any", this_process("job-1", "worker"))
    writer.event(name, "WORKER", 0, metadata)
    (record,) = read_tape(writer.path).records
    assert isinstance(record, EventRecord)
    assert (name, metadata) == (record.name, record.metadata)


def test_a_repr_that_records_is_a_record_of_its_own(writer: Writer) -> None:
    """Recording while recording neither deadlocks nor breaks a line."""
    writer.event("outer", "WORKER", 0, {"value": Recording(writer)})
    tape = read_tape(writer.path)
    assert ["inner", "outer"] == [getattr(record, "name", None) for record in tape.records]
    assert ([], 0) == (tape.damage, tape.missing)


def test_a_record_longer_than_a_line_may_be_is_refused(writer: Writer) -> None:
    """Its number goes to the next record."""
    with pytest.raises(ValueError, match="too long for a tape"):
        writer.event("x", "WORKER", 0, {"text": "x" * (MAX_LINE_BYTES + 1)})
    writer.event("next", "WORKER", 0, {})
    tape = read_tape(writer.path)
    assert ([1], 0, []) == ([record.seq for record in tape.records], tape.missing, tape.damage)


def test_a_large_message_is_kept(writer: Writer) -> None:
    """Ten megabytes in one record."""
    writer.event("x", "WORKER", 0, {"text": "ä" * 5_000_000})
    (record,) = read_tape(writer.path).records
    assert isinstance(record, EventRecord)
    assert 5_000_000 == len(record.metadata["text"])


def test_after_the_close_nothing_is_taken(writer: Writer) -> None:
    """The closing record is the last one, and there is one."""
    writer.event("x", "WORKER", 0, {})
    writer.close("exit")
    writer.close("exit")
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        writer.event("late", "WORKER", 0, {})
    assert errno.EBADF == caught.value.errno
    assert [EventRecord, CloseRecord] == [type(record) for record in read_tape(writer.path).records]


def test_threads_at_once_lose_nothing(writer: Writer) -> None:
    """Eight threads, each line whole and once, numbers without gaps."""

    def work(thread: int) -> None:
        for index in range(500):
            writer.event("x", "WORKER", 0, {"thread": thread, "index": index, "text": "y" * (index % 97)})

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close("exit")
    tape = read_tape(writer.path)
    seen = [(r.metadata["thread"], r.metadata["index"]) for r in tape.records if isinstance(r, EventRecord)]
    assert [(thread, index) for thread in range(8) for index in range(500)] == sorted(seen)
    assert ([], 0) == (tape.damage, tape.missing)
    assert 4000 == writer.recorded


def test_a_deleted_file_is_noticed(writer: Writer) -> None:
    """Writing to it goes well and reaches nobody."""
    assert not writer.deleted
    writer.path.unlink()
    writer.event("x", "WORKER", 0, {})
    assert writer.deleted
