"""The facts of a run, read by one process or by several: the same answer."""

import importlib.util
import sys
from pathlib import Path

import msgspec
import pytest

from jobtape.cli import loading
from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import story_of
from jobtape.tape.shelf import find_run

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "simulation.py"


@pytest.fixture(scope="module")
def simulation():
    """The module that writes large jobs."""
    spec = importlib.util.spec_from_file_location("simulation", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulation"] = module
    spec.loader.exec_module(module)
    return module


def answer(run):
    """What the facts of a run come to."""
    return msgspec.json.encode(to_json(story_of(loading.facts_of_run(run), run_id=run.run_id).run))


@pytest.fixture
def pooled(monkeypatch):
    """Let small runs be read by several processes too."""
    monkeypatch.setattr(loading, "POOL_BYTES", 0)
    monkeypatch.setattr(loading, "SHARE_BYTES", 1)
    monkeypatch.setattr(loading, "_cores", lambda: 3)


@pytest.mark.parametrize(("shape", "worker_tapes"), [("live", False), ("live", True), ("import", False)])
def test_several_processes_answer_as_one(tmp_path, simulation, request, shape, worker_tapes):
    """A job of five nodes and three restarts, of each kind."""
    job = simulation.Job(nodes=5, restarts=3, ranks=2, shape=shape, worker_tapes=worker_tapes)
    simulation.write(job, tmp_path / "simulated")
    run = find_run(tmp_path, "simulated")
    alone = answer(run)
    request.getfixturevalue("pooled")
    assert len(loading._shares(run.files)) > 1
    assert alone == answer(run)
    assert b'"outcome":"failed"' in alone


def test_damaged_files_are_told_the_same(tmp_path, simulation, request):
    """A torn file, an empty one, garbage and a file that is none."""
    simulation.write(simulation.Job(nodes=5, restarts=2, ranks=2), tmp_path / "simulated")
    files = sorted((tmp_path / "simulated").iterdir())
    files[0].write_bytes(files[0].read_bytes()[:-700])
    files[1].write_bytes(b"")
    files[2].write_bytes(files[2].read_bytes().replace(b'"kind":"rdzv"', b"\0\xff", 3))
    run = find_run(tmp_path, "simulated")
    alone = answer(run)
    request.getfixturevalue("pooled")
    assert alone == answer(run)
    assert b"damaged_file" in alone


def test_a_process_that_dies_costs_only_time(tmp_path, simulation, pooled, monkeypatch):
    """What it has not told is read by the one that asked."""
    simulation.write(simulation.Job(nodes=4, restarts=2, ranks=2), tmp_path / "simulated")
    run = find_run(tmp_path, "simulated")
    expected = answer(run)
    monkeypatch.setattr("jobtape.diagnose.packing.pack", lambda _facts: 1 / 0)
    assert expected == answer(run)
