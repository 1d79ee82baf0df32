"""Break each bound and guard of the solver on purpose, and see that a test notices.

`TABLE` lists the mutations: small changes of the code that make it wrong. Each of them is made in
a copy of the package, where the test that is named with it must then fail.

    python tests/mutations.py [-k PART] [--jobs N]
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
PACKAGE, TESTS = "pa_select/agreement", "tests/agreement"
# The longest that the tests of one mutation may take, in seconds.
PATIENCE = 900


class Change(NamedTuple):
    """What is wrong afterwards, and the code that is replaced, which must be there so often."""

    what: str
    old: str
    new: str
    times: int = 1


class Mutation(NamedTuple):
    """A change of a file of the package, and the tests of which one must then fail."""

    file: str
    test: str
    expression: str
    change: Change

    def __str__(self) -> str:
        return f"{self.file}: {self.change.what} ({self.test} -k '{self.expression}')"


# For each file of the package, and each test file with an expression for -k, the changes that
# these tests notice. No code that is replaced has comments, so that they can be rewritten freely.
TABLE = {
    "solver/fixed_prior.py": {
        ("test_mutations.py", "holds_by_itself"): [
            Change("chord of L1 too low inside", "* t - tangents", "* np.sqrt(t) - tangents"),
            Change(
                "tangents only where they meet",
                "np.array([meeting, np.zeros_like(meeting), np.ones_like(meeting)])",
                "np.array([meeting])",
            ),
            Change(
                "two cubics without their remainder",
                "np.array([left.rise, left.fall])",
                "np.array([0 * left.rise, 0 * left.fall])",
            ),
            Change(
                "the last value instead of the bound beyond it",
                "return last.l1 + last.error - self.limits.l2_floor[problems]",
                "return last.value",
            ),
        ],
        ("test_certificate.py", "cost_in_evaluations"): [
            Change(
                "no chord and tangents",
                "bound, at = _chord_minus_tangents(left, right)",
                "bound, at = np.full_like(a, np.nan), np.full_like(a, 0.5)",
            ),
            Change(
                "no two cubics",
                "cubic_bound, cubic_at = _two_cubics(left, right)",
                "cubic_bound, cubic_at = np.full_like(a, np.nan), np.full_like(a, 0.5)",
            ),
        ],
        ("test_precision.py", "bounds_with_coarse_ends"): [
            Change("no room for errors beyond the last point", "last.l1 + last.error", "last.l1"),
        ],
        ("test_mutations.py", "room_for_the_errors"): [
            Change("no room for errors in L1", "l1=sums.l1 + error", "l1=sums.l1"),
            Change("no room for errors in L2", "l2=sums.l2 - error", "l2=sums.l2"),
            Change("no room in the slope of L1", "sums.dl1 + direction * error", "sums.dl1"),
            Change("no room in the slope of L2", "sums.dl2 - direction * error", "sums.dl2"),
            Change("no room in the curvature", "sums.curvature + error", "sums.curvature"),
        ],
    },
    "solver/moments.py": {
        ("test_mutations.py", "third_derivatives"): [
            Change("rise from the smaller term", "sides + joint / 8", "joint / 8"),
            Change("fall from the smaller term", "joint + sides / 8", "sides / 8"),
            Change("half the rise", "sides + joint / 8", "(sides + joint / 8) / 2"),
            Change("half the fall", "joint + sides / 8", "(joint + sides / 8) / 2"),
        ],
        ("test_mutations.py", "holds_by_itself"): [
            Change(
                "a tenth of the third moments",
                "at.third[0] + at.third[1], at.third[2]",
                "(at.third[0] + at.third[1]) / 10, at.third[2] / 10",
            ),
        ],
    },
    "solver/marginal_prior.py": {
        ("test_certificate.py", "bounds_of_the_marginal"): [
            Change("first order without distances", " - s * left.distance", ""),
            Change(
                "first order without certainty",
                "back - ((c - a) / c)[:, None, None] * right.certainty",
                "back",
            ),
            Change("second order without excess of variance", "right.excess / 2 + ", ""),
            Change(
                "half the largest term of the tail",
                "block.weight.log() + larger",
                "block.weight.log() + larger - np.log(2)",
            ),
        ],
        ("test_mutations.py", "marginal_prior_leave_room"): [
            Change(
                "no room for errors in the prior",
                "error=sums.error * (1 + length + length**2 / 2)",
                "error=0 * sums.error",
            ),
        ],
        ("test_certificate.py", "brute_force and marginal and not hundreds"): [
            Change("every model constant", "np.where(self._constant, 0.0, ", "np.minimum(0.0, "),
        ],
        ("test_certificate.py", "one_pair"): [
            Change(
                "single pairs not recognised",
                "same.all(1) | (np.bincount(problem, runs.pairs.n_used) == 1)",
                "same.all(1)",
            ),
        ],
    },
    "solver/intervals.py": {
        ("test_precision.py", "far_off"): [
            Change(
                "no coarse end evaluated again",
                "again = open_ & (errors.sum(0) > 0) & ",
                "again = (errors.sum(0) < 0) & ",
            ),
        ],
        ("test_precision.py", "few_steps"): [
            Change(
                "the best coarse point evaluated again before it moves",
                "moves &= np.abs(newton - end_beta) < _NEARBY * end_beta",
                "moves &= False",
            ),
        ],
        ("test_known_values.py", "capacity"): [
            Change("no Newton steps at the end", "inexact | ((gain > _POLISH) & new)", "inexact"),
        ],
        ("test_known_values.py", "both_modes"): [
            Change(
                "the maximum's place without the last step",
                "argmax = np.where(near & ~unpolished, newton, beta)",
                "argmax = beta",
            ),
        ],
    },
    "solver/branch_and_bound.py": {
        ("test_known_values.py", "capacity"): [
            Change(
                "the upper bound is the value",
                "np.maximum(search.top(), value[problems])",
                "value[problems]",
            ),
            Change("better by rounding alone", "here > outer[problems] + _ROUNDING", "here > outer[problems]"),
            Change("unpolished", "keep = open_ | (unpolished & here)", "keep = open_"),
        ],
        ("test_mutations.py", "cannot_meet"): [
            Change(
                "the ceiling of disjoint posteriors",
                "np.where(limits.disjoint, limits.at_zero, limits.ceiling)",
                "limits.ceiling.copy()",
            ),
        ],
        ("test_mutations.py", "infinity_wins_ties"): [
            Change(
                "temperature 0 wins ties",
                "np.where(at_infinity >= outer - _ROUNDING, np.inf, 0.0)",
                "np.where(at_infinity > limits.at_zero, np.inf, 0.0)",
            ),
        ],
        ("test_certificate.py", "cannot_be_certified"): [
            Change("no limit", "open_.any() and search.n_points >= MAX_EVALUATIONS", "False"),
        ],
    },
    "solver/single_precision.py": {
        ("test_precision.py", "within_their_error"): [
            Change("a hundredth of the error", "_ERROR = 4e-7", "_ERROR = 4e-9"),
            Change("no margin of third derivatives", "MARGIN = 1.0001", "MARGIN = 1.0"),
            Change("exponents cut", "LOWEST_EXPONENT = -80.0", "LOWEST_EXPONENT = -8.0"),
        ],
        ("test_mutations.py", "error_bound_of_coarse"): [
            Change("an error for sums of any size", " + np.abs(log_size)", " + 0 * log_size"),
            Change("an error for any number of classes", "1 + np.log(n_classes)", "1"),
            Change("an error for any prior", "np.log(n_classes) + prior_range", "np.log(n_classes)"),
        ],
        ("test_mutations.py", "single_precision_cannot_hold"): [
            Change(
                "any range of scores coarse",
                "(typical > _RANGES[0]) & (typical < _RANGES[1])",
                "typical > 0",
            ),
            Change("one large range coarse", "largest < _LARGEST_IN_TYPICAL * typical", "largest > 0"),
            Change("few scores coarse", "(n_scores >= _FEWEST_SCORES)", "(n_scores > 0)"),
            Change(
                "any temperature coarse",
                "(scaled > _BETAS_IN_TYPICAL[0]) & (scaled < _BETAS_IN_TYPICAL[1])",
                "scaled > 0",
            ),
        ],
    },
    "solver/kernel_sums.py": {
        ("test_mutations.py", "limits_of_ties"): [
            Change("no ties in the limit", "ties_a.log() + ties_b.log()", "0 * ties_a.log()"),
            Change("no ties in the ceiling", "torch.maximum(ties_a, ties_b).log()", "0 * ties_a.log()"),
            Change("no ties in the rate", "shared / (ties_a * ties_b)", "(shared > 0).double()"),
            Change("disjoint by a pair of weight 0", "disjoint & counts", "disjoint"),
            Change("apart by a pair of weight 0", "(peak < 0) & counts", "peak < 0"),
            Change("the ceiling without the prior", "ceiling=log_weights.max() - ", "ceiling=-"),
            Change(
                "the kernel at 0 without the prior",
                "math.log(np.exp(log_weights).sum())",
                "math.log(pairs.n_classes)",
            ),
        ],
        ("test_mutations.py", "holds_by_itself"): [
            Change("infimum of L2 too high", "l2_floor=l2_floor", "l2_floor=l2_floor + 0.1"),
        ],
        ("test_known_values.py", "capacity"): [
            Change(
                "a finite limit of disagreement",
                "np.where(n_apart > 0, -np.inf, l1_floor - l2_floor)",
                "l1_floor - l2_floor",
            ),
        ],
        ("test_known_values.py", "scores_zero"): [
            Change(
                "zero times infinity is nan",
                "torch.nan_to_num(beta * x, nan=0.0, neginf=-torch.inf)",
                "beta * x",
            ),
        ],
    },
    "standard_errors.py": {
        ("test_mutations.py", "standard_error_by_its_formula"): [
            Change("n instead of n - 1", "math.sqrt(n / (n - 1) * squares)", "math.sqrt(squares)"),
            Change("spread of pairs about 0", "w * (t - mean)", "w * t"),
            Change("spread of objects about 0", "weight * (terms - weight @ terms)", "weight * terms"),
            Change("weights not squared", "np.square(w * (t - mean))", "w * np.square(t - mean)"),
            Change("pairs miscounted", "int(np.count_nonzero(weight))", "len(weight) + 1"),
            Change("objects miscounted", "len(np.union1d(a, b))", "len(a)"),
            Change("pairs of one object twice", "b[differ], deviations[differ]", "b, deviations"),
            Change("pairs of two objects twice", "sums @ sums - of_pairs", "sums @ sums"),
        ],
        ("test_mutations.py", "smaller_than_nothing"): [
            Change("no floor", "variance = max(variance, of_pairs)", "pass"),
        ],
    },
}
