"""What all commands have in common: help, usage errors, pipes, and nothing that ends in a traceback."""

import importlib
import os
import re
import resource
import subprocess
import sys

import pytest

from jobtape import __version__
from jobtape.cli.application import COMMANDS
from tests.cli.tapes_to_read import record_failed_run

ASKING = ("why", "show", "events")
"""Commands about one run."""

READING = (*ASKING, "ls")
"""Commands that need a shelf."""


def assert_one_line(done, *pieces):
    """Wrong use or unreadable input: exit code 2, nothing on stdout, one line on stderr that says what to do."""
    assert (2, "") == (done.code, done.out)
    assert re.fullmatch(r"jobtape: [^\n]+\n", done.err)
    for piece in pieces:
        assert piece in done.err


def test_alone_it_prints_help(jobtape):
    """Without a command the commands are listed."""
    done = jobtape()
    assert (0, "") == (done.code, done.err)
    assert set(COMMANDS) <= set(re.findall(r"^  (\w+)  ", done.out, re.MULTILINE))


def test_version(jobtape):
    """The version is that of the package."""
    assert f"jobtape {__version__}\n" == jobtape("--version").out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(jobtape, name):
    """Each command's help shows how it is used."""
    done = jobtape(name, "--help")
    assert (0, "") == (done.code, done.err)
    assert re.search(rf"Example:\s+jobtape {name}\b", done.out)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_every_option_is_explained(name):
    """No option of a command is without a word of help."""
    command = importlib.import_module(f"jobtape.cli.{COMMANDS[name][0]}").command
    assert [] == [p.name for p in command.params if p.param_type_name == "option" and not p.help]


def test_unknown_command(jobtape):
    """A mistyped command is named."""
    assert_one_line(jobtape("whi"), "no such command 'whi'", "see jobtape --help")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_unknown_option(jobtape, name):
    """An unknown option is named, and where to read about the known ones."""
    assert_one_line(jobtape(name, "--colour"), "no such option", "--colour", f"see jobtape {name} --help")


@pytest.mark.parametrize("name", READING)
def test_missing_directory(jobtape, name):
    """Where there is no directory of tapes, the line says how to make one or name another."""
    assert_one_line(jobtape(name), "no tape in jobtape", "--event-log-handler=tape", "--dir")


@pytest.mark.parametrize("name", READING)
def test_empty_directory(jobtape, name, tmp_path):
    """A directory without runs is not an answer."""
    (tmp_path / "void").mkdir()
    assert_one_line(jobtape(name, "--dir", tmp_path / "void"), "void", "--event-log-handler=tape")


@pytest.mark.parametrize("name", READING)
def test_foreign_directory(jobtape, name, tmp_path):
    """A directory of other things has no runs, whatever they are called."""
    foreign = tmp_path / "foreign" / "data"
    foreign.mkdir(parents=True)
    (foreign / "notes.jsonl").write_text('{"a": 1}\n')
    (foreign.parent / "stray.jsonl").write_text("{}\n")
    assert_one_line(jobtape(name, "--dir", foreign.parent), "foreign", "--dir")


@pytest.mark.parametrize("name", READING)
def test_file_in_place_of_the_directory(jobtape, name, tmp_path):
    """A file is no directory of tapes."""
    (tmp_path / "file").write_text("x")
    assert_one_line(jobtape(name, "--dir", tmp_path / "file"), "file, not a directory", "--dir")


@pytest.mark.parametrize("name", [*READING, "doctor"])
def test_empty_name_of_the_directory(jobtape, name):
    """An empty --dir is a variable nobody set, not the default."""
    assert_one_line(jobtape(name, "--dir", ""), "empty", "--dir")


@pytest.mark.parametrize("name", READING)
def test_directory_from_the_environment(jobtape, name, shelf):
    """JOBTAPE_DIR is where the tapes are when --dir does not say."""
    done = jobtape(name, JOBTAPE_DIR=str(shelf))
    assert ("", True) == (done.err, len(done.out) > 100)


@pytest.mark.parametrize("name", ASKING)
def test_missing_run(jobtape, name, shelf):
    """A run that is not there is named, and those that are."""
    assert_one_line(jobtape(name, "nosuch", "--dir", shelf), "nosuch", "demo", "jobtape ls")


@pytest.mark.parametrize("name", ASKING)
def test_ambiguous_prefix(jobtape, name, shelf):
    """A prefix of two runs is not guessed at."""
    record_failed_run(shelf, "demo-2")
    assert_one_line(jobtape(name, "de", "--dir", shelf), "de fits 2 runs", "demo-2", "give more")


@pytest.mark.parametrize("name", ASKING)
def test_hostile_run_name_is_escaped(jobtape, name, shelf):
    """What the user typed comes back harmless."""
    done = jobtape(name, "\x1b[2J\nx\u202e", "--dir", shelf)
    assert_one_line(done)
    assert done.err.rstrip("\n").isprintable()


@pytest.mark.parametrize("name", ASKING)
def test_unreadable_file(jobtape, name, shelf):
    """A directory and a FIFO in place of tape files are no tapes, and nobody waits for them."""
    run = shelf / "odd"
    run.mkdir()
    (run / "node-a-1-20260101T000000000.jsonl").mkdir()
    os.mkfifo(run / "node-a-2-20260101T000000000.jsonl")
    assert_one_line(jobtape(name, "odd", "--dir", shelf), "no run odd")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("name", ASKING)
def test_file_of_somebody_else(jobtape, name, shelf):
    """A file without permission is named."""
    for path in (shelf / "demo").iterdir():
        path.chmod(0)
    assert_one_line(jobtape(name, "demo", "--dir", shelf), "ermission denied")


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("damage", [b"", b"\0" * 4096, b"not json\n", b'{"kind":"header"', b"\xff\xfe\n" * 10])
def test_damaged_tape(jobtape, name, shelf, damage):
    """A tape that cannot be read as one makes an answer or one line, never a traceback."""
    for path in (shelf / "demo").glob("*.jsonl"):
        path.write_bytes(damage)
    done = jobtape(name, *(["demo"] if name != "ls" else []), "--dir", shelf)
    assert done.code in {0, 1, 2}
    assert "Traceback" not in done.out + done.err
    assert "unexpected" not in done.err


def test_torn_tape_is_answered(jobtape, shelf):
    """What is left of a tape is used, and what is not is said."""
    path = next((shelf / "demo").glob("node-a-100-*.jsonl"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"jobtape.attempt.end")])
    done = jobtape("why", "demo", "--dir", shelf)
    assert (1, "") == (done.code, done.err)
    assert "could not be read" in done.out


@pytest.mark.parametrize("name", READING)
def test_closed_pipe_is_silent(name, shelf):
    """A reader that has had enough is no error worth a word."""
    for number in range(30):
        record_failed_run(shelf, f"more-{number:02}", attempts=3)
    script = f"{sys.executable} -m jobtape {name} --dir {shelf} --json | head -n 1; echo codes ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "" == done.stderr
    answered = 1 if name == "why" else 0  # where the whole answer went into the pipe before its reader left
    assert re.search(rf"codes ({answered}|141)$", done.stdout)


@pytest.mark.parametrize("name", READING)
def test_full_disk_is_one_line(name, shelf):
    """Output that cannot be written is said, with exit code 2."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "jobtape", name, "--dir", str(shelf)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert 2 == done.returncode
    assert re.fullmatch(r"jobtape: cannot write the answer: No space left on device[^\n]*\n", done.stderr)


def test_closed_stdout(shelf):
    """Without a stdout the exit code is the answer."""
    script = f"{sys.executable} -m jobtape why demo --dir {shelf} >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (1, "") == (done.returncode, done.stderr)


def test_unexpected_error_is_one_line(jobtape, shelf, tmp_path):
    """A mistake of ours is one line that names how to see the traceback, and JOBTAPE_DEBUG shows it."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import jobtape.tape.shelf\ndef broken(*_):\n    raise ZeroDivisionError('by\\x1b zero')\n"
        "jobtape.tape.shelf.list_runs = broken\n"
    )
    path = os.pathsep.join([str(tmp_path / "broken"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = jobtape("ls", "--dir", shelf, PYTHONPATH=path)
    assert_one_line(done, r"unexpected ZeroDivisionError: by\x1b zero; JOBTAPE_DEBUG=1 shows where")
    assert "Traceback" in jobtape("ls", "--dir", shelf, PYTHONPATH=path, JOBTAPE_DEBUG="1").err


def test_ascii_terminal(jobtape, shelf):
    """Where stdout cannot hold a character, it is escaped."""
    record_failed_run(shelf, "größe", message="日本語")
    done = jobtape("why", "--dir", shelf, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0")
    assert (1, "") == (done.code, done.err)
    assert "\\u65e5" in done.out


def test_starts_fast(jobtape, shelf):
    """A small run is answered with less than 0.4 s of processor time, imports included."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        jobtape("why", "demo", "--dir", shelf)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert 0.4 > min(took)
