"""Exceptions as text."""

from __future__ import annotations

import sys

from jobtape.capture.faults import MESSAGE_MAX, cut, describe


def fault(function: object) -> dict[str, object]:
    """Describe what calling the function raises."""
    try:
        function()  # type: ignore[operator]
    except BaseException:
        return describe(*sys.exc_info())
    raise AssertionError("nothing was raised")


def test_the_innermost_line_of_the_users_code_is_the_place() -> None:
    """An error raised inside the standard library is located where the user's code called it."""
    import json

    described = fault(lambda: json.loads("{"))
    assert "json.decoder.JSONDecodeError" == described["error_type"]
    assert str(described["location"]).startswith(__file__)


def test_a_syntax_error_is_where_the_file_is_wrong() -> None:
    """The place of a SyntaxError is the line that cannot be read, not the import."""
    described = fault(lambda: compile("x = (\n", "broken.py", "exec"))
    assert "broken.py:1" == described["location"]


def test_an_error_whose_text_raises_is_still_described() -> None:
    """A __str__ that fails hides neither the type nor the traceback."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def raise_it() -> None:
        raise Mute

    described = fault(raise_it)
    assert "Mute" in str(described["error_type"])
    assert "raise_it" in str(described["traceback"])


def test_endless_recursion_is_bounded() -> None:
    """The traceback of a RecursionError stays within its bound."""

    def deeper(level: int) -> int:
        return deeper(level + 1) + 1

    assert len(str(fault(lambda: deeper(0))["traceback"])) < 70_000


def test_cut_keeps_head_and_tail() -> None:
    """A long text keeps its beginning and its end, and says how much is missing."""
    text = cut("a" * 1000 + "b" * 1000, 100)
    assert text.startswith("a" * 25)
    assert text.endswith("b" * 75)
    assert "1900 characters left out" in text


def test_a_long_message_is_kept_whole_up_to_its_bound() -> None:
    """200 kB of message are nothing to lose."""
    message = "x" * 200_000
    assert len(message) < MESSAGE_MAX

    def raise_it() -> None:
        raise ValueError(message)

    assert message == fault(raise_it)["message"]
