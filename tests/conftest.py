"""What all tests share."""

import pytest


@pytest.fixture(autouse=True)
def _no_suggestion(monkeypatch):
    """Searches without views say once in a process what they cannot do; which test would hear it?"""
    monkeypatch.setattr("pa_select.search.arguments._suggested", True)
