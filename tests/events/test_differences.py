"""Each intended difference from torch, with both behaviours; a test for each row of docs/compatibility.md."""

import json
import logging
import re
from pathlib import Path

import pytest

import jobtape.events as ours
from jobtape.errors import EventError, UnknownDestination
from jobtape.tape.reader import read_tape
from tests.events.lab import Keeping, Raising

pytestmark = pytest.mark.torch
theirs = pytest.importorskip("torch.distributed.elastic.events")

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"

START = """
import json, logging, sys
from PACKAGE import events
handlers = events.handlers
def event(**metadata): return events.Event("a", events.EventSource.WORKER, metadata=metadata)
def rdzv(): return events.RdzvEvent("n", "r", "m", "h", 1, events.NodeState.RUNNING)
class Keeping(logging.Handler):
    texts = []
    def emit(self, record): self.texts.append(record.getMessage())
kept = Keeping()
handlers._log_handlers["kept"] = kept
"""


@pytest.fixture
def last_lines(both):
    """Runs a script with both modules; gives exit code, last line of stdout and of stderr of each."""

    def run(script, **env):
        return [
            (code, *([*text.splitlines(), ""][-2 if text else -1] for text in (out, err)))
            for code, out, err in both(START + script, **env)
        ]

    return run


def made(module, **metadata):
    """An event of one of the modules."""
    return module.Event("a", module.EventSource.AGENT, metadata=metadata)


def test_each_row_has_its_test():
    """The table and this file name the same tests, in the same order."""
    rows = re.findall(r"^\|.*\| `(test_\w+)` \|$", DOCUMENT.read_text(), re.MULTILINE)
    here = [name for name in globals() if name.startswith("test_") and name != "test_each_row_has_its_test"]
    assert rows == here
    assert len(rows) == len(set(rows))
    assert len(rows) + 2 == len(re.findall(r"^\|", DOCUMENT.read_text(), re.MULTILINE))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]], ids=repr)
def test_nan_is_refused(value):
    """Torch writes what no strict reader takes; ours says which key it was."""
    text = made(theirs, loss=value).serialize()
    with pytest.raises(ValueError, match=r"NaN|Infinity"):
        json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    with pytest.raises(EventError, match="loss"):
        made(ours, loss=value).serialize()


def test_unserialisable_metadata_is_named():
    """Torch names the type of the value, ours its key as well."""
    with pytest.raises(TypeError, match=r"^Object of type object is not JSON serializable$"):
        made(theirs, model=object()).serialize()
    with pytest.raises(EventError, match=r"^metadata\['model'\] is of type object, which JSON cannot hold$"):
        made(ours, model=object()).serialize()


def test_record_keeps_invalid_events(last_lines):
    """Torch's record raises; ours hands the event on, with a text for what has none."""
    script = "events.record(event(loss=float('nan'), model=object()), 'kept')\nprint(*kept.texts)"
    (their_code, _, their_error), (our_code, our_text, our_error) = last_lines(script)
    assert (1, "TypeError: Object of type object is not JSON serializable") == (their_code, their_error)
    assert (0, "") == (our_code, our_error)
    metadata = json.loads(our_text)["metadata"]
    assert ({"$float": "nan"}, True) == (metadata["loss"], metadata["model"].startswith("<object object at"))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("{", json.JSONDecodeError),
        ('{"name": "a", "source": "agent"}', KeyError),
        ('{"name": "a"}', KeyError),
        ('{"source": "AGENT"}', TypeError),
        ('{"name": "a", "source": "AGENT", "time": 1}', TypeError),
        ("[]", TypeError),
        (None, UnboundLocalError),
    ],
)
def test_deserialize_has_one_error(data, error):
    """Torch raises what its code happens to meet; ours is one error that is a ValueError."""
    with pytest.raises(error):
        theirs.Event.deserialize(data)
    with pytest.raises(EventError) as caught:
        ours.Event.deserialize(data)
    assert "" != caught.value.field


def test_bytes_are_read():
    """Lines of a file opened in binary need no decoding."""
    with pytest.raises(UnboundLocalError):
        theirs.Event.deserialize(made(theirs).serialize().encode())
    assert made(ours) == ours.Event.deserialize(made(ours).serialize().encode())


def test_documented_example_works(last_lines):
    """Torch documents a call that it does not have."""
    script = "events.get_logging_handler(destination='console').info(event())"
    (their_code, _, their_error), (our_code, _, our_line) = last_lines(script)
    assert (1, "AttributeError: 'StreamHandler' object has no attribute 'info'") == (their_code, their_error)
    text = '{"name": "a", "source": "WORKER", "timestamp": 0, "metadata": {}}'
    assert (0, text) == (our_code, our_line)


def test_unknown_handler_lists_known_names(fresh):
    """Both raise a KeyError; ours says what would have worked."""
    with pytest.raises(KeyError, match=r"^'colsole'$"):
        theirs.get_logging_handler("colsole")
    with pytest.raises(KeyError, match=r"unknown destination 'colsole'; known are: console, ") as caught:
        fresh.get_logging_handler("colsole")
    assert isinstance(caught.value, UnknownDestination)


def test_unknown_destination_kills_nothing(last_lines):
    """Torch's agent ends with a KeyError; with ours a line says what is wrong and the job goes on."""
    script = "for _ in range(3): events.record(event(), 'colsole')\nprint(events.stats()['colsole']['dropped'])"
    (their_code, _, their_error), (our_code, our_out, our_error) = last_lines(script)
    assert (1, "KeyError: 'colsole'") == (their_code, their_error)
    assert (0, "3", True) == (our_code, our_out, our_error.startswith("jobtape: events for destination 'colsole'"))


def test_lists_and_urls_are_destinations(last_lines, tmp_path):
    """Several destinations at once, and a tape anywhere."""
    script = f"events.record(event(), 'kept,file://{tmp_path}/shelf')\nprint(len(kept.texts))"
    (their_code, _, _), (our_code, our_out, our_error) = last_lines(script)
    assert (1, 0, "1", "") == (their_code, our_code, our_out, our_error)
    (path,) = tmp_path.glob("shelf/*/*.jsonl")
    assert ["a"] == [record.name for record in read_tape(path).records[:-1]]


def test_raising_handler_is_survived(fresh):
    """In torch a handler that fails fails the job."""
    theirs.handlers._log_handlers["raising"] = Raising()
    try:
        with pytest.raises(RuntimeError, match="disk on fire"):
            theirs.record(made(theirs), "raising")
    finally:
        del theirs.handlers._log_handlers["raising"]
        theirs._events_loggers.pop("raising").handlers.clear()
    fresh.register_handler("raising", Raising())
    fresh.record(made(ours), "raising")
    assert 1 == fresh.stats()["raising"]["failed"]


def test_loglevel_filters_only_what_is_printed(last_lines):
    """Torch drops events for every destination; ours prints none and records all."""
    script = "events.record(event(), 'kept'); events.record(event(), 'console')\nprint(len(kept.texts))"
    assert [(0, "0", ""), (0, "1", "")] == last_lines(script, LOGLEVEL="WARNING")


def test_bad_loglevel_is_survived(last_lines):
    """In torch the job ends with a ValueError at the first event."""
    script = "events.record(event(), 'console')\nprint('went on')"
    (their_code, _, their_error), (our_code, our_out, our_error) = last_lines(script, LOGLEVEL="loud")
    assert (1, "ValueError: Unknown level: 'loud'") == (their_code, their_error)
    assert (0, "went on", True) == (our_code, our_out, our_error.startswith('{"name": "a"'))


@pytest.mark.parametrize("level", ["warning", "30"])
def test_loglevel_is_read_generously(last_lines, level):
    """A level in small letters or as a number is clear enough."""
    script = "events.record(event(), 'console')\nprint('went on')"
    (their_code, _, their_error), ours_found = last_lines(script, LOGLEVEL=level)
    assert (1, f"ValueError: Unknown level: '{level}'") == (their_code, their_error)
    assert (0, "went on", "") == ours_found


@pytest.mark.parametrize("way", ["logging.disable(logging.CRITICAL)", "logger.disabled = True"])
def test_blanket_silence_does_not_reach_tapes(last_lines, tmp_path, way):
    """A script that quiets logging does not mean the record of its job."""
    script = f"""
name = sys.argv[0] and ('file://{tmp_path}/shelf' if 'jobtape' in events.__name__ else 'kept')
logger = events._get_or_create_logger(name)
logger.addHandler(kept)
{way}
events.record(event(), name)
print(len(kept.texts))
"""
    assert [(0, "0", ""), (0, "0", "")] == last_lines(script)
    (path,) = tmp_path.glob("shelf/*/*.jsonl")
    assert ["a"] == [record.name for record in read_tape(path).records[:-1]]


def test_console_follows_stderr(last_lines):
    """Torch's handler keeps the stderr it found at its import."""
    script = "import io\nsys.stderr = io.StringIO()\nevents.record(event(), 'console')\n"
    script += "print(len(sys.stderr.getvalue()))"
    text = '{"name": "a", "source": "WORKER", "timestamp": 0, "metadata": {}}'
    assert [(0, "0", text), (0, str(len(text) + 1), "")] == last_lines(script)


def test_rendezvous_destination_can_be_replaced(fresh):
    """Torch has a private dict for it; ours a function."""
    assert not hasattr(theirs, "register_handler")
    for module in (theirs, fresh):
        assert type(module.get_logging_handler("dynamic_rendezvous")) is logging.NullHandler
    kept = Keeping()
    fresh.register_handler("dynamic_rendezvous", kept, replace=True)
    fresh.construct_and_record_rdzv_event("r", "m", fresh.NodeState.RUNNING)
    assert 1 == len(kept.texts)


def test_no_trace_without_exception(last_lines):
    """Outside an except block there is no trace to tell of."""
    script = """
handlers._log_handlers["dynamic_rendezvous"] = kept
events.construct_and_record_rdzv_event("r", "m", events.NodeState.FAILED)
print(repr(json.loads(kept.texts[0])["error_trace"]))
"""
    assert [(0, r"'NoneType: None\n'", ""), (0, "''", "")] == last_lines(script)


def test_caller_is_found_without_reading_files(last_lines):
    """Torch reads the source of every caller up the stack; ours opens nothing."""
    script = """
import argparse, linecache
handlers._log_handlers["dynamic_rendezvous"] = kept
def call(): events.construct_and_record_rdzv_event("r", "m", events.NodeState.RUNNING)
call()
opened = []
linecache.clearcache()
sys.addaudithook(lambda name, arguments: opened.append(arguments[0]) if name == "open" else None)
exec(compile("call()", argparse.__file__, "exec"), {"call": call})
print(len(opened) > 0)
"""
    assert [(0, "True", ""), (0, "False", "")] == last_lines(script)


def test_host_name_is_looked_up_once(last_lines):
    """Finding the qualified name can mean waiting for a name server."""
    script = """
import socket
handlers._log_handlers["dynamic_rendezvous"] = kept
asked = []
socket.getfqdn = lambda name="": asked.append(name) or "node-a.lan"
for _ in range(3): events.construct_and_record_rdzv_event("r", "m", events.NodeState.RUNNING)
print(len(asked), {json.loads(text)["hostname"] for text in kept.texts})
"""
    assert [(0, "3 {'node-a.lan'}", ""), (0, "1 {'node-a.lan'}", "")] == last_lines(script)


def test_both_modules_share_loggers(torch_server, tmp_path):
    """Torch calls every handler of the logger, ours leaves torch's handler of the same destination out."""
    script = """
from jobtape import events as ours
from torch.distributed.elastic import events as theirs
for module in (ours, theirs):
    module._get_or_create_logger("console")
for module in (ours, theirs):
    module.record(module.Event(module.__name__, module.EventSource.AGENT), "console")
"""
    done = torch_server.run(script, tmp_path, {})
    names = [json.loads(line)["name"] for line in done.err.splitlines()]
    assert (0, ["jobtape.events", *["torch.distributed.elastic.events"] * 2]) == (done.code, names)


def test_handlers_are_made_when_asked_for(last_lines):
    """The import of our module makes no handler that is not needed."""
    script = "before = 'console' in handlers._log_handlers\nevents.get_logging_handler('console')\n"
    script += "print(before, 'console' in handlers._log_handlers)"
    assert [(0, "True True", ""), (0, "False True", "")] == last_lines(script)
