"""What strict JSON cannot hold, written explicitly and read back.

==============================  =====================================================
NaN, infinities                 ``{"$float": "nan"}``, ``"inf"``, ``"-inf"``
integers beyond 64 bits         ``{"$int": "<decimal>"}``
text with lone surrogates       ``{"$str": "<the text, JSON-escaped to ASCII>"}``
dicts that have a ``$…`` key    ``{"$dict": [[key, value], …]}``
==============================  =====================================================

The forms stand only where a value stands; the metadata of an event itself is always a plain object.
"""

from __future__ import annotations

import json
import os
from enum import Enum
from typing import Any

MAX_DEPTH = 8
MAX_REPR_CHARS = 1000
MAX_ITEMS = 10_000
"""Values kept in one metadata value; what is beyond is cut, so that a list that holds itself ten times ends."""

INT_MIN = -(2**63)
INT_MAX = 2**64 - 1

_MAX_INT_BITS = 13_000
"""Python refuses to write longer integers in decimal (4,300 digits)."""

_BUILTIN = frozenset((type(None), bool, int, float, str, dict, list, tuple))
"""Types without code of a user's: an exception out of one of them is a signal handler's and not ours to swallow."""

_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_SCALAR_MODULES = frozenset(("numpy", "torch", "ml_dtypes"))


def encode_value(value: Any) -> Any:
    """Something strict JSON can hold for any value at all; never raises for what a value's own code does."""
    return _encode(value, MAX_DEPTH, [MAX_ITEMS])


def encode_metadata(metadata: Any) -> dict[str, Any]:
    """Metadata with text keys, colliding ones both kept (``"1"``, ``"1#2"``), and values JSON can hold."""
    if not isinstance(metadata, dict):
        return {"metadata": encode_value(metadata)}
    encoded: dict[str, Any] = {}
    for key, value in list(dict.items(metadata)):
        encoded[_free_key(_key_text(key), encoded)] = encode_value(value)
    return encoded


def decode_value(value: Any) -> Any:
    """The inverse of `encode_value`; a form it does not know, or that is malformed, stays as it stands."""
    try:
        return _decode(value)
    except RecursionError:
        return value


def plain_text(value: Any) -> str:
    """Text for a field that must be text: other types by `repr`, lone surrogates as ``\\udcXX`` in letters."""
    text = value if type(value) is str else _text_of(value)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _text_of(value: Any) -> str:
    try:
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, str):
            return str.__str__(value)
    except Exception:  # noqa: BLE001 - as in `_encode`
        return _bounded_repr(value)
    return "" if value is None else _bounded_repr(value)


def _encode(value: Any, depth: int, budget: list[int]) -> Any:
    if type(value) in _BUILTIN:
        return _encode_by_type(value, depth, budget)
    try:
        return _encode_by_type(value, depth, budget)
    except Exception:  # noqa: BLE001 - the value's own code may run, and raise anything
        return _encode_text(_bounded_repr(value))


def _encode_by_type(value: Any, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return _encode(value.value, depth - 1, budget) if depth else _encode_text(_bounded_repr(value))
    if isinstance(value, str):
        return _encode_text(str.__str__(value))
    if isinstance(value, int):
        return _encode_int(int.__index__(value))
    if isinstance(value, float):
        return _encode_float(float.__float__(value))
    if isinstance(value, (dict, list, tuple)):
        if depth == 0 or budget[0] < len(value):
            return _encode_text(_bounded_repr(value))
        if isinstance(value, dict):
            return _encode_dict(value, depth, budget)
        return [_encode(item, depth - 1, budget) for item in tuple(value)]
    return _encode_object(value)


def _encode_text(text: str) -> Any:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return {"$str": json.dumps(text)[1:-1]}
    return text


def _encode_int(number: int) -> Any:
    if INT_MIN <= number <= INT_MAX:
        return number
    if number.bit_length() > _MAX_INT_BITS:
        return f"<int of {number.bit_length()} bits>"
    return {"$int": str(number)}


def _encode_float(number: float) -> Any:
    if number - number == 0:
        return number
    return {"$float": "nan" if number != number else "inf" if number > 0 else "-inf"}


def _encode_dict(value: dict[Any, Any], depth: int, budget: list[int]) -> Any:
    encoded: dict[str, Any] = {}
    for key, item in list(dict.items(value)):
        encoded[_free_key(_key_text(key), encoded)] = _encode(item, depth - 1, budget)
    if any(key.startswith("$") for key in encoded):
        return {"$dict": [[key, item] for key, item in encoded.items()]}
    return encoded


def _encode_object(value: Any) -> Any:
    """Scalars of numpy and torch, paths, times and UUIDs; by shape, so that none of their modules is imported."""
    module = type(value).__module__.partition(".")[0]
    if module in _SCALAR_MODULES and getattr(value, "shape", None) == ():
        item = value.item()
        if isinstance(item, (bool, int, float, str)):
            return _encode(item, 1, [1])
    elif isinstance(value, os.PathLike):
        return _encode_text(os.fsdecode(value))
    elif module == "uuid":
        return str(value)
    elif callable(getattr(value, "isoformat", None)):
        return _encode_text(str.__str__(value.isoformat()))
    return _encode_text(_bounded_repr(value))


def _bounded_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a repr may raise anything
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= MAX_REPR_CHARS else text[:MAX_REPR_CHARS] + "…"


def _key_text(key: Any) -> str:
    """The text `json.dumps` gives the keys it takes; a bounded repr for others."""
    if key is None or key is True or key is False:
        return {None: "null", True: "true", False: "false"}[key]
    return plain_text(key)


def _free_key(key: str, taken: dict[str, Any]) -> str:
    if key not in taken:
        return key
    count = 2
    while f"{key}#{count}" in taken:
        count += 1
    return f"{key}#{count}"


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        form, content = next(iter(value.items()))
        if form.startswith("$"):
            return _decode_form(form, content, value)
    return {key: _decode(item) for key, item in value.items()}


def _decode_form(form: str, content: Any, value: dict[str, Any]) -> Any:
    try:
        if form == "$float":
            return _FLOATS[content]
        if form == "$int":
            return int(content, 10)
        if form == "$str" and isinstance(content, str):
            return json.loads(f'"{content}"', strict=False)
        if form == "$dict":
            return {_only_text(key): _decode(item) for key, item in content}
    except (KeyError, TypeError, ValueError):
        return value
    return value


def _only_text(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError("a key of a $dict is text")
    return key
