"""The writer when its process is killed, forked, interrupted, or has no space left."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobtape.tape.reader import TapeFile, read_tape
from jobtape.tape.records import EventRecord


def only_tape(run_dir: Path) -> TapeFile:
    """The one tape file of the run, read."""
    (path,) = run_dir.glob("*.jsonl")
    return read_tape(path)


def whole_lines(tape: TapeFile) -> int:
    """How many lines of its file are JSON, each by itself."""
    return sum(is_json(line) for line in tape.path.read_bytes().splitlines())


def is_json(line: bytes) -> bool:
    """Whether that is one JSON text."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def events(tape: TapeFile) -> list[EventRecord]:
    """Its events."""
    return [record for record in tape.records if isinstance(record, EventRecord)]


@pytest.mark.parametrize("threads", [1, 8])
def test_what_was_returned_from_survives_sigkill(
    threads: int, start: Callable[..., subprocess.Popen[str]], run_dir: Path
) -> None:
    """Killed at random moments: every event whose call had returned is there, whole, once."""
    for _ in range(5):
        shutil.rmtree(run_dir, ignore_errors=True)
        process = start(
            """
            def work(thread):
                index = 0
                while True:
                    writer.event("x", "WORKER", 0, {"thread": thread, "index": index, "text": "y" * (index % 200)})
                    os.write(1, b"%d %d\\n" % (thread, index))
                    index += 1
            for thread in range(int(sys.argv[2])):
                threading.Thread(target=work, args=(thread,), daemon=True).start()
            time.sleep(60)
            """,
            str(threads),
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(random.uniform(0, 0.15))
        process.kill()
        told = (first + process.stdout.read()).splitlines()
        process.communicate()
        assert -signal.SIGKILL == process.returncode
        tape = only_tape(run_dir)
        seen = [f"{record.metadata['thread']} {record.metadata['index']}" for record in events(tape)]
        assert len(seen) == len(set(seen))
        assert set() == set(told) - set(seen)
        # a call that was killed inside its write may have left a part of its line, at the end
        assert {"cut off at the end of the file"} >= {damage.reason for damage in tape.damage}
        assert not tape.closed
        # a number may have been taken by a call that was killed before its write, one in each thread
        assert tape.missing < threads


def test_what_was_returned_from_survives_an_immediate_exit(run: Callable[..., str], run_dir: Path) -> None:
    """os._exit runs no handler and flushes no buffer."""
    run(
        """
        for index in range(100):
            writer.event("x", "WORKER", 0, {"index": index})
        os._exit(0)
        """
    )
    tape = only_tape(run_dir)
    assert list(range(100)) == [record.metadata["index"] for record in events(tape)]
    assert (0, [], False) == (tape.missing, tape.damage, tape.closed)


def test_a_forked_child_has_no_writer(run: Callable[..., str], run_dir: Path) -> None:
    """Fork while threads record: the child is refused, the parent loses nothing, no line is torn."""
    run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking while threads run
        stop = threading.Event()
        counts = [0] * 4
        def work(thread):
            while not stop.is_set():
                writer.event("x", "WORKER", 0, {"thread": thread, "index": counts[thread]})
                counts[thread] += 1
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads: thread.start()
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                try:
                    writer.event("child", "WORKER", 0, {})
                except OSError as error:
                    os._exit(error.errno)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9  # EBADF
        stop.set()
        for thread in threads: thread.join()
        writer.event("counts", "WORKER", 0, {"counts": counts})
        writer.close("exit")
        """
    )
    tape = only_tape(run_dir)
    *recorded, last = events(tape)
    assert sum(last.metadata["counts"]) == len(recorded)
    assert {"x"} == {record.name for record in recorded}
    assert (0, [], True) == (tape.missing, tape.damage, tape.closed)


def test_a_signal_handler_may_record(run: Callable[..., str], run_dir: Path) -> None:
    """A handler that records in the middle of a record, thousands of times: no deadlock, nothing lost."""
    out = run(
        """
        handled = 0
        def handler(signum, frame):
            global handled
            writer.event("handler", "WORKER", 0, {"index": handled, "odd": float("nan")})
            handled += 1
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        end = time.monotonic() + 1.5
        count = 0
        while time.monotonic() < end:
            writer.event("main", "WORKER", 0, {"index": count, "odd": float("inf") if count % 2 else 1})
            count += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        writer.close("exit")
        print(count, handled)
        """
    )
    count, handled = map(int, out.split())
    assert handled > 100
    tape = only_tape(run_dir)
    names = [record.name for record in events(tape)]
    assert (count, handled) == (names.count("main"), names.count("handler"))
    assert (0, [], True) == (tape.missing, tape.damage, tape.closed)


def test_an_exception_out_of_a_signal_handler_leaves_the_tape_whole(run: Callable[..., str], run_dir: Path) -> None:
    """At whatever instruction it comes: no line is torn, no number is used twice, nothing returned from is missing."""
    out = run(
        """
        class Interrupted(OSError):  # as TimeoutError, which many handlers raise
            pass
        def handler(signum, frame):
            global fired
            fired += 1
            raise Interrupted("late")
        signal.signal(signal.SIGALRM, handler)
        returned = []
        fired = interrupted = index = 0
        def record_until_fired():  # a function: Python 3.13 lets a loop's own jump back fall out of the try around it
            global index
            before = fired
            signal.setitimer(signal.ITIMER_REAL, 0.0002)
            while fired == before:
                writer.event("x", "WORKER", 0, {"index": index, "odd": float("nan") if index % 3 else 0})
                returned.append(index)
                index += 1
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            try:
                record_until_fired()
            except Interrupted:
                interrupted += 1
                index += 1
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        writer.close("exit")
        print(fired, interrupted, *returned)
        """
    )
    fired, interrupted, *returned = map(int, out.split())
    assert interrupted > 100
    assert fired == interrupted  # none was swallowed
    tape = only_tape(run_dir)
    seen = [record.metadata["index"] for record in events(tape)]
    assert len(seen) == len(set(seen))
    assert set() == set(returned) - set(seen)
    assert [] == tape.damage
    assert tape.missing <= interrupted


def test_a_limit_of_file_size_and_room_again(run: Callable[..., str], run_dir: Path) -> None:
    """The limit raises, the file stays readable, and what comes after it is whole and numbered on."""
    out = run(
        """
        import resource
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_001, hard))
        written = refused = 0
        for index in range(300):
            try:
                writer.event("x", "WORKER", 0, {"index": index, "text": "y" * 100})
                written += 1
            except OSError:
                refused += 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        writer.loss("write_failed", refused, "file size limit")
        writer.event("after", "WORKER", 0, {"index": -1})
        writer.close("exit")
        print(written, refused)
        """
    )
    written, refused = map(int, out.split())
    assert written > 0
    assert refused > 0
    tape = only_tape(run_dir)
    assert [*range(written), -1] == [record.metadata["index"] for record in events(tape)]
    assert (0, True) == (tape.missing, tape.closed)
    assert 1 == len(tape.damage)
    assert 1 + len(tape.records) == whole_lines(tape)
    assert {"lost": refused, "recorded": written + 1} == {
        name: getattr(tape.records[-1], name) for name in ("lost", "recorded")
    }


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, mounted for the test."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here (no root, or no permission to mount)")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_and_space_again(small_disk: Path) -> None:
    """A really full file system: errors are raised, the file stays readable, and goes on when there is space."""
    from jobtape.tape.header import this_process
    from jobtape.tape.writer import Writer

    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(40 * 1024))
    writer = Writer(small_disk / "run", this_process("job-1", "worker"))
    written: list[int] = []
    refused = 0
    for index in range(400):
        if index == 300:
            ballast.unlink()
            writer.loss("write_failed", refused, "no space left")
        try:
            writer.event("x", "WORKER", 0, {"index": index, "text": "y" * 100})
            written.append(index)
        except OSError:
            refused += 1
    writer.close("exit")
    assert refused > 0
    tape = read_tape(writer.path)
    assert written == [record.metadata["index"] for record in events(tape)]
    assert written[-100:] == list(range(300, 400))
    assert (0, True) == (tape.missing, tape.closed)
    assert len(tape.damage) <= 1
    assert 1 + len(tape.records) == whole_lines(tape)


def test_a_disk_full_from_the_start_leaves_no_empty_file(small_disk: Path) -> None:
    """Without a header there is no tape; making one is tried again by whoever asked."""
    from jobtape.tape.header import this_process
    from jobtape.tape.writer import Writer

    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(70 * 1024))
    (small_disk / "run").mkdir(exist_ok=True)
    with pytest.raises(OSError, match="No space left"):
        Writer(small_disk / "run", this_process("job-1", "worker"))
    assert [] == list((small_disk / "run").iterdir())


def test_a_line_cut_by_a_full_pipe_is_written_again(run: Callable[..., str], run_dir: Path) -> None:
    """Writes that take only a part of a line, at random: every record is whole somewhere, numbers have no gap.

    The file's descriptor is exchanged for a pipe that does not wait; a process copies it to the real file slowly.
    """
    run(
        """
        import fcntl, random
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, 1031, 4096)  # F_SETPIPE_SZ: one page
        os.set_blocking(write_end, False)
        real = os.open(writer.path, os.O_WRONLY | os.O_APPEND)
        os.dup2(write_end, writer._fd)
        def copy():
            chooser = random.Random(7)
            while (part := os.read(read_end, chooser.randrange(1, 6000))):
                os.write(real, part)
                time.sleep(0.0005)
        copier = threading.Thread(target=copy)
        copier.start()
        refused = 0
        index = 0
        while index < 300:
            try:
                writer.event("x", "WORKER", 0, {"index": index, "text": "y" * random.randrange(9000)})
                index += 1
            except OSError:
                refused += 1
                time.sleep(0.001)
        while True:
            try:
                writer.event("end", "WORKER", 0, {"index": index})
                break
            except OSError:
                time.sleep(0.001)
        assert refused
        os.close(writer._fd)  # not the writer's any more: it leaves it open
        os.close(write_end)
        copier.join()
        """
    )
    tape = only_tape(run_dir)
    assert list(range(301)) == [record.metadata["index"] for record in events(tape)]
    assert 0 == tape.missing
    assert len(tape.damage) > 0
    assert 1 + len(tape.records) == whole_lines(tape)


def test_a_sync_that_fails_is_counted(run: Callable[..., Any]) -> None:
    """The record is in the file; only its way to the disk is in doubt."""
    run(
        """
        read_end, write_end = os.pipe()
        os.dup2(write_end, writer._fd)  # a pipe cannot be synced
        writer.event("x", "WORKER", 0, {}, sync=True)
        assert (1, 1) == (writer.sync_failures, writer.recorded)
        """
    )
