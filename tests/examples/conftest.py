"""What tests of the examples share; without the source tree there are none."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _examples(monkeypatch):
    """Let a test import the modules of the examples, and forget them afterwards."""
    if not EXAMPLES.is_dir():
        pytest.skip("needs the source tree")
    pytest.importorskip("pandas")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    for name in set(sys.modules) - before:
        if (EXAMPLES / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.fixture
def study(request):
    """The module of the study that the tests of a file are about."""
    return import_module(request.module.STUDY)
