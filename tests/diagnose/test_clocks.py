"""One time for all hosts: what is corrected, what is proven, and what is told."""

import json
import os
from pathlib import Path

import pytest

from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, Clock, FileFacts, Place, Point, Stint, Worker
from jobtape.diagnose.reading import read_facts
from jobtape.tape.reader import TapeFile
from jobtape.tape.records import EventRecord, Header, RdzvRecord
from tests.diagnose.clock_lab import Host, Job
from tests.diagnose.lab import T0, Node, answer, causes, raised, roles
from tests.diagnose.live import Worker as WorkerTape

CASES = Path(os.environ.get("JOBTAPE_CASES") or Path(__file__).resolve().parents[3] / "shared" / "cases")
RECORDINGS = CASES.parent / "recordings"
A, B, C = (Clock("boot", name) for name in "abc")
UNKNOWN = float("inf")


def clocks(*rounds):
    """Clocks that have learned from rounds: by clock, between which times it read the moment at which each formed."""
    agents = {}
    members = []
    for number, read in enumerate(rounds):
        members.append([])
        for rank, (clock, (before, after)) in enumerate(read.items()):
            agent = agents.setdefault(clock, Agent(file=clock.name, host=clock.name, clock=clock, pid=1))
            place = Place(clock.name, 1, number)
            stint = Stint(number=number, opened=Point(T0 + before, place), round=number, group_rank=rank)
            stint.forming_at, stint.joined = T0 + before, Point(T0 + after, place)
            stint.workers.append(Worker(rank=rank))
            agent.stints.append(stint)
            members[-1].append((agent, stint))
    found = Clocks([FileFacts(name=c.name, clock=c, agents=[a], offset_s=0.0) for c, a in agents.items()])
    found.agree(members)
    return found


def near(seconds):
    """Equal but for the drift of a few seconds."""
    return pytest.approx(seconds, abs=0.01)


def test_one_clock_needs_no_slack():
    """Processes of one boot share the monotonic clock; others that nobody has seen meet share nothing."""
    found = clocks()
    assert (0.0, UNKNOWN) == (found.slack(A, A, T0), found.slack(A, B, T0))


def test_what_a_round_leaves_open_is_the_slack():
    """A waited from 0 to 3 and B from 2.5 to 2.6: B's clock is up to 0.5 s behind A's, or up to 2.6 s ahead of it."""
    found = clocks({A: (0, 3), B: (2.5, 2.6)})
    assert (near(2.6), near(0.5)) == (found.slack(A, B, T0 + 3), found.slack(B, A, T0 + 3))
    assert (T0 + 9, T0 + 9) == (found.unix(A, T0 + 9), found.unix(B, T0 + 9))


def test_more_rounds_leave_less_open():
    """The second round is tight on the side on which the first one is not."""
    found = clocks({A: (0, 3), B: (2.5, 2.6)}, {A: (12.5, 12.6), B: (10, 13)})
    assert (near(0.5), near(0.5)) == (found.slack(A, B, T0 + 13), found.slack(B, A, T0 + 13))


def test_drift_makes_the_slack_grow_with_the_time_to_the_nearest_round():
    """500 ppm: half a second after 1,000 s; and the round after a failure counts as much as the one before it."""
    found = clocks({A: (0, 1), B: (0, 1)})
    assert (near(1.0), near(1.5)) == (found.slack(A, B, T0 + 0.5), found.slack(A, B, T0 + 1000.5))
    between = clocks({A: (0, 1), B: (0, 1)}, {A: (2000, 2001), B: (2000, 2001)})
    assert near(1.5) == between.slack(A, B, T0 + 1000.5)


def test_a_clock_that_is_off_is_moved_to_the_middle_of_what_is_possible():
    """B is 37 to 41 s ahead, then proven to be 38 to 39."""
    one = clocks({A: (0, 2), B: (39, 41)})
    assert near(T0 + 61) == one.unix(B, T0 + 100)
    two = clocks({A: (0, 2), B: (39, 41)}, {A: (10, 10), B: (48, 49)})
    assert near(T0 + 61.5) == two.unix(B, T0 + 100)
    (first, second) = two.hosts()
    assert (("a", 0.0, 0.0, 2), ("b", 2)) == (
        (first.host, first.offset_s, first.bound_s, first.rounds),
        (second.host, second.rounds),
    )
    assert (pytest.approx(38.5, abs=0.01), pytest.approx(0.5, abs=0.02)) == (second.offset_s, second.bound_s)


def test_many_clocks_are_believed_and_not_the_few():
    """The node of rank 0 is an hour off, and the other three agree."""
    found = clocks({A: (3600, 3601), B: (0, 1), C: (0, 1), Clock("boot", "d"): (0, 1)})
    assert (near(T0 + 9), near(T0 + 9)) == (found.unix(A, T0 + 3609), found.unix(B, T0 + 9))


def test_newcomers_are_not_believed_before_those_that_were_there():
    """Two nodes of a later round agree with each other and not with the one that stays."""
    found = clocks({A: (0, 1), B: (0, 1)}, {A: (60, 61), C: (160, 161), Clock("boot", "d"): (160, 161)})
    assert (near(T0 + 70), near(T0 + 70)) == (found.unix(A, T0 + 70), found.unix(C, T0 + 170))


def test_hosts_that_never_met_are_compared_over_a_third():
    """A and B each met C: the bounds add."""
    found = clocks({A: (0, 1), C: (0, 2)}, {B: (10, 14), C: (10, 12)})
    assert (pytest.approx(2 + 4, abs=0.1), pytest.approx(1 + 2, abs=0.1)) == (
        found.slack(A, B, T0 + 5),
        found.slack(B, A, T0 + 5) + 0.0,
    )


def test_a_clock_that_is_set_between_two_rounds():
    """Either offset may hold in between; after the second round the new one does."""
    found = clocks({A: (0, 1), B: (0, 1)}, {A: (1000, 1001), B: (1060, 1061)})
    assert (pytest.approx(61.0, abs=0.1), near(1.0)) == (found.slack(A, B, T0 + 900), found.slack(A, B, T0 + 1002))
    assert (near(T0 + 500), near(T0 + 1040)) == (found.unix(B, T0 + 500), found.unix(B, T0 + 1100))


def test_workers_without_an_agent_on_two_hosts_are_not_ordered():
    """Nothing relates their clocks, so minutes between two errors prove nothing; on one host they do."""

    def job(other):
        tapes = [
            WorkerTape(host=host, boot=boot, pid=50 + rank, RANK=rank, WORLD_SIZE=2)
            for rank, (host, boot) in enumerate([("node-a", "boot-a"), other])
        ]
        return answer(*(t.error(20 + 300 * n, "ValueError", f"x{n}").close(321) for n, t in enumerate(tapes)))

    apart = job(("node-b", "boot-b"))
    assert ([("exception", None)], [None, None]) == (causes(apart), [c["offset_s"] for c in apart["clocks"]])
    together = job(("node-a", "boot-a"))
    assert ([("exception", 0)], []) == (causes(together), together["clocks"])


def test_a_clock_that_was_set_back_orders_nothing():
    """An import's wall clock runs back by an hour between two attempts: that is told, and no order claimed."""
    a, b = Node("node-a", 10), Node("node-b", 11)
    for attempt in range(2):
        t = attempt * 600
        b.skew = -3600.0 * attempt
        a.join(t, attempt, 0, 2).start(t + 1, [0], [20 + attempt], world=2)
        b.join(t, attempt, 1, 2).start(t + 1, [1], [20 + attempt], world=2)
    a.ended(900, 0, 21, 1, raised("KeyError", "late", at=899)).agent(901)
    b.ended(700, 1, 21, 1, raised("ValueError", "early", at=699 - 3600)).agent(901)
    said = answer(a, b)
    told = [w["text"] for w in said["warnings"] if w["kind"] == "clock_skew"]
    assert "the clock of node-b was set back: what came first there, or elsewhere, is not known" == told[0]
    assert None is said["attempts"][-1]["cause"]["rank"]


def test_a_name_that_two_containers_share_orders_nothing():
    """They may be on different machines, with clocks of their own."""
    a = Node("localhost", 7).join(0.5, 0, 0, 2).start(1.5, [0], [20], world=2)
    b = Node("localhost", 7).join(0.5, 0, 1, 2).start(1.5, [1], [20], world=2)
    b.name = "other.jsonl"
    a.ended(400, 0, 20, 1, raised("KeyError", "'late'", at=399)).agent(401)
    b.ended(21, 1, 20, 1, raised("ValueError", "early", at=20)).agent(401)
    assert [None] == [rank for _, rank in causes(answer(a, b))]


def test_a_warning_has_the_offset_and_its_bound():
    """In words, with which host it was compared."""
    job = Job([Host(phase=0.1), Host(skew_s=37.2, arrives_s=2.0)], [60.0], {0: 20.0}, latency_s=0.005)
    (warning,) = job.said()["warnings"]
    assert "clock_skew" == warning["kind"]
    assert warning["text"].startswith("the clock of node-1 is 37.")
    assert warning["text"].endswith(" s); its times were corrected")
    assert " s ahead of node-0's (within 0." in warning["text"]


def test_many_clocks_that_are_off_are_told_of_together():
    """One warning names the first few."""
    job = Job([Host()] * 9 + [Host(skew_s=60.0 + n) for n in range(8)], [60.0], {0: 20.0})
    (warning,) = job.said()["warnings"]
    assert warning["text"].startswith("the clocks of 8 hosts are 6")
    assert warning["text"].endswith("node-9, node-10, node-11, node-12, node-13 and 3 more")


def test_a_small_offset_is_corrected_without_a_word():
    """Half a second misleads nobody, and is told in the data."""
    job = Job([Host(arrives_s=2.0), Host(skew_s=0.5, phase=0.06)], [60.0, 60.0], {0: 20.0}, latency_s=0.001)
    said = job.said()
    assert [] == said["warnings"]
    assert any(abs(clock["offset_s"]) > 0.2 for clock in said["clocks"])


def test_ranks_of_two_hosts_that_fail_alike_at_once():
    """The same file is missing on both: neither is to blame, where the clocks tell that it was at once."""
    job = Job([Host(skew_s=90.0), Host(arrives_s=1.0)], [60.0], {0: 20.0, 1: 20.2}, latency_s=0.001, alike=True)
    (attempt,) = job.said()["attempts"]
    assert ("exception", None, "ValueError", "likely") == tuple(
        attempt["cause"][key] for key in ("kind", "rank", "error_type", "confidence")
    )
    assert {0: "independent", 1: "independent"} == roles(attempt)


def test_agents_that_do_not_wait_for_each_other_prove_nothing_by_it():
    """TORCH_ELASTIC_WORKER_IDENTICAL: each has its ranks as soon as it has joined, up to a second apart."""
    job = Job([Host(phase=0.95), Host(arrives_s=3.0)], [60.0], {0: 20.0, 1: 20.6}, latency_s=0.001, waits=False)
    (attempt,) = job.said()["attempts"]
    assert attempt["cause"]["rank"] in (0, None)
    assert attempt["cause"]["time"] is None or 0.9 < job.said()["clocks"][1]["bound_s"]


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings stand beside the checkout, not in it")
@pytest.mark.parametrize("name", ["two-agents.agent-a", "agent-sigterm", "agent-sigkill", "segfault-every-attempt"])
def test_real_records_stand_on_the_side_of_the_moment_that_is_claimed(name):
    """What torch really writes comes in this order: forming, joined, going on to the ranks, having them, started."""
    records = []
    for number, line in enumerate((RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()):
        fields = json.loads(line)
        fields.pop("timestamp", None)
        kind = RdzvRecord if "node_state" in fields else EventRecord
        known = {key: value for key, value in fields.items() if key in kind.__struct_fields__}
        records.append(kind(seq=number + 1, time_ns=round((T0 + number) * 1e9), **known))
    lines = list(range(2, len(records) + 2))
    file = TapeFile(path=Path(name), header=Header(role="import", host="localhost"), records=records, lines=lines)
    stints = [s for agent in read_facts(file).agents for s in agent.stints if s.workers]
    assert [] != stints
    for stint in stints:
        times = [
            stint.forming_at,
            stint.joined and stint.joined.time,
            stint.met_at,
            stint.ranked_at,
            stint.started.time,
        ]
        known = [time for time in times if time is not None]
        assert sorted(known) == known
        assert None not in (stint.met_at, stint.ranked_at)
