"""Lines behind progress bars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.importers.progress import behind_bars
from tests.importers.lines import FAILED_LINE, event, glog, imported

LINE = glog(FAILED_LINE, level="E")
BAR = " 37%|###7      | 37/100 [00:10<00:17,  3.60it/s]"
BARS = [
    BAR,
    "\r" + BAR,
    "\r  0%|          | 0/100 [00:00<?, ?it/s]\r" + BAR,
    f"Epoch 3: {BAR[1:-1]}, loss=0.31]",
    " 37%|███▋      | 3.7k/10.0k [01:10<02:17, 1.21s/it]",
    "Downloading: 100%|##########| 1.2G/1.2G [00:10<00:00, 110MB/s]",
    "\r37it [00:10,  3.60it/s]",
    f"{BAR}{BAR}\r{BAR}",
    f"[default0]:{BAR}",
    f"[default0]:{BAR}[default1]: {BAR}",
]


@pytest.mark.parametrize("bars", BARS)
def test_agents_line_behind_bars(bars):
    """torch's line is read from its prefix on, when bars are all that stands before."""
    assert LINE == behind_bars(bars + LINE)


@pytest.mark.parametrize("line", ["Traceback (most recent call last):", "[default1]:ValueError: bad"])
def test_workers_line_behind_bars(line):
    """A traceback, or another worker's label, may begin there too."""
    assert line == behind_bars(BAR + line)


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        "text " + LINE,
        "text\r" + LINE,
        "ValueError: bad row " + LINE,
        BAR + "text " + LINE,
        BAR + "\rtext\r" + LINE,
        BAR + "\x0b" + "text" + LINE,
        BAR + event(),
        BAR + "E0217 09:30:00.019000 1780 train.py:1] " + FAILED_LINE,
        BAR + "ERROR:torch.distributed.elastic.multiprocessing.api:" + FAILED_LINE,
        f"[rank0]: RuntimeError: {BAR}x{LINE}",
    ],
)
def test_what_stands_behind_other_text_is_text(text):
    """Quoted, with a carriage return before it or not, it stays what a worker wrote."""
    assert behind_bars(text) is None


def test_import_reads_behind_bars(tmp_path):
    """The failure behind a bar is on the tape, the one behind a text is not."""
    glued = BARS[2] + LINE
    (record,) = imported(tmp_path, glued, "text\r" + LINE.replace("1785", "9")).logs
    assert 1785 == record.metadata["pid"]


@given(
    st.lists(st.sampled_from([BAR, "\r", LINE, "[rank0]:", "9%|", "| 1/2 [", "it/s]", "x"]), max_size=12).map("".join)
)
def test_any_mixture_is_read(text):
    """Nothing raises, and what is found is the end of the text."""
    found = behind_bars(text)
    assert found is None or text.endswith(found)
