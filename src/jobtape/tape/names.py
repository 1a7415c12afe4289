"""One path component for any text a user may have chosen: run ids and host names.

A run id is a user's text and is never used raw as a path. Harmless text stays as it is, so that people find their runs
with ``ls``; everything else is cleaned and gets ``~`` and a short hash of the original, which keeps different texts
apart. ``~`` never stands in harmless text, so a cleaned name cannot meet another run's own name.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_HARMLESS = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?", re.ASCII)
_CLEANED_CHARS = 80
_HASH_CHARS = 10
_RESERVED = frozenset(("latest",))
"""Names that mean something on the command line."""


def safe_name(text: str) -> str:
    """A name for a file or directory made of ``text``: at most 100 bytes of ASCII, the same for the same text.

    >>> safe_name("job-17")
    'job-17'
    >>> safe_name("../..")
    'x~0cfd1c96cb'
    """
    if _HARMLESS.fullmatch(text) and text not in _RESERVED:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "_", text[:4096]).strip("._-")[:_CLEANED_CHARS]
    return f"{cleaned or 'x'}~{digest}"


def shown(text: str | Path) -> str:
    """A path or a name inside a message: on one line and harmless to a terminal, whatever it is."""
    text = str(text)
    return text if text and text.isprintable() else ascii(text)
