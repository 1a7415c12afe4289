"""Foreign records put onto a tape, one file a source."""

from jobtape.importers.onto_tape import ImportReport
from jobtape.importers.torchelastic import import_files

__all__ = ["ImportReport", "import_files"]
