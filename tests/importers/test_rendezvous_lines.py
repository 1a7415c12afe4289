"""What torch's rendezvous logs as text."""

import pytest

from jobtape.importers.prefixes import read_prefix
from jobtape.importers.rendezvous_lines import read_rendezvous
from tests.importers.lines import glog, imported, rdzv

WRITER = "torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1190"
JOINED = "The node 'gpu_1.lan_2101_0' has joined round 3 of the rendezvous 'it's 1' as rank 1 in a world of size 2."


def test_line_says_what_the_event_says(tmp_path):
    """Host, process, run and rank stand in the text."""
    (record,) = imported(tmp_path, glog(JOINED, writer=WRITER)).records
    assert ("gpu_1.lan", 2101, "it's 1", 1, 0) == (
        record.hostname,
        record.pid,
        record.run_id,
        record.rank,
        record.local_id,
    )
    assert (JOINED, "") == (record.message, record.node_state)


def test_prefix_of_old_versions(tmp_path):
    """torch 1.9 named the module alone."""
    line = "[INFO] 2021-12-08 12:28:26,102 dynamic_rendezvous: The node 'v2_8_0' attempts to join the next round of"
    (record,) = imported(tmp_path, line + " the rendezvous 'v2'.").records
    assert ("v2", 8, 1638966506102000000) == (record.run_id, record.pid, record.time_ns)


def test_line_beside_its_event_is_not_counted_twice(tmp_path):
    """With both on one console the event is kept."""
    message = JOINED.replace("it's 1", "job-7")
    shelf = imported(tmp_path, rdzv(message), glog(message, writer=WRITER))
    assert (1, 1) == (len(shelf.records), shelf.report.foreign)


@pytest.mark.parametrize(
    "line",
    [
        JOINED,
        glog(JOINED, writer="train.py:3"),
        "[rank0]:" + glog(JOINED, writer=WRITER),
        glog("The rendezvous 'job' is closed.", writer=WRITER),
        glog("The node 'a_1_0' has failed to shutdown the rendezvous 'job' due to an error of type X.", writer=WRITER),
        glog(JOINED + "x" * 5000, writer=WRITER),
    ],
)
def test_other_lines_are_none(line):
    """What others wrote, or says nothing of a node, is no such line."""
    assert read_rendezvous(read_prefix(line)) is None
