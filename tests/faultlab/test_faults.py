"""Real jobs with real faults: the answer of ``jobtape why`` is the truth that the injection wrote down."""

from __future__ import annotations

import re
import statistics
from typing import Any

import pytest

from ..capture import lab
from ..capture.memory_group import NoMemoryGroup
from . import comparison, proof
from .catalogue import SCENARIOS
from .company import Company
from .performance import Performance
from .scenario import Scenario

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

LAB_S = 360
"""How long the whole lab may take, alone on two processors."""
MEDIAN_S = 0.03
"""How far the time of a fault is from the truth in half of the cases at most."""
SCREEN = 80
"""Lines at most that people are shown of one run."""
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def parameters() -> list[object]:
    """Each scenario, marked so that it is played in the background."""
    found = []
    for scenario in SCENARIOS:
        marks = [pytest.mark.scenario(scenario)]
        if scenario.known_fault:
            marks.append(pytest.mark.xfail(reason=scenario.known_fault, strict=True))
        found.append(pytest.param(scenario, id=scenario.name, marks=marks))
    return found


def played(company: Company, scenario: Scenario) -> Performance:
    """Its performance; skipped where the machine cannot play it."""
    try:
        return company.performance(scenario)
    except NoMemoryGroup as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("scenario", parameters())
def test_the_answer_is_the_truth(company: Company, scenario: Scenario) -> None:
    """The scenario's fault really happened, and each thing that ``why`` says of it is true."""
    performance = played(company, scenario)
    complaints = proof.complaints(scenario, performance)
    assert "" == "\n".join(complaints), performance.console[-3000:]
    company.produced[scenario.name] = [(fault.kind, fault.status, fault.error_type) for fault in scenario.faults]
    answer = lab.why(performance.shelf, f"lab-{scenario.name}")
    company.errors_s[scenario.name] = _time_errors_s(scenario, performance, answer)
    assert "" == "\n".join(comparison.differences(scenario, performance, answer))
    if scenario.people:
        told = lab.jobtape(performance.shelf, "why", f"lab-{scenario.name}")
        assert ([], True) == (INVISIBLE.findall(told.stdout), len(told.stdout.splitlines()) <= SCREEN)


def _time_errors_s(scenario: Scenario, performance: Performance, answer: dict[str, Any]) -> list[float]:
    causes = [attempt["cause"] for attempt in answer["attempts"] if attempt["cause"] is not None]
    if len(causes) != len(scenario.faults):
        return []
    errors = (comparison.time_error_s(*pair, performance) for pair in zip(scenario.faults, causes, strict=True))
    return [error for error in errors if error is not None]


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in SCENARIOS])
def test_the_log_alone_misleads_nobody(company: Company, scenario: Scenario) -> None:
    """From what the agents printed, without a tape, ``why`` may know less, but is sure of no rank that is innocent."""
    performance = played(company, scenario)
    shelf = performance.folder / "imported"
    consoles = [str(path) for path in sorted(performance.folder.glob("console-*.txt"))]
    done = lab.jobtape(shelf, "import", "--format", "torchelastic", *consoles)
    runs = sorted(path.name for path in shelf.glob("*")) if done.returncode == 0 else []
    blamed = [
        cause["rank"]
        for run in runs
        for attempt in lab.why(shelf, run)["attempts"]
        if (cause := attempt["cause"]) is not None and cause["confidence"] in ("likely", "certain")
    ]
    guilty = {line.rank for fault in scenario.faults for line in proof.culprits(fault, performance)}
    assert set() == set(blamed) - guilty - {None}


def test_the_lab_is_whole(company: Company, request: pytest.FixtureRequest) -> None:
    """At least 15 distinct faults really happened, their times are right, and all of it took less than six minutes."""
    asked = {item.callspec.params["scenario"].name for item in request.session.items if _is_the_truth_test(item)}
    if len(asked) < len(SCENARIOS):
        pytest.skip("only a part of the lab was asked for")
    kinds = {fault for faults in company.produced.values() for fault in faults}
    errors_s = [error for errors in company.errors_s.values() for error in errors]
    assert len(company.produced) >= len(SCENARIOS) - 1  # without rights to make a control group one is missing
    assert len(kinds) >= 15
    assert statistics.median(map(abs, errors_s)) < MEDIAN_S
    assert company.wall_s < LAB_S


def _is_the_truth_test(item: Any) -> bool:
    return item.originalname == "test_the_answer_is_the_truth"
