"""The command ``jobtape``, one file a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    Args:
        argv: the words after ``jobtape``; those of this process when None.
    """
    try:
        from jobtape.cli.application import run_application

        code = run_application(argv)
    except KeyboardInterrupt:
        code = 130
    loading = sys.modules.get("jobtape.cli.loading")
    if loading is not None and loading.kept:
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)
