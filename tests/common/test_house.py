"""The rooms of the package: imports run one way, and every file says what it is for."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import pa_select
from pa_select.model_selection import SelectionRule, rules
from pa_select.model_selection.kinds.kind import Comparison, DataKind

PACKAGE = Path(pa_select.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
TESTS = Path(__file__).parents[1]

# From the ground up. A room imports no room above it, nor another one of its own floor.
FLOORS = [
    ["_version"],
    ["utils"],
    ["agreement"],
    ["scores"],
    ["pairing", "two_sites"],
    ["shifts", "command_line"],
    ["training", "model_selection", "__main__"],
    ["interop", "plotting"],
]
AGREEMENT = [
    ["inputs"],
    ["pairs", "standard_errors"],
    ["solver"],
    ["result"],
    ["solved_problems", "compare_agreement"],
    [
        "posterior_agreement",
        "confidence_interval",
        "regression_agreement",
    ],
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


RULES = PACKAGE / "model_selection/rules.py"
TABLE_OF_KINDS = PACKAGE / "model_selection/kinds/kind_of.py"
KINDS = sorted({path for path in FILES if path.parent == TABLE_OF_KINDS.parent} - {TABLE_OF_KINDS})
# These are names of columns, metrics and arguments, too: only what they are compared with, or
# are a value of, shows what they mean.
AMBIGUOUS = {"agreement", "score", "expected", "worst_environment"}
AMBIGUOUS |= {"environments", "views", "paired"}
MEAN_ONE = {"selection", "rule", "refit", "pairing", "pairing_", "kind"}


def subclasses_in(path, *bases):
    """The names of the classes of a file that inherit from these, but not these."""
    found = vars(import_module(dotted(path))).values()
    classes = {x for x in found if isinstance(x, type) and issubclass(x, bases)}
    return {x for x in classes - set(bases) if x.__module__ == dotted(path)}


def name_of(node):
    return getattr(node, "id", getattr(node, "attr", getattr(node, "arg", "")))


def parts_of(node):
    """A node, and the parts of a tuple, a list or a set."""
    return [node, *getattr(node, "elts", ())]


def values_of(tree):
    """What in a file is compared with, given as, or looked up by each name: pairs of nodes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [x for side in (node.left, *node.comparators) for x in parts_of(side)]
            yield from ((a, b) for a in sides for b in sides)
        elif isinstance(node, ast.keyword):
            yield node, node.value
        elif isinstance(node, ast.AnnAssign) and node.value:
            yield node.target, node.value
        elif isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.arguments):
            given = [*node.posonlyargs, *node.args][::-1], node.defaults[::-1]
            yield from zip(*given, strict=False)
            yield from zip(node.kwonlyargs, node.kw_defaults, strict=True)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            yield from ((node.slice, key) for key in node.value.keys)
        elif isinstance(node, ast.Match):
            yield from ((node.subject, x) for x in ast.walk(node) if isinstance(x, ast.Constant))


def mentions(tree, classes, names):
    """The lines of a file that name a class of these, or one of these names for what it means."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            named = {node.name.split(".")[-1]}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A name that an import or a pickle would find; words and sentences are messages.
            is_name = re.search(r"[a-z][A-Z]|\w\.\w", node.value)
            named = {node.value.split(".")[-1]} if is_name else set()
            if node.value in names - AMBIGUOUS:
                yield node.lineno
        else:
            named = {getattr(node, "id", ""), getattr(node, "attr", "")}
        if named & classes:
            yield node.lineno
    for about, value in values_of(tree):
        if name_of(about) in MEAN_ONE and getattr(value, "value", None) in names & AMBIGUOUS:
            yield value.lineno


def in_default_rules(tree):
    """The functions of a file in which a kind of data states its default rule."""
    return [
        method
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "default_rule"
    ]


def without_default_rules(path, classes):
    """A file without the functions that state a default rule, and the imports that they need."""
    tree = ast.parse(path.read_text())
    if path not in KINDS:
        return tree
    stated = in_default_rules(tree)
    used = {name_of(node) for method in stated for node in ast.walk(method)} & classes
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if part not in stated]
        elif isinstance(node, ast.ImportFrom):
            node.names = [alias for alias in node.names if alias.name not in used]
    return tree


def test_the_file_of_the_rules_alone_knows_which_rules_there_are():
    # It has the table of their names, too.
    classes = {x.__name__ for x in subclasses_in(RULES, SelectionRule)}
    names = set(rules.SELECTIONS)
    assert len(list(mentions(ast.parse(RULES.read_text()), classes, names))) > 15
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{line}"
        for path in FILES
        if path != RULES
        for line in mentions(without_default_rules(path, classes), classes, names)
    }
    assert not found


def test_a_kind_of_data_is_known_to_its_own_file_and_to_one_table():
    own = {path: subclasses_in(path, DataKind, Comparison) for path in KINDS}
    every = set().union(*own.values())
    assert {"Views", "PairedObjects", "ComparisonOfViews"} <= {x.__name__ for x in every}
    stated = {path: {vars(x).get("pairing") for x in own[path]} for path in KINDS}
    names = {x for of_file in stated.values() for x in of_file if isinstance(x, str)}
    assert {"repeated", "split-half", "views", "environments", "paired"} <= names
    found = set()
    for path in FILES:
        # A scorer has names of its own for what it compares.
        if path in (TABLE_OF_KINDS, PACKAGE / "model_selection/pa_scorer.py"):
            continue
        others = {x.__name__ for x in every - own.get(path, set())}
        tree = ast.parse(path.read_text())
        lines = mentions(tree, others, names - stated.get(path, set()))
        found |= {f"{path.relative_to(PACKAGE).as_posix()}:{line}" for line in lines}
    assert not found


def test_nobody_asks_what_a_rule_or_a_kind_of_data_has():
    asked = {name for x in (DataKind, SelectionRule) for name in vars(x) if name[0] != "_"}
    assert {"compare", "default_rule", "conditions", "decides"} <= asked
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}"
        for path in FILES
        if path != RULES  # a function may explain itself
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and name_of(node.func) in ("hasattr", "getattr")
        if getattr(node.args[1], "value", None) in asked
    }
    assert not found


def test_rules_kinds_and_comparisons_change_no_attribute_after_they_are_made():
    classes = {SelectionRule, DataKind, Comparison}
    classes |= {x for path in (RULES, *KINDS) for x in subclasses_in(path, *classes)}
    names = {x.__name__ for x in classes}
    found, made = [], 0
    for path in (RULES, PACKAGE / "model_selection/selection_rule.py", *KINDS):
        for cls in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(cls, ast.ClassDef) and cls.name in names):
                continue
            for method in cls.body:
                lines = [node.lineno for node in ast.walk(method) if sets_an_attribute(node)]
                if getattr(method, "name", "") == "__init__":
                    made += len(lines)
                else:
                    found += [f"{path.name}:{line}" for line in lines]
    assert not found


def sets_an_attribute(node):
    """Whether a node stores or deletes an attribute of `self`, or changes all of them."""
    if isinstance(node, ast.Call):
        # A cached property stores its value, too.
        return name_of(node.func) in ("setattr", "__setattr__", "delattr", "vars")
    if name_of(node) in ("cached_property", "__dict__"):
        return True
    is_stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
    return is_stored and name_of(getattr(node, "value", None)) == "self"
