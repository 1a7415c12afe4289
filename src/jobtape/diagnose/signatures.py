"""What a process says when it fails because of another one: one table, a source for each row.

A row counts only in an error of a type that the communication libraries raise (`_RAISED_BY_LIBRARIES`); a
``ValueError`` that quotes such a text is an error of its own. Rows of general words (``generic``) count only where
torch.distributed raised the error: a dataset's download can have its connection reset too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobtape.diagnose.failure_text import FailureText, without_message


class Signature(NamedTuple):
    """One way in which a victim says so.

    Attributes:
        pattern: what is looked for in the error's text.
        library: whose words they are.
        meaning: ``peer gone`` (another process ended, or its connection did) or ``timeout`` (it did not take part).
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
_NCCL = f"{_C10D}/ProcessGroupNCCL.cpp"
_RENDEZVOUS = "torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py"

GONE, TIMEOUT = "peer gone", "timeout"

SIGNATURES: tuple[Signature, ...] = (
    Signature(r"transport/\w+/\S+\] .*(closed|reset) by peer", "gloo", GONE, _PAIR),
    Signature(r"Connection closed by peer \[[0-9A-Fa-f.:%]*\]:?\d*", "gloo", GONE, _PAIR),
    Signature(r"(Read|Write|writev) error \[[^\]\n]*\]:?\d*: ", "gloo", GONE, _PAIR),
    Signature(r"transport/\w+/\S+\] .*(Broken pipe|Socket closed)", "gloo", GONE, _PAIR),
    Signature(r"transport/\w+/\S+\] .*timed out connecting", "gloo", GONE, _PAIR),
    Signature(r"connectFullMesh failed", "gloo", GONE, f"{_C10D}/ProcessGroupGloo.cpp"),
    Signature(r"Timed out waiting \d+ms for (send|recv)", "gloo", TIMEOUT, _BUFFER),
    Signature(r"Application timeout caused pair closure", "gloo", TIMEOUT, _BUFFER),
    Signature(r"failed to pass monitoredBarrier in", "gloo", TIMEOUT, f"{_C10D}/ProcessGroupGloo.cpp"),
    Signature(r"Watchdog caught collective operation timeout", "NCCL", TIMEOUT, _NCCL),
    Signature(r"dump signal due to a collective timeout", "NCCL", TIMEOUT, _NCCL),
    Signature(r"dump signal from another rank", "NCCL", TIMEOUT, _NCCL),
    Signature(r"Some NCCL operations have failed or timed out", "NCCL", TIMEOUT, _NCCL),
    Signature(r"watchdog thread terminated with exception: .*(timeout|remote|aborted)", "NCCL", TIMEOUT, _NCCL),
    Signature(r"NCCL communicator was aborted", "NCCL", GONE, f"{_C10D}/NCCLUtils.cpp"),
    Signature(r"ncclRemoteError", "NCCL", GONE, "nccl/src/nccl.h.in"),
    Signature(r"remote process exited or there was a network error", "NCCL", GONE, "nccl: ncclGetErrorString"),
    Signature(r"Connection closed by remote peer", "NCCL", GONE, "nccl/src/misc/socket.cc"),
    Signature(r"[Ff]ailed to (recv|send), (got|sent) 0 bytes", "TCPStore", GONE, f"{_C10D}/Utils.hpp"),
    Signature(r"Connection was likely closed", "TCPStore", GONE, f"{_C10D}/Utils.hpp"),
    Signature(r"(recvValue\w*|recvVector|sendBytes) failed on", "TCPStore", GONE, f"{_C10D}/TCPStore.cpp"),
    Signature(r"wait timeout after \d+ms, keys:", "TCPStore", TIMEOUT, f"{_C10D}/TCPStore.cpp"),
    Signature(r"client socket has (timed out|failed to connect)", "TCPStore", GONE, f"{_C10D}/socket.cpp"),
    Signature(r"\bDistNetworkError\b", "TCPStore", GONE, "c10/util/Exception.h"),
    Signature(r"Socket Timeout", "TCPStore", TIMEOUT, f"{_C10D}/socket.cpp and Utils.hpp"),
    Signature(r"connection to the C10d store has failed", "TCPStore", GONE, _RENDEZVOUS),
    Signature(r"MPI_ERR_(PROC_FAILED|REVOKED)", "MPI", GONE, "ompi/errhandler/errcode.c"),
    Signature(r"(ORTE|PRTE|PMIX) .*lost (communication|connection)", "MPI", GONE, "Open MPI: help-errmgr-base.txt"),
    Signature(r"UCC_ERR_TIMED_OUT|ucc.*Timeout expired", "UCC", TIMEOUT, "ucc: ucc_status_string"),
    Signature(r"UCS_ERR_(CONNECTION_RESET|ENDPOINT_TIMEOUT)", "UCC", GONE, "ucx/src/ucs/type/status.h"),
    Signature(r"Connection reset by remote peer|Endpoint timeout", "UCC", GONE, "ucx/src/ucs/type/status.c"),
    Signature(r"Connection (closed|reset) by peer", "any", GONE, "strerror: ECONNRESET", generic=True),
    Signature(r"Broken pipe", "any", GONE, "strerror: EPIPE", generic=True),
    Signature(r"Connection refused", "any", GONE, "strerror: ECONNREFUSED", generic=True),
    Signature(r"[Ss]tore (is|was|has been) closed", "any", GONE, "general words", generic=True),
    Signature(r"[Tt]imed out|[Tt]imeout", "any", TIMEOUT, "general words", generic=True),
)

_RAISED_BY_LIBRARIES = re.compile(
    r"(^|\.)(RuntimeError|Dist\w*Error|\w*BackendError|Connection\w*Error|BrokenPipeError|TimeoutError|OSError|Exception|IOError)$"
    r"|^(c10|gloo|std|torch)\b|Rendezvous\w+Error$"
)
_IN_TORCH_DISTRIBUTED = re.compile(
    r'File "[^"\n]*torch/distributed/(?!elastic/multiprocessing/errors)[^"\n]*", line \d+'
)
_ANY_FRAME = re.compile(r'^ *File "[^"\n]+", line \d+.*$', re.MULTILINE)
_FAR_ENOUGH = 4000

_ALL = re.compile("|".join(f"(?P<s{n}>{row.pattern})" for n, row in enumerate(SIGNATURES)))
_SPECIFIC = re.compile("|".join(f"(?P<s{n}>{row.pattern})" for n, row in enumerate(SIGNATURES) if not row.generic))


def signature_of(error: FailureText | None) -> Signature | None:
    """The row that says that this error followed from another process's end; None when no row does."""
    if error is None or not error.headline:
        return None
    if error.error_type is not None and not _RAISED_BY_LIBRARIES.search(error.error_type):
        return None
    pattern = _ALL if raised_in_torch_distributed(error) else _SPECIFIC
    found = pattern.search(error.headline[:_FAR_ENOUGH])
    return SIGNATURES[int(str(found.lastgroup)[1:])] if found is not None else None


def raised_in_torch_distributed(error: FailureText) -> bool:
    """Whether torch.distributed raised it: its own kind of error, or the last frame is there."""
    if error.error_type is not None and re.search(r"(^|\.)Dist\w*Error$", error.error_type):
        return True
    frames = _ANY_FRAME.findall(without_message(error.traceback or "", error.message))
    return bool(frames) and in_torch_distributed(frames[-1])


def in_torch_distributed(stack: str) -> bool:
    """Whether a stack has a frame of torch.distributed, other than the one that `@record` puts around a script."""
    return _IN_TORCH_DISTRIBUTED.search(stack) is not None
