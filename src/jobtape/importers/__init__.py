"""Foreign records put onto a tape, one file a source."""

from jobtape.importers.batch import import_files
from jobtape.importers.onto_tape import ImportReport

__all__ = ["ImportReport", "import_files"]
