"""The lab's company: it begins to play when the first test asks, what the tests of this session need and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .company import Company


@pytest.fixture(scope="session")
def company(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """All scenarios that tests of this session are marked with, being played."""
    company = Company(tmp_path_factory.mktemp("lab"))
    company.begin(
        (mark.args[0], mark.kwargs.get("armed", True))
        for item in request.session.items
        for mark in item.iter_markers("scenario")
    )
    yield company
    company.close()
