"""The destinations that print."""

import io
import json
import logging
import sys

import pytest

from jobtape.destinations.pretty import line_of
from tests.events.lab import agent_event, rdzv_event

TO_CONSOLE = """
import sys
from jobtape import events
events.record(events.Event("a", events.EventSource.WORKER, 0, {"k": 1}), sys.argv[1])
"""


def said(capsys):
    """The lines on stderr."""
    return capsys.readouterr().err.splitlines()


def test_console_writes_torchs_line(fresh, capsys):
    """One line of torch's JSON for each event."""
    fresh.record(agent_event(), "console")
    assert [agent_event().serialize()] == said(capsys)


def test_console_follows_stderr(fresh, monkeypatch):
    """What stands for sys.stderr at the time is written to, until the handler is given a stream of its own."""
    first, second, own = io.StringIO(), io.StringIO(), io.StringIO()
    for stream in (first, second):
        monkeypatch.setattr(sys, "stderr", stream)
        fresh.record(agent_event(), "console")
    fresh.get_logging_handler("console").setStream(own)
    fresh.record(agent_event(), "console")
    assert [f"{agent_event().serialize()}\n"] * 3 == [stream.getvalue() for stream in (first, second, own)]


@pytest.mark.parametrize("stream", [None, "closed"])
@pytest.mark.parametrize("destination", ["console", "pretty", "bogus"])
def test_a_stderr_that_is_gone_is_survived(fresh, monkeypatch, stream, destination):
    """With stderr None or closed nothing is raised, and what could not be printed is counted."""
    gone = None
    if stream == "closed":
        gone = io.StringIO()
        gone.close()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", gone)
        fresh.record(agent_event(), destination)
    assert 1 == fresh.stats()[destination]["dropped" if destination == "bogus" else "failed"]


@pytest.mark.parametrize("destination", ["console", "pretty"])
@pytest.mark.parametrize(
    ("level", "shown"),
    [("", 1), ("INFO", 1), ("DEBUG", 1), ("debug", 1), ("10", 1), ("WARNING", 0), ("critical", 0), ("30", 0)],
)
def test_loglevel_filters_what_is_printed(fresh, monkeypatch, capsys, destination, level, shown):
    """LOGLEVEL above INFO silences console and pretty, and is read for each event."""
    monkeypatch.setenv("LOGLEVEL", level)
    fresh.record(agent_event(), destination)
    assert shown == len(said(capsys))
    monkeypatch.delenv("LOGLEVEL")
    fresh.record(agent_event(), destination)
    assert 1 == len(said(capsys))


def test_a_bad_loglevel_is_said_once(fresh, monkeypatch, capsys):
    """A LOGLEVEL that is no level prints the events all the same, after one line about it."""
    monkeypatch.setenv("LOGLEVEL", "loud")
    for _ in range(2):
        fresh.record(agent_event(), "console")
    lines = said(capsys)
    expected = "jobtape: LOGLEVEL=loud is no level of Python's logging (DEBUG, INFO, WARNING, …); events are printed"
    assert expected == lines[0]
    assert [agent_event().serialize()] * 2 == lines[1:]


def test_console_reaches_a_pipe(python):
    """In a real process the line stands on the real stderr, and nothing else does."""
    done = python(TO_CONSOLE, "console")
    assert (0, "", '{"name": "a", "source": "WORKER", "timestamp": 0, "metadata": {"k": 1}}\n') == (
        done.code,
        done.out,
        done.err,
    )


def test_pretty_is_one_line_for_people(fresh, capsys, monkeypatch):
    """Local time, who, what and the facts that matter."""
    monkeypatch.setenv("NO_COLOR", "1")
    event = agent_event(raw_error=json.dumps({"message": {"message": "ValueError: boom", "extraInfo": {}}}))
    fresh.record(event, "pretty")
    (line,) = said(capsys)
    clock, rest = line.split(" ", 1)
    assert (True, True) == (clock.count(":") == 2, len(clock) == len("17:26:25.860"))
    assert (
        "[node-a rank 3] torchelastic.worker.status.SUCCEEDED error: ValueError: boom group_rank=1 total_run_time=12 "
        "agent_restarts=0 duration_ms=1.5" == rest
    )


def test_pretty_shows_rendezvous_events():
    """State and message of a rendezvous event, and the last line of its trace."""
    event = rdzv_event(node_state="FAILED", error_trace="Traceback …\n  at\nRendezvousTimeoutError: late\n")
    assert "[node-a rank 1] rendezvous FAILED joined round 0 error: RendezvousTimeoutError: late" in line_of(
        vars(event), 0.0
    )


def test_pretty_reads_torchs_text(fresh):
    """A log record with the JSON text alone, as torch's loggers have it, gives the same line; other text is shown."""
    handler = fresh.get_logging_handler("pretty")
    texts = [handler.format(logging.makeLogRecord({"msg": text})) for text in (agent_event().serialize(), "x", "[1]")]
    assert "[node-a rank 3] torchelastic.worker.status.SUCCEEDED" in texts[0]
    assert (True, True) == (texts[1].endswith(" x"), texts[2].endswith(" [1]"))


def test_pretty_uses_the_events_own_time():
    """A timestamp in milliseconds is shown in place of the arrival time."""
    assert line_of({"name": "a", "timestamp": 1_700_000_000_123}, 0.0).split()[0].endswith(".123")
    assert line_of({"name": "a", "timestamp": 10**30}, 0.0).startswith("??:??:??.???")


def test_pretty_cuts_what_is_long():
    """A line stays a line: eight facts, each of at most 60 characters."""
    line = line_of({"name": "a", "metadata": {f"key{n}": "x" * 100 for n in range(20)}}, 0.0)
    assert (8, True, True) == (line.count("…"), line.endswith("(+12)"), len(line) < 800)


def test_nothing_reaches_a_terminal_unescaped():
    """Control characters, line separators and escape sequences of an event are shown as escapes."""
    hostile = "\x1b]0;owned\x07\r\n\u2028\u202e\x9b31m\ud800"
    event = {"name": hostile, "metadata": {"hostname": hostile, hostile: hostile, "raw_error": hostile}}
    line = line_of(event, 0.0)
    assert (True, 5) == (line.isprintable(), line.count(r"\x1b]0;owned\x07\r\n\u2028\u202e\x9b31m\ud800"))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Say so."""
        return True


@pytest.mark.parametrize(
    ("stream", "no_color", "coloured"),
    [(Terminal(), "", True), (Terminal(), "1", False), (io.StringIO(), "", False)],
    ids=["terminal", "NO_COLOR", "pipe"],
)
def test_colour_is_for_terminals(fresh, monkeypatch, stream, no_color, coloured):
    """Failed and succeeded states are coloured on a terminal only, and never under NO_COLOR."""
    monkeypatch.setenv("NO_COLOR", no_color)
    handler = fresh.get_logging_handler("pretty")
    handler.setStream(stream)
    handler.info(agent_event())
    handler.info(rdzv_event(node_state="FAILED"))
    assert [coloured, coloured] == ["\x1b[" in line for line in stream.getvalue().splitlines()]


def test_a_narrow_encoding_is_survived(fresh):
    """A stream that cannot show a character gets an escape for it."""
    raw = io.BytesIO()
    fresh.get_logging_handler("pretty").setStream(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    fresh.record(rdzv_event(message="é"), "pretty")
    assert (True, 0) == (b"\\xe9" in raw.getvalue(), fresh.stats()["pretty"]["failed"])
