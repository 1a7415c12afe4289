"""The same calls in torch's events module and in ours: the same results, for events made by hypothesis."""

import collections
import dataclasses
import enum
import inspect
import json
import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jobtape.events as ours
from jobtape.errors import EventError
from tests.events.lab import Keeping

pytestmark = pytest.mark.torch
theirs = pytest.importorskip("torch.distributed.elastic.events")


class Text(str):
    """A str that is not quite one."""


class Whole(int):
    """An int that is not quite one."""


class Colour(str, enum.Enum):
    """Text with names."""

    RED = "red"


class Level(enum.IntEnum):
    """Numbers with names."""

    LOW = 1


class Plain(enum.Enum):
    """Names JSON knows nothing of."""

    ONE = 1


@dataclasses.dataclass
class Shape:
    """What `asdict` takes apart."""

    rows: int
    inner: object = None


@dataclasses.dataclass(eq=False)
class TextShape(str):
    """A str that `asdict` takes for a dataclass."""

    rows: int = 0

    def __new__(cls, rows=0):
        """With a text of its own."""
        return super().__new__(cls, "text")


Point = collections.namedtuple("Point", "x y")

PLAIN = st.text() | st.integers() | st.none() | st.booleans() | st.floats()
ODD = st.sampled_from(
    [
        *(Text("t"), Whole(3), Colour.RED, Level.LOW, Plain.ONE, ours.NodeState.INIT),
        *(Shape(1), TextShape(2), Shape(1, Shape(2, [Colour.RED])), Point(1, 2), (1, 2)),
        *(b"bytes", {1, 2}, frozenset(), object(), range(3), complex(1, 2), 2**70, -0.0, 1e300, "\ud800"),
        *(collections.OrderedDict(a=1), collections.defaultdict(list, a=[1])),
    ]
)
KEYS = (
    st.text()
    | st.integers()
    | st.none()
    | st.booleans()
    | st.floats()
    | st.sampled_from([Text("k"), Colour.RED, Level.LOW, (1, 2), b"k", Plain.ONE])
)
VALUES = st.recursive(
    PLAIN | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3) | st.tuples(inner),
    max_leaves=6,
)
TYPICAL = st.dictionaries(st.text(), PLAIN)
METADATA = TYPICAL | st.dictionaries(KEYS, VALUES) | VALUES
SOURCES = st.sampled_from(["AGENT", "WORKER"])


def refuse(constant):
    """Called by json for NaN and infinities."""
    raise ValueError(constant)


def is_json(text):
    """Whether it is strict JSON."""
    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


def outcome(function, *arguments, **options):
    """What a call returns, or the exception it raises."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        return error


def assert_written_alike(their_event, our_event):
    """Where torch writes valid JSON, ours are the same bytes; where it does not, ours is an EventError."""
    expected = outcome(their_event.serialize)
    actual = outcome(our_event.serialize)
    if isinstance(expected, str) and is_json(expected):
        assert expected == actual
        assert type(expected) is type(actual)
        assert str(their_event) == str(our_event)
    else:
        assert isinstance(actual, EventError), (expected, actual)


@given(name=st.text() | VALUES, source=SOURCES | VALUES, timestamp=st.integers() | VALUES, metadata=METADATA)
def test_events_are_written_alike(name, source, timestamp, metadata):
    """The bytes of `serialize` and `str`, for any event."""
    made = []
    for module in (theirs, ours):
        kind = module.EventSource[source] if source in ("AGENT", "WORKER") and type(source) is str else source
        made.append(module.Event(name, kind, timestamp, metadata))
    assert_written_alike(*made)


@given(
    values=st.lists(st.text() | VALUES, min_size=7, max_size=7),
    numbers=st.tuples(st.integers() | VALUES, st.none() | st.integers() | VALUES),
    state=st.sampled_from(["INIT", "RUNNING", "SUCCEEDED", "FAILED"]) | VALUES,
)
def test_rendezvous_events_are_written_alike(values, numbers, state):
    """The bytes of `serialize` and `str`, for any rendezvous event."""
    made = []
    for module in (theirs, ours):
        known = type(state) is str and state in module.NodeState.__members__
        node_state = module.NodeState[state] if known else state
        made.append(module.RdzvEvent(*values[:4], numbers[0], node_state, values[4], numbers[1], *values[5:]))
    assert_written_alike(*made)


@given(name=st.text(), source=SOURCES, timestamp=st.integers(), metadata=TYPICAL)
def test_events_are_read_alike(name, source, timestamp, metadata):
    """What torch wrote, NaN included, is read with the same fields and types, and either reads the other's text."""
    text = theirs.Event(name, theirs.EventSource[source], timestamp, metadata).serialize()
    expected, actual = theirs.Event.deserialize(text), ours.Event.deserialize(text)
    assert repr(expected) == repr(actual)
    assert [type(value) for value in expected.metadata.values()] == [type(value) for value in actual.metadata.values()]
    if is_json(text):
        assert expected == theirs.Event.deserialize(actual.serialize())


@given(
    texts=st.lists(st.text(), min_size=6, max_size=6),
    numbers=st.tuples(st.integers(), st.none() | st.integers(), st.none() | st.integers()),
    state=st.sampled_from(["INIT", "RUNNING", "SUCCEEDED", "FAILED"]),
)
def test_rendezvous_events_are_read_alike(texts, numbers, state):
    """The same for rendezvous events."""
    name, run_id, message, hostname, endpoint, trace = texts
    made = [
        m.RdzvEvent(name, run_id, message, hostname, numbers[0], m.NodeState[state], endpoint, *numbers[1:], trace)
        for m in (theirs, ours)
    ]
    assert repr(made[0]) == repr(made[1])
    assert made[0].serialize() == made[1].serialize()
    read = [theirs.RdzvEvent.deserialize(made[1].serialize()), ours.RdzvEvent.deserialize(made[0].serialize())]
    assert repr(read[0]) == repr(read[1])


JSON_LIKE = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=5
)
FIELDS = st.dictionaries(
    st.sampled_from(["name", "source", "timestamp", "metadata", "time"]) | st.text(max_size=5),
    SOURCES | JSON_LIKE,
    max_size=6,
)


@given(st.text() | st.none() | st.integers() | FIELDS.map(json.dumps) | JSON_LIKE.map(json.dumps))
def test_the_same_is_no_event(data):
    """`deserialize` takes what torch's takes and gives equal fields; what torch's refuses is an EventError."""
    expected, actual = outcome(theirs.Event.deserialize, data), outcome(ours.Event.deserialize, data)
    if isinstance(expected, Exception):
        assert isinstance(actual, EventError)
    else:
        assert repr(expected) == repr(actual)


@given(name=st.text(), source=SOURCES, metadata=TYPICAL, other=TYPICAL)
def test_equality_and_pickling_are_alike(name, source, metadata, other):
    """Events are equal when torch's are, and each module's survive pickling."""
    answers = []
    for module in (theirs, ours):
        event = module.Event(name, module.EventSource[source], metadata=metadata)
        twin = module.Event(name, module.EventSource[source], metadata=dict(metadata))
        unlike = module.Event(name, module.EventSource[source], metadata=other)
        again = pickle.loads(pickle.dumps(event))
        assert (type(event), repr(event)) == (type(again), repr(again))
        answers.append((event == twin, event == unlike, event == name, event == again))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", ["Event", "RdzvEvent"])
def test_classes_are_alike(kind):
    """Fields with their types and defaults, signature, match arguments, hash and bases are torch's."""
    described = []
    for module in (theirs, ours):
        cls = getattr(module, kind)
        fields = [
            (each.name, str(each.type).replace(module.__name__, ""), each.default, each.init, each.repr, each.compare)
            for each in dataclasses.fields(cls)
        ]
        signature = str(inspect.signature(cls)).replace(module.__name__, "")
        described.append((fields, signature, cls.__match_args__, cls.__hash__, cls.__mro__[1:], cls.__qualname__))
        assert isinstance(inspect.getattr_static(cls, "deserialize"), staticmethod)
    assert described[0] == described[1]


@pytest.mark.parametrize("kind", ["EventSource", "NodeState"])
def test_enums_are_alike(kind):
    """Members, text, format, equality with text and hash are torch's."""
    described = []
    for module in (theirs, ours):
        cls = getattr(module, kind)
        described.append(
            [
                (m.name, m.value, str(m), f"{m}", repr(m), m == m.value, hash(m) == hash(m.value), json.dumps(m))
                for m in cls
            ]
        )
        assert all(pickle.loads(pickle.dumps(member)) is member for member in cls)
    assert described[0] == described[1]
    assert list(getattr(theirs, kind)) == list(getattr(ours, kind))


@pytest.mark.parametrize(
    "name",
    [
        "record",
        "record_rdzv_event",
        "construct_and_record_rdzv_event",
        "get_logging_handler",
        "_get_or_create_logger",
        "Event.serialize",
        "Event.deserialize",
        "RdzvEvent.serialize",
        "RdzvEvent.deserialize",
    ],
)
def test_signatures_are_alike(name):
    """Parameters, kinds and defaults are torch's."""
    described = []
    for module in (theirs, ours):
        function = module
        for part in name.split("."):
            function = getattr(function, part)
        described.append([(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()])
    assert described[0] == described[1]


def test_every_public_name_is_there():
    """What torch's package and its sub-modules offer, ours offer too."""
    for their_module, our_module in ((theirs, ours), (theirs.api, ours.api), (theirs.handlers, ours.handlers)):
        public = {
            name
            for name, value in vars(their_module).items()
            if not name.startswith("_") and not inspect.ismodule(value) and value.__class__.__module__ != "typing"
        }
        foreign = {"asdict", "dataclass", "field", "Enum", "Optional", "Union"}
        assert set() == {name for name in public - foreign if not hasattr(our_module, name)}
    assert theirs.EventMetadataValue == ours.EventMetadataValue


def test_metadata_defaults_are_fresh():
    """No two events share their metadata."""
    for module in (theirs, ours):
        one, two = (module.Event("a", module.EventSource.AGENT) for _ in range(2))
        assert one.metadata is not two.metadata


@pytest.fixture
def loggers(fresh):
    """Both modules with a clean `null` logger; gives them back as they were."""
    name = "torchelastic-events-null"
    logger = logging.getLogger(name)
    theirs._events_loggers.pop("null", None)
    logger.handlers.clear()
    yield
    theirs._events_loggers.pop("null", None)
    logger.handlers.clear()


def test_loggers_are_alike(loggers):
    """Name, level, propagation and kind of handler of a destination's logger are torch's."""
    described = []
    for module in (theirs, ours):
        logging.getLogger("torchelastic-events-null").handlers.clear()
        logger = module._get_or_create_logger("null")
        kinds = [type(handler) for handler in logger.handlers]
        described.append((logger.name, logger.level, logger.propagate, logger.disabled, kinds, type(logger)))
    assert described[0] == described[1]


@pytest.mark.parametrize("name", ["null", "console", "dynamic_rendezvous"])
def test_handlers_are_alike(fresh, name):
    """The handlers of torch's names are of torch's kinds, with torch's level and no formatter."""
    expected, actual = theirs.get_logging_handler(name), fresh.get_logging_handler(name)
    assert isinstance(actual, type(expected))
    assert (expected.level, expected.formatter) == (actual.level, actual.formatter)


@given(name=st.text(), source=SOURCES, timestamp=st.integers(), metadata=TYPICAL)
def test_a_users_handler_sees_what_torchs_would(name, source, timestamp, metadata):
    """A handler on the logger gets one record with the same message, name, level, function and file name."""
    logger = logging.getLogger("torchelastic-events-null")
    seen = []
    for module in (theirs, ours):
        module._events_loggers.pop("null", None)
        logger.handlers.clear()
        kept = Keeping()
        module._get_or_create_logger("null").addHandler(kept)
        event = module.Event(name, module.EventSource[source], timestamp, metadata)
        if not is_json(outcome(event.serialize)):
            return
        module.record(event)
        (record,) = kept.records
        seen.append((record.getMessage(), record.name, record.levelno, record.funcName, record.filename, record.args))
        module._events_loggers.pop("null", None)
    logger.handlers.clear()
    logger.propagate = True
    assert seen[0] == seen[1]


RENDEZVOUS = """
import logging, sys
from PACKAGE import events
def outer(state, **given):
    events.construct_and_record_rdzv_event("job-7", "said", events.NodeState[state], **given)
events.handlers._log_handlers["dynamic_rendezvous"] = logging.StreamHandler(sys.stdout)
outer("RUNNING")
outer("INIT", name="mine", hostname="node-a", pid=3, master_endpoint="m:1", local_id=0, rank=2)
outer("RUNNING", pid=0, hostname="")
events.construct_and_record_rdzv_event("r", "top", events.NodeState.SUCCEEDED, pid=1)
(lambda: events.construct_and_record_rdzv_event("r", "in a lambda", events.NodeState.SUCCEEDED, pid=1))()
exec("events.construct_and_record_rdzv_event('r', 'in exec', events.NodeState.SUCCEEDED, pid=1)")
try:
    raise ValueError("boom")
except ValueError:
    outer("FAILED")
    outer("RUNNING")
    events.construct_and_record_rdzv_event("r", "direct", events.NodeState.FAILED, pid=1)
events.record_rdzv_event(events.RdzvEvent("n", "r", "m", "h", 1, events.NodeState.FAILED))
"""

CONSOLE = """
import sys
from PACKAGE import events
event = events.Event("a", events.EventSource.WORKER, 5, {"text": "é\\n\\u2028", "n": [1, None]})
events.record(event, "console")
events.record(event)
events.record(event, destination="null")
print(event, repr(event), events.Event.deserialize(str(event)))
"""


@pytest.mark.parametrize("script", [RENDEZVOUS, CONSOLE], ids=["rendezvous", "console"])
def test_whole_processes_are_alike(both, script):
    """A process that records prints the same bytes on stdout and stderr with either module."""
    (their_code, their_out, their_err), (our_code, our_out, our_err) = both(script)
    assert (0, 0) == (their_code, our_code), (their_err, our_err)
    assert without_pid(their_out) == without_pid(our_out)
    assert their_err == our_err


def without_pid(out):
    """The lines of stdout, the ones that are events without the process's own pid."""
    lines = []
    for line in out.splitlines():
        fields = outcome(json.loads, line)
        if isinstance(fields, dict) and fields.get("pid", 0) > 10:
            line = line.replace(f'"pid": {fields["pid"]}', '"pid": …')
        lines.append(line)
    return lines
