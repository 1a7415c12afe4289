"""What the tests of the views share: a page as text."""

import io

import pytest

from jobtape.views.page import show


@pytest.fixture
def text(monkeypatch):
    """A function that gives a page as it comes to a pipe, or to a place that is `columns` wide."""
    monkeypatch.setenv("TZ", "UTC")

    def text_of(page, columns=None, **environ):
        stream = io.StringIO()
        show(page, stream, {**environ, **({"COLUMNS": str(columns)} if columns else {})})
        return stream.getvalue()

    return text_of
