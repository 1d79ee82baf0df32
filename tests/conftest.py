"""What all tests share."""

import pytest


@pytest.fixture(autouse=True)
def _no_suggestion(monkeypatch):
    """Keep searches from saying, once in a process, what they cannot do without views."""
    monkeypatch.setattr("pa_select.model_selection.fit_arguments._suggested", True)
