"""Warnings about scores that are valid, but whose agreement is misleading."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.utils.arrays import look_like_probabilities
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Mask

#: A warning is given if at least this share of the predictions is of one class, for at least
#: this many pairs.
LARGEST_SHARE = 0.95
FEWEST_PAIRS = 20

_CONSTANT_IS_BEST = (
    "With prior='uniform' a classifier that always predicts the same class has the highest "
    "possible score, log(n_classes), so that the score does not tell a robust classifier from "
    "a constant one. Use prior='marginal'."
)

# About this many rows are read first. All rows are read only if one class has at least this
# share of their predictions (the first of tied classes).
_SAMPLED_ROWS = 1 << 11
_NEAR = 0.85

# A floor is below the other scores of its row by more than single precision can hold as a
# probability, and by more than so many times their range, since logits have any scale.
_UNDERFLOWS, _FLOOR_TO_RANGE = 87.0, 10.0
#: Pairs that share no class matter from such a term on, and agreements are 0 below this, in nats.
COSTLY, ROUNDING = 1.0, 1e-9
# So many rows show whether there are floors.
_FEW_ROWS = 64

# This many scores are compared at once: it bounds the memory.
_SCORES_AT_ONCE = 1 << 20
# Floors are looked for in double precision, in several copies of a block.
_SCORES_IN_BLOCK = 1 << 17


def warn_of_probabilities(problems: Sequence[Problem]) -> None:
    """Warn once if, in some problems, scores_a or scores_b look like probabilities."""
    marks = [[look_like_probabilities(x)[0] for x in problem[:2]] for problem in problems]
    names = [
        name
        for name, some in zip(("scores_a", "scores_b"), zip(*marks, strict=True), strict=False)
        if any(some)
    ]
    where = ""
    if len(marks) > 1:
        where = f" in {sum(map(any, marks))} of {len(marks)} problems"
    _warn_of_probabilities_in(names, where)


def warn_of_samples(samples: Sequence[torch.Tensor], weight: Floats, *, uniform: bool) -> None:
    """Warn if samples look like probabilities or, with `uniform`, predict one class."""
    names = [f"list_of_scores[{i}]" for i in range(len(samples))]
    _warn_of_probabilities_in(list(compress(names, look_like_probabilities(*samples))), "")
    if not uniform or np.count_nonzero(weight) < FEWEST_PAIRS:
        return
    constant = [_largest_share(x, x, weight) >= LARGEST_SHARE for x in samples]
    if any(constant):
        warn_caller(
            f"{' and '.join(compress(names, constant))}: at least {100 * LARGEST_SHARE:g} % of "
            f"the predictions are of one class. {_CONSTANT_IS_BEST}"
        )


def _warn_of_probabilities_in(names: Sequence[str], where: str) -> None:
    if names:
        warn_caller(
            f"{' and '.join(names)}: expected logits or log-probabilities, got rows of "
            f"non-negative numbers that sum to 1{where}. They look like probabilities, but are "
            "read as logits. Convert probabilities with pa_select.log_probabilities."
        )


def warn_of_one_class(problems: Sequence[Problem]) -> None:
    """Warn once if nearly all predictions are of one class in some of these problems."""
    shares = [share_of_one_class(problem) for problem in problems]
    constant = [share for share in shares if share is not None]
    if not constant:
        return
    if len(problems) == 1:
        what = f"{math.floor(100 * constant[0])} % of the predictions are of one class"
    else:
        what = (
            f"at least {100 * LARGEST_SHARE:g} % of the predictions are of one class in "
            f"{len(constant)} of {len(problems)} problems"
        )
    warn_caller(f"scores_a and scores_b: {what}. {_CONSTANT_IS_BEST}")


def doubt_of_disjoint_pairs(problem: Problem, terms: Floats, names: str) -> list[str]:
    """Return what to warn of if pairs of a problem share no class of positive probability.

    Nor do those of which each class is at a floor, such as -9999, in one row or the other.
    `terms` are what the pairs contribute to the agreement: those that cost little are no reason to
    warn, unless they took all of it, so that every term is 0.
    """
    none_is_left = np.abs(terms).max(initial=0.0) < ROUNDING
    if terms.min(initial=0.0) > -COSTLY and not none_is_left:
        return []
    apart = np.zeros(len(problem.a), dtype=bool)
    for rows, x, y in _in_blocks(problem):
        apart[rows] = ~(torch.isfinite(x) & torch.isfinite(y)).any(1).cpu().numpy()
    apart &= problem.weight > 0
    above, effect, floor = "", "makes the agreement of all pairs 0", "-inf"
    if not apart.any():
        apart = _apart_by_floors(problem) & (problem.weight > 0)
        above, floor = " above the floors of their rows", "the floors"
        effect = "may take most of the agreement of all pairs"
    if not apart.any():
        return []
    return [
        f"{names}: expected pairs of which both rows give some class a positive probability, got "
        f"{np.count_nonzero(apart)} of {np.count_nonzero(problem.weight)} pairs that share none"
        f"{above}, the first in row {int(apart.argmax())}. A single such pair {effect}. If only "
        f"the largest probabilities are known, replace {floor} by the logarithm of each missing "
        "class's part of the rest of the probability. The lower the floor, the more such a pair "
        "costs."
    ]


def _apart_by_floors(problem: Problem) -> Mask:
    """Return which pairs have no class that is above a floor in both rows."""
    a, b = problem.a, problem.b
    apart = np.zeros(len(a), dtype=bool)
    # Floors are in nearly all rows, if in any.
    step = max(len(a) // _FEW_ROWS, 1)
    if not all(bool((_above_floor(x[::step])[0] < torch.inf).any()) for x in (a, b)):
        return apart
    for rows, *both in _in_blocks(problem):
        (range_a, above_a), (range_b, above_b) = map(_above_floor, both)
        # Where both rows are a decision, the floors are the unit of the scores.
        graded = (range_a < torch.inf) & (range_b < torch.inf) & (range_a + range_b > 0)
        apart[rows] = (graded & ~(above_a & above_b).any(1)).cpu().numpy()
    return apart


def _in_blocks(problem: Problem) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """Yield slices of the pairs, and the scores of both sides, so that little memory is taken."""
    at_once = max(_SCORES_IN_BLOCK // problem.a.shape[1], 1)
    for begin in range(0, len(problem.a), at_once):
        rows = slice(begin, begin + at_once)
        yield rows, problem.a[rows], problem.b[rows].to(problem.a.device)


def _above_floor(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which scores are above the floor of their row, and the range of these.

    A floor is the lowest score of several classes, so far below all others that its probability
    underflows. Without one the range is infinite.
    """
    x = scores.double()
    low = x.amin(1, keepdim=True)
    above = x > low
    lowest = torch.where(above, x, torch.inf).amin(1)
    spread = x.amax(1) - lowest
    depth = lowest - low[:, 0]
    is_floor = (above.sum(1) < x.shape[1] - 1) & (depth > _UNDERFLOWS)
    is_floor &= depth > _FLOOR_TO_RANGE * spread
    return torch.where(is_floor, spread, torch.inf), above


def warn_of_disjoint_pairs(solved: Iterable[tuple[Problem, Floats]]) -> None:
    """Warn once if pairs share no class in some of these problems, which have these terms."""
    names = "scores_a and scores_b"
    for message in [m for one in solved for m in doubt_of_disjoint_pairs(*one, names)][:1]:
        warn_caller(message)


def share_of_one_class(problem: Problem) -> float | None:
    """Return the share of the most frequent prediction, or None if there is no need to warn.

    The predictions of both samples count, with the weights of their pairs. Classes that tie
    at the top share a prediction.
    """
    a, b, weight = problem.a, problem.b, problem.weight
    if np.count_nonzero(weight) < FEWEST_PAIRS:
        return None
    step = max(len(a) // _SAMPLED_ROWS, 1)
    predicted = np.concatenate([x[::step].argmax(1).cpu().numpy() for x in (a, b)])
    used = np.concatenate([weight[::step]] * 2)
    if np.bincount(predicted, used).max() < _NEAR * used.sum():
        return None
    share = _largest_share(a, b, weight)
    return share if share >= LARGEST_SHARE else None


def _largest_share(a: torch.Tensor, b: torch.Tensor, weight: Floats) -> float:
    """Return the weighted share of the most frequent prediction; tied classes share it."""
    n, n_classes = a.shape
    at_once = max(_SCORES_AT_ONCE // n_classes, 1)
    sums = torch.zeros(n_classes, dtype=torch.float64, device=a.device)
    for begin in range(0, n, at_once):
        rows = slice(begin, begin + at_once)
        used = torch.from_numpy(weight[rows].copy()).to(a.device)
        for scores in (a[rows], b[rows].to(a.device)):
            top = scores == scores.amax(1, keepdim=True)
            sums += (used / top.sum(1)) @ top.double()
    return float(sums.amax()) / (2 * float(np.sum(weight)))
