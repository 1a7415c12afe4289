"""What launchers and collectors put before each line to say which node it came from.

Forms, each with its source: ``srun --label`` (``3: ``), ``kubectl logs --prefix`` (``[pod/train-0/worker] ``),
``stern`` (``train-0 worker ``), Open MPI ``mpirun --tag-output`` (``[1,3]<stderr>:``, from version 5 on with a blank),
MPICH ``mpiexec -l`` (``[3] ``), docker compose (``node-a  | ``), ``pdsh`` and ``clush`` (``node-a: ``), GNU ``parallel
--tag`` (name and tab), Ray (``(Worker pid=12, ip=10.0.0.2) ``), TorchX (``trainer/0 ``), syslog and the journal
(``node-a torchrun[77]: ``), ``grep`` over several files (``node-a.log:``), ``logcli`` (``{pod="train-0"} ``), and
headings over a node's lines: ``tail`` (``==> node-a.log <==``) and Ansible (``node-a | CHANGED | rc=0 >>``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_LEVELS = rb"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|TRACE)"
_NAME = rb"[A-Za-z0-9][\w.-]{0,252}"
_HOST = rb"(?=[\w.-]*[A-Za-z])(?!" + _LEVELS + rb"\b|torchelastic-events|torch\.)" + _NAME


class Form(NamedTuple):
    """One way to label lines: its pattern has a group ``label``; ``host`` makes a node's name of the label."""

    pattern: re.Pattern[bytes]
    host: Callable[[str], str] = str
    loose: bool = False
    """Ordinary text may look like it: it takes more to believe that it is the file's."""
    heading: bool = False
    """It stands over the lines of a node, not before each."""


def _number(kind: str) -> Callable[[str], str]:
    return lambda label: f"{kind} {int(label)}"


def _pod(label: str) -> str:
    return label.split("/")[1]


def _first_word(label: str) -> str:
    return label.split()[0]


def _file_stem(label: str) -> str:
    return label.rpartition("/")[2].rpartition(".")[0] or label


def _ray_node(label: str) -> str:
    return label.partition("ip=")[2] or label


def _loki_node(label: str) -> str:
    named = dict(re.findall(r'(\w+)="([^"]*)"', label))
    return next((named[key] for key in ("pod", "host", "hostname", "node", "instance") if named.get(key)), label)


FORMS = (
    Form(re.compile(rb"\[(?P<label>(?:pod|job|deployment)/[^/\]\s]+(?:/[^\]\s]+)?)\](?: |$)"), _pod),
    Form(re.compile(rb"\[[^,\]\s]{1,200},(?P<label>\d{1,7})\]<std(?:out|err|diag)>:(?: |$)"), _number("process")),
    Form(re.compile(rb"\[[^,\]\s]{1,200},(?P<label>\d{1,7})\]<std(?:out|err|diag)>:"), _number("process")),
    Form(re.compile(rb"\((?P<label>[\w:.-]+ pid=\d+(?:, ip=[\w.:]+)?)\)(?: |$)"), _ray_node),
    Form(re.compile(rb"(?:<\d{1,3}>)?(?P<label>[\w.:-]+) (?:[\w./()-]+\[\d+\]|kernel|systemd):(?: |$)")),
    Form(re.compile(rb'(?P<label>\{\w+="[^"\n]*"(?:, ?\w+="[^"\n]*")*\})(?: |$)'), _loki_node),
    Form(re.compile(rb" {0,6}(?P<label>\d{1,7}):(?: |$)"), _number("task")),
    Form(re.compile(rb"(?P<label>" + _NAME + rb") +\|(?: |$)")),
    Form(re.compile(rb"\[(?P<label>\d{1,7})\] "), _number("process")),
    Form(re.compile(rb"(?P<label>[\w./-]+\.(?:log|out|err|txt|jsonl?)):(?:\d+:)?"), _file_stem),
    Form(re.compile(rb"(?P<label>[A-Za-z][\w.-]*/\d{1,6})(?: |$)"), loose=True),
    Form(re.compile(rb"(?P<label>" + _HOST + rb")\t"), loose=True),
    Form(re.compile(rb"(?P<label>" + _HOST + rb"):(?: |$)"), loose=True),
    Form(re.compile(rb"\[(?!rank\d+\]|default\d*\])(?P<label>" + _HOST + rb")\]:?(?: |$)"), loose=True),
    Form(
        re.compile(rb"(?P<label>(?=[a-z.-]*[\d-])[a-z0-9][a-z0-9.-]* [a-z][a-z0-9-]*)(?: [^\x00-\x7f]{1,3})?(?: |$)"),
        _first_word,
        loose=True,
    ),
    Form(re.compile(rb"==> (?P<label>.+) <==$"), _file_stem, heading=True),
    Form(
        re.compile(rb"(?P<label>" + _NAME + rb") \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE!?)(?: \| rc=-?\d+)? >>$"),
        heading=True,
    ),
)
"""In the order in which they are preferred where a file's lines fit several."""
