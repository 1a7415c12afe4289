"""What torch's agent lists over several lines."""

import pytest

from tests.importers.lines import FAILED_LINE, glog, imported

ROUND = [
    "[default] Rendezvous complete for workers. Result:",
    "  restart_count=1",
    "  master_addr=node-a",
    "  group_rank=1",
    "  group_world_size=2",
    "  local_ranks=[0, 1]",
    "  global_ranks=[2, 3]",
    "  global_world_sizes=[4, 4]",
    "  event_log_handler=null",
    "",
]
LAUNCH = [
    "Starting elastic_operator with launch configs:",
    "  entrypoint               : train.py",
    "  run_id                   : resnet-31",
    "  max_restarts             : 3",
    "  rdzv_configs             : {'timeout': 900}",
    "  log_dir                  : None",
    "",
]
AGENT = "torch/distributed/elastic/agent/server/api.py:553"
LAUNCHER = "torch/distributed/launcher/api.py:254"
PREFIXES = [
    lambda line, first, writer: glog(line, writer=writer),
    lambda line, first, writer: glog(line, writer=writer) if first else line,
    lambda line, first, writer: f"INFO:{writer[:-7].replace('/', '.')}:{line}" if first else line,
    lambda line, first, writer: f"[INFO] 2026-02-17 09:30:00,019 api: {line}" if first else line,
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_result_of_a_rendezvous(tmp_path, prefix):
    """The agent's place in the round, and its workers' ranks, whether each line has the prefix or the first alone."""
    lines = [prefix(line, number == 0, AGENT) for number, line in enumerate(ROUND)]
    record, after = imported(tmp_path, *lines, glog(FAILED_LINE)).logs
    assert "torchelastic.log.rendezvous_complete" == record.name
    expected = {"role": "default", "restart_count": 1, "master_addr": "node-a", "group_rank": 1, "group_world_size": 2}
    expected |= {
        "local_ranks": [0, 1],
        "global_ranks": [2, 3],
        "global_world_sizes": [4, 4],
        "event_log_handler": "null",
    }
    assert expected == {key: value for key, value in record.metadata.items() if key != "agent_pid"}
    assert "torchelastic.log.worker_failed" == after.name


@pytest.mark.parametrize("prefix", PREFIXES[:2])
def test_configuration_of_a_launch_names_the_run(tmp_path, prefix):
    """The launcher's list gives the run id."""
    lines = [prefix(line, number == 0, LAUNCHER) for number, line in enumerate(LAUNCH)]
    shelf = imported(tmp_path, *lines, glog(FAILED_LINE))
    assert [("resnet-31", "resnet-31", 2)] == shelf.report.runs
    assert ("train.py", 3, None) == tuple(
        shelf.logs[0].metadata[key] for key in ("entrypoint", "max_restarts", "log_dir")
    )


HEAD = glog(ROUND[0], writer=AGENT)


@pytest.mark.parametrize(
    ("lines", "items"),
    [
        ([ROUND[1], "text", ROUND[3]], 1),
        ([f"[rank0]:{ROUND[3]}"], 0),
        ([glog(ROUND[3], writer="train.py:1")], 0),
        ([f"  item_{chr(97 + n % 26)}{chr(97 + n // 26)}=1" for n in range(100)], 64),
    ],
)
def test_listing_ends_with_another_line(tmp_path, lines, items):
    """What does not look like an item, is another's, or is one too many, is not of the list."""
    record = imported(tmp_path, HEAD, *lines).logs[0]
    assert items == len(record.metadata.keys() - {"role", "agent_pid"})
