"""The durable destination through the life of real processes: forks, signals, exits."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.destinations.test_tape_handler import tapes

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
    """Failed states, bad exits, errors, the end of the launch and the close reach the disk; other events need not."""
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
    done = python(IN_A_FORK, env={"PYTHONWARNINGS": "ignore"})  # Python 3.12 warns of any fork beside threads
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
