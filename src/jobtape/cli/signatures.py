"""The user's own rows of what victims say: the file ``signatures.toml``, read for a diagnosis."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobtape.diagnose.signatures import Added

VARIABLE = "JOBTAPE_SIGNATURES"
FILE = "signatures.toml"
MOST_BYTES = 1024 * 1024


def read_added(directory: Path) -> Added:
    """The rows of the file that JOBTAPE_SIGNATURES names, else of ``signatures.toml`` in the directory of tapes.

    What cannot be read or used is told in the answer's warnings; a file that nobody has named need not be there.
    """
    from jobtape.diagnose.signatures import NOTHING_ADDED, Added

    named = os.environ.get(VARIABLE, "")
    path = Path(named) if named else directory / FILE
    try:
        text = _beginning(path)
    except FileNotFoundError:
        return Added((), (f"{VARIABLE}: there is no file {named}",)) if named else NOTHING_ADDED
    except (OSError, ValueError) as error:
        return Added((), (f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",))
    if len(text) > MOST_BYTES:
        return Added((), (f"{path} is larger than {MOST_BYTES // 1024} KiB; it is not used",))
    return _rows(text, path)


def _beginning(path: Path) -> bytes:
    """A little more of a file than may be in it; a pipe without a writer must not hold the answer up."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MOST_BYTES + 1) or b""


def _rows(text: bytes, path: Path) -> Added:
    from jobtape.diagnose.added_signatures import added_signatures
    from jobtape.diagnose.signatures import Added

    try:
        return added_signatures(_decoded(text.decode("utf-8")), path.name)
    except (ValueError, RecursionError) as error:
        return Added((), (f"{path} is no TOML that can be read: {' '.join(str(error).split())[:200]}",))


def _decoded(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    decoded: dict[str, Any] = tomllib.loads(text)
    return decoded
