"""Constants of the solver say whether they are speed only, and then they change no result."""

import ast
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from helpers.problems import random_problem

import pa_select
from pa_select import posterior_agreement

FOLDER = Path(pa_select.__file__).parent
FILES = [*sorted((FOLDER / "solver").glob("*.py")), FOLDER / "agreement/solved_problems.py"]
FILES += sorted((FOLDER / "agreement/kernels").glob("*.py"))
FILES += [FOLDER / "agreement/pairs" / f"{name}.py" for name in ("block", "paired_scores")]
KINDS = ("Speed only: ", "Part of the certificate: ", "Part of the result: ")


def constants():
    """Names of constants in capital letters, their files, and the comments above them."""
    found = []
    for path in FILES:
        lines = path.read_text().split("\n")
        for node in ast.parse("\n".join(lines)).body:
            if not isinstance(node, ast.Assign):
                continue
            [target] = node.targets
            names = [x.id for x in getattr(target, "elts", [target])]
            if not all(name.isupper() and len(name) > 1 for name in names):
                continue
            above = node.lineno - 1
            while lines[above - 1].startswith("#") or lines[above - 1][:1] in ("_", "L"):
                above -= 1
            comment = " ".join(line.strip("#: ") for line in lines[above : node.lineno - 1])
            file = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
            found += [(file, name, comment) for name in names]
    return found


CONSTANTS = constants()
# The last mark above a constant is its own.
SPEED = [x[:2] for x in CONSTANTS if max(KINDS, key=x[2].rfind) == KINDS[0]]


def test_every_constant_says_what_it_changes():
    assert len(CONSTANTS) > 40
    assert [x for x in CONSTANTS if not any(kind in x[2] for kind in KINDS)] == []


def turned(value, factor):
    """A constant that is larger or smaller by a factor of ten, of the same type."""
    if isinstance(value, dict):
        return {key: turned(x, factor) for key, x in value.items()}
    if isinstance(value, tuple):
        return tuple(turned(x, factor) for x in value)
    if isinstance(value, int):
        return max(round(value * factor), 1)
    return value * factor


def solved(prior):
    rng = np.random.default_rng(0)
    problems = [random_problem(np.random.default_rng(seed)) for seed in range(12)]
    a = 3 * rng.normal(size=(400, 100))
    problems.append((a, a + rng.normal(size=a.shape), None))  # large enough for single precision
    how = {"prior": prior, "tol": 1e-5}
    return [posterior_agreement(a, b, sample_weight=weight, **how) for a, b, weight in problems]


USUAL = {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:pa_select")
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("factor", [10, 0.1])
@pytest.mark.parametrize(("file", "name"), SPEED, ids=lambda value: value)
def test_a_constant_of_speed_changes_no_certified_result(file, name, factor, prior, monkeypatch):
    if prior not in USUAL:
        USUAL[prior] = solved(prior)
    module = import_module(f"pa_select.{file}")
    value = getattr(module, name)
    if isinstance(value, float) and (value < 1) != (value * factor < 1):
        pytest.skip("a share, which stays below 1")
    monkeypatch.setattr(module, name, turned(value, factor))
    usual = USUAL[prior]
    for found, expected in zip(solved(prior), usual, strict=True):
        assert found.gap <= 1e-5
        # Neither exceeds what the other one certifies.
        assert found.score <= expected.upper_bound + 1e-12
        assert expected.score <= found.upper_bound + 1e-12
