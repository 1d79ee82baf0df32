"""The rooms of the package: imports run one way, and every file says what it is for."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pa_select

PACKAGE = Path(pa_select.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
TESTS = Path(__file__).parents[1]

# From the ground up. A room imports no room above it, nor another one of its own floor.
FLOORS = [
    ["_version"],
    ["utils"],
    ["solver"],
    ["agreement"],
    ["scores"],
    ["pairing", "two_sites"],
    ["shifts", "command_line"],
    ["training", "model_selection", "__main__"],
    ["interop", "plotting", "site_labels"],
]
AGREEMENT = [
    ["inputs"],
    ["pairs", "standard_errors"],
    ["kernels"],
    ["result"],
    ["solved_problems", "compare_agreement"],
    ["posterior_agreement", "confidence_interval", "regression_agreement"],
    ["agreement_of_chunks"],
]


@cache
def imported(path):
    """Modules of the package that a file imports anywhere, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "pa_select"}


def room(name, inside):
    """The room of a dotted name: its first part below `inside`; None for names elsewhere."""
    parts = name.split(".")
    is_inside = parts[: len(inside)] == inside and len(parts) > len(inside)
    return parts[len(inside)] if is_inside else None


def dotted(path):
    return ".".join(("pa_select", *path.relative_to(PACKAGE).with_suffix("").parts))


@pytest.mark.parametrize(
    ("inside", "floors"),
    [(["pa_select"], FLOORS), (["pa_select", "agreement"], AGREEMENT)],
    ids=["the package", "agreement"],
)
def test_rooms_import_only_from_lower_floors(inside, floors):
    floor_of = {name: height for height, names in enumerate(floors) for name in names}
    upward = []
    for path in FILES:
        own = room(dotted(path), inside)
        if own is None:
            continue
        others = {room(name, inside) for name in imported(path)} - {own, None}
        # Names that are no room are those that `pa_select` or a room's face hand on.
        upward += [
            f"{path.relative_to(PACKAGE)} imports {other}"
            for other in others & set(floor_of)
            if floor_of[other] >= floor_of[own]
        ]
    assert not upward
    assert {room(dotted(path), inside) for path in FILES} - {None} == set(floor_of)


def test_no_file_imports_itself_on_a_way_round():
    names = {dotted(path): path for path in FILES}
    graph = {name: imported(path) & set(names) for name, path in names.items()}
    # Raises CycleError, which names the files.
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)


def test_the_first_line_of_every_file_can_stand_in_the_map():
    lines = [(ast.get_docstring(ast.parse(path.read_text())) or "").split("\n") for path in FILES]
    # A sentence that goes on in the second line would be cut.
    wrong = [first for first, *rest in lines if first[-1:] != "." or any(rest[:1])]
    assert not wrong
    assert len({first for first, *_ in lines}) == len(FILES)


def named_in(cell):
    """Files that a cell of the table names: a bare name is in the folder of the one before."""
    folder = Path()
    for name in re.findall(r"`([\w/]+\.py)`", cell):
        folder = Path(name).parent if "/" in name else folder
        yield str(folder / Path(name).name)


def test_every_file_of_the_package_has_tests_that_can_be_found():
    text = (TESTS / "README.md").read_text()
    rows = [line.split("|")[1:3] for line in text.split("\n") if line.startswith("| `")]
    listed = {source for sources, _ in rows for source in named_in(sources)}
    tests = {test for _, tests in rows for test in named_in(tests)}
    sources = {str(path.relative_to(PACKAGE)) for path in FILES}
    assert listed <= sources
    assert [test for test in tests if not (TESTS / test).is_file()] == []
    for source in sources - listed:
        room, *names = Path(source).with_suffix("").parts
        by_name = [TESTS / room / f"test_{name}.py" for name in (room, *names)]
        assert any(path.is_file() for path in by_name), f"tests/README.md has no row for {source}"
