"""What torch's agent and launcher log about workers."""

import pytest

from jobtape.importers.log_lines import read_log_line
from jobtape.importers.prefixes import read_prefix
from jobtape.importers.signals import signal_name
from tests.importers.lines import FAILED_LINE, glog

READ = [
    (
        "failed (exitcode: -9) local_rank: 5 (pid: 9175) of binary: /opt/venv/bin/python",
        "worker_failed",
        {"local_rank": 5, "pid": 9175, "exit_code": -9, "signal": "SIGKILL", "of": "binary"}
        | {"entrypoint": "/opt/venv/bin/python"},
    ),
    (
        "failed (exitcode: None) local_rank: 0 (pid: None) of fn: main (start_method: spawn)",
        "worker_failed",
        {"local_rank": 0, "pid": None, "exit_code": None, "signal": None, "of": "fn", "entrypoint": "main"},
    ),
    ("Sending process 12 closing signal SIGTERM", "signal_sent", {"pid": 12, "signal": "SIGTERM"}),
    ("Closing process 12 via signal SIGINT", "signal_sent", {"pid": 12, "signal": "SIGINT"}),
    (
        "Unable to shutdown process 12 via 15, forcefully exiting via 9",
        "signal_forced",
        {"pid": 12, "signal": "SIGKILL"},
    ),
    (
        "Unable to shutdown process 12 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
        "signal_forced",
        {"pid": 12, "signal": "SIGKILL"},
    ),
    (
        "[default] Worker group FAILED. 2/3 attempts left; will restart worker group",
        "group_failed",
        {"role": "default", "state": "FAILED", "attempts_left": 2, "max_restarts": 3},
    ),
    (
        "[a]b] Detected 1 new nodes from group_rank=0; will restart worker group",
        "membership",
        {"role": "a]b", "waiting": 1, "group_rank": 0},
    ),
    ("Received 15 death signal, shutting down workers", "agent_signal", {"signal": "SIGTERM"}),
    ("Received Signals.SIGHUP death signal, shutting down workers", "agent_signal", {"signal": "SIGHUP"}),
    ("Got termination signal: 2", "agent_signal", {"signal": "SIGINT"}),
    (
        "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
        "group_succeeded",
        {"role": "default"},
    ),
    (
        "Error waiting on exit barrier. Elapsed: 300.0082175731659 seconds",
        "barrier_failed",
        {"elapsed_s": 300.0082175731659, "error": None},
    ),
    (
        "The node 'n2_3_0' has failed to shutdown the rendezvous 'it's mine' due to an error of type RendezvousError.",
        "rendezvous_shutdown_failed",
        {"node": "n2_3_0", "error_type": "RendezvousError", "run_id": "it's mine"},
    ),
]


@pytest.mark.parametrize(("text", "name", "metadata"), READ)
def test_line_of_the_agent_is_read(text, name, metadata):
    """Each line becomes a record that keeps what it says, and the agent's pid where the prefix has it."""
    assert (f"torchelastic.log.{name}", {**metadata, "agent_pid": 1780}) == read_log_line(read_prefix(glog(text)))


@pytest.mark.parametrize(
    "prefix",
    [
        "[2026-05-06 14:03:37,720] torch.distributed.elastic.multiprocessing.api: [ERROR] ",
        "ERROR:torch.distributed.elastic.multiprocessing.api:",
        "2026-05-06T14:03:37Z E0506 14:03:37.720000 7 /opt/lib/torch/distributed/elastic/multiprocessing/api.py:1002] ",
    ],
)
def test_all_prefixes_of_torch_are_known(prefix):
    """The line counts behind each of torch's prefixes."""
    name, metadata = read_log_line(read_prefix(prefix + FAILED_LINE))
    assert ("torchelastic.log.worker_failed", 1785) == (name, metadata["pid"])


@pytest.mark.parametrize(
    "line",
    [
        FAILED_LINE,
        "[rank1]:" + glog(FAILED_LINE),
        "[default1]:ERROR:torch.distributed.elastic.multiprocessing.api:" + FAILED_LINE,
        "ERROR:__main__:" + FAILED_LINE,
        glog(FAILED_LINE, writer="train.py:7"),
        "ValueError: bad row " + glog(FAILED_LINE),
        glog(FAILED_LINE + " and more\x85")[:-40],
        glog("failed (exitcode: 1) local_rank: 1 (pid: 99999999999999999999) of binary: x"),
        glog("[a" + "] Worker group F" * 100_000),
    ],
)
def test_what_others_say_is_no_record(line):
    """The same text without torch's prefix, behind a worker's label, or not quite the same, is text."""
    assert read_log_line(read_prefix(line)) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SIGTERM", "SIGTERM"),
        ("Signals.SIGKILL", "SIGKILL"),
        (15, "SIGTERM"),
        ("999", "SIG999"),
        ("soon", None),
        ("", None),
    ],
)
def test_signals_have_names(text, name):
    """A signal is named however torch writes it."""
    assert name == signal_name(text)
