"""What comes from a tape cannot act on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.views.escape import brief, brief_place, folded, visible, visible_lines

ESC = chr(27)


def test_plain_text_stays_as_it_is():
    """Letters of any script are shown, not escaped."""
    assert "größer 日本 ok" == visible("größer 日本 ok")


def test_what_cannot_be_seen_is_written_out():
    """ANSI escapes, line breaks, direction changes, line separators and lone surrogates become escapes."""
    hostile = f"{ESC}[31m\r\n\u202e\u2028\x85\x9b\ud800\x7f\u200b"
    assert r"\x1b[31m\r\n\u202e\u2028\x85\x9b\ud800\x7f\u200b" == visible(hostile)


@given(st.text())
def test_one_line_of_printable_text(text):
    """Whatever the text, what is shown is printable, on one line."""
    assert visible(text).isprintable()


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_lines_are_printable(text):
    """Whatever the text, each of its lines is printable."""
    assert all(line.isprintable() for line in visible_lines(text))


def test_only_line_feeds_end_a_line():
    """A carriage return or U+2028 is shown inside its line."""
    assert ["a\\u2028b", "c\\rd"] == visible_lines("a\u2028b\r\nc\rd\n\n")


def test_brief_says_how_much_is_not_shown():
    """A long text is cut, and the rest counted."""
    assert "a" * 20 + "… (199,980 more characters)" == brief("a" * 200_000, 20)


def test_brief_leaves_a_short_text():
    """A text within the limit is whole."""
    assert "abc\\ndef" == brief(" abc\ndef\n", 20)


@given(st.text(), st.integers(1, 50))
def test_brief_is_bounded(text, limit):
    """What is shown of a text has a bound, however it is escaped."""
    assert len(brief(text, limit)) <= limit * 4 + 40


def test_folded_keeps_both_ends():
    """The first and last lines stay, the middle is counted."""
    lines = [str(number) for number in range(100)]
    assert ["0", "… 97 lines left out; --full shows them", "98", "99"] == folded(lines, 1, 2)


def test_folded_leaves_few_lines():
    """Leaving out one line saves none."""
    assert ["0", "1", "2", "3"] == folded(["0", "1", "2", "3"], 1, 2)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("train.py:12", "train.py:12"),
        ("/home/me/a/train.py:12", "…/me/a/train.py:12"),
        ("x" * 30 + ".py:1", "…" + "x" * 14 + ".py:1"),
    ],
)
def test_a_place_is_cut_from_its_front(place, shown):
    """The file's name and the line stay."""
    assert shown == brief_place(place, 20)


@given(st.text(), st.integers(1, 50))
def test_a_place_is_bounded(text, limit):
    """What is shown of a place has a bound and is printable."""
    shown = brief_place(text, limit)
    assert (True, True) == (len(shown) <= limit * 4, shown.isprintable())
