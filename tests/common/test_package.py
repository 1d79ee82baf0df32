"""The package as a whole: names, imports, documentation of public names."""

import dataclasses
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pa_select
from pa_select import pairing, shifts
from pa_select.pairing.two_samples import _Pairing

ROOT = Path(pa_select.__file__).parents[1]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_needs_neither_torch_nor_skorch():
    # That scores need no skorch is shown by the command line's imports.
    code = (
        "import sys, pa_select\n"
        "assert not {'torch', 'skorch', 'sklearn'} & set(sys.modules)\n"
        "from pa_select import pa_scorer, PAScorer, PASearchCV, class_scores\n"
        "assert not {'torch', 'skorch'} & set(sys.modules)\n"
    )
    run(code)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "conftest.py").exists(), reason="not in the source tree")
def test_doctests_of_a_file_that_bears_the_name_of_its_function():
    """As the page for maintainers says; pytest by itself would call the module."""
    # In a process of its own, as the first that is imported.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    path = str(ROOT / "pa_select/shifts/robustness_curve.py")
    done = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_public_names():
    assert len(ROOMS) == 9
    assert "PASearchCV" in pa_select.__all__
    assert sorted(pa_select.__all__) == pa_select.__all__
    assert {*pa_select.__all__, "__version__"} <= set(dir(pa_select))
    with pytest.raises(AttributeError, match="module 'pa_select' has no attribute 'nothing'"):
        getattr(pa_select, "nothing")  # noqa: B009


@pytest.mark.parametrize("name", pa_select.__all__)
def test_top_level_names_are_those_of_their_rooms(name):
    room = pa_select._HOMES[name].split(".")[1]
    home = import_module(f"pa_select.{room}")
    assert name in home.__all__
    assert getattr(home, name) is getattr(pa_select, name)


ROOMS = sorted(
    path.parent.name
    for path in Path(pa_select.__file__).parent.glob("*/__init__.py")
    if hasattr(import_module(f"pa_select.{path.parent.name}"), "__all__")
)


def is_result(value):
    """Whether this is no function or estimator: it is shown by what makes it."""
    has_fields = dataclasses.is_dataclass(value) or hasattr(value, "_fields")
    of_errors = inspect.isclass(value) and issubclass(value, Exception)
    return of_errors or (has_fields and "Parameters\n" not in value.__doc__)


@pytest.mark.parametrize(
    ("room", "name"),
    [(r, name) for r in ROOMS for name in import_module(f"pa_select.{r}").__all__],
)
def test_every_public_name_is_documented(room, name):
    value = getattr(import_module(f"pa_select.{room}"), name)
    document = value.__doc__
    assert document
    if is_result(value):
        assert "Attributes\n" in document
    elif callable(value):
        for section in ("Parameters", "Examples"):
            if section == "Parameters" and not inspect.signature(value).parameters:
                continue
            assert f"{section}\n" in document, section
        assert ">>> " in document


@pytest.mark.parametrize(
    ("room", "kind", "page"),
    [(shifts, shifts.Shift, "assessment"), (pairing, _Pairing, "environments")],
)
def test_every_shift_and_every_pairing_is_in_the_table_of_its_page(room, kind, page):
    text = (ROOT / "docs" / f"{page}.rst").read_text()
    for name in room.__all__:
        value = getattr(room, name)
        if inspect.isclass(value) and issubclass(value, kind) and value is not kind:
            assert re.search(rf"^   \* - .*`{name}`", text, re.MULTILINE), name


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
def test_every_public_name_is_in_the_api_reference():
    pages = (ROOT / "docs" / "api.rst").read_text()
    for room in ROOMS:
        for name in import_module(f"pa_select.{room}").__all__:
            assert re.search(rf"\b{name}\b", pages), f"{room}.{name}"
