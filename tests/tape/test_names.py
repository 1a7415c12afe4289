"""Names made of a user's text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.tape.names import safe_name

HOSTILE = [
    "../..",
    "/",
    "",
    "x" * 300,
    "a\nb",
    "a\r\nb",
    "trainingsläufe",
    "学習",
    ".",
    "..",
    "...",
    "latest",
    "trailing.",
    "trailing ",
    " leading",
    ".hidden",
    "-rf",
    "\x1b[31mred",
    "\0",
    "a/b",
    "a\\b",
    "~root",
    "\udc80",
    "job~0cfd1c96cb",
    "CON:",
    "$(reboot)",
    "*",
]


@pytest.mark.parametrize(
    "text", ["job-1", "none", "1234567", "4211_7", "a.b_c-D", "x" * 100, "20260101T101010-node-7-99"]
)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    """People find their runs with ls."""
    assert text == safe_name(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_becomes_one_new_directory(text: str, tmp_path: Path) -> None:
    """The name is one component right in the directory it is used in, and needs no quoting."""
    name = safe_name(text)
    (tmp_path / name).mkdir()
    assert [name] == [path.name for path in tmp_path.iterdir()]
    assert name.replace("~", "").isascii()
    assert not set(name) & set(" \t\n\r/\\*?$()'\"\x1b")


def test_hostile_texts_get_different_names() -> None:
    """Cleaning alone would make one of many."""
    assert len(HOSTILE) == len({safe_name(text) for text in HOSTILE})


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_text_gets_a_short_safe_name(text: str) -> None:
    """Never empty, hidden, an option, longer than 100 bytes, and the same each time."""
    name = safe_name(text)
    assert 1 <= len(name.encode()) <= 100
    assert name[0] not in ".-"
    assert name[-1] not in ". "
    assert "/" not in name
    assert name == safe_name(text)


@given(st.text(), st.text())
def test_different_texts_have_different_names(one: str, other: str) -> None:
    """No two run ids share a directory."""
    assert (one == other) == (safe_name(one) == safe_name(other))
