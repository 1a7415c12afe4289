"""Whole jobs on hosts with clocks that are off by up to an hour and drift: who was first is right, or not said."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diagnose.clock_lab import Host, Job

HOUR_S = 3600.0
DRIFT = 200e-6


def hosts():
    """Two to six hosts, of which one may stand still for a minute when it should join."""
    host = st.builds(
        Host,
        skew_s=st.floats(-HOUR_S, HOUR_S) | st.floats(-2, 2) | st.just(0.0),
        drift=st.floats(-DRIFT, DRIFT) | st.just(0.0),
        arrives_s=st.floats(0, 4) | st.floats(0, 40),
        phase=st.floats(0, 1),
        pause_s=st.sampled_from([0.0] * 9 + [60.0]),
    )
    return st.lists(host, min_size=2, max_size=6)


@st.composite
def jobs(draw):
    """A job of one to eight rounds, seconds or hours apart, whose last attempt two or more ranks end by themselves."""
    found = draw(hosts())
    moment = st.floats(0.001, 10) | st.floats(0.001, 300) | st.floats(0.001, 6 * HOUR_S)
    ranks = draw(st.lists(st.integers(0, len(found) - 1), min_size=1, max_size=len(found), unique=True))
    first = draw(moment)
    fails = {rank: first + draw(st.floats(0.001, 3) | st.floats(0.001, 120)) for rank in ranks[1:]}
    return Job(
        hosts=found,
        gaps_s=draw(st.lists(st.floats(1, 60) | st.floats(1, 6 * HOUR_S), min_size=1, max_size=8)),
        fails={ranks[0]: first, **fails},
        latency_s=draw(st.floats(0.0005, 0.3)),
        live=draw(st.booleans()),
        waits=draw(st.booleans()),
    )


def last(said):
    """What is said of the last attempt."""
    return said["attempts"][-1]


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_the_first_failure_is_never_a_wrong_one(job):
    """The rank that is named failed before all others, or none is."""
    said = job.said()
    assert len(job.gaps_s) == len(said["attempts"])
    assert last(said)["cause"]["rank"] in (job.first, None)


@settings(max_examples=200, deadline=None)
@given(jobs(), st.integers(0, 2**32))
def test_the_first_failure_is_named_when_the_others_come_later_than_the_clocks_leave_open(job, seed):
    """So that it is no answer never to name one: beyond the poll, the wait for the last node and the drift it is."""
    job.live = job.waits = True
    for host in job.hosts:
        host.pause_s = 0.0
        host.arrives_s = min(host.arrives_s, 4.0)
    first = job.fails[job.first]
    beyond_s = 3.0 + 0.002 * first
    job.fails = {
        rank: t if rank == job.first else first + beyond_s * random.Random(seed).uniform(1, 3)
        for rank, t in job.fails.items()
    }
    cause = last(job.said())["cause"]
    assert (job.first, "exception") == (cause["rank"], cause["kind"])
    assert cause["confidence"] in ("certain", "likely")


@settings(max_examples=200, deadline=None)
@given(jobs())
def test_the_offsets_are_within_their_bounds(job):
    """What is told of each clock is true of it when it met the others last."""
    clocks = job.said()["clocks"]
    hosts = {f"node-{number}": host for number, host in enumerate(job.hosts)}
    met = job.met[-1]
    reference = hosts[clocks[0]["host"]]
    for clock in clocks:
        ahead_s = hosts[clock["host"]].wall(met) - reference.wall(met)
        assert clock["offset_s"] == pytest.approx(ahead_s, abs=clock["bound_s"] + 0.01)
        assert len(job.gaps_s) == clock["rounds"]


@settings(max_examples=200, deadline=None)
@given(jobs())
def test_no_time_runs_back(job):
    """Nothing ends before it starts, and nothing is noticed before it was there."""
    said = job.said()
    assert said["wall_s"] >= 0
    for attempt in said["attempts"]:
        assert attempt["started"] <= attempt["ended"]
        cause = attempt["cause"]
        if cause is not None and None not in (cause["time"], cause["detected"]):
            assert cause["time"] <= cause["detected"]
