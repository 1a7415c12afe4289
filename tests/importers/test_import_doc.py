"""The example in docs/import.md."""

import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).resolve().parents[2] / "docs" / "import.md"


def test_example_of_the_document_is_true(tmp_path):
    """The command prints of the document's log what the document says."""
    log, transcript = re.findall(r"```text\n(.*?)```", DOC.read_text(), re.DOTALL)[:2]
    (tmp_path / "node-a.log").write_text(log)
    command, _, expected = transcript.removeprefix("$ jobtape ").partition("\n")
    done = subprocess.run(
        [sys.executable, "-c", "from jobtape.cli import main; main()", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, expected, "") == (done.returncode, done.stdout, done.stderr)
