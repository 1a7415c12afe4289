"""Import cases: jobs as their records reach a user, and what `jobtape why` must answer about each.

The cases lie beside the checkout, or where JOBTAPE_CASES says, with the program that compares (check.py).
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(os.environ.get("JOBTAPE_CASES") or Path(__file__).resolve().parents[2] / "shared" / "cases")

NAMES = ("v02", "v03", "v08", "v09", "v10", "v11", "v12", "v13")


def jobtape_command():
    """How to start the jobtape that belongs to this interpreter."""
    script = Path(sys.executable).with_name("jobtape")
    if script.exists():
        return shlex.quote(str(script))
    return shlex.join([sys.executable, "-c", "from jobtape.cli import main; main()"])


@pytest.mark.skipif(
    not (CASES / "check.py").is_file(), reason=f"no import cases at {CASES} (JOBTAPE_CASES names others)"
)
@pytest.mark.parametrize("name", NAMES)
def test_case_is_answered_as_expected(name, tmp_path):
    """Importing the case's files and asking why gives the expected answer."""
    command = [sys.executable, str(CASES / "check.py"), "--jobtape", jobtape_command(), "--cases", str(CASES)]
    done = subprocess.run(
        [*command, "--only", name, "--verbose"], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert (0, "") == (done.returncode, done.stderr), done.stdout
