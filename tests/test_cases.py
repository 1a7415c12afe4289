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

NAMES = [f"v{number:02}" for number in range(1, 15)]


def jobtape_command():
    """How to start the jobtape that belongs to this interpreter."""
    script = Path(sys.executable).with_name("jobtape")
    return shlex.join([str(script)] if script.exists() else [sys.executable, "-m", "jobtape"])


@pytest.mark.skipif(
    not (CASES / "check.py").is_file(), reason=f"no import cases at {CASES} (JOBTAPE_CASES names others)"
)
@pytest.mark.parametrize("name", NAMES)
def test_case_is_answered_as_expected(name):
    """Importing the case's files and asking why gives the expected answer."""
    command = [sys.executable, str(CASES / "check.py"), "--jobtape", jobtape_command(), "--cases", str(CASES)]
    command += ["--only", name, "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
