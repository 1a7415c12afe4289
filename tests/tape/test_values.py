"""Values that strict JSON cannot hold, there and back."""

from __future__ import annotations

import datetime
import enum
import json
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.tape.values import MAX_REPR_CHARS, decode_value, encode_metadata, encode_value, plain_text


class Colour(enum.Enum):
    """An enum of plain values."""

    RED = "red"
    SEVEN = 7


class Loud:
    """Something whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Hostile(dict):  # type: ignore[type-arg]
    """A container whose own methods raise."""

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    __repr__ = keys = values = items = __iter__


def through_json(value: Any) -> Any:
    """Encode, write as strict JSON, read, decode."""
    text = json.dumps(encode_value(value), allow_nan=False)
    text.encode("utf-8")
    return decode_value(json.loads(text))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (math.inf, {"$float": "inf"}),
        (-math.inf, {"$float": "-inf"}),
        (math.nan, {"$float": "nan"}),
        (2**64, {"$int": "18446744073709551616"}),
        (-(2**63) - 1, {"$int": "-9223372036854775809"}),
        ("a\udc80b", {"$str": "a\\udc80b"}),
        ('"\\\n\ud800', {"$str": '\\"\\\\\\n\\ud800'}),
        ({"$float": "nan"}, {"$dict": [["$float", "nan"]]}),
        ({"a": [math.inf, {"$b": 1}]}, {"a": [{"$float": "inf"}, {"$dict": [["$b", 1]]}]}),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
    ],
)
def test_what_json_cannot_hold_has_a_form(value: Any, encoded: Any) -> None:
    """The form is as documented, and decodes to the value it was made of."""
    assert encoded == encode_value(value)
    assert repr(value) == repr(through_json(value))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (Colour.RED, "red"),
        (Colour.SEVEN, 7),
        (Path("/data/run"), "/data/run"),
        (datetime.date(2026, 3, 4), "2026-03-04"),
        (datetime.datetime(2026, 3, 4, 5, 6, tzinfo=datetime.timezone.utc), "2026-03-04T05:06:00+00:00"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ((1, "a", None), [1, "a", None]),
        (b"raw", "b'raw'"),
        (Decimal("1.50"), "Decimal('1.50')"),
        (Loud(), "<Loud: its repr raised RuntimeError>"),
        (True, True),
    ],
)
def test_other_values_become_plain(value: Any, encoded: Any) -> None:
    """Enums their value, paths and times text, the rest a repr that is survived."""
    assert encoded == encode_value(value)


def test_values_of_hostile_classes_are_kept() -> None:
    """Whatever their own methods raise."""
    values = [
        Hostile(a=1),
        type("Text", (str,), {"__str__": Loud.__repr__})("x"),
        type("Number", (int,), {"__int__": Loud.__repr__})(7),
        type("Kindless", (), {"__class__": property(Loud.__repr__), "__repr__": lambda self: "?"})(),
    ]
    assert ["<Hostile: its repr raised RuntimeError>", "x", 7, "?"] == [encode_value(value) for value in values]


def test_an_integer_too_long_for_decimal_is_described() -> None:
    """Python refuses to write it."""
    assert "<int of 16610 bits>" == encode_value(10**5000)


def test_a_repr_is_bounded() -> None:
    """A repr that never ends is cut."""
    assert MAX_REPR_CHARS + 1 == len(encode_value({"x" * 5000: 1}.keys()))


@pytest.mark.parametrize("make", [lambda deep: [deep], lambda deep: {"a": deep}, lambda deep: (deep, deep)])
def test_depth_is_bounded(make: Any) -> None:
    """A structure of any depth is kept for eight levels."""
    value: Any = 1
    for _ in range(20):
        value = make(value)
    encoded = encode_value(value)
    depth = 0
    while isinstance(encoded, (list, dict)):
        encoded = next(iter(encoded.values() if isinstance(encoded, dict) else encoded))
        depth += 1
    assert 8 == depth


def test_a_list_that_holds_itself_often_ends() -> None:
    """Ten times itself, eight levels deep, would be a hundred million values."""
    value: list[Any] = []
    value.extend([value] * 10)
    assert len(json.dumps(encode_value(value))) < 20_000_000


def test_scalars_of_numpy_are_numbers() -> None:
    """Numbers and booleans keep their kind; arrays are a repr."""
    numpy = pytest.importorskip("numpy")
    values = {
        "f": numpy.float32(0.5),
        "d": numpy.float64(0.25),
        "i": numpy.int64(7),
        "b": numpy.bool_(True),
        "nan": numpy.float32("nan"),
        "zero": numpy.array(3),
        "array": numpy.zeros(2),
    }
    expected = {
        "f": 0.5,
        "d": 0.25,
        "i": 7,
        "b": True,
        "nan": {"$float": "nan"},
        "zero": 3,
        "array": "array([0., 0.])",
    }
    assert repr(expected) == repr(encode_metadata(values))


@pytest.mark.torch
def test_scalars_of_torch_are_numbers() -> None:
    """Tensors without dimensions are their number, also those that need a gradient; others are a repr."""
    import torch

    values = {
        "loss": torch.tensor(0.5, requires_grad=True),
        "ok": torch.tensor(True),
        "vector": torch.zeros(1),
        "half": torch.tensor(2.0, dtype=torch.bfloat16),
        "meta": torch.zeros((), device="meta"),
    }
    encoded = encode_metadata(values)
    assert {"loss": 0.5, "ok": True, "vector": "tensor([0.])", "half": 2.0} == {
        key: value for key, value in encoded.items() if key != "meta"
    }
    assert "meta" in encoded["meta"]


def test_keys_become_text_and_colliding_ones_are_both_kept() -> None:
    """Nothing is overwritten by its neighbour."""
    metadata = {1: "a", "1": "b", "1#2": "c", None: 0, False: 1, Colour.RED: 2, "red": 3, (1, 2): 4, "\udc80": 5}
    expected = {
        "1": "a",
        "1#2": "b",
        "1#2#2": "c",
        "null": 0,
        "false": 1,
        "red": 2,
        "red#2": 3,
        "(1, 2)": 4,
        "\\udc80": 5,
    }
    assert expected == encode_metadata(metadata)


@pytest.mark.parametrize("metadata", [None, 7, "text", [1]])
def test_metadata_that_is_no_dict_is_kept_under_a_name(metadata: Any) -> None:
    """An event is kept whatever stands in it."""
    assert {"metadata": metadata} == encode_metadata(metadata)


def test_metadata_of_a_hostile_class_is_kept() -> None:
    """Its items are read past its own methods."""
    assert {"a": 1} == encode_metadata(Hostile(a=1))


@pytest.mark.parametrize(
    "malformed",
    [
        {"$float": 1},
        {"$float": []},
        {"$int": "x"},
        {"$int": None},
        {"$str": 5},
        {"$str": '"'},
        {"$dict": 5},
        {"$dict": [[1, 2]]},
        {"$dict": [["a"]]},
        {"$later": 1},
    ],
)
def test_a_malformed_form_stays_as_it_stands(malformed: Any) -> None:
    """A tape may hold anything; reading it does not raise."""
    assert malformed == decode_value(malformed)


def test_text_of_a_field_is_always_writable() -> None:
    """Fields that must be text take anything."""
    assert ["", "7", "red", "a\\udc80", "<Loud: its repr raised RuntimeError>"] == [
        plain_text(value) for value in (None, 7, Colour.RED, "a\udc80", Loud())
    ]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(exclude_categories=[])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["$", "$int"]), inner, max_size=4)
    ),
    max_leaves=12,
).filter(lambda value: len(repr(value)) < 500)


@given(json_values)
def test_plain_values_come_back_equal(value: Any) -> None:
    """Whatever can be spelled in Python's plain types survives strict JSON, by msgspec and by json."""
    assert value == through_json(value)
    assert value == decode_value(msgspec.json.decode(msgspec.json.encode(encode_value(value))))
