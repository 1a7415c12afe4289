"""What stands around every line of a file: a collector's JSON object, time and node label.

Whether a file's lines are labelled is a property of the file, not of a line: a line alone that begins with ``node-a: ``
may be anybody's text. So a sample from the file's start and end is looked at first. A form is the file's when most
lines have it and torch's own lines stand behind it; then it is taken off wherever it stands, and each label's lines are
read apart, as a file of their own would be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jobtape.importers.clock import Stamp
from jobtape.importers.envelopes import open_envelope
from jobtape.importers.foreign import LONGEST_LINE, Lines, without_colours
from jobtape.importers.labels import FORMS, Form
from jobtape.importers.prefixes import find_stamp

SAMPLE_BYTES = 1 << 20
"""Looked at from the start of a file, and as much from its end."""
MOST_LABELS = 1 << 15
"""Labels that are told apart; further ones are read together."""

_MOST, _MANY, _HALF = 0.9, 0.8, 0.5
_CLOCK = rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIMES = tuple(
    re.compile(pattern)
    for pattern in (
        rb"(?P<time>\[?\d{4}-\d\d-\d\d[T ]"
        + _CLOCK
        + rb"(?: ?Z|[+-]\d\d:?\d\d)?\]?)(?: (?P<stream>stdout|stderr) (?P<flag>[FP]))?(?:[ \t]|$)",
        rb"(?:<\d{1,3}>)?(?P<time>" + _MONTH + rb" [ \d]\d " + _CLOCK + rb")(?: |$)",
        rb"(?P<time>\d{10}(?:\.\d{1,9})?)(?: |$)",
        rb"(?P<time>\[?" + _CLOCK + rb"\]?)(?: |$)",
    )
)
_OF_TORCH = re.compile(
    rb"[A-Z](?:\d{4}){1,2} " + _CLOCK + rb" +\d+ [^\s\]]*torch/|\[\d{4}-\d\d-\d\d " + _CLOCK + rb"\] torch"
    rb'|(?:DEBUG|INFO|WARNING|ERROR):torch|\{"name": ?"|={40,}$|\[INFO\] \d{4}-'
)
_HOST = re.compile(
    rb'"hostname": ?"(?P<a>[^"\\]{1,255})"|^  host      : (?P<b>\S{1,255})$|The node \'(?P<c>[^\']{1,255})_\d+_\d+\' '
)


class Line(NamedTuple):
    """A line without what a collector has put around it."""

    number: int
    raw: bytes | None
    label: str = ""
    stamp: Stamp | None = None


class Collector:
    """Takes from each line of one file what stands around it."""

    def __init__(self, *, wrapped: bool = False, ended: bool = False) -> None:
        self.wrapped = wrapped
        self._ended = ended
        """Whole lines end with a line feed inside their object; a piece of one does not."""
        self.times: re.Pattern[bytes] | None = None
        self.form: Form | None = None
        self.inner_times: re.Pattern[bytes] | None = None
        self._heading = ""
        self._labels: set[str] = set()
        self._pieces: dict[tuple[str, str], Line] = {}

    @property
    def plain(self) -> bool:
        """Nothing stands around the lines."""
        return not self.wrapped and self.times is None and self.form is None

    def take(self, number: int, raw: bytes | None) -> Iterator[Line]:
        """The lines that are complete with this one."""
        if self.plain or raw is None:
            yield Line(number, raw)
        elif not self.wrapped:
            yield from self._open(number, raw)
        elif (envelope := open_envelope(raw.decode("utf-8", "replace"))) is None:
            yield Line(number, raw)
        else:
            text = without_colours(envelope.text.encode("utf-8", "replace"))
            node = self._known(envelope.node)
            if self._ended and not text.endswith(b"\n"):
                self._keep((node, envelope.stream), Line(number, text, node, envelope.stamp))
                return
            whole = self._whole((node, envelope.stream), Line(number, text.removesuffix(b"\n"), node, envelope.stamp))
            for part in (whole.raw or b"").split(b"\n"):
                for line in self._open(whole.number, part.removesuffix(b"\r"), whole.stamp):
                    yield line._replace(label=line.label or node)

    def rest(self) -> Iterator[Line]:
        """Pieces of lines that were never completed."""
        yield from self._pieces.values()
        self._pieces.clear()

    def host(self, label: str) -> str:
        """What to call the node of a label where its records do not say."""
        return self.form.host(label) if self.form is not None and label else label

    def _open(self, number: int, raw: bytes, stamp: Stamp | None = None) -> Iterator[Line]:
        if self.times is not None and (match := self.times.match(raw)):
            stamp = _read(match) or stamp
            if match.groupdict().get("flag"):
                key = self._heading, match["stream"].decode()
                line = Line(number, raw[match.end() :], "", stamp)
                if match["flag"] == b"P":
                    self._keep(key, line)
                    return
                line = self._whole(key, line)
                number, stamp, raw = line.number, line.stamp, line.raw or b""
            else:
                raw = raw[match.end() :]
        label = self._heading
        if self.form is not None and (match := self.form.pattern.match(raw)):
            label = self._known(match["label"].decode("utf-8", "replace"))
            if self.form.heading:
                self._heading = label
                return
            raw = raw[match.end() :]
            if self.inner_times is not None and (match := self.inner_times.match(raw)):
                stamp, raw = _read(match) or stamp, raw[match.end() :]
        yield Line(number, raw, label, stamp)

    def _known(self, label: str) -> str:
        if label not in self._labels:
            if len(self._labels) >= MOST_LABELS:
                return ""
            self._labels.add(label)
        return label

    def _keep(self, key: tuple[str, str], line: Line) -> None:
        before = self._pieces.get(key)
        if before is not None and len(before.raw or b"") < LONGEST_LINE:
            line = before._replace(raw=(before.raw or b"") + (line.raw or b""))
        self._pieces[key] = line

    def _whole(self, key: tuple[str, str], line: Line) -> Line:
        before = self._pieces.pop(key, None)
        return line if before is None else before._replace(raw=(before.raw or b"") + (line.raw or b""))


def _read(match: re.Match[bytes]) -> Stamp | None:
    return find_stamp(match["time"].decode("ascii", "replace"))


def find_collector(path: Path) -> Collector:
    """What stands around the lines of a file, from a look at its start and its end."""
    raws = [raw for raw in _sample(path) if raw.strip()]
    envelopes = [e for raw in raws if (e := open_envelope(raw.decode("utf-8", "replace"))) is not None]
    if envelopes and len(envelopes) >= _MOST * len(raws):
        ended = sum(e.text.endswith("\n") for e in envelopes) > len(envelopes) / 2
        collector = Collector(wrapped=True, ended=ended)
        raws = [e.text.rstrip("\n").encode("utf-8", "replace") for e in envelopes]
    else:
        collector = Collector()
    texts = [without_colours(raw[:512]) for raw in raws]
    collector.times, texts = _times(texts)
    collector.form, texts = _form(texts)
    if collector.form is not None and collector.times is None and not collector.form.heading:
        collector.inner_times, _ = _times(texts)
    return collector


def find_hosts(path: Path, collector: Collector) -> dict[str, str]:
    """The host that the records of each label name; of several the one they name most."""
    named: dict[str, Counter[str]] = {}
    for number, raw in Lines(path):
        for line in collector.take(number, raw):
            text = line.raw or b""
            ours = text[:1] == b"{" or text[:6] == b"  host" or _OF_TORCH.match(text)
            if ours and (match := _HOST.search(text[:65536])):
                host = next(part for part in match.groups() if part).decode("utf-8", "replace")
                named.setdefault(line.label, Counter())[host] += 1
    for _ in collector.rest():
        pass
    return {label: hosts.most_common(1)[0][0] for label, hosts in named.items()}


def _sample(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        start = file.read(SAMPLE_BYTES)
        size = file.seek(0, 2)
        if size <= 2 * SAMPLE_BYTES:
            file.seek(len(start))
            end = file.read(SAMPLE_BYTES)
            return [line.removesuffix(b"\r") for line in (start + end).split(b"\n")]
        file.seek(size - SAMPLE_BYTES)
        lines = start.split(b"\n")[:-1] + file.read(SAMPLE_BYTES).split(b"\n")[1:]
        return [line.removesuffix(b"\r") for line in lines]


def _times(texts: list[bytes]) -> tuple[re.Pattern[bytes] | None, list[bytes]]:
    """The form of time before nearly every line, and the lines without it."""
    for pattern in _TIMES:
        ends = [match.end() if (match := pattern.match(text)) else None for text in texts]
        found = sum(end is not None for end in ends)
        if found and found >= _MOST * len(texts):
            return pattern, [text[end:] for text, end in zip(texts, ends, strict=True) if end is not None]
    return None, texts


def _form(texts: list[bytes]) -> tuple[Form | None, list[bytes]]:
    """The form of label that is the file's, and the lines without it."""
    bare = sum(_OF_TORCH.match(text) is not None for text in texts)
    best: tuple[float, Form, list[bytes]] | None = None
    for form in FORMS:
        rests = [text[match.end() :] for text in texts if (match := form.pattern.match(text))]
        share = len(rests) / len(texts) if texts else 0.0
        if form.heading:
            if texts and form.pattern.match(texts[0]) and best is None:
                return form, texts
        elif not _is_of_file(form, share, rests, bare):
            continue
        elif best is None or share > best[0] + 0.01:
            best = share, form, rests
    return (None, texts) if best is None else (best[1], best[2])


def _is_of_file(form: Form, share: float, rests: list[bytes], bare: int) -> bool:
    behind = sum(_OF_TORCH.match(rest) is not None for rest in rests)
    if not rests or bare > behind / 10:
        return False
    if behind:
        return share >= (_MANY if form.loose else _HALF)
    return not form.loose and share >= _MOST
