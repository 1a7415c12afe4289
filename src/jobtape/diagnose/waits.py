"""What the words of a rank say of its waiting: for how long it had waited, and which ranks did not come.

The texts are those of torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp, TraceUtils.h,
TCPStore.cpp, FileStore.cpp) and of gloo/transport/tcp/unbound_buffer.cc. The rank in ``Received a dump signal due to a
collective timeout from rank 8`` is none of them: it is the one that noticed first, and a victim itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobtape.diagnose.failure_text import FailureText

FAR_ENOUGH = 65_536
"""Characters that are looked at: a list of absent ranks may be long."""

LONGEST_S = 30 * 24 * 3600.0
"""Nobody waits longer: a number beyond it is damage."""

_WAITED = re.compile(
    r"ran for (?P<a>\d{1,12}) milliseconds before timing out"
    r"|Timed out waiting (?P<b>\d{1,12}) ?ms for "
    r"|failed to pass monitoredBarrier in (?P<c>\d{1,12}) ms"
    r"|timed out in monitoredBarrier after (?P<d>\d{1,12}) ms"
    r"|wait timeout after (?P<e>\d{1,12}) ?ms"
    r"|Timeout waiting for key: \S+ after (?P<f>\d{1,12}) ms"
    r"|Timed out after (?P<seconds>\d{1,9}) seconds waiting for clients"
)
_LIST = r"(\d{1,9}(?:, \d{1,9})*)"
_ABSENT = (
    re.compile(rf"\bRanks? {_LIST} failed to pass monitoredBarrier"),
    re.compile(rf"ranks \[{_LIST}\] are the lagging ranks that caused this timeout"),
    re.compile(rf"\[{_LIST}\] finished collective #\d+, but didn't join collective #\d+ \(count from 1\)"),
    re.compile(rf"ranks that caused the desync are:\s+- \[{_LIST}\] joined but didn't finish collective #\d+"),
)
"""Lists of the ranks that did not come, the plainest first."""


class Wait(NamedTuple):
    """What a rank says of its waiting.

    Attributes:
        waited_s: for how long it had waited when it gave up; None when it does not say.
        absent: the ranks that it says did not come.
    """

    waited_s: float | None
    absent: tuple[int, ...]


def wait_of(error: FailureText | None) -> Wait:
    """How long it had waited, and for whom, as far as its words say."""
    if error is None:
        return Wait(None, ())
    text = error.headline[:FAR_ENOUGH]
    return Wait(_waited_s(text), _absent(text))


def _waited_s(text: str) -> float | None:
    found = _WAITED.search(text)
    if found is None:
        return None
    seconds = found["seconds"]
    waited_s = float(seconds) if seconds is not None else float(found[str(found.lastgroup)]) / 1000
    return waited_s if 0 < waited_s <= LONGEST_S else None


def _absent(text: str) -> tuple[int, ...]:
    for pattern in _ABSENT:
        found = pattern.search(text)
        if found is not None:
            return tuple(sorted({int(number) for number in found[1].split(", ")}))
    return ()
