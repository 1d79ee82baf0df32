"""Break each bound and guard of the solver on purpose, and see that a test notices.

`TABLE` lists mutations: small changes of the code that make it wrong. Each of them is made in a
copy of the package, where one of the tests that are named with it must then fail.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS = "pa_select", "tests/agreement"
# The longest that the tests of one mutation may take, in seconds.
PATIENCE = 900

# By the file of the package, the file of the tests and an expression for -k: what is wrong after
# a mutation, the code that it replaces, which must be in the file once, and the new code. No
# replaced code has comments, so that these can be rewritten freely.
TABLE = {
    ("solver/bounds.py", "test_mutations.py", "holds_by_itself"): [
        ("chord of L1 too low between the ends", "* t - tangents", "* np.sqrt(t) - tangents"),
        ("tangents only where they meet", ", np.zeros_like(meeting), np.ones_like(meeting)", ""),
        ("cubics without remainder", "[left.rise, left.fall]", "[0 * left.rise, 0 * left.fall]"),
    ],
    ("agreement/kernels/fixed_prior.py", "test_mutations.py", "holds_by_itself"): [
        ("no bound beyond the last point", "- self.limits.l2_floor[problems]", "- last.l2"),
        ("a tenth of the bounds", "-unit * unit * unit", "-unit * unit * unit / 10"),
    ],
    ("solver/bounds.py", "test_certificate.py", "cost_in_evaluations"): [
        ("no chord and tangents", "= _chord_minus_tangents(left, right)", "= a * np.nan, 0 * a"),
        ("no two cubics", "(cubic_bound < bound)", "(bound < -np.inf)"),
    ],
    ("agreement/kernels/fixed_prior.py", "test_precision.py", "bounds_with_coarse_ends"): [
        ("no room for errors beyond the last point", "last.l1 + last.error", "last.l1"),
    ],
    ("solver/bounds.py", "test_mutations.py", "room_for_the_errors"): [
        ("no room for errors in L1", "l1=sums.l1 + error", "l1=sums.l1"),
        ("no room for errors in L2", "l2=sums.l2 - error", "l2=sums.l2"),
        ("no room for errors in the slope of L1", "sums.dl1 + direction * error", "sums.dl1"),
        ("no room for errors in the slope of L2", "sums.dl2 - direction * error", "sums.dl2"),
        ("no room for errors in the curvature", "sums.curvature + error", "sums.curvature"),
    ],
    ("agreement/kernels/fixed_prior.py", "test_mutations.py", "third_derivatives"): [
        ("rise from the smaller term alone", "sides + joint / 8", "joint / 8"),
        ("fall from the smaller term alone", "joint + sides / 8", "sides / 8"),
        ("half the rise", "sides + joint / 8", "(sides + joint / 8) / 2"),
        ("half the fall", "joint + sides / 8", "(joint + sides / 8) / 2"),
    ],
    ("agreement/kernels/marginal_prior.py", "test_ties.py", "nearly_constant"): [
        ("a hundredth of the ceiling", "np.log1p(6 * squares)", "np.log1p(0.06 * squares)"),
    ],
    ("agreement/kernels/marginal_prior.py", "test_certificate.py", "bounds_of_the_marginal"): [
        ("first order without the distances", " - left.distance", ""),
        ("first order without the certainty", "* right.certainty", "* 0"),
        ("half the largest term of the tail", "+ larger", "+ larger - np.log(2)"),
    ],
    ("agreement/kernels/marginal_prior.py", "test_mutations.py", "third_order_of_the_marginal"): [
        ("third order without the sides", "left.side_cube + _rem", "0 * left.side_cube + _rem"),
        ("priors without their skewness", "third=left.skew - ", "third=-"),
        ("variances of rows do not grow", "third=left.skew - left.cube / 8", "third=left.skew"),
        (
            "variances do not grow to the left",
            "- np.minimum(np.exp(change)",
            "- 0 * np.minimum(change",
        ),
        ("third moments of overlaps of 0, from the left", "left.joint_cube / 8", "0 * cube"),
        ("third moments of overlaps of 0, from the right", "np.cbrt(left.joint_cube)", "0"),
        ("priors without their third derivative", "6 * fourth - third +", "6 * fourth +"),
    ],
    ("agreement/kernels/marginal_sums.py", "test_certificate.py", "mean_posterior_underflows"): [
        ("masses of rare classes underflow", "sums[:, some] = block", "_ = block"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "cost_in_evaluations"): [
        ("no expected maximum", "(maximum > a) & (maximum < c)", "maximum > np.inf"),
        ("splits close to the ends", "_LEAST_BESIDE, _LEAST)", "_LEAST_BESIDE, 0.1)"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "polynomial_has_it"): [
        ("a point of the problem before", "missing[:, 0] |= last[row - 1]", "pass"),
        ("a point of the problem after", "missing[:, 3] |= last[row + 1]", "pass"),
        ("free coefficients with no neighbour", "[-np.cumsum(missing, axis=1)]", "[missing * 3]"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "flat_kernels_are_certified_too"): [
        ("a flat kernel taken for one that falls", " & (np.abs(fall) > tol)", ""),
    ],
    ("agreement/kernels/marginal_prior.py", "test_mutations.py", "marginal_prior_leave_room"): [
        ("no room for errors in L1", "(sums.overlap, change) + error", "(sums.overlap, change)"),
        ("no room for errors in L2", "right.l2 - errors[1]", "right.l2"),
        ("no room for errors in a cubic", "right.value]) + of_value", "right.value])"),
    ],
    ("agreement/kernels/marginal_prior.py", "test_certificate.py", "marginal-120"): [
        ("every model taken for constant", "np.where(high > low, ", "np.where(high > np.inf, "),
    ],
    ("agreement/kernels/marginal_prior.py", "test_certificate.py", "one_pair"): [
        ("single pairs not recognised", "n_used) == 1", "n_used) == 0"),
    ],
    ("solver/branch_and_bound.py", "test_precision.py", "far_off"): [
        ("no coarse end evaluated again", "(errors > 0) & (excess", "(errors < 0) & (excess"),
    ],
    ("solver/branch_and_bound.py", "test_precision.py", "few_steps"): [
        ("the best coarse point never moves", "< _NEARBY * table", "< 0 * table"),
    ],
    ("solver/branch_and_bound.py", "test_known_values.py", "place_of_a_maximum"): [
        ("the maximum's place without the last step", "near & ~unpolished", "False & near"),
    ],
    ("solver/branch_and_bound.py", "test_known_values.py", "capacity"): [
        ("no Newton steps at the end", "inexact | ((gain > _POLISH) & is_new)", "inexact"),
        ("the upper bound is the value", "np.maximum(top, ", "np.maximum(-np.inf, "),
        ("values better by rounding alone", "outer[active] + _ROUNDING", "outer[active]"),
        ("bounds of divided intervals kept", "np.append(table.is_new[1:], False)", "False"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "polished_without"): [
        ("the search stops unpolished", "(is_open & ~spent) | unpolished", "is_open & ~spent"),
    ],
    ("solver/branch_and_bound.py", "test_mutations.py", "cannot_meet"): [
        ("the ceiling for disjoint posteriors", "limits.disjoint, limits.at_zero", "False, 0.0"),
    ],
    ("solver/branch_and_bound.py", "test_mutations.py", "infinity_wins_ties"): [
        ("0 wins ties", "at_infinity >= outer - _ROUNDING", "at_infinity > limits.at_zero"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "cannot_be_certified"): [
        ("no limit on evaluations", "count[active] >= MAX_EVALUATIONS", "count[active] < 0"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "by_the_same_condition"): [
        ("bounds ten times too far away", "return excess > tol", "return excess > 10 * tol"),
        ("problems that end open taken for certified", "_is_open(upper - value, tol)).t", "[]).t"),
    ],
    ("solver/branch_and_bound.py", "test_precision.py", "ends_at_the_largest"): [
        ("no end at the largest inverse temperature", "] >= LARGEST_BETA", "] > LARGEST_BETA"),
    ],
    ("solver/branch_and_bound.py", "test_certificate.py", "beyond_the_first_points"): [
        (
            "nothing beyond the last point",
            "kernel.beyond(points, table.beta[tail], table.problem[tail])",
            "points.value",
        ),
    ],
    ("agreement/kernels/marginal_prior.py", "test_precision.py", "within_their_error"): [
        ("log priors of rare classes taken for exact", "n_classes, size)[0]", "n_classes)[0]"),
        ("curvatures as exact as slopes", "h**2 * lost * error", "h**2 * error"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_precision.py", "within_their_error"): [
        ("a hundredth of the error of coarse sums", "_ERROR = 4e-7", "_ERROR = 4e-9"),
        ("third derivatives without their margin", "MARGIN = 1.0001", "MARGIN = 1.0"),
        ("third derivatives without the error of A + B", "size**3 * error", "0 * error"),
        ("exponents cut at -8", "LOWEST_EXPONENT = -80.0", "LOWEST_EXPONENT = -8.0"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_mutations.py", "error_bound_of_coarse"): [
        ("an error without the size of sums", "np.abs(log_size)", "0 * log_size"),
        ("an error without the classes", "1 + np.log(n_classes)", "1"),
        ("an error without the prior", "np.log(n_classes) + prior_range", "np.log(n_classes)"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_mutations.py", "single_precision_cannot_hold"): [
        ("a small range coarse", "typical > _RANGES[0]", "typical > 0"),
        ("a large range coarse", "typical < _RANGES[1]", "typical > 0"),
        ("one large range coarse", "largest < _LARGEST_IN_TYPICAL * typical", "largest > 0"),
        ("few scores coarse", "n_scores >= _FEWEST_SCORES", "n_scores > 0"),
    ],
    ("solver/bounds.py", "test_mutations.py", "single_precision_cannot_hold"): [
        ("a small temperature coarse", "scaled > _BETAS_IN_TYPICAL[0]", "scaled > 0"),
        ("a large temperature coarse", "scaled < _BETAS_IN_TYPICAL[1]", "scaled > 0"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_mutations.py", "limits_of_ties"): [
        ("no ties in the limit", "ties_a.log() + ties_b.log()", "0 * ties_a.log()"),
        ("no ties in the ceiling", "torch.maximum(ties_a, ties_b).log()", "0 * ties_a.log()"),
        ("no ties in the agreement rate", "shared / (ties_a * ties_b)", "(shared > 0).double()"),
        ("marks of pairs of weight 0", "block.of_counted(torch.stack([disj", "(torch.stack([disj"),
        ("the ceiling without the prior", "log_weights.max() - log_ties", "-log_ties"),
        ("the kernel at 0 without the prior", "np.exp(log_weights).sum()", "pairs.n_classes"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_mutations.py", "holds_by_itself"): [
        ("the infimum of L2 too high", "l2_floor=l2_floor", "l2_floor=l2_floor + 0.1"),
    ],
    ("agreement/solved_problems.py", "test_certificate.py", "many_partners"): [
        ("its weight on both sides", "tile(pairs.weight, 2)) / 2", "tile(pairs.weight, 2))"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_known_values.py", "capacity"): [
        ("a finite limit where pairs disagree", "n_apart > 0, -np.inf", "n_apart < 0, -np.inf"),
    ],
    ("agreement/kernels/kernel_sums.py", "test_known_values.py", "scores_zero"): [
        ("zero times infinity is nan", "nan=0.0", "nan=torch.nan"),
    ],
    ("agreement/standard_errors.py", "test_mutations.py", "standard_error_by_its_formula"): [
        ("n instead of n - 1", "n / (n - 1) * squares", "squares"),
        ("spread of pairs about 0", "w * (t - mean)", "w * t"),
        ("spread of objects about 0", "(terms - _sum_of_products(weight, terms))", "terms"),
        ("weights not squared", "np.square(w * (t - mean))", "w * np.square(t - mean)"),
        ("pairs miscounted", "np.count_nonzero(weight)", "len(weight) + 1"),
        ("objects miscounted", "seen[a] = seen[b] = True", "seen[a] = True"),
        ("pairs of one object counted twice", "b[differ], deviations[differ]", "b, deviations"),
        ("pairs of two objects counted twice", "sum()) - of_pairs", "sum())"),
    ],
    ("agreement/standard_errors.py", "test_mutations.py", "smaller_than_nothing"): [
        ("no floor of independent pairs", "variance = max(variance, of_pairs)", "pass"),
    ],
}


class Mutation(NamedTuple):
    """A row of the table."""

    file: str
    test: str
    expression: str
    what: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what} ({self.test} -k {self.expression!r})"


def mutations(part: str) -> list[Mutation]:
    """Return the mutations whose line in the output contains `part`."""
    every = [Mutation(*where, *row) for where, rows in TABLE.items() for row in rows]
    return [mutation for mutation in every if part in str(mutation)]


def copy_sources(folder: Path) -> Path:
    """Copy the package and its tests to a folder, and check that they are imported from there."""
    for name in ("pa_select", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    found = run_python(folder, "-c", "import pa_select; print(pa_select.__file__)").stdout.strip()
    assert Path(found) == folder / "pa_select/__init__.py", f"pa_select is imported from {found!r}"
    return folder


def run_python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package of a copy."""
    # Bytecode is not cached: the cache does not see a second change of a file within a second.
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command, settings = [sys.executable, *arguments], {"capture_output": True, "text": True}
    return subprocess.run(command, cwd=copy, env=environment, timeout=PATIENCE, **settings)


def run_tests(copy: Path, test: str, expression: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a file that match an expression, until the first failure."""
    options = "-q", "-x", "-p", "no:cacheprovider"
    return run_python(copy, "-m", "pytest", *options, f"{TESTS}/{test}", "-k", expression)


def check_unmutated(copy: Path, chosen: list[Mutation]) -> None:
    """Exit with a message if a test that should notice a mutation fails without any."""
    for test in sorted({mutation.test for mutation in chosen}):
        expressions = sorted({m.expression for m in chosen if m.test == test})
        found = run_tests(copy, test, " or ".join(expressions))
        if found.returncode:
            sys.exit(f"{found.stdout}{found.stderr}\nUnmutated, tests of {test} fail.")


def result_of(copy: Path, mutation: Mutation) -> str:
    """Mutate a copy, run the tests, restore the copy, and return "caught" or what is wrong."""
    path = copy / PACKAGE / mutation.file
    code = path.read_text() if path.is_file() else ""
    if code.count(mutation.old) != 1:
        return f"stale: the old code occurs {code.count(mutation.old)} times:"
    path.write_text(code.replace(mutation.old, mutation.new))
    try:
        status = run_tests(copy, mutation.test, mutation.expression).returncode
    except subprocess.TimeoutExpired:
        return f"NOT CAUGHT within {PATIENCE} seconds:"
    finally:
        path.write_text(code)
    # 1 means that a test failed, 0 that all passed, and any other status that pytest did not run.
    return {0: "NOT CAUGHT", 1: "caught"}.get(status, f"NOT CAUGHT, pytest exits with {status}:")


def main() -> int:
    """Try the chosen mutations; return 0 if all of them are caught, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", metavar="PART", default="", help="only lines that contain PART")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once (default: 1)")
    options = parser.parse_args()
    chosen, results, begin = mutations(options.k), [], time.monotonic()
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def try_one(mutation: Mutation) -> str:
        copy = copies.get()
        try:
            return result_of(copy, mutation)
        finally:
            copies.put(copy)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        folders = [Path(folder).resolve() / str(job) for job in range(options.jobs)]
        for path in folders:
            copies.put(copy_sources(path))
        check_unmutated(folders[0], chosen)
        for mutation, result in zip(chosen, pool.map(try_one, chosen), strict=True):
            results.append(result)
            print(f"{result:10} {mutation}", flush=True)
    n_caught, minutes = results.count("caught"), (time.monotonic() - begin) / 60
    print(f"{n_caught} of {len(chosen)} mutations were caught, in {minutes:.1f} minutes.")
    return 0 if 0 < n_caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
