"""Maxima of many replicates of one problem, searched at common inverse temperatures.

At an inverse temperature that all have in common, evaluating a thousand replicates costs little
more than evaluating one (shared_pairs.py).  So `maximize` starts at the same points for all
replicates and halves intervals, which keeps points in common.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pa_select.agreement.inputs.validation import Prior
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.branch_and_bound import SEARCHED, Kernel, maximize
from pa_select.agreement.solver.find_maxima import find_maxima, first_betas
from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.mean_posteriors import ModelRuns
from pa_select.agreement.solver.shared_pairs import (
    SharedFixedPrior,
    SharedMarginalPrior,
    each_pair,
    replicate_limits,
)
from pa_select.utils.typing import Floats

#: Part of the result: what is returned is below a replicate's maximum by at most this, in nats,
#: with a fixed prior and with the marginal one, whose bounds close more slowly.
TOLERANCE, MARGINAL_TOLERANCE = 1e-5, 5e-5
# Speed only: the number of first points, and the most points of a replicate. Those that need more
# are solved one by one.
_FIRST_POINTS, _MOST_POINTS = 10, 150


def replicate_maxima(a: torch.Tensor, b: torch.Tensor, weights: Floats, prior: Prior) -> Floats:
    """Return the maximum of each replicate's kernel over [0, inf].

    Parameters
    ----------
    a, b : torch.Tensor of shape (n_pairs, n_classes)
        Scores that all replicates share, on one device.
    weights : ndarray of shape (n_replicates, n_pairs)
        Weights of the pairs in each replicate; they sum to one.
    prior : Prior

    Returns
    -------
    ndarray of shape (n_replicates,)
        The maxima to `TOLERANCE`, or to `MARGINAL_TOLERANCE` with the marginal prior. Those of
        replicates that need too many points are as `find_maxima` returns them without a
        certificate.
    """
    pairs = each_pair(a, b)
    found = np.full(len(weights), np.nan)
    if not (prior.is_marginal and pairs.has_zero_posteriors):
        kernel, limits, constant = _kernel(pairs, weights, prior)
        # One scale gives all replicates the same first points.
        typical = np.full(len(weights), np.median(limits.typical_range))
        left: dict[int, str] = {}
        with np.errstate(all="ignore"):
            maxima = maximize(
                kernel,
                limits._replace(typical_range=typical),
                MARGINAL_TOLERANCE if prior.is_marginal else TOLERANCE,
                first=first_betas(_FIRST_POINTS),
                in_common=True,
                most=_MOST_POINTS,
                failures=left,
            )
        found = maxima.value + constant
        found[list(left)] = np.nan
    open_ = np.isnan(found)
    if open_.any():
        separate = _separate(pairs, weights[open_])
        found[open_] = find_maxima(separate, prior, SEARCHED, certify=False).score
    return found


def _kernel(
    pairs: PairedScores, weights: Floats, prior: Prior
) -> tuple[Kernel[Any], Limits, float]:
    """Return the kernel of replicates, its limits, and the constant that it lacks."""
    log_weights = prior.log_weights(pairs.n_classes)
    constant = prior.constant(pairs.n_classes)
    limits = replicate_limits(pairs, weights, log_weights)
    if not prior.is_marginal:
        return SharedFixedPrior(pairs, log_weights, limits, weights), limits, constant
    runs = ModelRuns.one_model_each(_separate(pairs, weights))
    kernel = SharedMarginalPrior(runs, pairs, torch.from_numpy(weights).to(pairs.device))
    return kernel, kernel.limits(limits), constant


def _separate(pairs: PairedScores, weights: Floats) -> PairedScores:
    """Return replicates as problems that may have different inverse temperatures."""
    m, n = weights.shape
    zeros = np.zeros(m, dtype=np.int64)
    weight = torch.from_numpy(weights.ravel()).to(pairs.device)
    return PairedScores(pairs.a, pairs.b, weight, zeros + n, zeros, zeros, np.arange(m) * n)
