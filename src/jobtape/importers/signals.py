"""Names of signals, as torch's lines give them: ``SIGTERM``, ``Signals.SIGTERM`` or ``15``."""

from __future__ import annotations

import signal


def signal_name(text: str | int) -> str | None:
    """The signal's name; None when it is none.

    >>> signal_name("Signals.SIGTERM"), signal_name(9)
    ('SIGTERM', 'SIGKILL')
    """
    name = str(text).strip().removeprefix("Signals.")
    if name.isascii() and name.isdigit():
        try:
            return signal.Signals(int(name)).name
        except (ValueError, OverflowError):
            return f"SIG{name}"[:12]
    return name if name.startswith("SIG") and name.isalnum() else None
