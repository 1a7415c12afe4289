"""What launchers and collectors put around lines: labels, times, JSON objects."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.importers.collectors import find_collector
from tests.importers.lines import FAILED_LINE, block, event, glog, imported, rdzv, written

NAMES = ("node-a", "node-b")
STAMP = "2026-02-17T09:30:0{}.5Z"


def sent(node):
    """A line of that node's agent."""
    return glog(f"Sending process {100 + node} closing signal SIGTERM")


def console(node):
    """A node's console: an agent's line, a traceback, and a closing block."""
    text = "Traceback (most recent call last):\n    File 'a.py'\n  ValueError: bad"
    whole = block((node, 1, text)).replace("node-a", NAMES[node])
    return ["", sent(node), "  indented", *whole.split("\n"), ""]


def mixed(label):
    """Both consoles, line by line in turn, each line as its label's function writes it."""
    return [label(node, line) for lines in zip(console(0), console(1), strict=True) for node, line in enumerate(lines)]


LABELS = {
    "srun": lambda node, line: f"{node}: {line}",
    "srun of 10": lambda node, line: f" {node + 8}: {line}",
    "kubectl": lambda node, line: f"[pod/train-{node}/worker] {line}",
    "kubectl with times": lambda node, line: f"[pod/train-{node}/worker] {STAMP.format(node)} {line}",
    "stern": lambda node, line: f"train-{node} worker {line}",
    "stern in colours": lambda node, line: f"\x1b[31mtrain-{node}\x1b[0m \x1b[1mworker\x1b[0m {line}",
    "mpirun": lambda node, line: f"[1,{node}]<stderr>:{line}",
    "mpirun 5": lambda node, line: f"[prterun-h-12@1,{node}]<stderr>: {line}",
    "mpiexec": lambda node, line: f"[{node}] {line}",
    "compose": lambda node, line: f"{NAMES[node]}  | {line}",
    "pdsh": lambda node, line: f"{NAMES[node]}: {line}",
    "brackets": lambda node, line: f"[{NAMES[node]}] {line}",
    "parallel": lambda node, line: f"{NAMES[node]}\t{line}",
    "ray": lambda node, line: f"(Worker pid={node}, ip=10.0.0.{node}) {line}",
    "torchx": lambda node, line: f"trainer/{node} {line}",
    "syslog": lambda node, line: f"Feb 17 09:30:00 {NAMES[node]} torchrun[{node}]: {line}",
    "journal": lambda node, line: f"2026-02-17T09:30:00+0000 {NAMES[node]} torchrun[{node}]: {line}",
    "ts": lambda node, line: f"Feb 17 09:30:00 {node}: {line}",
    "clock": lambda node, line: f"[09:30:00] {NAMES[node]}: {line}",
    "grep": lambda node, line: f"logs/{NAMES[node]}.log:{line}",
    "logcli": lambda node, line: f'{STAMP.format(node)} {{app="t", pod="train-{node}"}} {line}',
    "loki": lambda node, line: json.dumps(
        {"labels": {"pod": f"train-{node}"}, "line": line, "timestamp": STAMP.format(node)}
    ),
    "fluentbit": lambda node, line: json.dumps(
        {"@timestamp": STAMP.format(node), "log": line, "kubernetes": {"pod_name": f"train-{node}"}}
    ),
    "journal in JSON": lambda node, line: json.dumps(
        {"MESSAGE": line, "_HOSTNAME": NAMES[node], "__REALTIME_TIMESTAMP": "1771320600123456"}
    ),
    "cloudwatch": lambda node, line: json.dumps(
        {"timestamp": 1771320600123, "message": line, "logStreamName": f"job/{node}"}
    ),
}


@pytest.mark.parametrize("form", LABELS)
def test_nodes_in_one_file_are_told_apart(tmp_path, form):
    """Each node's closing block is whole though another's lines stand between, and its agent's lines name its host."""
    shelf = imported(tmp_path, *mixed(LABELS[form]))
    sent_by = {r.metadata["host"]: r.metadata["pid"] for r in shelf.logs if r.name.endswith("signal_sent")}
    blocks = [r.metadata for r in shelf.logs if r.name.endswith("root_cause")]
    assert {"node-a": 100, "node-b": 101} == sent_by
    assert [("node-a", "node-a"), ("node-b", "node-b")] == [(m["host"], m["failures"][0]["host"]) for m in blocks]
    assert {"Traceback (most recent call last):\n  File 'a.py'\nValueError: bad"} == {
        m["failures"][0]["message"] for m in blocks
    }
    assert 0 == shelf.report.damaged


@pytest.mark.parametrize(
    ("form", "hosts"),
    [
        ("srun", ["task 0", "task 1"]),
        ("kubectl", ["train-0", "train-1"]),
        ("stern", ["train-0", "train-1"]),
        ("mpirun", ["process 0", "process 1"]),
        ("pdsh", ["node-a", "node-b"]),
        ("ray", ["10.0.0.0", "10.0.0.1"]),
        ("grep", ["node-a", "node-b"]),
        ("logcli", ["train-0", "train-1"]),
        ("cloudwatch", ["job/0", "job/1"]),
    ],
)
def test_label_names_the_node_where_no_record_does(tmp_path, form, hosts):
    """Where nothing behind a label names a host, the label does."""
    shelf = imported(tmp_path, *(LABELS[form](node, sent(node)) for node in (0, 1)))
    assert hosts == [record.metadata["host"] for record in shelf.logs]


@pytest.mark.parametrize("heading", ["==> logs/{}.log <==", "{} | CHANGED | rc=0 >>"])
def test_heading_stands_over_a_nodes_lines(tmp_path, heading):
    """`tail` over several files, and Ansible, name the node once."""
    lines = [line for node in (0, 1) for line in (heading.format(NAMES[node]), sent(node), "text")]
    assert [*NAMES] == [record.metadata["host"] for record in imported(tmp_path, *lines).logs]


@pytest.mark.parametrize("form", ["kubectl with times", "logcli", "loki"])
def test_lines_of_a_collector_have_its_time(tmp_path, form):
    """A time with a zone before the label, behind it, or in the object, is the line's."""
    (record,) = imported(tmp_path, LABELS[form](1, sent(1)), tz="+05:00").logs
    assert 1771320601500000000 == record.time_ns


def test_docker_cuts_long_lines(tmp_path):
    """A line that Docker has cut in pieces is one line again, and its streams are apart."""
    text = event(rank=3, text="x" * 400)
    pieces = [(text[:100], "stderr"), ("out\n", "stdout"), (text[100:300], "stderr"), (text[300:] + "\n", "stderr")]
    lines = [json.dumps({"log": log, "stream": stream, "time": STAMP.format(0)}) for log, stream in pieces]
    shelf = imported(tmp_path, *lines, *[lines[1]] * 9)
    assert [(3, 1771320600500000000)] == [(r.metadata["global_rank"], r.time_ns) for r in shelf.records]


def test_container_runtime_cuts_long_lines(tmp_path):
    """A line that CRI's log has in pieces, marked P and F, is one line again."""
    text = event(rank=3)
    parts = [("P", text[:50]), ("P", text[50:90]), ("F", text[90:])]
    lines = [f"{STAMP.format(0)} stderr {flag} {part}" for flag, part in parts]
    (record,) = imported(tmp_path, f"{STAMP.format(0)} stdout F text", *lines).records
    assert (3, "node-a.log:2") == (record.metadata["global_rank"], record.origin)


def test_block_behind_a_collectors_time(tmp_path):
    """A closing block whose every line has a time before it is read."""
    text = block((1, 1, "ValueError: bad"))
    (record,) = imported(tmp_path, *(f"{STAMP.format(0)} {line}" for line in text.split("\n"))).logs
    assert "ValueError: bad" == record.metadata["failures"][0]["message"]


def test_one_line_does_not_make_a_label(tmp_path):
    """A line that begins like a label, or a text in a JSON object, among a console's own lines is text."""
    quoted = [f"node-b: {sent(1)}", f"3: {sent(1)}", f"[pod/a/b] {sent(1)}", f"ValueError: {sent(1)}"]
    wrapped = json.dumps({"log": sent(1) + "\n", "stream": "stderr", "time": STAMP.format(0)})
    shelf = imported(tmp_path, sent(0), *quoted, wrapped, "==> node-b.log <==", glog(FAILED_LINE))
    assert [100, 1785] == [record.metadata["pid"] for record in shelf.logs]
    assert not any("host" in record.metadata for record in shelf.logs)


@pytest.mark.parametrize(
    "lines",
    [
        ["INFO: " + sent(0), "ERROR: " + sent(1)],
        ["ValueError: bad", "Epoch: 3", "loss: 2"],
        ["torchelastic-events-console: " + event()] * 3,
        ["[rank0]: text", "[rank1]: text"],
        ["[default] Starting worker group"] * 3,
        ["step 1", "step 2"],
        [event(), rdzv()],
        [],
    ],
)
def test_ordinary_files_have_no_label(tmp_path, lines):
    """What torch, logging and workers write before their texts is no node."""
    assert find_collector(written(tmp_path / "a.log", *lines)).form is None


HONEST = [
    *mixed(LABELS["kubectl"])[:8],
    *mixed(LABELS["srun"])[:8],
    json.dumps({"log": sent(0), "stream": "stderr", "time": STAMP.format(0)}),
    json.dumps({"log": "\ud800\n" + event(), "time": 1e300, "kubernetes": 3}),
    f"{STAMP.format(0)} stderr P part",
    "==> a.log <==",
    "Feb 30 25:61:61 host x[1]: text",
]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(HONEST) | st.text(max_size=40), max_size=30))
def test_any_lines_are_taken_apart(tmp_path_factory, lines):
    """Whatever stands around lines, none is lost but for headings and pieces, and nothing raises."""
    path = tmp_path_factory.mktemp("any") / "a.log"
    written(path, *(line.encode("utf-8", "surrogateescape") if line.isprintable() else b"x" for line in lines))
    collector = find_collector(path)
    taken = [line for n, raw in enumerate(path.read_bytes().split(b"\n")) for line in collector.take(n, raw)]
    assert all(collector.host(line.label) or not line.label for line in [*taken, *collector.rest()])
