"""What all tests share."""

import pytest
from hypothesis import settings

# The same examples in every run, however long one takes.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def _no_suggestion():
    """Keep searches from saying, once in a process, what they cannot do without views."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pa_select.utils.messages._SAID", {"other data than X and y"})
        yield
