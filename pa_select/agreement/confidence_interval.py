"""Confidence intervals of agreements, also of few pairs and of pairs that nearly all agree."""

from __future__ import annotations

import math

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import check_groups
from pa_select.agreement.result import PosteriorAgreement, posteriors_at, source_of
from pa_select.agreement.solved_problems import solve_problems
from pa_select.agreement.standard_errors import error_of_mean
from pa_select.utils.arrays import check_level
from pa_select.utils.typing import Floats, Groups, Ints, Mask

# Classes below this mean posterior are taken as absent.
_ABSENT = 1e-12


def confidence_interval(
    result: PosteriorAgreement, confidence_level: float = 0.95, *, groups: Groups = None
) -> tuple[float, float]:
    """Compute a confidence interval of an agreement, also for few pairs that nearly all agree.

    Parameters
    ----------
    result : PosteriorAgreement
        A result of `posterior_agreement`.
    confidence_level : float, default=0.95
        Level of the interval, in (0, 1).
    groups : array-like of shape (n_pairs,), default=None
        The group of each pair; pairs of one group are not independent.

    Returns
    -------
    low, high : float
        In nats per pair, with 0 <= low <= `result.score` <= high. Both are nan if there are fewer
        than two pairs, or groups, of positive weight.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit, or the result has no scores.

    Notes
    -----
    Where nearly all pairs agree the sample may have none of the few pairs that decide the
    agreement. So one pair is added and the agreement is maximised anew, as with the
    pseudo-observations of [1]_. For the lower limit the pair disagrees: it is a pair of the
    sample whose two largest scores are exchanged on one side, in the mean over all pairs.
    For the upper limit it agrees: it is a row with itself. Each limit lies a quantile of
    Student's t, times the standard error, away from this agreement; the upper limit on the
    scale of the square root. With the marginal prior the bias that comes from
    estimating the prior is subtracted [2]_.

    Nothing is drawn at random. It costs the memory and time of two more solutions with three
    times the pairs. :doc:`/measured` has the coverage of these intervals.

    References
    ----------
    .. [1] A. Agresti, B. A. Coull, "Approximate is better than exact for interval
       estimation of binomial proportions", The American Statistician 1998.
    .. [2] G. A. Miller, "Note on the bias of information estimates", 1955.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import confidence_interval, posterior_agreement
    >>> rng = np.random.default_rng(0)
    >>> logits = 5 * rng.normal(size=(60, 3))
    >>> result = posterior_agreement(logits, logits + 2 * rng.normal(size=(60, 3)))
    >>> low, high = confidence_interval(result)
    >>> print(f"{result.score:.2f} nats, 95 % interval {low:.2f} to {high:.2f}")
    0.74 nats, 95 % interval 0.53 to 0.88
    """
    check_level(confidence_level)
    source = source_of(result)
    n = len(source.weight)
    units = np.arange(n)
    if groups is not None:
        units = check_groups(groups, n, source)
    n_units = len(np.unique(units[source.weight > 0]))
    if n_units < 2:
        return math.nan, math.nan
    return _interval(source, units, result.score, confidence_level)


def _interval(source: Problem, units: Ints, score: float, level: float) -> tuple[float, float]:
    """Return the confidence interval of an agreement of at least two units (pairs or groups).

    `units` has integers from 0 that name the unit of each pair. The interval holds the `score`.
    """
    # Imported here: scipy would slow the command line.
    from scipy.special import stdtrit

    used = source.weight > 0
    units = np.unique(units[used], return_inverse=True)[1]
    n = int(units.max()) + 1
    problems = _with_one_more(source, used, n)
    solved = solve_problems(problems, 1e-5, certify=False, device=None, groups=[None, None])
    q = float(stdtrit(n - 1, (1 + level) / 2))
    (low, low_error), (high, high_error) = (
        _mean_and_error(one, problem, units, n)
        for one, problem in zip(solved, problems, strict=True)
    )
    low -= q * low_error
    if high > 0:
        # The variance of a small agreement grows with it, that of its square root does not.
        high = (math.sqrt(high) + q * high_error / (2 * math.sqrt(high))) ** 2
    largest = source.prior.largest_score(source.n_classes)
    return max(0.0, min(low, score)), min(largest, max(high, score))


def _with_one_more(source: Problem, used: Mask, n: int) -> tuple[Problem, Problem]:
    """Add a unit of pairs that disagree, or of pairs that agree, to the n units of a problem."""
    rows = torch.from_numpy(np.flatnonzero(used)).to(source.a.device)
    a, b = source.a[rows], source.b[rows]
    share = source.weight[used] / source.weight[used].sum()
    weight = np.concatenate([n * share, share / 2, share / 2])
    contrary, alike = (
        source._replace(
            a=torch.cat([a, *first]), b=torch.cat([b, *second]), weight=weight, index=None
        )
        for first, second in (((a, _swapped(a)), (_swapped(b), b)), ((a, b), (a, b)))
    )
    return contrary, alike


def _swapped(scores: torch.Tensor) -> torch.Tensor:
    """Exchange the two largest scores of each row."""
    if scores.shape[1] < 2:
        return scores
    top = scores.topk(2, dim=1)
    return scores.scatter(1, top.indices, top.values.flip(1))


def _mean_and_error(
    result: PosteriorAgreement, problem: Problem, units: Ints, n: int
) -> tuple[float, float]:
    """Return the agreement without its bias, and its standard error, over n + 1 units."""
    share = problem.weight / (n + 1)
    contributions = share * (result.terms - result.score)
    of_units = np.bincount(units, contributions[: len(units)])
    # The pseudo-pairs are one unit, whose value is one of theirs at random.
    extra = share[len(units) :] @ (result.terms[len(units) :] - result.score) ** 2 / (n + 1)
    error = error_of_mean(float(of_units @ of_units + extra), n + 1)
    score = result.score
    if problem.prior.is_marginal:
        score -= _bias_of_marginal_prior(problem, share, result.beta) / (n + 1)
    return score, error


def _bias_of_marginal_prior(problem: Problem, share: Floats, beta: float) -> float:
    """Return n times the bias of the agreement of n pairs that comes from their own prior.

    The second-order term of the agreement's expansion in the mean posteriors, at a fixed
    inverse temperature. For hard decisions that all agree it is -(K - 1) / 2, Miller's bias of
    an entropy.
    """
    p, q = (posteriors_at(x, beta) for x in (problem.a, problem.b))
    w = torch.from_numpy(share).to(p)
    prior = w @ (p + q) / 2
    present = prior > _ABSENT
    p, q, prior = p[:, present], q[:, present], prior[present]
    joint = p * q / prior
    joint /= joint.sum(1, keepdim=True).clamp_min(torch.finfo(joint.dtype).tiny)
    deviation = ((p + q) / 2 - prior) / prior
    mixed = -(w @ (joint * deviation).sum(1))
    first = (w @ joint) @ (w @ deviation**2)
    joints, deviations = ((x * w[:, None]).T @ x for x in (joint, deviation))
    return float(mixed + first - (joints * deviations).sum() / 2)
