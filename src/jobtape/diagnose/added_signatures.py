"""Rows that a user adds to the table of what victims say, from the values of a TOML file.

A row has plain words and no regular expression: the file may lie beside somebody else's tapes, and a regular
expression can be made to run for ever.
"""

from __future__ import annotations

from jobtape.diagnose.signatures import ANYTHING, GONE, TIMEOUT, Added, Signature

TABLE = "signature"
"""The file's one key: ``[[signature]]``."""

MEANINGS = (GONE, TIMEOUT)
MOST_ROWS = 500
MOST_CHARACTERS = 500
LEAST_CHARACTERS = 5
"""Shorter words are in errors of every kind."""

_KEYS = frozenset({"text", "says", "library", "source"})


def added_signatures(data: object, file: str) -> Added:
    """The rows of a decoded file, and what is wrong with the others.

    Args:
        data: what the file holds, decoded.
        file: its name, for the sentences about what is wrong, and as the source of rows that name none.
    """
    if not isinstance(data, dict):
        return Added((), (f"{file} is no table of signatures; it is not used",))
    mistakes = [f"{file}: {_shown(key)} is no key of it; it has [[{TABLE}]] alone" for key in data if key != TABLE]
    listed = data.get(TABLE, [])
    if not isinstance(listed, list):
        return Added((), (*mistakes[:1], f"{file}: write [[{TABLE}]], in double brackets, before each row"))
    rows = []
    for number, value in enumerate(listed[:MOST_ROWS], 1):
        wrong = _wrong(value)
        if wrong is None:
            rows.append(_row(value, file))
        else:
            mistakes.append(f"{file}: row {number} is left out: {wrong}")
    if len(listed) > MOST_ROWS:
        mistakes.append(f"{file} has {len(listed)} rows; the first {MOST_ROWS} are used")
    return Added(tuple(rows), tuple(mistakes))


def _row(value: dict[str, str], file: str) -> Signature:
    return Signature(value["text"], value.get("library", "yours"), value["says"], value.get("source", file))


def _wrong(value: object) -> str | None:
    """What is wrong with a row; None when nothing is."""
    if not isinstance(value, dict):
        return "it is no table"
    unknown = sorted(_shown(key) for key in value if key not in _KEYS)
    if unknown:
        return f"{unknown[0]} is no key of a row; those are text, says, library and source"
    if any(not isinstance(each, str) for each in value.values()):
        return "its values must be texts in quotes"
    text = value.get("text", "")
    if len(text.replace(ANYTHING, "").strip()) < LEAST_CHARACTERS:
        return f"its text needs {LEAST_CHARACTERS} characters or more, without {ANYTHING}"
    if len(text) > MOST_CHARACTERS or "\n" in text:
        return f"its text must be one line of at most {MOST_CHARACTERS} characters"
    if value.get("says") not in MEANINGS:
        return f'says must be "{GONE}" or "{TIMEOUT}"'
    return None


def _shown(key: object) -> str:
    return repr(key)[:40]
