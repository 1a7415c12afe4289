"""The events themselves: their JSON, both ways, without torch."""

import collections
import dataclasses
import enum
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.errors import EventError
from jobtape.events import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent, api
from tests.events.lab import agent_event, rdzv_event


class Text(str):
    """A str that is not quite one."""


class Level(enum.IntEnum):
    """Numbers with names."""

    LOW = 1


@dataclasses.dataclass
class Shape:
    """A value that `asdict` takes apart."""

    rows: int
    tags: list


@dataclasses.dataclass
class Listed(list):
    """A list that `asdict` nevertheless takes for a dataclass."""

    rows: int = 0


@dataclasses.dataclass
class Longer(Event):
    """An event with a field of its own."""

    step: int = 0


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "event",
    [
        Event("a", EventSource.WORKER),
        agent_event(),
        rdzv_event(),
        Event("naïve \x00 \u2028 \ud800 😀", EventSource.AGENT, -1, {"\x7f": "\x1b[31m"}),
        Event("a", EventSource.AGENT, 1.5, {"big": 10**30, "tiny": 5e-324, "zero": -0.0, "yes": True, "none": None}),
        Event("a", "no enum", 0, {7: "int", None: "null", True: "bool", 2.5: "float", Level.LOW: "enum"}),
        Event("a", EventSource.AGENT, 0, {1: "twice", "1": "twice"}),
        Event("a", EventSource.AGENT, 0, {float("nan"): "a key may be NaN, it is text"}),
        Event(Text("a"), EventSource.AGENT, 0, {Text("k"): Text("v"), "level": Level.LOW, "state": NodeState.INIT}),
        Event("a", EventSource.AGENT, 0, {"list": [1, (2, [3])], "dict": {"x": {"y": Shape(1, [Shape(2, [])])}}}),
        Event("a", EventSource.AGENT, 0, {"shape": Shape(1, ["t"]), "listed": Listed(3), "point": Point(1, 2)}),
        Event("a", EventSource.AGENT, 0, collections.OrderedDict(b=1, a=2)),
        Event("a", EventSource.AGENT, 0, None),
        Event("a", EventSource.AGENT, 0, ["no", "dict"]),
        Event(None, None, None, {}),
        Longer("a", EventSource.AGENT, 0, {"k": "v"}, 7),
        rdzv_event(node_state="no enum", pid="no int", rank=None),
        rdzv_event(message=Text("m"), error_trace=["no", "text"]),
    ],
    ids=repr,
)
def test_serialize_writes_what_torch_would(event):
    """The text is that of json.dumps over the dataclass, and `str` gives the same."""
    assert json.dumps(dataclasses.asdict(event)) == event.serialize() == str(event)


KEYS = st.text() | st.integers() | st.none() | st.booleans() | st.floats()
PLAIN = st.text() | st.integers() | st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8)


@given(
    name=st.text(),
    source=st.sampled_from(EventSource),
    timestamp=st.integers(),
    metadata=st.dictionaries(KEYS, NESTED),
)
def test_serialize_equals_json_dumps(name, source, timestamp, metadata):
    """Whatever metadata JSON can hold is written as json.dumps writes it."""
    event = Event(name, source, timestamp, metadata)
    assert json.dumps(dataclasses.asdict(event)) == event.serialize()


@given(
    name=st.text(),
    source=st.sampled_from(EventSource),
    timestamp=st.integers(),
    metadata=st.dictionaries(st.text(), PLAIN),
)
def test_events_survive_the_way_there_and_back(name, source, timestamp, metadata):
    """Reading what was written gives an equal event."""
    event = Event(name, source, timestamp, metadata)
    assert event == Event.deserialize(event.serialize())
    assert event == Event.deserialize(event.serialize().encode())


@given(
    texts=st.lists(st.text(), min_size=6, max_size=6),
    numbers=st.tuples(st.integers(), st.none() | st.integers(), st.none() | st.integers()),
    state=st.sampled_from(NodeState),
)
def test_rendezvous_events_survive_the_way_there_and_back(texts, numbers, state):
    """Reading what was written gives an equal rendezvous event."""
    name, run_id, message, hostname, endpoint, trace = texts
    event = RdzvEvent(name, run_id, message, hostname, numbers[0], state, endpoint, numbers[1], numbers[2], trace)
    assert event == RdzvEvent.deserialize(event.serialize())
    assert json.dumps(dataclasses.asdict(event)) == event.serialize()


def test_events_are_returned_as_they_are():
    """`deserialize` of an event, also of a subclass, is that object."""
    event, longer, rdzv = agent_event(), Longer("a", EventSource.AGENT), rdzv_event()
    assert (event, longer, rdzv) == (Event.deserialize(event), Event.deserialize(longer), RdzvEvent.deserialize(rdzv))
    assert Event.deserialize(longer) is longer


def test_bare_nan_is_read():
    """Torch writes NaN and infinities bare; what it wrote can be read."""
    text = '{"name": "a", "source": "AGENT", "timestamp": 0, "metadata": {"loss": NaN, "best": -Infinity}}'
    metadata = Event.deserialize(text).metadata
    assert ("nan", float("-inf")) == (repr(metadata["loss"]), metadata["best"])


class Angry:
    """Nothing can be made of it."""

    def __repr__(self):
        raise RuntimeError("no")

    def __deepcopy__(self, memo):
        raise RuntimeError("no")


CIRCLE: list = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "field", "kind"),
    [
        (float("nan"), "metadata['k']", "float nan"),
        (float("-inf"), "metadata['k']", "float -inf"),
        (object(), "metadata['k']", "object"),
        (b"bytes", "metadata['k']", "bytes"),
        ({1, 2}, "metadata['k']", "set"),
        (Angry(), "metadata['k']", "tests.events.test_api.Angry"),
        ([1, {"x": float("inf")}], "metadata['k'][1]['x']", "float inf"),
        ({"x": [0, object()]}, "metadata['k']['x'][1]", "object"),
        (CIRCLE, "metadata['k'][0]", "list"),
        (10**5000, "metadata['k']", "int"),
    ],
    ids=["nan", "-inf", "object", "bytes", "set", "angry", "nested nan", "nested object", "circle", "long int"],
)
def test_an_invalid_value_is_named(value, field, kind):
    """The error of `serialize` names the key, also an inner one, and the type of what JSON cannot hold."""
    if kind == "int" and not hasattr(__import__("sys"), "set_int_max_str_digits"):
        pytest.skip("this Python writes integers of any length")
    with pytest.raises(EventError) as caught:
        Event("a", EventSource.AGENT, 0, {"fine": 1, "k": value}).serialize()
    assert caught.value.field.startswith(field)
    assert f"{field}" in str(caught.value)
    assert f"is of type {kind}" in str(caught.value)


def test_an_invalid_key_is_named():
    """A key that JSON cannot hold is named by its type."""
    with pytest.raises(EventError, match="a key of metadata is of type tuple") as caught:
        Event("a", EventSource.AGENT, 0, {(1, 2): "v"}).serialize()
    assert ("a key of metadata", (1, 2)) == (caught.value.field, caught.value.value)


def test_an_invalid_field_is_named():
    """A field other than the metadata is named as well, in both kinds of event."""
    with pytest.raises(EventError, match="timestamp is of type float nan"):
        Event("a", EventSource.AGENT, float("nan")).serialize()
    with pytest.raises(EventError, match="rank is of type object"):
        rdzv_event(rank=object()).serialize()
    broken = Event("a", EventSource.AGENT)
    del broken.source
    with pytest.raises(EventError, match="no field 'source'"):
        broken.serialize()


@pytest.mark.parametrize(
    ("data", "field", "text"),
    [
        ("", "Event", "not JSON"),
        ("{", "Event", "not JSON"),
        ("[]", "Event", "not a JSON object"),
        ("null", "Event", "not a JSON object"),
        ("[" * 100_000, "Event", "not JSON"),
        (b"\xff\xfe", "Event", "not JSON"),
        (None, "Event", "not from NoneType"),
        (5, "Event", "not from int"),
        ({"name": "a"}, "Event", "not from dict"),
        ('{"source": "AGENT"}', "name", "lacks the field 'name'"),
        ('{"name": "a"}', "source", "lacks the field 'source'"),
        ('{"name": "a", "source": "agent"}', "source", "'agent'"),
        ('{"name": "a", "source": null}', "source", "None"),
        ('{"name": "a", "source": ["AGENT"]}', "source", "AGENT, WORKER"),
        ('{"name": "a", "source": "AGENT", "time": 1.5}', "time", "1.5"),
    ],
)
def test_what_is_no_event_is_named(data, field, text):
    """The one error of `deserialize` names the field and shows the value, and is a ValueError."""
    with pytest.raises(EventError, match=r"^Event") as caught:
        Event.deserialize(data)
    assert isinstance(caught.value, ValueError)
    assert (field, True) == (caught.value.field, text in str(caught.value))


@pytest.mark.parametrize(
    ("change", "field"), [({"node_state": "DONE"}, "node_state"), ({"rounds": 1}, "rounds"), ({"pid": ...}, "pid")]
)
def test_what_is_no_rendezvous_event_is_named(change, field):
    """The same for rendezvous events: an unknown state, an unknown field, a missing one."""
    values = {**json.loads(rdzv_event().serialize()), **change}
    text = json.dumps({key: value for key, value in values.items() if value is not ...})
    with pytest.raises(EventError, match=field) as caught:
        RdzvEvent.deserialize(text)
    assert field == caught.value.field


@given(st.text() | st.binary())
def test_deserialize_has_one_error(data):
    """Any text or bytes give an event or an EventError."""
    for kind in (Event, RdzvEvent):
        try:
            kind.deserialize(data)
        except EventError:
            pass


def test_events_are_plain_dataclasses():
    """Repr, equality, fresh defaults, pickling and types of the fields are those of an ordinary dataclass."""
    event = Event("a", EventSource.AGENT)
    assert "Event(name='a', source=<EventSource.AGENT: 'AGENT'>, timestamp=0, metadata={})" == repr(event)
    assert event == pickle.loads(pickle.dumps(event))
    assert event.metadata is not Event("a", EventSource.AGENT).metadata
    assert event != Longer("a", EventSource.AGENT)
    assert [str, EventSource, int, dict[str, EventMetadataValue]] == [each.type for each in dataclasses.fields(Event)]
    assert rdzv_event() == pickle.loads(pickle.dumps(rdzv_event()))


def test_metadata_value_is_the_contracts_alias():
    """The alias names the five plain types."""
    assert str | int | float | bool | None == EventMetadataValue
    assert ["Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent"] == api.__all__
