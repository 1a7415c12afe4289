"""Build jobtape's wheel into build/wheel, unless the one there was made from these very sources; print its path.

    wheel.py

It runs in an environment that has hatchling (requirements/build.txt), so a build asks no registry for anything.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheel"


def sources() -> list[Path]:
    """Every file the wheel is made from, sorted."""
    package = [p for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return sorted([*package, ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"])


def fingerprint() -> str:
    """A hash over the names and contents of the sources."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes() if path.exists() else b"absent")
        digest.update(b"\0")
    return digest.hexdigest()


def main() -> int:
    """Build when needed and print where the wheel is."""
    stamp = OUT / "sources.sha256"
    wheels = sorted(OUT.glob("*.whl"))
    wanted = fingerprint()
    if len(wheels) != 1 or not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(OUT)]
        subprocess.run(command, check=True, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wheels = sorted(OUT.glob("*.whl"))
        stamp.write_text(wanted)
    print(wheels[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
