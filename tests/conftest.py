"""What all tests share."""

import pytest
from hypothesis import settings

# The same examples in every run, however long one takes.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _no_suggestion(monkeypatch):
    """Keep searches from saying, once in a process, what they cannot do without views."""
    monkeypatch.setattr("pa_select.model_selection.fit_arguments._suggested", True)
