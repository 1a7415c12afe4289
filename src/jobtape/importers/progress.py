"""Lines that stand behind a progress bar: a bar ends without a line feed, and the next writer goes on there.

The rule is narrow, because a worker's text may quote a line of the agent's: what stands before torch's whole prefix
(level, date, time, process id, a path under ``torch/distributed/``), before a worker's label or the head of a traceback
must be bars as tqdm draws them, behind carriage returns or one another, and nothing else. Behind any other text a line
is text.
"""

from __future__ import annotations

import re

_BEHIND = re.compile(
    r"[IWEF](?:\d{4}){1,2} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,10} [^\s\]]{0,300}torch/distributed/[^\s\]]{1,200}:\d+\] ?"
    r"|\[(?:rank|[A-Za-z_][\w-]{0,63}?)\d{1,7}\]:|Traceback \(most recent call last\):"
)
_LABELS = re.compile(r"(?:\[(?:rank|[A-Za-z_][\w-]{0,63}?)\d{1,7}\]: ?){0,2}")
_RATE = r" ?\[[^\[\]|]{0,60}(?:/s|s/it|/it|<\?|<\d[\d:]*)[^\[\]]{0,300}\]"
_BAR = re.compile(
    rf"\s*(?:[^|\r]{{0,200}}?\d{{1,3}}%\|[^|\r]{{0,500}}\| ?[\d.?]+[kMGT]?/[\d.?]+[kMGT]?{_RATE}"
    rf"|[^|\r\[]{{0,200}}?\d+[a-z]{{0,10}}{_RATE})\s*"
)


def behind_bars(text: str) -> str | None:
    """The line that stands behind progress bars; None when there is none.

    >>> behind_bars("  4%|#  | 4/100 [00:01<00:26, 3.6it/s]E0217 09:30:22.264000 21 torch/distributed/x.py:1] failed")
    'E0217 09:30:22.264000 21 torch/distributed/x.py:1] failed'
    """
    if "[" not in text or ("it" not in text and "/s" not in text):
        return None
    label = _LABELS.match(text)
    position = start = label.end() if label is not None else 0
    while bar := _BAR.match(text, position):
        position = bar.end()
    return text[position:] if position > start and _BEHIND.match(text, position) else None
