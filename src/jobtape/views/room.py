"""How much is told of each thing, so that a page is a screen at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobtape.views.page import UNBOUNDED, Page

SCREEN_LINES = 40
"""Lines of a page unless everything is asked for, on 80 columns and more."""

NARROWEST = 80
"""With fewer columns nobody expects a screen to be enough: the page is what it would be there, in more lines."""


@dataclass(frozen=True)
class Room:
    """How many of each thing a page has.

    Attributes:
        full: everything, nothing folded and nothing cut.
        said: characters told of what the first rank said, in the first sentence.
        words: characters of what others said, and of a reference.
        warnings: kinds of warnings; `warning`: characters of each.
        ways: ways in which attempts ended, a line each.
        whole: groups of attempts told in their order, one of them in detail, where there are no more than that.
        head, tail: lines of a traceback; `stack`: of a stack.
        evidence: records; `places`: where ranks stood; `voices`: what victims said, for each role.
        rows: of a table of workers; `tables`: attempts that have one.
    """

    full: bool = False
    said: int = 200
    words: int = 120
    warnings: int = 5
    warning: int = 400
    ways: int = 6
    whole: int = 4
    head: int = 5
    tail: int = 6
    stack: int = 8
    evidence: int = 3
    places: int = 4
    voices: int = 1
    rows: int = 12
    tables: int = 4


FULL = Room(full=True)
ROOMS = (
    Room(),
    Room(said=160, warnings=4, warning=200, head=3, stack=6, places=2, whole=3, rows=10, tables=2),
    Room(said=160, warnings=4, warning=200, head=1, stack=6, places=1, whole=3, evidence=2, rows=8, tables=2),
    Room(said=120, words=100, warnings=3, warning=150, head=0, tail=4, stack=4, places=1, whole=2, evidence=2,
         rows=5, tables=2),
    Room(said=120, words=80, warnings=3, warning=150, head=0, tail=3, stack=3, places=0, whole=2, evidence=1, voices=0,
         rows=8, tables=1),
    Room(said=100, words=70, warnings=2, warning=110, ways=5, head=0, tail=4, stack=3, places=1, whole=1, evidence=1,
         voices=0, rows=4, tables=1),
    Room(said=60, words=60, warnings=1, warning=70, ways=3, head=0, tail=2, stack=1, places=0, whole=1, evidence=1,
         voices=0, rows=2, tables=1),
)  # fmt: skip
"""From the roomiest; those that follow give up what is missed least."""


def fitting(make: Callable[[Room], Page], width: int = UNBOUNDED) -> Page:
    """The page with the most in it that is no more than a screen.

    Args:
        make: what makes the page.
        width: of the place it is shown on, in columns.
    """
    for room in ROOMS:
        page = make(room)
        if page.height(max(width, NARROWEST)) <= SCREEN_LINES:
            return page
    return page.cut(SCREEN_LINES, max(width, NARROWEST), "the rest is not shown; --full shows it")
