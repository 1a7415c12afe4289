"""Check that no file grows past what can be read at a sitting.

    lengths.py [FOLDER]...      # src, tests, tools, bench and examples when none is named

A Python file of more than 400 lines is named, one of more than 600 fails: split it by idea.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "tools", "bench", "examples")
SOFT, HARD = 400, 600


def main() -> int:
    """Print each file past a cap; 1 when one is past the hard cap."""
    folders = [Path(name) for name in sys.argv[1:]] or [ROOT / name for name in FOLDERS]
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    worst = 0
    for path in files:
        lines = path.read_bytes().count(b"\n")
        worst = max(worst, lines)
        if lines > SOFT:
            verdict = f"more than {HARD}: split it by idea" if lines > HARD else f"more than {SOFT}, the soft cap"
            print(f"{path}: {lines} lines, {verdict}")
    print(f"lengths: {len(files)} files, the longest has {worst} lines")
    return 1 if worst > HARD else 0


if __name__ == "__main__":
    sys.exit(main())
