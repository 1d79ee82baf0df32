"""Certified maxima of a batch of checked problems, for a fixed or the marginal prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pa_select.agreement.inputs.validation import Prior
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver import kernel_sums as _kernel
from pa_select.agreement.solver.branch_and_bound import Report, maximize
from pa_select.agreement.solver.fixed_prior import FixedPrior
from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.marginal_prior import MarginalPrior
from pa_select.agreement.solver.mean_posteriors import ModelRuns
from pa_select.agreement.solver.single_precision import may_be_coarse
from pa_select.utils.typing import Floats, Ints

# Speed only: the first points, in units of the inverse of the scores' typical range, and the range
# of the first points of few pairs, of which many points at once cost hardly more than one.
_FIRST_BETAS, _FIRST_RANGE = np.array([10.0, 30.0]), (1.0, 60.0)
# Speed only: the most points of such a problem in the first round and in a later one. With a fixed
# prior bounds are so tight that more points in a later round would save no round.
_FIRST, _LATER = {"fixed": 10, "marginal": 16}, {"fixed": 1, "marginal": 16}
# Speed only: so many numbers may be computed at once. Of each pair these are its scores, and about
# as many sums over classes as there are scores of so many classes.
_NUMBERS_AT_ONCE, _SUMS_OF_PAIR = 1 << 17, 8


def first_betas(most: int) -> Floats:
    """Return up to `most` first points, and at least two, in units of 1 / typical range."""
    return _FIRST_BETAS if most < 4 else np.geomspace(*_FIRST_RANGE, most)


def points_at_once(n_pairs: int, n_classes: int, most: int) -> int:
    """Return how many points of each problem a round may have, for `n_pairs` pairs in all."""
    n_numbers = n_pairs * (n_classes + _SUMS_OF_PAIR)
    return max(min(_NUMBERS_AT_ONCE // n_numbers, most), 1)


@dataclass(frozen=True)
class FoundMaxima:
    """Maxima of a batch of problems; arrays have the shape (n_problems,).

    The scores and upper bounds include the constant of the kernel, the limits do not.
    """

    score: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints
    limits: Limits
    #: Those of the prior.
    log_weights: Floats
    constant: float


def find_maxima(
    pairs: PairedScores,
    prior: Prior,
    tol: float,
    names: Sequence[Any] | None = None,
    runs: ModelRuns | None = None,
    *,
    certify: bool = True,
    report: Report | None = None,
    failures: dict[int, str] | None = None,
) -> FoundMaxima:
    """Maximise a batch of checked problems; see `solve_pairs` and `maximize`."""
    log_weights = prior.log_weights(pairs.n_classes)
    constant = prior.constant(pairs.n_classes)
    limits = _kernel.limits(pairs, log_weights)
    coarse = may_be_coarse(limits, pairs.n_scores, float(log_weights.max()))
    kind = "marginal" if prior.is_marginal else "fixed"
    n_pairs = pairs.n_scores // pairs.n_classes  # of all processes, which need the same rounds
    search = partial(
        maximize,
        tol=tol,
        names=names,
        certify=certify,
        failures=failures,
        coarse=coarse,
        first=first_betas(points_at_once(n_pairs, pairs.n_classes, _FIRST[kind])),
        at_once=1 if coarse.any() else points_at_once(n_pairs, pairs.n_classes, _LATER[kind]),
    )
    if prior.is_marginal:
        kernel = MarginalPrior(runs or ModelRuns.one_model_each(pairs))
        found = search(kernel, kernel.limits(limits), report=report)
    else:

        def with_constant(value: Floats, upper: Floats) -> None:
            if report is not None:
                report(value + constant, upper + constant)

        found = search(FixedPrior(pairs, log_weights, limits), limits, report=with_constant)
    return FoundMaxima(
        found.value + constant,
        found.beta,
        found.upper_bound + constant,
        found.n_evaluations,
        limits,
        log_weights,
        constant,
    )
