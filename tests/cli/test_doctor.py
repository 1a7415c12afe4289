"""`jobtape doctor`: what it looks at, and what it says to do."""

import json
import os

import pytest

from jobtape.cli.checkup import file_system, losses, nearest, where
from tests.cli.tapes_to_read import record_failed_run


@pytest.fixture
def findings(jobtape, tmp_path):
    """What the doctor finds, by what was looked at."""

    def ask(directory=tmp_path / "tapes", **environ):
        done = jobtape("doctor", "--dir", directory, "--json", **environ)
        told = json.loads(done.out)
        assert (done.code == 0) == told["ok"] == all(each["state"] != "problem" for each in told["findings"])
        return {each["check"]: each for each in told["findings"]}

    return ask


def test_looks_at_everything_and_leaves_nothing(findings, tmp_path):
    """Hook, torch, recording, directory, space, speed and losses; and no trace of the scratch run."""
    found = findings()
    assert {"hook", "torch", "recording", "directory", "space", "speed", "losses"} <= set(found)
    assert "record() took" in found["speed"]["text"]
    assert {"empty"} == {path.name for path in tmp_path.iterdir()}


def test_every_problem_says_what_to_do(findings):
    """A problem without an advice is half a finding."""
    found = findings(TORCH_DEVICE_BACKEND_AUTOLOAD="0", JOBTAPE_RECORD="nosuch")
    assert [] == [check for check, each in found.items() if each["state"] == "problem" and not each["do"]]
    assert ("problem", "problem") == (found["autoload"]["state"], found["recording"]["state"])


@pytest.mark.parametrize(
    ("environ", "state", "said"),
    [
        ({}, "note", "nothing in this environment asks for a recording"),
        ({"PET_EVENT_LOG_HANDLER": "tape"}, "ok", "PET_EVENT_LOG_HANDLER=tape: on"),
        ({"JOBTAPE_RECORD": "console,tape"}, "ok", "JOBTAPE_RECORD=console,tape: on"),
        ({"PET_EVENT_LOG_HANDLER": "console"}, "note", "records nothing that lasts"),
        ({"JOBTAPE_RECORD": "nosuch"}, "problem", "unknown destination 'nosuch'"),
    ],
)
def test_what_the_environment_asks_for(findings, environ, state, said):
    """Recording is on, off, or asked for in vain."""
    found = findings(**environ)["recording"]
    assert (state, True) == (found["state"], said in found["text"])


def test_bad_log_level(findings):
    """A level that is none is worth a word."""
    assert "note" == findings(LOGLEVEL="LOUD")["LOGLEVEL"]["state"]


def test_file_in_place_of_the_directory(findings, tmp_path):
    """Where no directory can be, that is the problem."""
    (tmp_path / "tapes").write_text("x")
    assert "problem" == findings()["directory"]["state"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_directory_of_somebody_else(findings, tmp_path):
    """A directory that cannot be written is a problem, and says what to do."""
    (tmp_path / "tapes").mkdir(mode=0o500)
    found = findings()
    assert ("problem", "problem") == (found["directory"]["state"], found["speed"]["state"])


def test_losses_are_counted_over_the_shelf(findings, shelf):
    """A damaged run is named."""
    path = record_failed_run(shelf, "torn")
    path.write_bytes(path.read_bytes()[:-40])
    found = findings(shelf)["losses"]
    assert ("problem", True) == (found["state"], found["text"].endswith("in 3 runs: torn"))


def test_no_losses(shelf):
    """Whole tapes have none."""
    assert ("ok", "none in 2 runs") == (losses(shelf).state, losses(shelf).text)


def test_text_begins_with_the_answer(jobtape, tmp_path):
    """The first line says whether recording works."""
    first = jobtape("doctor", "--dir", tmp_path).out.splitlines()[0]
    assert first == "Recording works here." or "problem" in first


def test_nearest_directory(tmp_path):
    """A directory that is not there yet is judged by the one it will be made in."""
    assert tmp_path == nearest(tmp_path / "a" / "b")


@pytest.mark.parametrize(("place", "kind"), [("/proc", "proc"), ("/sys", "sysfs")])
def test_file_system_kinds(place, kind):
    """The kernel's name of the file system."""
    if not os.path.ismount(place):
        pytest.skip(f"{place} is not mounted")
    assert kind == file_system(nearest(__import__("pathlib").Path(place)))


def test_where_says_the_directory_whole(tmp_path):
    """The directory is named in full."""
    assert str(tmp_path) in next(iter(where(tmp_path, tmp_path))).text
