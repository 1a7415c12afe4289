"""`jobtape why` on tapes."""

import json
import os
import re

import pytest

from tests.cli.tapes_to_read import record_failed_run, record_live_run

SCHEMA = "why.schema.json"


def test_the_answer_first(jobtape, shelf):
    """The first line is the answer, the exit code says that the run failed."""
    done = jobtape("why", "demo", "--dir", shelf)
    assert (1, "") == (done.code, done.err)
    assert re.match(
        r"Attempt 0 ended after \d+ ms: rank 1 on node-a raised RuntimeError: shapes differ at train\.py:12; rank 0 was"
        r" stopped by the agent\.\n\n",
        done.out,
    )


def test_a_run_that_succeeded(jobtape, shelf):
    """Success is said, with exit code 0."""
    done = jobtape("why", "good", "--dir", shelf)
    assert (0, True) == (done.code, done.out.startswith("The run succeeded after "))


def test_latest_is_the_default(jobtape, shelf):
    """Without a run the newest is meant."""
    assert jobtape("why", "--dir", shelf).out == jobtape("why", "latest", "--dir", shelf).out
    assert "demo" in jobtape("why", "--dir", shelf).out


def test_a_unique_prefix_is_enough(jobtape, shelf):
    """The beginning of a run's name will do."""
    assert "run demo" in jobtape("why", "de", "--dir", shelf).out


def test_restart_loop_fits_a_screen(jobtape, shelf):
    """Thirty-seven equal failures are told once."""
    record_failed_run(shelf, "loop", attempts=37)
    done = jobtape("why", "loop", "--dir", shelf)
    assert done.out.startswith("All 37 attempts ended the same way")
    assert 40 >= len(done.out.splitlines())


@pytest.mark.parametrize("run", ["demo", "good"])
def test_json_follows_the_schema(jobtape, shelf, run):
    """What programs get is what the published schema says, in ASCII."""
    jsonschema = pytest.importorskip("jsonschema")
    from pathlib import Path

    schema = Path(__file__).resolve().parents[2] / "docs" / SCHEMA
    done = jobtape("why", run, "--dir", shelf, "--json")
    answer = json.loads(done.out)
    jsonschema.validate(answer, json.loads(schema.read_text()), format_checker=jsonschema.FormatChecker())
    assert (run, True) == (answer["run_id"], done.out.isascii())


def test_evidence_can_be_shown(jobtape, shelf):
    """Each reference of the evidence is one that `jobtape events --file` finds."""
    answer = json.loads(jobtape("why", "demo", "--dir", shelf, "--json").out)
    for reference in answer["attempts"][0]["cause"]["evidence"]:
        done = jobtape("events", "demo", "--dir", shelf, "--file", reference, "--json")
        assert (0, 1) == (done.code, len(done.out.splitlines())), reference


def test_hostile_messages_reach_no_terminal(jobtape, shelf):
    """Escapes, direction changes and 200 kB of text come out as bounded printable lines."""
    record_failed_run(shelf, "../..\x1b]0;owned\x07", message="\x1b[2J\u202e\x85boom\n" + "x" * 200_000)
    for words in ([], ["--full"]):
        done = jobtape("why", "--dir", shelf, *words)
        assert all(line.isprintable() for line in done.out.split("\n"))
        assert "\\x1b[2J\\u202e\\x85boom" in done.out
    assert 20_000 > len(jobtape("why", "--dir", shelf).out)


def test_json_of_hostile_messages_is_ascii(jobtape, shelf):
    """JSON holds the text as it was, in ASCII without control characters."""
    message = "\x1b[2J\x7f\u202eboom"
    record_failed_run(shelf, "hostile", message=message)
    done = jobtape("why", "hostile", "--dir", shelf, "--json")
    assert (True, []) == (done.out.isascii(), [c for c in done.out if not c.isprintable() and c != "\n"])
    assert message == json.loads(done.out)["attempts"][0]["cause"]["message"]


def test_a_live_run_is_running(jobtape, shelf):
    """A run whose agent lives is running, and the exit code is 0."""
    writer = record_live_run(shelf)
    done = jobtape("why", "live", "--dir", shelf, "--json")
    assert (0, "running") == (done.code, json.loads(done.out)["state"])
    writer.close("launch_end")


def test_a_dead_writer_is_not_running(jobtape, shelf):
    """The same tape of a process that is gone is not a running one."""
    record_live_run(shelf)
    path = next((shelf / "live").glob("*.jsonl"))
    path.write_text(path.read_text().replace('"pid_start":', '"pid_start":1', 1))
    assert "running" != json.loads(jobtape("why", "live", "--dir", shelf, "--json").out)["state"]


@pytest.mark.parametrize(("environ", "colored"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_color_in_a_pipe(jobtape, shelf, environ, colored):
    """A pipe gets plain text, unless colour is asked for."""
    assert colored == ("\x1b[" in jobtape("why", "demo", "--dir", shelf, **environ).out)


def test_no_color_wins(jobtape, shelf):
    """NO_COLOR turns colour off everywhere."""
    assert "\x1b" not in jobtape("why", "demo", "--dir", shelf, NO_COLOR="1", FORCE_COLOR="1").out


@pytest.mark.parametrize("width", [40, 80])
def test_columns_are_obeyed(jobtape, shelf, width):
    """COLUMNS says how wide a line may be."""
    done = jobtape("why", "demo", "--dir", shelf, COLUMNS=str(width))
    assert width >= max(map(len, done.out.splitlines()))


def test_on_a_terminal(shelf):
    """A terminal gets colour, and lines as wide as it is."""
    import fcntl
    import pty
    import struct
    import subprocess
    import sys
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 60, 0, 0))
    command = [sys.executable, "-m", "jobtape", "why", "demo", "--dir", str(shelf)]
    process = subprocess.Popen(command, stdout=follower, stdin=follower, env={**os.environ, "TERM": "xterm-256color"})
    os.close(follower)
    said = b""
    try:
        while piece := os.read(leader, 65536):
            said += piece
    except OSError:  # Linux's way to say that the other end is closed
        pass
    finally:
        os.close(leader)
    assert 1 == process.wait(60)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).split("\r\n")
    assert (True, True) == (b"\x1b[1;31mAttempt 0" in said, max(map(len, lines)) <= 60)
