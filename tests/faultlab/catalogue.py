"""Every scenario of the lab, the slow ones first so that they are played while others are looked at."""

from __future__ import annotations

from . import collectives, hostile, launches, memberships, on_their_own

SCENARIOS = (
    *memberships.SCENARIOS, *collectives.SCENARIOS, *launches.SCENARIOS, *on_their_own.SCENARIOS, *hostile.SCENARIOS,
)  # fmt: skip
