"""One event from this process, with what the environment knows."""

import json
import os
import time

import pytest

from tests.events.lab import Keeping


@pytest.fixture
def kept(fresh, monkeypatch):
    """What `emit` records."""
    handler = Keeping()
    fresh.register_handler("kept", handler)
    monkeypatch.setenv("JOBTAPE_RECORD", "kept")
    return handler


def last(kept):
    """The last event's fields."""
    return json.loads(kept.texts[-1])


def test_the_environment_is_filled_in(fresh, kept, monkeypatch):
    """Run, host, rank and attempt stand before the caller's own metadata."""
    for name, value in {"TORCHELASTIC_RUN_ID": "job-7", "RANK": "3", "TORCHELASTIC_RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    before = time.time_ns() // 1_000_000
    fresh.emit("step", step=100, loss=0.25)
    event = last(kept)
    assert before <= event.pop("timestamp") <= time.time_ns() // 1_000_000
    metadata = {"run_id": "job-7", "host": os.uname().nodename, "rank": 3, "attempt": 1, "step": 100, "loss": 0.25}
    assert {"name": "step", "source": "WORKER", "metadata": metadata} == event


def test_what_the_environment_lacks_is_left_out(fresh, kept):
    """Without ranks in the environment there are none in the event; the run id is made."""
    fresh.emit("step")
    assert ["run_id", "host"] == list(last(kept)["metadata"])


@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_ranks_of_other_launchers_are_known(fresh, kept, monkeypatch, variable):
    """The rank comes from torchrun, SLURM, Open MPI or PMI."""
    monkeypatch.setenv(variable, "5")
    fresh.emit("step")
    assert 5 == last(kept)["metadata"]["rank"]


def test_torchruns_rank_comes_first(fresh, kept, monkeypatch):
    """Under torchrun inside srun the rank is torchrun's; one that is no number is kept as text."""
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("RANK", "six")
    fresh.emit("step")
    assert "six" == last(kept)["metadata"]["rank"]


def test_the_callers_metadata_wins(fresh, kept, monkeypatch):
    """A key that is given stands, whatever the environment says."""
    monkeypatch.setenv("RANK", "3")
    fresh.emit("step", rank=9, host="elsewhere")
    assert (9, "elsewhere") == (last(kept)["metadata"]["rank"], last(kept)["metadata"]["host"])


def test_a_change_of_the_environment_is_seen(fresh, kept, monkeypatch):
    """Launchers that set the rank after the first event are followed."""
    fresh.emit("step")
    monkeypatch.setenv("RANK", "4")
    fresh.emit("step")
    assert 4 == last(kept)["metadata"]["rank"]


def test_nothing_is_recorded_without_a_destination(fresh, monkeypatch):
    """Without JOBTAPE_RECORD the event goes to null."""
    monkeypatch.delenv("JOBTAPE_RECORD", raising=False)
    fresh.emit("step")
    assert ({}, ["null"]) == (fresh.stats(), list(fresh._events_loggers))


def test_values_that_are_not_plain_do_no_harm(fresh, kept):
    """What JSON cannot hold is kept as far as it can be."""
    fresh.emit("step", loss=float("nan"), model=object())
    assert {"$float": "nan"} == last(kept)["metadata"]["loss"]


def test_metadata_may_be_called_name(fresh, kept):
    """The event's own name is positional, so that metadata may have that key too."""
    fresh.emit("epoch", name="resnet")
    assert ("epoch", "resnet") == (last(kept)["name"], last(kept)["metadata"]["name"])
