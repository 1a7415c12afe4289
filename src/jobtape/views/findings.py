"""What ``jobtape doctor`` found, in lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobtape.views.escape import brief
from jobtape.views.groups import count
from jobtape.views.page import Page

STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Attributes:
        check: what was looked at, in a word.
        state: ``ok`` · ``note`` (worth knowing) · ``problem`` (recording does not work, or something was lost).
        text: what was found.
        do: what to do about it; empty when there is nothing to do.
    """

    check: str
    state: str
    text: str
    do: str = ""


def findings(found: Iterable[Finding]) -> Page:
    """The answer in one sentence, then every finding, with what to do about it."""
    found = list(found)
    problems = [each for each in found if each.state == "problem"]
    page = Page()
    if problems:
        page.line(
            (f"{count(len(problems), 'problem')}: {', '.join(each.check for each in problems)}.", STYLES["problem"])
        )
    else:
        page.line(("Recording works here.", "bold green"))
    page.blank()
    for each in found:
        page.line((f"{each.state:<8}", STYLES[each.state]), f"{each.check}: {brief(each.text, 1000)}", hang=8)
        if each.do:
            page.line(f"-> {brief(each.do, 400)}", indent=8, hang=3)
    return page


def findings_json(found: Iterable[Finding]) -> dict[str, Any]:
    """The findings for programs."""
    told = [{"check": each.check, "state": each.state, "text": each.text, "do": each.do} for each in found]
    return {"ok": all(each["state"] != "problem" for each in told), "findings": told}
