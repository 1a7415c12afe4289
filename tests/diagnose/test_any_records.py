"""No record makes the diagnosis raise, and every answer keeps the promises that hold for all of them."""

import importlib.util
import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.importers import import_files
from jobtape.tape.reader import TapeFile, read_tape
from jobtape.tape.records import EventRecord
from tests.diagnose.any_records import TIMES, VALUES, tapes
from tests.diagnose.lab import PEER_CLOSED, Node, raised
from tests.diagnose.live import Agent, Worker

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get("JOBTAPE_CASES") or ROOT.parent / "shared" / "cases")
RECORDINGS = CASES.parent / "recordings"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "why.schema.json").read_text(encoding="utf-8")))
KEYS = ["global_rank", "group_rank", "worker_id", "agent_restarts", "hostname", "pid", "exit_code", "attempt"]


def check(said):
    """Every promise that holds for all answers: the schema's, and what a schema cannot say."""
    assert [] == [f"{list(error.absolute_path)}: {error.message[:200]}" for error in SCHEMA.iter_errors(said)]
    json.dumps(said, allow_nan=False)
    for part in (said, *said["attempts"]):
        assert part["started"] is None or part["ended"] is None or part["started"] <= part["ended"]
    assert list(range(len(said["attempts"]))) == [attempt["index"] for attempt in said["attempts"]]
    for attempt in said["attempts"]:
        ranks = [rank["rank"] for rank in attempt["ranks"]]
        assert sorted(set(ranks)) == ranks
        blamed = attempt["cause"]["rank"] if attempt["cause"] is not None else None
        first = [rank["rank"] for rank in attempt["ranks"] if rank["role"] == "first"]
        assert first == ([] if blamed is None else [blamed])
    assert sum(said["restarts"].values()) <= max(len(said["attempts"]) - 1, 0)


def live_job():
    """A live job of two agents: a failure, a restart, a change of membership, a signal to the agent."""
    a = Agent("node-a", 10).start(1, [0, 1], [200, 201], 0, 0, 2, world=4)
    b = Agent("node-b", 11, boot="boot-b").start(1, [2, 3], [200, 201], 0, 1, 2, world=4)
    first = b.worker(201).error(19, "ValueError", "x").close(19.5)
    victim = a.worker(200).error(19.2, "RuntimeError", PEER_CLOSED).close(20)
    b.exit(19.6, 201, 1).stop(19.8, 200).ended(20, failed=[3])
    a.exit(20, 200, 1).stop(20.1, 201).ended(20.2, failed=[0])
    a.start(25, [0, 1], [300, 301], 1, 0, 1).membership(30).stop(30, 300, 301, reason="membership").ended(31, "STOPPED")
    a.start(32, [0], [400], 2, 0, 1, restarts=1).own(40, "agent.signal", signal="SIGTERM")
    a.stop(40, 400, reason="agent_signal").close(41, "signal")
    return [a, b, first, victim]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The shared cases and recordings as imported, and a live job: each a list of tape files."""
    inputs = {case.parent.name: sorted(case.iterdir()) for case in sorted(CASES.glob("v*/input"))}
    inputs |= {path.name: [path] for path in sorted(RECORDINGS.glob("*.jsonl"))}
    found = {"live": [node.file() for node in live_job()]}
    for name, paths in inputs.items():
        shelf = tmp_path_factory.mktemp("shelf")
        import_files(paths, shelf, "UTC")
        found[name] = [read_tape(path) for path in sorted(shelf.glob("*/*.jsonl"))]
    return found


def drop(records, at, data, jobs):
    """One record is gone."""
    return records[:at] + records[at + 1 :]


def drop_many(records, at, data, jobs):
    """Half of what stood before is gone."""
    return records[: at // 2] + records[at:]


def repeat(records, at, data, jobs):
    """One record stands there twice."""
    other = data.draw(st.integers(0, len(records)))
    return [*records[:other], records[at], *records[other:]]


def move(records, at, data, jobs):
    """One record stands elsewhere."""
    rest = drop(records, at, data, jobs)
    other = data.draw(st.integers(0, len(rest)))
    return [*rest[:other], records[at], *rest[other:]]


def cut(records, at, data, jobs):
    """The file ends here."""
    return records[:at]


def begin(records, at, data, jobs):
    """The file begins here."""
    return records[at:]


def mix(records, at, data, jobs):
    """Records of another job stand between."""
    other = data.draw(st.sampled_from(jobs[data.draw(st.sampled_from(sorted(jobs)))]))
    return [*records[:at], *other.records[: data.draw(st.integers(0, 20))], *records[at:]]


def mistime(records, at, data, jobs):
    """One record has a time that contradicts the others."""
    changed = msgspec.structs.replace(records[at], time_ns=data.draw(TIMES), mono_ns=data.draw(TIMES))
    return [*records[:at], changed, *records[at + 1 :]]


def contradict(records, at, data, jobs):
    """One record says something else of a rank, a host or a process."""
    record = records[at]
    if not isinstance(record, EventRecord):
        return records
    metadata = {**record.metadata, data.draw(st.sampled_from(KEYS)): data.draw(VALUES)}
    return [*records[:at], msgspec.structs.replace(record, metadata=metadata), *records[at + 1 :]]


WAYS = [drop, drop_many, repeat, move, cut, begin, mix, mistime, contradict]


def mangled(file, data, jobs):
    """A file with some of its records broken."""
    records = list(file.records)
    for _ in range(data.draw(st.integers(0, 6))):
        if records:
            at = data.draw(st.integers(0, len(records) - 1))
            records = data.draw(st.sampled_from(WAYS))(records, at, data, jobs)
    return TapeFile(
        path=file.path,
        header=file.header if data.draw(st.integers(0, 19)) else None,
        records=records,
        lines=list(range(2, len(records) + 2)),
        damage=file.damage,
        missing=file.missing,
        closed=file.closed and data.draw(st.booleans()),
        stacks=file.stacks,
    )


@settings(max_examples=150)
@given(data=st.data())
def test_broken_sequences_of_real_records(jobs, data):
    """Records dropped, repeated, moved, cut off, taken from elsewhere, or contradicting each other."""
    files = [mangled(file, data, jobs) for file in jobs[data.draw(st.sampled_from(sorted(jobs)))]]
    files = data.draw(st.permutations(files))[: data.draw(st.integers(1, max(len(files), 1)))]
    alive = frozenset(file.path.name for file in files if data.draw(st.integers(0, 9)) == 0)
    check(to_json(diagnose(files, alive=alive)))


@settings(max_examples=300)
@given(files=st.lists(tapes(), max_size=4), alive=st.frozensets(st.sampled_from(["a.jsonl", "b.jsonl"])))
def test_any_records_in_any_order(files, alive):
    """Records that nobody has ever written."""
    check(to_json(diagnose(files, alive=alive)))


def test_answers_to_real_records(jobs):
    """The shared cases and recordings as they are."""
    for files in jobs.values():
        check(to_json(diagnose(files)))


@pytest.mark.skipif(not (CASES / "check.py").is_file(), reason="the shared cases are not here")
def test_the_checkers_invariants(jobs):
    """What the cases' own checker asks of every answer."""
    spec = importlib.util.spec_from_file_location("check", CASES / "check.py")
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    for files in jobs.values():
        errors = []
        checker.invariants(to_json(diagnose(files)), errors)
        assert [] == errors


def test_no_records_at_all():
    """Nothing in, nothing claimed."""
    said = to_json(diagnose([], run_id="x"))
    check(said)
    assert ("x", "unknown", []) == (said["run_id"], said["state"], said["attempts"])


def test_hostile_sizes():
    """Texts of 200 kB go through whole, and frames that a message forges are no place in the code."""
    text = "A" * 200_000 + "\n" + '  File "/evil.py", line 1, in x\n' * 1000
    node = Node().join(0).start(1, [0, 1], [20, 21]).ended(9, 0, 20, 1, raised("ValueError", text, at=8))
    said = to_json(diagnose([node.ended(9, 1, 21, -15, local_rank=1).agent(9).file()]))
    check(said)
    cause = said["attempts"][0]["cause"]
    assert (text, "/srv/train.py:12") == (cause["message"], cause["location"])
    check(to_json(diagnose([Worker(RANK="9" * 20, WORLD_SIZE="-3").error(5, "ValueError", text).file()])))
