"""What importing the events module loads and offers."""

import json

import jobtape.events

LOADED = """
import __future__, dataclasses, enum, json, logging, sys, typing
before = set(sys.modules)
import jobtape.events
print(json.dumps(sorted(set(sys.modules) - before)))
"""

EXPECTED = {"jobtape", "jobtape.errors", "jobtape.events"}


def test_the_import_loads_nothing_else(python):
    """Over an interpreter that has logging, json, dataclasses and typing, only jobtape's own events are loaded."""
    loaded = json.loads(python(LOADED).out)
    assert EXPECTED == {name for name in loaded if not name.startswith("jobtape.events.")}


def test_null_loads_nothing_either(python):
    """Recording to null, and rendezvous events while their destination is null, load no destination."""
    calls = """
from jobtape.events import *
record(Event("a", EventSource.WORKER))
emit("step", step=1)
with span("evaluation"): pass
construct_and_record_rdzv_event("r", "m", NodeState.RUNNING)
print"""
    loaded = json.loads(python(LOADED.replace("import jobtape.events\nprint", f"import jobtape.events{calls}")).out)
    assert EXPECTED == {name for name in loaded if not name.startswith("jobtape.events.")}


def test_the_public_names_are_these():
    """The package offers torch's names and ours, sorted."""
    assert [
        "Event",
        "EventMetadataValue",
        "EventSource",
        "NodeState",
        "RdzvEvent",
        "construct_and_record_rdzv_event",
        "emit",
        "flush",
        "get_logging_handler",
        "record",
        "record_rdzv_event",
        "register_handler",
        "span",
        "stats",
    ] == jobtape.events.__all__
