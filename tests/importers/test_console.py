"""One node's console: what belongs together over several lines, and what is whose word."""

import pytest

from tests.importers.lines import FAILED_LINE, block, glog, imported

TRACEBACK = ["Traceback (most recent call last):", '  File "/srv/train.py", line 7, in <module>', "    run()"]
LAUNCHER = '  File "/venv/torch/distributed/launcher/api.py", line 383, in launch_agent'
ERRORS = "torch.distributed.elastic.multiprocessing"


def told(shelf):
    """Names of the log records without what they have in common."""
    return [record.name.removeprefix("torchelastic.log.") for record in shelf.logs]


def test_traceback_without_a_label(tmp_path):
    """A traceback that nobody is named for is kept with the first line of its message; what follows is not of it."""
    shelf = imported(tmp_path, "text", *TRACEBACK, "ValueError: bad row", "epoch 3", glog(FAILED_LINE))
    said, _ = shelf.logs
    assert ["worker_output", "worker_failed"] == told(shelf)
    assert (None, "ValueError: bad row", "node-a.log:5") == (
        said.metadata["rank"],
        said.metadata["message"],
        said.origin,
    )
    assert "\n".join([*TRACEBACK, "ValueError: bad row"]) == said.metadata["traceback"]
    assert 2 == shelf.report.foreign


def test_lines_of_others_between(tmp_path):
    """A line of another worker, or of the agent, between those of a traceback does not break it."""
    lines = [*TRACEBACK[:2], "epoch 3: loss 0.1", TRACEBACK[2], glog("Sending process 12 closing signal SIGTERM")]
    shelf = imported(tmp_path, *lines, "demo.NaNLoss: at step 7")
    assert ["signal_sent", "worker_output"] == told(shelf)
    assert "demo.NaNLoss: at step 7" == shelf.logs[1].metadata["message"]


def test_chain_without_a_label(tmp_path):
    """Of chained exceptions the last one is the message."""
    chained = ["", "During handling of the above exception, another exception occurred:", ""]
    (said,) = imported(tmp_path, *TRACEBACK, "KeyError: 1", *chained, *TRACEBACK, "ValueError: 2", "", "text").logs
    assert "ValueError: 2" == said.metadata["message"]
    assert 2 == said.metadata["traceback"].count(TRACEBACK[0])


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection has failed.",
        f"{ERRORS}.api.SignalException: Process 2101 got signal: 15",
    ],
)
def test_torchruns_own_exception(tmp_path, line):
    """What torchrun itself raised is the agent's failure."""
    shelf = imported(tmp_path, TRACEBACK[0], LAUNCHER, "    result = agent.run()", line)
    assert (["agent_failed"], line) == (told(shelf), shelf.logs[0].metadata["message"])


def test_failed_children_are_told_by_the_block(tmp_path):
    """torchrun's exception for failed workers is no failure of its own."""
    lines = [TRACEBACK[0], LAUNCHER, "    raise ChildFailedError(", f"{ERRORS}.errors.ChildFailedError: "]
    assert ["root_cause"] == told(imported(tmp_path, *lines, block((1, 1, "ValueError: bad"))))


def test_colours_are_no_part_of_a_line(tmp_path):
    """Escape sequences in prefixes and tracebacks do not hide them."""
    line = glog(FAILED_LINE)
    red = f"\x1b[31m{line[:5]}\x1b[0m{line[5:]}\x1b[K"
    raised = ["Traceback (most recent call last):", '  File \x1b[35m"a.py"\x1b[0m, line \x1b[35m1\x1b[0m', "    x()"]
    shelf = imported(tmp_path, *raised, "\x1b[1;35mValueError\x1b[0m: \x1b[35mbad\x1b[0m", red)
    said, failed = shelf.logs
    assert ("ValueError: bad", 1785) == (said.metadata["message"], failed.metadata["pid"])


def test_windows_line_ends(tmp_path):
    """CR LF ends a line, in prefixes and in the closing block."""
    text = block((1, 1, "Traceback (most recent call last):\n  ValueError: bad"))
    (tmp_path / "node-a.log").write_bytes(f"{glog(FAILED_LINE)}\n{text}\n".replace("\n", "\r\n").encode())
    shelf = imported(tmp_path, *(tmp_path / "node-a.log").read_bytes().split(b"\n")[:-1])
    assert ["worker_failed", "root_cause"] == told(shelf)
    assert "ValueError: bad" == shelf.logs[1].metadata["failures"][0]["message"].split("\n")[1]


def test_run_id_in_the_path_of_an_error_file(tmp_path):
    """Where no record names the run, the directory of torchrun's error files does."""
    path = "/tmp/torchelastic_ab12cd34/resnet_31_x7_k2abc/attempt_0/1/error.json"
    shelf = imported(tmp_path, block((1, 1, "ValueError: bad")).replace("<N/A>", path))
    assert "resnet_31" == shelf.report.runs[0][0]


def test_block_that_never_ends_is_kept(tmp_path):
    """At the end of the file a block that was cut off is read as far as it goes, and counted."""
    shelf = imported(tmp_path, block((1, 1, "ValueError: bad"))[:-61], "text behind it", glog(FAILED_LINE))
    assert (["root_cause", "worker_failed"], 1) == (told(shelf), shelf.report.damaged)
