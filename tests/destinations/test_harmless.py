"""Recording harms nothing: a process whose destination fails ends as it would have ended without one."""

import shutil
import subprocess

import pytest

from jobtape.tape.reader import read_tape

JOB = """
import logging, os, resource, shutil, signal, sys, time
from jobtape import events
NAME = "torchelastic.worker.status.FAILED"
def event(**more): return events.Event(NAME, events.EventSource.AGENT, metadata={"k": "v", **more})
def record(**more): events.record(event(**more), destination)
destination, exit_code = sys.argv[1], int(sys.argv[2])
class Raising(logging.Handler):
    def emit(self, record): raise RuntimeError("disk on fire")
events.register_handler("raising", Raising())
"""

END = """
print(events.stats().get(destination))
sys.exit(exit_code)
"""


def run(python, script, destination, exit_code=0, **options):
    """Run the job's script; gives the run and the lines it said on stderr."""
    done = python(JOB + script + END, destination, exit_code, **options)
    assert exit_code == done.code, done.err
    return done, done.err.splitlines()


@pytest.mark.parametrize("exit_code", [0, 1, 42])
@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("file:///proc/version/tapes", "jobtape: cannot write the tape in /proc/version/tapes: Not a directory; "),
        ("bogus", "jobtape: events for destination 'bogus' are dropped: unknown destination 'bogus'"),
        ("raising", "jobtape: destination raising failed, its events are lost: RuntimeError: disk on fire"),
    ],
)
def test_a_bad_destination_is_one_warning(python, destination, said, exit_code):
    """An unwritable directory, an unknown destination and a raising handler: one line, and the job's own exit code."""
    done, lines = run(python, "for _ in range(100): record()", destination, exit_code)
    assert (1, True) == (len(lines), lines[0].startswith(said))
    counts = eval(done.out)
    assert (0, 100) == (counts["recorded"], counts["dropped"] + counts["failed"])


def test_a_directory_under_a_file_is_one_warning(python, tmp_path):
    """JOBTAPE_DIR that cannot be made, here because a file is in the way, is said once, with what to do."""
    (tmp_path / "file").write_text("")
    env = {"JOBTAPE_DIR": str(tmp_path / "file" / "tapes")}
    _, lines = run(python, "for _ in range(100): record()", "tape", env=env)
    assert [
        f"jobtape: cannot write the tape in {tmp_path}/file/tapes: Not a directory; events are lost until that works "
        "(JOBTAPE_DIR names another place)"
    ] == lines


def test_unserialisable_metadata_is_kept(python, tmp_path):
    """Metadata that JSON cannot hold is no fault at all: it is on the tape, without a warning."""
    done, lines = run(python, "record(model=object(), loss=float('nan'), raw=b'\\xff')", "tape", 3)
    assert ([], 1) == (lines, eval(done.out)["recorded"])
    (tape,) = (read_tape(path) for path in tmp_path.glob("jobtape/*/*.jsonl"))
    assert ("v", "nan") == (tape.records[0].metadata["k"], repr(tape.records[0].metadata["loss"]))


DELETED = """
record()
shutil.rmtree("jobtape")
time.sleep(1.1)
record(); record()
"""


def test_a_deleted_directory_is_made_again(python, tmp_path):
    """A directory deleted under the job is noticed within a second; a new file says how many events went with it."""
    done, lines = run(python, DELETED, "tape", 1)
    assert (1, True) == (len(lines), lines[0].endswith("was deleted while it was written: 1 events are lost"))
    assert {"recorded": 2, "dropped": 0, "failed": 1} == eval(done.out)
    (tape,) = (read_tape(path) for path in tmp_path.glob("jobtape/*/*.jsonl"))
    loss, first, second, close = tape.records
    assert ("file_deleted", 1, 1) == (loss.reason, loss.count, close.lost)
    assert first.name == second.name == "torchelastic.worker.status.FAILED"


def test_a_directory_deleted_at_the_end_is_said(python, tmp_path):
    """A process that ends right after its tape was deleted says so and makes nothing anew."""
    _, lines = run(python, "record()\nshutil.rmtree('jobtape')", "tape")
    assert (1, False) == (len(lines), (tmp_path / "jobtape").exists())


FULL = """
import glob
record()
written = 0
try:
    with open(os.path.join(os.path.dirname(sys.argv[3]), "filler"), "wb", buffering=0) as filler:
        while True: written += filler.write(b"x" * 4096)
except OSError: pass
for n in range(200): record(big="x" * 3000)
os.unlink(filler.name)
time.sleep(1.1)
record(after=True)
"""


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    words = ["-t", "tmpfs", "-o", "size=256k", "jobtape-test", disk]
    done = mount and subprocess.run([mount, *words], capture_output=True)
    if not done or done.returncode:
        pytest.skip("this machine lets nobody mount a file system")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_is_one_warning_and_space_is_used_again(python, small_disk):
    """On a full disk events are counted as lost; with space again, recording goes on and says what is missing."""
    shelf = small_disk / "shelf"
    done = python(JOB + FULL + END, "tape", 5, shelf, env={"JOBTAPE_DIR": str(shelf)})
    assert (5, 1) == (done.code, len(done.err.splitlines())), done.err
    assert f"jobtape: cannot write the tape in {shelf}: No space left on device" in done.err
    counts = eval(done.out)
    assert 202 == sum(counts.values())
    (tape,) = (read_tape(path) for path in shelf.glob("*/*.jsonl"))
    events = [record for record in tape.records if type(record).__name__ == "EventRecord"]
    losses = [record for record in tape.records if type(record).__name__ == "LossRecord"]
    lost = counts["dropped"] + counts["failed"]
    assert (counts["recorded"], lost) == (len(events), sum(loss.count for loss in losses))
    assert ({"write_failed"}, 0) == ({loss.reason for loss in losses}, tape.missing)
    assert "after" in events[-1].metadata


LIMITED = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
record()
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for n in range(50): record(big="x" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
time.sleep(1.1)
record(after=True)
"""


def test_a_file_size_limit_is_one_warning(python, tmp_path):
    """Under RLIMIT_FSIZE, with SIGXFSZ ignored as Python does, the same holds."""
    done, lines = run(python, LIMITED, "tape", 2)
    assert (1, True) == (len(lines), "File too large" in lines[0])
    (tape,) = (read_tape(path) for path in tmp_path.glob("jobtape/*/*.jsonl"))
    events = [record for record in tape.records if type(record).__name__ == "EventRecord"]
    assert (eval(done.out)["recorded"], True) == (len(events), "after" in events[-1].metadata)
    assert 52 == sum(eval(done.out).values())


NO_DESCRIPTORS = """
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
record()
for fd in held: os.close(fd)
time.sleep(1.1)
record()
"""


def test_no_descriptor_left_is_one_warning(python, tmp_path):
    """With every descriptor of the process in use the first file cannot be made; later it can."""
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    preload = "import jobtape.destinations.tape\n"
    done, lines = run(python, preload + limit + NO_DESCRIPTORS, "tape")
    assert (1, True) == (len(lines), "Too many open files" in lines[0])
    assert {"recorded": 1, "dropped": 0, "failed": 1} == eval(done.out)


CLOSED_DESCRIPTORS = """
record()
os.closerange(3, 65536)
record()
record()
"""


def test_a_closed_descriptor_is_replaced(python, tmp_path):
    """A daemon that closes all its descriptors closes ours too; a new file is begun and nothing is lost."""
    done, lines = run(python, CLOSED_DESCRIPTORS, "tape")
    assert [] == lines
    assert {"recorded": 3, "dropped": 0, "failed": 0} == eval(done.out)
    assert 2 == len(list(tmp_path.glob("jobtape/*/*.jsonl")))


@pytest.mark.parametrize("way", ["sys.stderr = None", "sys.stderr.close()", "os.close(2)"])
@pytest.mark.parametrize("destination", ["bogus", "console", "pretty", "tape"])
def test_no_stderr_is_needed(python, way, destination):
    """Without a stderr nothing fails and the exit code stays."""
    done = python(JOB + f"{way}\nrecord()\n" + END, destination, 7)
    assert (7, 1) == (done.code, sum(eval(done.out).values()))


def test_the_pipe_to_a_reader_that_left_breaks_nothing(python):
    """A console whose reader has gone (EPIPE) is counted, not raised."""
    script = "r, w = os.pipe()\nos.close(r)\nos.dup2(w, 2)\nfor _ in range(3): record()\n"
    done = python(JOB + script + END, "console", 7)
    assert ({"recorded": 0, "dropped": 0, "failed": 3}, 7) == (eval(done.out), done.code)


def test_nothing_is_made_where_nothing_is_recorded(python, tmp_path):
    """Importing, and recording to null, leaves no file."""
    python("from jobtape import events\nevents.record(events.Event('a', events.EventSource.WORKER))\nevents.emit('b')")
    assert [] == list(tmp_path.iterdir())
