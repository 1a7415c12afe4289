"""Where the time went: exclusive categories that sum to the wall time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.diagnose.account import account_of
from jobtape.diagnose.reading import read_facts
from jobtape.diagnose.reconstruct import story_of
from jobtape.views.time import time_json
from tests.diagnose.live import Agent


def account(*files):
    """What `time --json` says about these files."""
    return time_json(account_of(story_of([read_facts(file.file()) for file in files]), each=True))


def spent(said):
    """The categories that have any time, to the millisecond."""
    return {name: round(seconds, 3) for name, seconds in said["categories"].items() if seconds}


def balanced(said):
    """Whether each account's categories sum to its wall time within 1 ms, and none is negative."""
    shares = [said, *said["by_attempt"], *said["by_node"], *said["by_rank"]]
    sums = [sum(share["categories"].values()) - share["wall_s"] for share in shares]
    least = min(seconds for share in shares for seconds in share["categories"].values())
    attempts = sum(share["wall_s"] for share in said["by_attempt"]) if said["by_attempt"] else said["wall_s"]
    return max(map(abs, sums)) <= 0.001 and least >= 0 and abs(attempts - said["wall_s"]) <= 0.001


def stepping(worker, times):
    """Add step records: (time, number)."""
    for t, step in times:
        worker.event("step", "WORKER", t, step=step)
    return worker


def failing(end=100.0):
    """One worker that fails after 100 s and is started again ten seconds later."""
    agent = Agent().start(1.0, [0], [200], round_=0)
    first = agent.worker(200, start=1.0)
    agent.exit(end, 200, 1).ended(end + 0.5, failed=[0])
    return agent, first


def test_without_steps_workers_are_running():
    """Nothing finer is known, and nothing is called productive."""
    agent, first = failing()
    agent.start(110, [0], [201], round_=1).exit(150, 201, 0).ended(150.1, "SUCCEEDED").close(151, "succeeded")
    said = account(agent, first.error(100, "ValueError", "bad"))
    assert balanced(said)
    assert None is said["productive_share"]
    assert said["reason"]
    assert 139.0 == pytest.approx(said["categories"]["running"], abs=0.2)
    assert 0 == said["categories"]["productive"]
    assert [("failure", 0)] == [(cost["kind"], cost["after"]) for cost in said["restarts"]]


def test_an_outage_that_resumes_at_the_next_step_is_not_productive():
    """Step 99 at 100 s, an outage of 1,000 s, step 100 right after it: within one process."""
    agent = Agent().start(1.0, [0], [200], round_=0)
    steps = [(1.0 + n, n) for n in range(1, 100)] + [(1101.0 + n, 100 + n) for n in range(50)]
    worker = stepping(agent.worker(200, start=1.0), steps)
    agent.exit(1151, 200, 0).ended(1151.1, "SUCCEEDED").close(1152, "succeeded")
    said = account(agent, worker)
    assert balanced(said)
    assert 148 == pytest.approx(said["categories"]["productive"], abs=2)
    assert 1000 == pytest.approx(said["categories"]["stalled"], abs=2)


def test_an_outage_across_a_restart_is_not_productive():
    """The job was down for 1,000 s and went on with the very next step."""
    agent, first = failing(100.0)
    stepping(first, [(1.0 + n, n) for n in range(1, 99)]).error(100, "ValueError", "bad")
    agent.start(1100, [0], [201], round_=1)
    second = stepping(agent.worker(201, start=1100), [(1101.0 + n, 99 + n) for n in range(50)])
    agent.exit(1151, 201, 0).ended(1151.1, "SUCCEEDED").close(1152, "succeeded")
    said = account(agent, first, second)
    assert balanced(said)
    assert 146 == pytest.approx(said["categories"]["productive"], abs=3)
    assert 990 < said["categories"]["restarting"] + said["categories"]["rendezvous"] + said["categories"]["stalled"]


def test_steps_recorded_every_tenth_are_all_counted():
    """A record every ten steps tells of all of them."""
    agent = Agent().start(1.0, [0], [200], round_=0)
    worker = stepping(agent.worker(200, start=1.0), [(1.0 + n, n) for n in range(10, 201, 10)])
    agent.exit(202, 200, 0).ended(202.1, "SUCCEEDED").close(203, "succeeded")
    said = account(agent, worker)
    assert balanced(said)
    assert 190 == pytest.approx(said["categories"]["productive"], abs=0.1)
    assert (20, 10, 200) == tuple(said["steps"][key] for key in ("recorded", "first", "last"))


def test_steps_done_again_are_lost_work():
    """The job had reached step 98, and began again at 90."""
    agent, first = failing(100.0)
    stepping(first, [(1.0 + n, n) for n in range(1, 99)]).error(100, "ValueError", "bad")
    agent.start(110, [0], [201], round_=1)
    second = stepping(agent.worker(201, start=110), [(120.0 + n, 89 + n) for n in range(40)])
    agent.exit(160, 201, 0).ended(160.1, "SUCCEEDED").close(161, "succeeded")
    said = account(agent, first, second)
    assert balanced(said)
    assert 9 == pytest.approx(said["categories"]["lost_work"], abs=1)
    assert said["restarts"][0]["lost_work_s"] == said["categories"]["lost_work"]


def test_spans_carve_out_what_they_are_of():
    """A checkpoint of five seconds between two steps is no part of the step."""
    agent = Agent().start(1.0, [0], [200], round_=0)
    worker = agent.worker(200, start=1.0)
    stepping(worker, [(1.0 + n, n) for n in range(1, 50)])
    worker.event("checkpoint_save", "WORKER", 50.2, **{"span.phase": "begin", "span.id": "a", "span.parent": None})
    end = {"span.phase": "end", "span.id": "a", "span.parent": None, "span.duration_s": 5.0, "span.outcome": "ok"}
    worker.event("checkpoint_save", "WORKER", 55.2, **end)
    stepping(worker, [(6.0 + n, n) for n in range(50, 90)])
    agent.exit(97, 200, 0).ended(97.1, "SUCCEEDED").close(98, "succeeded")
    said = account(agent, worker)
    assert balanced(said)
    assert 5.0 == pytest.approx(said["categories"]["checkpoint_save"], abs=0.01)
    assert 88 == pytest.approx(said["categories"]["productive"], abs=1.5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_account_sums_to_its_wall_time(data):
    """Whatever happens when, and in whatever order it is told: run, attempts, nodes and ranks are exact."""
    times = st.floats(0, 500, allow_nan=False)
    agent = Agent(start=0.0)
    files = [agent]
    for number in range(data.draw(st.integers(0, 4))):
        agent.start(data.draw(times), [0, 1], [200 + 2 * number, 201 + 2 * number], round_=number)
        for pid in list(agent.workers):
            worker = agent.worker(pid, start=data.draw(times))
            stepping(worker, data.draw(st.lists(st.tuples(times, st.integers(-5, 300)), max_size=12)))
            files.append(worker)
            if data.draw(st.booleans()):
                agent.exit(data.draw(times), pid, data.draw(st.sampled_from([0, 1, -9, -15])))
        if data.draw(st.booleans()):
            agent.ended(data.draw(times), data.draw(st.sampled_from(["FAILED", "SUCCEEDED"])))
    if data.draw(st.booleans()):
        agent.close(data.draw(times))
    said = account(*files)
    if said["wall_s"] is not None:
        assert balanced(said)
