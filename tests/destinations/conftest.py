"""Fixtures shared by the tests of events and of where they go."""

from tests.events.lab import fresh, python  # noqa: F401
