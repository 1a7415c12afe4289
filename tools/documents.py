"""Check the Markdown documents: links lead somewhere, and the changelog knows the version.

    documents.py

A relative link must name a file that is there, and its `#fragment` a heading of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]^]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def documents() -> list[Path]:
    """The project's Markdown files: those at the top and under docs, examples, bench and tests."""
    folders = [ROOT / name for name in ("docs", "examples", "bench", "tests")]
    return sorted([*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))])


def anchors(text: str) -> set[str]:
    """The fragments a document can be entered at, made from its headings as code hosts make them."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def links(text: str) -> Iterator[tuple[int, str]]:
    """Each link target with its line, outside code."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    prose = CODE.sub(blank, FENCE.sub(blank, text))
    for pattern in (LINK, REFERENCE):
        for match in pattern.finditer(prose):
            yield prose.count("\n", 0, match.start(1)) + 1, match.group(1)


def broken_links(document: Path) -> Iterator[str]:
    """One line for each link of the document that leads nowhere."""
    text = document.read_text(encoding="utf-8")
    for line, target in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, fragment = unquote(target).partition("#")
        aim = (document.parent / name).resolve() if name else document
        if not aim.exists():
            yield f"{document.relative_to(ROOT)}:{line}: {target} is not there"
        elif not aim.is_relative_to(ROOT):
            yield f"{document.relative_to(ROOT)}:{line}: {target} lies outside the project"
        elif fragment and aim.suffix == ".md" and fragment not in anchors(aim.read_text(encoding="utf-8")):
            yield f"{document.relative_to(ROOT)}:{line}: {target}: no such heading"


def version() -> str:
    """The version the wheel will have."""
    text = (ROOT / "src" / "jobtape" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    return found.group(1) if found else ""


def main() -> int:
    """Print what is wrong; 1 when something is."""
    files = documents()
    wrong = [line for document in files for line in broken_links(document)]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[?{re.escape(version())}\]?(\s|$)", changelog, re.MULTILINE):
        wrong.append(f"CHANGELOG.md: no section for version {version()}")
    for line in wrong:
        print(line)
    print(f"documents: {len(files)} files, {len(wrong)} mistakes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
