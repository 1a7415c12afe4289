"""The durable destination, on real files and in real processes."""

import dataclasses
import logging
import threading
import time
from pathlib import Path

import pytest

from jobtape.destinations.tape import TapeHandler
from jobtape.events import Event, EventSource
from jobtape.tape.reader import read_tape
from tests.events.lab import AGENT_METADATA, agent_event, rdzv_event


@dataclasses.dataclass
class Longer(Event):
    """An event with a field of its own."""

    step: int = 0


@pytest.fixture
def handler(tmp_path):
    """A handler of a directory of its own."""
    made = TapeHandler(tmp_path / "shelf", "tape")
    yield made
    made.close_tape("exit")


def tapes(directory):
    """The tape files under a directory, read."""
    return [read_tape(path) for path in sorted(Path(directory).glob("*/*.jsonl"))]


def recorded(directory):
    """Kinds of the records of the only tape file."""
    (tape,) = tapes(directory)
    return [type(record).__name__ for record in tape.records]


def test_nothing_is_made_before_the_first_event(handler, tmp_path):
    """Being asked for leaves no trace; the first event makes the file."""
    assert (None, None, []) == (handler.path, handler.writer, list(tmp_path.iterdir()))
    assert handler.write_event(agent_event())
    assert [handler.path] == list(tmp_path.glob("shelf/*/*.jsonl"))


def test_an_agents_event_is_kept_whole(handler, tmp_path):
    """Name, source, timestamp and metadata are on the tape, with arrival times."""
    before = time.time_ns()
    handler.write_event(dataclasses.replace(agent_event(), timestamp=5))
    (tape,) = tapes(tmp_path / "shelf")
    (record,) = tape.records
    assert ("torchelastic.worker.status.SUCCEEDED", "AGENT", 5, AGENT_METADATA) == (
        record.name,
        record.source,
        record.timestamp,
        record.metadata,
    )
    assert before <= record.time_ns <= time.time_ns()


def test_a_rendezvous_event_is_kept_whole(handler, tmp_path):
    """Every field of a rendezvous event is on the tape."""
    event = rdzv_event(error_trace="trace")
    handler.write_event(event)
    (record,) = tapes(tmp_path / "shelf")[0].records
    assert {**vars(event), "node_state": "RUNNING"} == {name: getattr(record, name) for name in vars(event)}


@pytest.mark.parametrize("event", [agent_event(), rdzv_event()], ids=["event", "rdzv"])
def test_torchs_json_text_is_read(handler, tmp_path, event):
    """A log record with the JSON text, as torch's own loggers have it, becomes the same record."""
    handler.handle(logging.makeLogRecord({"msg": event.serialize()}))
    handler.write_event(event)
    from_text, direct = tapes(tmp_path / "shelf")[0].records
    assert lasting_fields(direct) == lasting_fields(from_text)


def lasting_fields(record):
    """A record's fields without what differs from record to record."""
    names = set(record.__struct_fields__) - {"seq", "time_ns", "mono_ns"}
    return {name: getattr(record, name) for name in names}


def test_torchs_bare_nan_is_kept(handler, tmp_path):
    """NaN in torch's text survives on the tape."""
    text = '{"name": "a", "source": "AGENT", "timestamp": 0, "metadata": {"loss": NaN}}'
    handler.handle(logging.makeLogRecord({"msg": text}))
    (record,) = tapes(tmp_path / "shelf")[0].records
    assert "nan" == repr(record.metadata["loss"])


@pytest.mark.parametrize("text", ["plain words", "[1]", "{broken", "", '"a"'])
def test_other_text_is_kept_as_text(handler, tmp_path, text):
    """A log record that is no event is kept as text."""
    handler.handle(logging.makeLogRecord({"msg": text}))
    (record,) = tapes(tmp_path / "shelf")[0].records
    assert ("", {"text": text}) == (record.name, record.metadata)


def test_log_records_with_arguments_are_formatted(handler, tmp_path):
    """`logger.info("a %s", "b")` is kept as it reads."""
    handler.handle(logging.makeLogRecord({"msg": "a %s", "args": ("b",)}))
    handler.handle(logging.makeLogRecord({"msg": "a %d", "args": ("b",)}))
    texts = [record.metadata["text"] for record in tapes(tmp_path / "shelf")[0].records]
    assert ["a b", "a %d"] == texts


def test_events_with_more_fields_keep_them(handler, tmp_path):
    """A subclass's fields and unknown fields of torch's text are kept beside the metadata, which wins."""
    handler.write_event(Longer("a", EventSource.WORKER, 0, {"k": "v"}, 7))
    handler.handle(logging.makeLogRecord({"msg": '{"name": "a", "source": "X", "metadata": {"k": 1}, "k": 2, "n": 3}'}))
    assert [{"step": 7, "k": "v"}, {"k": 1, "n": 3}] == [r.metadata for r in tapes(tmp_path / "shelf")[0].records]


class Angry:
    """Nothing can be made of it."""

    def __repr__(self):
        raise RuntimeError("no")


def incomplete():
    """An event without a source."""
    event = agent_event()
    del event.source
    return event


@pytest.mark.parametrize(
    "event",
    [
        Event(5, None, "yesterday", {1: float("nan"), "1": Angry(), (1, 2): b"\xff"}),
        Event(None, object(), float("inf"), None),
        Event("jobtape.worker.exit", EventSource.AGENT, 0, ["no", "dict"]),
        Event("a\ud800", "custom", 10**30, {"\ud800": "\ud800", "big": 10**400, "deep": [[[[[[[[[[1]]]]]]]]]]}),
        rdzv_event(pid="x", rank=object(), node_state=None, message=5),
        incomplete(),
        Angry(),
        None,
    ],
    ids=range(8),
)
def test_an_invalid_event_is_kept(handler, tmp_path, event, capsys):
    """Whatever an event holds, or is, a record of it is on the tape and no record is damaged."""
    assert handler.write_event(event)
    (tape,) = tapes(tmp_path / "shelf")
    assert (1, []) == (len(tape.records), tape.damage)
    assert "" == capsys.readouterr().err


def test_a_message_of_any_size_is_one_record(handler, tmp_path):
    """Ten megabytes are one record; more than a line may hold is counted as lost, on the tape too."""
    assert handler.write_event(agent_event(message="x" * 10_000_000))
    assert not handler.write_event(agent_event(message="x" * 70_000_000))
    assert handler.write_event(agent_event())
    assert ["EventRecord", "LossRecord", "EventRecord"] == recorded(tmp_path / "shelf")
    assert {"recorded": 2, "dropped": 0, "failed": 1} == handler.tally.as_dict()


@pytest.mark.parametrize(
    ("given", "directory"),
    [
        ({"run_id": "job-7"}, "job-7"),
        ({"run_id": "none", "run_name": "none-20260101T000000-abcd"}, "none-20260101T000000-abcd"),
        ({"run_id": "x", "run_name": "x~2d711642"}, "x~2d711642"),
    ],
)
def test_the_run_decides_the_directory(handler, tmp_path, given, directory):
    """The directory is the one given, else a safe name made of the run id, which stands in the header as it was."""
    assert handler.open(**given, role="agent")
    (tape,) = tapes(tmp_path / "shelf")
    assert (directory, given["run_id"], "agent") == (tape.path.parent.name, tape.header.run_id, tape.header.role)


@pytest.mark.parametrize("name", ["../..", "/etc", "", ".", "..", "a/b", "x\n", "x" * 300, "ünï"])
def test_hostile_names_stay_in_the_directory(handler, tmp_path, monkeypatch, name):
    """A run id or JOBTAPE_RUN that is no plain name becomes a safe one."""
    handler.open(run_id=name)
    handler.close_tape("exit")
    monkeypatch.setenv("JOBTAPE_RUN", name)
    handler.open(run_id="job-7")
    found = tapes(tmp_path / "shelf")
    assert {name, "job-7"} == {tape.header.run_id for tape in found}
    assert 2 == len(found)


def test_the_environment_names_the_run(handler, tmp_path, monkeypatch):
    """Without being told, run id and directory come from JOBTAPE_RUN_ID and JOBTAPE_RUN."""
    monkeypatch.setenv("JOBTAPE_RUN_ID", "none")
    monkeypatch.setenv("JOBTAPE_RUN", "none-1")
    handler.write_event(agent_event())
    (tape,) = tapes(tmp_path / "shelf")
    assert ("none", "none-1", "other") == (tape.header.run_id, tape.path.parent.name, tape.header.role)


def test_a_role_learned_late_begins_a_new_file(handler, tmp_path):
    """A process that recorded before it knew its part begins a file with the right header; opening twice is once."""
    handler.write_event(agent_event())
    assert handler.open("job-7", None, "worker")
    path = handler.path
    assert handler.open("job-7", None, "worker")
    handler.write_event(agent_event())
    assert path == handler.path
    found = {tape.header.role: tape for tape in tapes(tmp_path / "shelf")}
    assert (True, False) == (found["other"].closed, found["worker"].closed)
    assert ["EventRecord"] == [type(record).__name__ for record in found["worker"].records]


def test_closing_ends_the_file_and_the_next_event_begins_one(handler, tmp_path):
    """`close_tape` writes the last record; what comes later is not lost."""
    handler.write_event(agent_event())
    handler.close_tape("launch_end")
    handler.close_tape("launch_end")
    handler.write_event(agent_event())
    first, second = sorted(tapes(tmp_path / "shelf"), key=lambda tape: tape.header.time_ns)
    assert (True, False) == (first.closed, second.closed)
    assert ("launch_end", 1) == (first.records[-1].reason, first.records[-1].recorded)


def test_configuring_logging_anew_does_not_end_the_tape(handler, tmp_path):
    """logging.config closes every handler there is; the tape goes on."""
    handler.write_event(agent_event())
    handler.close()
    handler.write_event(agent_event())
    assert ["EventRecord", "EventRecord"] == recorded(tmp_path / "shelf")


def test_threads_share_one_file_without_gaps(handler, tmp_path):
    """Events of many threads, also those that race for the first one, are in one file, each once."""
    start = threading.Barrier(8)

    def run(number):
        start.wait()
        for step in range(200):
            handler.write_event(Event(f"{number}.{step}", EventSource.WORKER))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (tape,) = tapes(tmp_path / "shelf")
    assert (1600, 1600, 0) == (len(tape.records), len({record.name for record in tape.records}), tape.missing)
