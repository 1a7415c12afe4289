"""Make a virtual environment, or bring the one there up to date, doing only what is needed.

    environment.py DIR [--wheel FILE] [-r REQUIREMENTS]...

It is made with the Python that runs this file. Two stamps inside it say what it was made from: the requirements, the
constraints and pyproject.toml; and the wheel. When only the wheel changed, only the wheel is installed again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"


def fingerprint(files: list[Path], *words: str) -> str:
    """A hash over some words and the contents of some files."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in files:
        digest.update(b"\0" + path.read_bytes())
    return digest.hexdigest()


def holds(stamp: Path, wanted: str) -> bool:
    """Whether the stamp is there and says what is wanted."""
    return stamp.exists() and stamp.read_text() == wanted


def pip(python: Path, *arguments: str) -> None:
    """Run pip's install in the environment, held to the constraints; it says only what goes wrong, on stderr."""
    environ = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME", "PIP_USER"}}
    environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    command = [str(python), "-m", "pip", "install", "-qq", "--constraint", str(CONSTRAINTS), *arguments]
    subprocess.run(command, check=True, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def prepare(folder: Path, wheel: Path | None, requirements: list[Path]) -> None:
    """Bring the environment in `folder` to hold the wheel and the requirements."""
    python = folder / "bin" / "python"
    made, installed = folder / "made-from.sha256", folder / "wheel.sha256"
    base = fingerprint([], sys.version, sys.base_prefix, str(folder.resolve()))
    needs = fingerprint([CONSTRAINTS, ROOT / "pyproject.toml", *requirements], base, wheel.name if wheel else "")
    package = fingerprint([wheel] if wheel else [])
    if holds(made, needs) and holds(installed, package) and python.exists():
        return

    if not holds(made, needs) or not python.exists():
        made.unlink(missing_ok=True)
        print(f"installing into {folder} with Python {sys.version.split()[0]}", file=sys.stderr)
        if not holds(folder / "base.sha256", base):
            venv.create(folder, clear=True, with_pip=True, symlinks=True)
            (folder / "base.sha256").write_text(base)
        wanted = [str(wheel)] if wheel else []
        pip(python, *wanted, *(f"--requirement={path}" for path in requirements))
    installed.unlink(missing_ok=True)
    if wheel:
        pip(python, "--no-deps", "--force-reinstall", str(wheel))
    installed.write_text(package)
    made.write_text(needs)


def main() -> int:
    """Read the command line and prepare what it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("-r", "--requirement", type=Path, action="append", default=[])
    options = parser.parse_args()
    try:
        prepare(options.folder, options.wheel, options.requirement)
    except subprocess.CalledProcessError as error:
        print(f"environment.py: pip failed (exit code {error.returncode}); see above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
