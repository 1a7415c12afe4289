"""Rendezvous events made from where they happen."""

import logging
import os
import socket
import traceback
from unittest.mock import patch

import pytest

from jobtape.events import NodeState, RdzvEvent, construct_and_record_rdzv_event
from tests.events.lab import Keeping


@pytest.fixture
def kept(fresh):
    """What arrives at dynamic_rendezvous."""
    handler = Keeping()
    fresh.register_handler("dynamic_rendezvous", handler, replace=True)
    return handler


def test_defaults_say_who_and_where(kept):
    """Name, host and process default to the caller's; the rest stays empty."""
    construct_and_record_rdzv_event("job-7", "joined", NodeState.RUNNING)
    expected = RdzvEvent(
        name="test_rendezvous.py:test_defaults_say_who_and_where",
        run_id="job-7",
        message="joined",
        hostname=socket.getfqdn(),
        pid=os.getpid(),
        node_state=NodeState.RUNNING,
    )
    assert [expected.serialize()] == kept.texts


def test_what_is_given_is_kept(kept):
    """Everything that is passed stands in the event; the name keeps the caller's file before it."""
    construct_and_record_rdzv_event(
        run_id="job-7",
        message="joined",
        node_state=NodeState.SUCCEEDED,
        name="Handler.next",
        hostname="node-a",
        pid=7,
        master_endpoint="node-a:29500",
        local_id=2,
        rank=1,
    )
    name = "test_rendezvous.py:Handler.next"
    expected = RdzvEvent(name, "job-7", "joined", "node-a", 7, NodeState.SUCCEEDED, "node-a:29500", 1, 2)
    assert [expected.serialize()] == kept.texts


def test_a_failure_has_the_active_exception(kept):
    """In an except block the trace is the exception's; FAILED outside of one has none, and other states never."""
    try:
        raise ValueError("boom")
    except ValueError:
        construct_and_record_rdzv_event("job-7", "failed", NodeState.FAILED)
        construct_and_record_rdzv_event("job-7", "joined", NodeState.RUNNING)
        expected = traceback.format_exc()
    construct_and_record_rdzv_event("job-7", "failed", NodeState.FAILED)
    traces = [RdzvEvent.deserialize(text).error_trace for text in kept.texts]
    assert [expected, "", ""] == traces


def test_nothing_is_done_for_null(fresh):
    """While the destination is null nothing is looked up, made or recorded."""
    with patch("jobtape.events.record_rdzv_event") as record, patch("socket.getfqdn") as host:
        construct_and_record_rdzv_event("job-7", "joined", NodeState.RUNNING)
        assert (0, 0) == (record.call_count, host.call_count)


@pytest.mark.parametrize(("handler", "calls"), [(logging.StreamHandler(), 1), (logging.NullHandler(), 0)])
def test_patching_works_as_in_torch(fresh, handler, calls):
    """`get_logging_handler` and `record_rdzv_event` are looked up in the package when called."""
    with (
        patch("jobtape.events.record_rdzv_event") as record,
        patch("jobtape.events.get_logging_handler", return_value=handler),
    ):
        construct_and_record_rdzv_event(run_id="r", message="m", node_state=NodeState.RUNNING)
    assert calls == record.call_count


def test_the_host_name_is_looked_up_once(kept):
    """Finding the qualified name can mean waiting for a name server, so it is done once."""
    with patch("socket.getfqdn", return_value="node-a.lan") as host:
        for _ in range(3):
            construct_and_record_rdzv_event("job-7", "joined", NodeState.RUNNING)
    assert ({"node-a.lan"}, 1) == ({RdzvEvent.deserialize(text).hostname for text in kept.texts}, host.call_count)


def test_it_never_raises(kept, capsys):
    """A host name that cannot be found, or arguments of any type, fail no rendezvous."""
    with patch("socket.getfqdn", side_effect=OSError("no name server")):
        construct_and_record_rdzv_event("job-7", "joined", NodeState.RUNNING)
    construct_and_record_rdzv_event(None, object(), 5, name=3, hostname=4, pid="x")
    assert (1, 1) == (len(capsys.readouterr().err.splitlines()), len(kept.records))
