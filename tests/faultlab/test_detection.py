"""The lab itself: it tells a fault that did not happen and an answer that is not true."""

from __future__ import annotations

import dataclasses

import pytest

from ..capture import lab
from . import collectives, comparison, launches, on_their_own, proof
from .company import Company
from .scenario import Attempt, Scenario

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

DISARMED = [
    pytest.param(scenario, id=scenario.name, marks=pytest.mark.scenario(scenario, armed=False))
    for scenario in (collectives.HANG, on_their_own.CHOSEN_EXIT, on_their_own.KILLED, launches.NOBODY_CAME)
]


@pytest.mark.parametrize("scenario", DISARMED)
def test_a_scenario_without_its_fault_is_told(company: Company, scenario: Scenario) -> None:
    """The same job with its injection disabled ends well, and the lab says that the fault did not happen."""
    performance = company.performance(scenario, armed=False)
    what = scenario.faults[0].what
    assert (None, ()) == (performance.trouble, performance.left)
    assert {0} == set(performance.exit_codes), performance.console[-3000:]
    assert f"{what}: no witness says that it was injected" in proof.complaints(scenario, performance)


@pytest.mark.scenario(on_their_own.CHOSEN_EXIT)
def test_a_witness_is_not_believed_without_the_kernel(company: Company) -> None:
    """A process that says it will end with one code and ends with another did not produce the fault."""
    scenario = on_their_own.CHOSEN_EXIT
    performance = company.performance(scenario)
    meant = dataclasses.replace(scenario.faults[0], status=8)
    other = dataclasses.replace(scenario, truth=(dataclasses.replace(scenario.truth[0], fault=meant),))
    pid = performance.said(meant.what)[0].pid
    assert [f"{meant.what}: process {pid} ended with 7, not 8"] == proof.complaints(other, performance)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"rank": 0}, "attempt 0: rank: 0, the truth is 1"),
        ({"rank": None}, "attempt 0: rank: None, the truth is 1"),
        ({"kind": "signal"}, "attempt 0: kind: 'signal', the truth is 'exit_code'"),
        ({"exit_code": 1}, "attempt 0: exit_code: 1, the truth is 7"),
        ({"confidence": "likely"}, "attempt 0: confidence: likely, at least certain is earned"),
        ({"time": None}, "attempt 0: time: none"),
        ({"evidence": []}, "attempt 0: a cause without evidence"),
    ],
)
@pytest.mark.scenario(on_their_own.CHOSEN_EXIT)
def test_a_wrong_answer_is_told(company: Company, change: dict[str, object], difference: str) -> None:
    """An answer that is true but for one thing has one difference: that one."""
    scenario = on_their_own.CHOSEN_EXIT
    performance = company.performance(scenario)
    answer = lab.why(performance.shelf, f"lab-{scenario.name}")
    answer["attempts"][0]["cause"].update(change)
    assert [difference] == comparison.differences(scenario, performance, answer)


@pytest.mark.scenario(on_their_own.CHOSEN_EXIT)
def test_a_truth_that_is_another_is_told(company: Company) -> None:
    """An attempt that nobody made fails the comparison, and so does one that is not there."""
    scenario = on_their_own.CHOSEN_EXIT
    performance = company.performance(scenario)
    answer = lab.why(performance.shelf, f"lab-{scenario.name}")
    other = dataclasses.replace(scenario, truth=(*scenario.truth, Attempt(outcome="succeeded")))
    assert ["outcomes: ['failed'], the truth is ['failed', 'succeeded']"] == comparison.differences(
        other, performance, answer
    )
