"""What tests of the examples share; without the source tree there are none."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "examples", ROOT / "examples" / "studies"]


@pytest.fixture(autouse=True)
def _examples(monkeypatch):
    """Let a test import the modules of the examples and studies, and forget them afterwards."""
    if not (ROOT / "docs").is_dir():
        pytest.skip("needs the source tree")
    pytest.importorskip("pandas")
    before = set(sys.modules)
    for folder in FOLDERS:
        monkeypatch.syspath_prepend(folder)
    yield
    for name in set(sys.modules) - before:
        if any((folder / f"{name}.py").is_file() for folder in FOLDERS):
            del sys.modules[name]


@pytest.fixture
def study(request):
    """The module of the study that the tests of a file are about."""
    return import_module(request.module.STUDY)
