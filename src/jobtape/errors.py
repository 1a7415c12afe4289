"""Every error jobtape raises on purpose.

::

    JobtapeError
    ├── EventError (ValueError)          an event cannot be written or read as JSON
    ├── UnknownDestination (KeyError)    no destination of that name is known
    ├── TapeError                        a tape, run or directory cannot be used
    │   ├── RunNotFound (LookupError)
    │   └── AmbiguousRun (LookupError)
    └── ImportFailed (ValueError)        foreign records cannot be read

An error says what happened and what to do about it; what it is about stands in its fields, not only in its text.
"""

from __future__ import annotations


class JobtapeError(Exception):
    """Base of all errors raised on purpose by jobtape."""


class EventError(JobtapeError, ValueError):
    """An event cannot be serialised or deserialised.

    Attributes:
        field: the field or metadata key at fault, as text (``"metadata['loss']"``, ``"source"``).
        value: what was found there.
    """

    def __init__(self, message: str, *, field: str = "", value: object = None) -> None:
        super().__init__(message)
        self.field = field
        self.value = value


class UnknownDestination(JobtapeError, KeyError):
    """No destination of that name is known; a ``KeyError``, as torch raises.

    Attributes:
        destination: the name that was asked for.
        known: the names that would have worked.
    """

    def __init__(self, destination: str, known: tuple[str, ...]) -> None:
        super().__init__(destination)
        self.destination = destination
        self.known = known

    def __str__(self) -> str:
        return f"unknown destination {self.destination!r}; known are: {', '.join(self.known)}"


class TapeError(JobtapeError):
    """A tape, a run or the directory of tapes cannot be used.

    Attributes:
        path: the file or directory it is about, as text; empty when there is none.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class RunNotFound(TapeError, LookupError):
    """No run of that id, prefix or name is on the shelf."""


class AmbiguousRun(TapeError, LookupError):
    """A prefix fits several runs.

    Attributes:
        matches: the names of the runs it fits.
    """

    def __init__(self, message: str, *, path: str = "", matches: tuple[str, ...] = ()) -> None:
        super().__init__(message, path=path)
        self.matches = matches


class ImportFailed(JobtapeError, ValueError):
    """Foreign records cannot be read.

    Attributes:
        path: the file at fault.
        line: its line, counted from 1; 0 when no line is to blame.
    """

    def __init__(self, message: str, *, path: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
