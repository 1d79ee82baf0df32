"""docs/papers.rst has every table, figure and equation of the papers; what it names is there."""

import ast
import csv
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import pa_select
from pa_select import shifts

ROOT = Path(pa_select.__file__).parents[1]
DOCS = ROOT / "docs"
LABORATORY = ROOT / "examples" / "papers"
PAGE = (DOCS / "papers.rst").read_text()
API = (DOCS / "api.rst").read_text()


# The numbers in both documents: "1.1-8" stands for 1.1 to 1.8.
PAPERS = {
    "The thesis": {
        "Figure": "1.1-8 2.1-2 4.1-17 5.1-2 B.1-15",
        "Table": "4.1-10 5.1-12 B.1-4 C.1-6",
        "Theorem": "2.3.1 3.6.1-5 A.1.1 A.2.1-3 B.1.1",
        "Lemma": "2.3.1 3.6.1-2 A.1.1",
        "Example": "3.2.1 3.3.1",
        "Experiment": "1-4 5a 5b 5c 6-10",
    },
    "The paper": {
        "Figure": "1-13",
        "Table": "1-3",
        "Theorem": "1-3",
        "Lemma": "1",
        "Property": "1-2",
        "Equation": "1-52",
    },
}


def expanded(first, last):
    """Return the numbers from 1.1 to 1.8, or to 8."""
    *before, number = first.split(".")
    end = last.split(".")[-1]
    return {".".join([*before, str(k)]) for k in range(int(number), int(end) + 1)}


def expected(numbers):
    found = set()
    for part in numbers.split():
        first, _, last = part.partition("-")
        found |= expanded(first, last) if last else {first}
    return found


def rows():
    """Return the cells of the table's rows, of which the first ones are of either paper."""
    [table] = re.findall(r"^\.\. csv-table::\n(?:   :.*\n)+\n((?:   .*\n)+)", PAGE, re.M)
    lines = table.splitlines(keepends=True)
    found = csv.reader([line.removeprefix("   ") for line in lines])
    return [[" ".join(cell.split()) for cell in row] for row in found]


def numbers(title, kind):
    """Return the numbers of a kind in a paper's column: "Figures 4.7, 4.9 and B.1 to B.5"."""
    number = r"(?:[A-E]|\d+)(?:\.\d+)*[abc]?"
    lists = rf"\b{kind.removesuffix('y')}(?:s|y|ies)? ({number}(?:(?:, | and | to ){number})*)\b"
    column = list(PAPERS).index(title)
    found = set()
    for row in rows():
        for listed in re.findall(lists, row[column]):
            for part in re.split(", | and ", listed):
                first, _, last = part.partition(" to ")
                found |= expanded(first, last) if last else {first}
    return found


@pytest.mark.parametrize(
    ("title", "kind"), [(title, kind) for title, kinds in PAPERS.items() for kind in kinds]
)
def test_every_number_of_the_papers_has_a_row(title, kind):
    assert numbers(title, kind) == expected(PAPERS[title][kind])


def test_scripts_that_are_named_are_in_the_laboratory_and_its_readme():
    assert ":download:`Its README <../examples/papers/README.md>`" in PAGE
    readme = (LABORATORY / "README.md").read_text()
    named = set(re.findall(r"``(?:examples/papers/)?(\w+\.py)``", PAGE))
    assert len(named) > 12
    assert [name for name in named if not (LABORATORY / name).is_file()] == []
    assert [name for name in named if f"examples/papers/{name}" not in readme] == []


def resolved(name):
    """Return the object of this name, which may leave out the package's, or of the laboratory."""
    found = import_module("papers" if name.startswith("papers.") else "pa_select")
    for part in name.removeprefix(f"{found.__name__}.").split("."):
        if hasattr(found, part):
            found = getattr(found, part)
        else:
            found = import_module(f"{found.__name__}.{part}")
    return found


NAMES = sorted(
    {
        name.removeprefix("~")
        for role, name in re.findall(r"(:[\w:]+:)?(?<!`)`([^`]+)`(?![`_])", PAGE)
        if not role
    }
)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_the_reference_or_the_laboratory(name):
    if "interop.torchmetrics" in name:
        pytest.importorskip("torchmetrics")
    assert resolved(name) is not None
    if name.startswith("papers."):
        return
    owner, _, method = name.rpartition(".")
    documented = owner if owner and inspect.isclass(resolved(owner)) else name
    documented = re.escape(documented.removeprefix("pa_select."))
    assert re.search(rf"(?<![\w.])(pa_select\.)?{documented}(?![\w.])", API), name


CALLS = sorted(set(re.findall(r"``([\w.]+\([^`]*\))``", PAGE)))


@pytest.mark.parametrize("call", CALLS)
def test_calls_have_the_arguments_that_are_named(call):
    parsed = ast.parse(call, mode="eval").body
    name = ast.unparse(parsed.func)
    if name.startswith("result."):
        name, given = name.replace("result", "PosteriorAgreement"), [None]
    else:
        given = []
    called = getattr(shifts, name, None) or resolved(name)
    given += parsed.args
    inspect.signature(called).bind(*given, **{word.arg: word.value for word in parsed.keywords})
