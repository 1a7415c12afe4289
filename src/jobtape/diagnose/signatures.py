"""What a process says when it fails because of another one: one table, a source for each row.

A row counts only in an error of a type that the communication libraries raise (`_RAISED_BY_LIBRARIES`); a
``ValueError`` that quotes such a text is an error of its own. Rows of general words (``generic``) count only where
torch.distributed raised the error: a dataset's download can have its connection reset too. Users add rows of their
own (`jobtape.diagnose.added_signatures`), which count in every error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobtape.diagnose.failure_text import FailureText, without_message


class Signature(NamedTuple):
    """One way in which a victim says so.

    Attributes:
        pattern: what is looked for in the error's text: a regular expression; in a user's row plain words.
        library: whose words they are.
        meaning: ``peer gone`` (another process ended, or its connection did), ``timeout`` (it did not take part), or
            ``unclear`` (either that, or a fault of its own: the words do not say).
        source: where the text comes from.
        generic: the words are not the library's alone.
    """

    pattern: str
    library: str
    meaning: str
    source: str
    generic: bool = False


_C10D = "torch/csrc/distributed/c10d"
_PAIR = "gloo/transport/tcp/pair.cc"
_BUFFER = "gloo/transport/tcp/unbound_buffer.cc"
_GLOO = f"{_C10D}/ProcessGroupGloo.cpp"
_NCCL = f"{_C10D}/ProcessGroupNCCL.cpp"
_STORE = f"{_C10D}/TCPStore.cpp"
_SOCKET = "nccl/src/misc/socket.cc"
_ERROR_CODES = "ompi/errhandler/errcode.c"
_RENDEZVOUS = "torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py"

GONE, TIMEOUT, UNCLEAR = "peer gone", "timeout", "unclear"
MEANINGS = (GONE, TIMEOUT, UNCLEAR)

SIGNATURES: tuple[Signature, ...] = (
    Signature(r"transport/\w+/\S+\] .*(closed|reset) by peer", "gloo", GONE, _PAIR),
    Signature(r"Connection closed by peer \[[0-9A-Fa-f.:%]*\]:?\d*", "gloo", GONE, _PAIR),
    Signature(r"((Read|Write|writev) error|writev|connect) \[[^\]\n]*\]:?\d*: ", "gloo", GONE, _PAIR),
    Signature(r"transport/\w+/\S+\] .*(Broken pipe|Socket (unexpectedly )?closed)", "gloo", GONE, _PAIR),
    Signature(r"transport/\w+/\S+\] .*timed out connecting", "gloo", GONE, _PAIR),
    Signature(r"connectFullMesh failed", "gloo", GONE, _GLOO),
    Signature(r"(Read|Write) timeout \[[^\]\n]*\]", "gloo", TIMEOUT, _PAIR),
    Signature(r"Timed out waiting \d+ms for (send|recv)", "gloo", TIMEOUT, _BUFFER),
    Signature(r"Application timeout caused pair closure", "gloo", TIMEOUT, _BUFFER),
    Signature(r"failed to pass monitoredBarrier in", "gloo", TIMEOUT, _GLOO),
    Signature(r"timed out in monitoredBarrier after", "gloo", TIMEOUT, _GLOO),
    Signature(r"successfully reached monitoredBarrier, but received errors", "gloo", GONE, _GLOO),
    Signature(r"Watchdog caught collective operation timeout", "NCCL", TIMEOUT, _NCCL),
    Signature(r"(dump signal due to|debug info, due to) a? ?collective timeout", "NCCL", TIMEOUT, _NCCL),
    Signature(r"dump signal from another rank", "NCCL", TIMEOUT, _NCCL),
    Signature(r"detected by watchdog at work", "NCCL", TIMEOUT, _NCCL),
    Signature(r"Some NCCL operations have failed or timed out", "NCCL", TIMEOUT, _NCCL),
    Signature(r"watchdog thread terminated with exception: .*(timeout|remote|aborted)", "NCCL", TIMEOUT, _NCCL),
    Signature(r"ranks that caused (this timeout|the desync)", "NCCL", TIMEOUT, f"{_C10D}/TraceUtils.h"),
    Signature(r"NCCL communicator was aborted", "NCCL", GONE, f"{_C10D}/NCCLUtils.cpp"),
    Signature(r"ncclRemoteError", "NCCL", GONE, "nccl/src/nccl.h.in"),
    Signature(r"remote process exited or there was a network error", "NCCL", GONE, "nccl: ncclGetErrorString"),
    Signature(r"Connection closed by remote peer", "NCCL", GONE, _SOCKET),
    Signature(r"Call to (recv|send|connect)\w* (from|to) .*failed ?: (Connection|Broken pipe)", "NCCL", GONE, _SOCKET),
    Signature(r"Got completion from peer .* with status=(\w+\()?12\b", "NCCL", GONE, "nccl/src/transport/net_ib"),
    Signature(r"[Ff]ailed to (recv|send), (got|sent) 0 bytes", "TCPStore", GONE, f"{_C10D}/Utils.hpp"),
    Signature(r"Connection was likely closed", "TCPStore", GONE, f"{_C10D}/Utils.hpp"),
    Signature(r"(recvValue\w*|recvVector|sendBytes) failed on", "TCPStore", GONE, _STORE),
    Signature(r"TCPStore server has shut ?down", "TCPStore", GONE, _NCCL),
    Signature(r"wait timeout after \d+ms, keys:", "TCPStore", TIMEOUT, _STORE),
    Signature(r"waiting for clients\. \d+/\d+ clients joined", "TCPStore", TIMEOUT, _STORE),
    Signature(r"in store based barrier on rank", "TCPStore", TIMEOUT, "torch/distributed/distributed_c10d.py"),
    Signature(r"Timed out waiting on barrier on rank", "TCPStore", TIMEOUT, "torch/distributed/elastic/utils/store.py"),
    Signature(r"Timeout waiting for key: ", "TCPStore", TIMEOUT, f"{_C10D}/FileStore.cpp"),
    Signature(r"client socket has (timed out|failed to connect)", "TCPStore", GONE, f"{_C10D}/socket.cpp"),
    Signature(r"TCP client failed to connect/validate to host", "TCPStore", GONE, _STORE),
    Signature(r"\bDistNetworkError\b", "TCPStore", GONE, "c10/util/Exception.h"),
    Signature(r"Socket Timeout", "TCPStore", TIMEOUT, f"{_C10D}/socket.cpp and Utils.hpp"),
    Signature(r"connection to the C10d store has failed", "TCPStore", GONE, _RENDEZVOUS),
    Signature(r"MPI_ERR_(PROC_FAILED|PROC_ABORTED|REVOKED)", "MPI", GONE, _ERROR_CODES),
    Signature(r"(ORTE|PRTE|PMIX) .*lost (communication|connection)", "MPI", GONE, "Open MPI: help-errmgr-base.txt"),
    Signature(r"MPI communication peer process has unexpectedly", "MPI", GONE, "ompi: help-mpi-btl-tcp.txt"),
    Signature(r"mca_btl_tcp_\w+\] .*failed: (Connection|Broken pipe)", "MPI", GONE, "opal/mca/btl/tcp/btl_tcp.c"),
    Signature(r"UCC_ERR_TIMED_OUT|ucc.*Timeout expired", "UCC", TIMEOUT, "ucc: ucc_status_string"),
    Signature(r"UCS_ERR_(CONNECTION_RESET|ENDPOINT_TIMEOUT|NOT_CONNECTED)", "UCC", GONE, "ucx/src/ucs/type/status.h"),
    Signature(r"Connection reset by remote peer|Endpoint timeout", "UCC", GONE, "ucx/src/ucs/type/status.c"),
    Signature(r"Operation rejected by remote peer|Endpoint is not connected", "UCC", GONE, "ucx/src/ucs/type/status.c"),
    Signature(r"ncclSystemError|unhandled system error", "NCCL", UNCLEAR, "nccl/src/nccl.h.in"),
    Signature(r"watchdog got stuck for \d+ seconds|NCCL watchdog hang", "NCCL", UNCLEAR, _NCCL),
    Signature(r"MPI_ERR_(OTHER|UNKNOWN|INTERN)\b", "MPI", UNCLEAR, _ERROR_CODES),
    Signature(r"MPI error in: .*with error code", "MPI", UNCLEAR, f"{_C10D}/ProcessGroupMPI.cpp"),
    Signature(r"MPI_ABORT was invoked on rank", "MPI", UNCLEAR, "ompi: help-mpi-api.txt"),
    Signature(r"Connection (closed|reset) by peer", "any", GONE, "strerror: ECONNRESET", generic=True),
    Signature(r"Broken pipe", "any", GONE, "strerror: EPIPE", generic=True),
    Signature(r"Connection refused", "any", GONE, "strerror: ECONNREFUSED", generic=True),
    Signature(r"[Ss]tore (is|was|has been) closed", "any", GONE, "general words", generic=True),
    Signature(r"[Tt]imed out|[Tt]imeout", "any", TIMEOUT, "general words", generic=True),
    Signature(r"\A\S*Connection(Reset|Aborted)Error\b", "any", UNCLEAR, "Python: ECONNRESET, ECONNABORTED"),
    Signature(r"\A\S*BrokenPipeError\b", "any", UNCLEAR, "Python: EPIPE"),
)
"""The table; of several rows that an error's words are of, the first counts."""

ABORTED = Signature("", "NCCL", TIMEOUT, "faulthandler: a thread that is none of Python's aborted the process")
"""Of a process without words, from its stack: see `aborted_by_library`."""

_RAISED_BY_LIBRARIES = re.compile(
    r"(^|\.)(RuntimeError|Dist\w*Error|\w*BackendError|Connection\w*Error|BrokenPipeError|TimeoutError|OSError|Exception|IOError)$"
    r"|^(c10|gloo|std|torch)\b|Rendezvous\w+Error$"
)
_IN_TORCH_DISTRIBUTED = re.compile(
    r'File "[^"\n]*torch/distributed/(?!elastic/multiprocessing/errors)[^"\n]*", line \d+'
)
_ANY_FRAME = re.compile(r'^ *File "[^"\n]+", line \d+.*$', re.MULTILINE)
FAR_ENOUGH = 4000
"""Characters of an error that are looked at: a message can be as long as its sender likes."""

ANYTHING = "*"
"""Stands for any words in a user's row."""


class _Row(NamedTuple):
    """A row made ready: a text that has none of its literals need not be searched."""

    signature: Signature
    search: re.Pattern[str]
    literals: tuple[str, ...]


def _literals(pattern: str) -> tuple[str, ...]:
    """For each alternative of a pattern the longest piece of plain text that it cannot match without."""
    runs: list[list[str]] = [[""]]
    depth, at = 0, 0
    while at < len(pattern):
        mark = pattern[at]
        plain = mark not in "\\[](){}|.*+?^$"
        if mark == "\\":
            at += 1
            plain, mark = not pattern[at].isalnum(), pattern[at]
        elif mark == "[":
            at = pattern.index("]", at + 2)
        elif mark == "|" and depth == 0:
            runs.append([""])
        elif mark in "?*" and depth == 0:
            runs[-1][-1] = runs[-1][-1][:-1]
        depth += (not plain and mark == "(") - (not plain and mark == ")")
        if plain and depth == 0:
            runs[-1][-1] += mark
        else:
            runs[-1].append("")
        at += 1
    return tuple(max(pieces, key=len) for pieces in runs)


_ROWS = tuple(_Row(row, re.compile(row.pattern), _literals(row.pattern)) for row in SIGNATURES)


class Added(NamedTuple):
    """What a user has added to the table.

    Attributes:
        rows: the rows, which count before those of `SIGNATURES`.
        mistakes: what could not be used, in a sentence each.
    """

    rows: tuple[Signature, ...] = ()
    mistakes: tuple[str, ...] = ()


NOTHING_ADDED = Added()


def row_of(error: FailureText | None, added: Added = NOTHING_ADDED) -> Signature | None:
    """The row that this error's words are of; None when they are of none: it is an error of its own."""
    if error is None or not error.headline:
        return None
    text = error.headline[:FAR_ENOUGH]
    for row in added.rows:
        if has_words(text, row.pattern):
            return row
    if error.error_type is not None and not _RAISED_BY_LIBRARIES.search(error.error_type):
        return None
    for row, search, literals in _ROWS:
        said = any(literal in text for literal in literals) and search.search(text)
        if said and (not row.generic or raised_in_torch_distributed(error)):
            return row
    return None


def signature_of(error: FailureText | None, added: Added = NOTHING_ADDED) -> Signature | None:
    """The row that says that this error followed from another process's end; None when no row does."""
    row = row_of(error, added)
    return row if row is not None and row.meaning != UNCLEAR else None


def has_words(text: str, words: str) -> bool:
    """Whether a line of a text has these words, in which ``*`` stands for any; in time that grows with the text.

    >>> has_words("stage 3: link down", "stage * down"), has_words("stage 3\\nis down", "stage * down")
    (True, False)
    """
    pieces = [piece for piece in words.split(ANYTHING) if piece]
    for line in text.split("\n") if pieces else ():
        at = 0
        for piece in pieces:
            at = line.find(piece, at)
            if at < 0:
                break
            at += len(piece)
        else:
            return True
    return False


def raised_in_torch_distributed(error: FailureText) -> bool:
    """Whether torch.distributed raised it: its own kind of error, or the last frame is there."""
    if error.error_type is not None and re.search(r"(^|\.)Dist\w*Error$", error.error_type):
        return True
    frames = _ANY_FRAME.findall(without_message(error.traceback or "", error.message))
    return bool(frames) and in_torch_distributed(frames[-1])


def in_torch_distributed(stack: str) -> bool:
    """Whether a stack has a frame of torch.distributed, other than the one that `@record` puts around a script."""
    return _IN_TORCH_DISTRIBUTED.search(stack) is not None


def aborted_by_library(stack: str) -> bool:
    """Whether a thread that is none of Python's aborted a process that waited in torch.distributed.

    A watchdog of a communication library does so when a collective has timed out or its communicator has failed; an
    abort in a Python thread, of a failed assertion say, has that thread marked as the current one.
    """
    return (
        stack.startswith("Fatal Python error: Aborted")
        and "\nCurrent thread " not in stack
        and in_torch_distributed(stack)
    )
