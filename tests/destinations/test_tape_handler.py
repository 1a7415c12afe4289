"""The durable destination, on real files and in real processes."""

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
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
    assert dataclass_like(direct) == dataclass_like(from_text)


def dataclass_like(record):
    """A record's fields without what differs from record to record."""
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in ("seq", "time_ns", "mono_ns")}


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
    """A process that recorded before it knew its part begins a file with the right header; opening twice does nothing."""
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


COUNT_SYNCS = """
import json, os, sys
from pathlib import Path
from jobtape.destinations.tape import TapeHandler
from jobtape.events import Event, EventSource, RdzvEvent
synced = []
real = os.fdatasync
os.fdatasync = lambda fd: (synced.append(fd), real(fd))
handler = TapeHandler(Path("shelf"), "tape")
handler.open("job-7")
answers = {}
for name, metadata in json.loads(sys.argv[1]):
    del synced[:]
    handler.write_event(Event(name, EventSource.AGENT, 0, metadata))
    print(len(synced))
del synced[:]
for state in ("RUNNING", "FAILED"):
    handler.write_event(RdzvEvent("a", "r", "m", "h", 1, state))
handler.close_tape("exit")
print(len(synced))
"""


def test_failures_are_synced_to_the_disk(python):
    """Failed states, bad exits, errors, the end of the launch and the close reach the disk; ordinary events need not."""
    events = [
        ("torchelastic.worker.status.FAILED", {}, 1),
        ("torchelastic.worker.status.SUCCEEDED", {}, 0),
        ("jobtape.worker.exit", {"exit_code": -9}, 1),
        ("jobtape.worker.exit", {"exit_code": None}, 1),
        ("jobtape.worker.exit", {"exit_code": 0}, 0),
        ("jobtape.worker.error", {}, 1),
        ("jobtape.worker.failure", {}, 1),
        ("jobtape.launch.end", {}, 1),
        ("jobtape.attempt.start", {}, 0),
        ("step", {"step": 1}, 0),
    ]
    done = python(COUNT_SYNCS, json.dumps([event[:2] for event in events]))
    assert ("", [str(event[2]) for event in events] + ["2"]) == (done.err, done.out.split())


IN_A_FORK = """
import os, sys, threading
from jobtape import events
def event(n): return events.Event("from", events.EventSource.WORKER, n, {"pid": os.getpid()})
events.get_logging_handler("tape").open("job-7", None, "worker")
events.record(event(0), "tape")
stop = []
def run():
    while not stop: events.record(event(9), "tape")
threads = [threading.Thread(target=run) for _ in range(3)]
for thread in threads: thread.start()
children = []
for n in range(20):
    child = os.fork()
    if not child:
        for k in range(10): events.record(event(k), "tape")
        assert events.stats()["tape"]["recorded"] == 10, events.stats()
        os._exit(0)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.append(1)
for thread in threads: thread.join()
print(codes.count(0), len(os.listdir("jobtape/job-7")))
"""


def test_a_forked_child_has_a_file_of_its_own(python, tmp_path):
    """Children forked while threads record begin their own files, lose nothing and do not touch the parent's."""
    done = python(IN_A_FORK)
    assert (0, "", "20 21\n") == (done.code, done.err, done.out)
    for tape in tapes(tmp_path / "jobtape"):
        assert ([], 0) == (tape.damage, tape.missing)
        assert {tape.header.pid} == {r.metadata["pid"] for r in tape.records if type(r).__name__ == "EventRecord"}
        if tape.header.role == "other":
            assert list(range(10)) == [record.timestamp for record in tape.records]


AT_THE_END = """
import multiprocessing, os, sys
from jobtape import events
def child(n): events.record(events.Event("child", events.EventSource.WORKER, n), "tape")
if __name__ == "__main__":
    os.environ["JOBTAPE_RUN_ID"] = "job-7"
    import atexit
    atexit.register(lambda: events.emit("late"))
    child(0)
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child, args=(1,))
    process.start()
    process.join()
    raise SystemExit(3)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_tape_is_closed_at_exit(python, tmp_path, method):
    """At the end of the interpreter, and of a child of multiprocessing, the closing record is written last."""
    script = tmp_path / "script.py"
    script.write_text(AT_THE_END)
    done = subprocess.run(
        [sys.executable, script, method],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "JOBTAPE_RECORD": "tape"},
    )
    assert (3, "") == (done.returncode, done.stderr)
    found = {tape.records[0].name + str(tape.records[0].timestamp): tape for tape in tapes(tmp_path / "jobtape")}
    assert {"child0", "child1"} == set(found)
    assert [True, True] == [tape.closed for tape in found.values()]
    assert ["child", "late"] == [record.name for record in found["child0"].records[:-1]]
    assert {"exit"} == {tape.records[-1].reason for tape in found.values()}


KILLED = """
import os, signal
from jobtape import events
for n in range(50): events.record(events.Event("step", events.EventSource.WORKER, n), "tape")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_recorded_survives_sigkill(python, tmp_path):
    """When record() has returned, the event outlives the process."""
    assert -signal.SIGKILL == python(KILLED).code
    (tape,) = tapes(tmp_path / "jobtape")
    assert (list(range(50)), False, []) == ([record.timestamp for record in tape.records], tape.closed, tape.damage)


def test_one_directory_has_one_writer(python, tmp_path):
    """`tape` and the URL of its directory are one handler, also in a list, so an event is written once."""
    done = python(
        "import os\nfrom jobtape import events\nurl = 'file://' + os.path.abspath('jobtape')\n"
        "events.record(events.Event('a', events.EventSource.WORKER), 'tape,' + url)\n"
        "events.record(events.Event('b', events.EventSource.WORKER), url)\nprint(events.stats())"
    )
    assert ("", "{'tape': {'recorded': 2, 'dropped': 0, 'failed': 0}}\n") == (done.err, done.out)
    (tape,) = tapes(tmp_path / "jobtape")
    assert ["a", "b"] == [record.name for record in tape.records[:-1]]


def test_the_directory_stays_when_the_process_moves(python, tmp_path):
    """`./jobtape` is where it was when it was first used."""
    (tmp_path / "elsewhere").mkdir()
    python(
        "import os\nfrom jobtape import events\nevents.get_logging_handler('tape')\nos.chdir('elsewhere')\n"
        "events.record(events.Event('a', events.EventSource.WORKER), 'tape')"
    )
    assert (1, []) == (len(tapes(tmp_path / "jobtape")), list((tmp_path / "elsewhere").iterdir()))


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


IN_A_SIGNAL_HANDLER = """
import os, signal, sys
from jobtape import events
from jobtape.destinations import tape
def event(name): return events.Event(name, events.EventSource.WORKER)
def on_signal(number, frame): events.record(event("signal"), "tape")
signal.signal(signal.SIGUSR1, on_signal)
real = tape.this_process
def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGUSR1)
    return real(*arguments)
tape.this_process = interrupted
events.record(event("first"), "tape")
print(events.stats()["tape"])
"""


def test_a_signal_handler_may_record_while_the_file_is_made(python, tmp_path):
    """A signal handler that records in the middle of the first event neither deadlocks nor loses its event."""
    done = python(IN_A_SIGNAL_HANDLER)
    assert ("", "{'recorded': 2, 'dropped': 0, 'failed': 0}\n") == (done.err, done.out)
    (tape,) = tapes(tmp_path / "jobtape")
    assert {"first", "signal"} == {record.name for record in tape.records[:-1]}
