"""Agreement of all pairs of several samples, environments or models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.suspicious_scores import doubt_of_disjoint_pairs, warn_of_samples
from pa_select.agreement.inputs.validation import (
    check_frames,
    check_prior,
    check_scores,
    check_weight,
    indexed,
)
from pa_select.agreement.pairs.block import converted
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solved_problems import solve_pairs
from pa_select.utils.arrays import check_same_shape, check_tol, resolve_device
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Device, Floats, Matrix, Prior, Weights

# This many pairs are solved at once: it bounds the memory of their terms, not the result.
_ROWS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class AgreementMatrix:
    """Posterior agreement of every two of M samples, as `agreement_matrix` returns it.

    Attributes
    ----------
    scores : ndarray of shape (M, M)
        Agreement of samples i and j in nats per pair; symmetric. The diagonal has the
        agreement of each sample with itself.
    betas : ndarray of shape (M, M)
        Inverse temperatures of the maxima.
    agreement_rates : ndarray of shape (M, M)
        Share of rows whose predicted classes agree.
    standard_errors : ndarray of shape (M, M)
        Standard errors of `scores` in nats.
    gap : float
        Largest certified gap of all pairs in nats.
    mean : float
        Mean agreement of two different samples.
    worst : float
        Lowest agreement of two different samples.
    worst_pair : tuple of int
        The samples (i, j), i < j, of the lowest agreement.
    """

    scores: Floats
    betas: Floats
    agreement_rates: Floats
    standard_errors: Floats
    gap: float
    mean: float
    worst: float
    worst_pair: tuple[int, int]

    def __repr__(self) -> str:
        return (
            f"AgreementMatrix(mean={self.mean:.6g}, worst={self.worst:.6g} nats per pair "
            f"(samples {self.worst_pair[0]} and {self.worst_pair[1]} of {len(self.scores)}))"
        )


def agreement_matrix(
    list_of_scores: Iterable[Matrix],
    *,
    prior: Prior = "uniform",
    sample_weight: Weights | None = None,
    tol: float = 1e-6,
    certify: bool = True,
    device: Device = None,
) -> AgreementMatrix:
    """Compute the posterior agreement of all pairs of several samples.

    Parameters
    ----------
    list_of_scores : sequence of M array-likes of shape (n, n_classes)
        Scores of the same n objects in M environments, or by M models; at least two.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior, as in `posterior_agreement`.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights of the objects.
    tol : float, default=1e-6
        Largest certified gap, in nats per pair.
    certify : bool, default=True
        Whether to certify the maxima, as in `posterior_agreement`.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where to compute, as in `posterior_agreement`.

    Returns
    -------
    AgreementMatrix

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As `posterior_agreement`; also if there are fewer than two samples.

    Warns
    -----
    UserWarning
        If samples look like probabilities or, with the uniform prior, nearly all their
        predictions are of one class, or if rows of two samples share no class of positive
        probability. The message names the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import agreement_matrix
    >>> rng = np.random.default_rng(0)
    >>> signal = 3 * rng.normal(size=(300, 3))
    >>> samples = [signal + noise * rng.normal(size=(300, 3)) for noise in (0.1, 0.2, 2.0)]
    >>> agreement_matrix(samples).scores.round(2)
    array([[1.1 , 1.04, 0.56],
           [1.04, 1.1 , 0.56],
           [0.56, 0.56, 1.1 ]])
    """
    tol = check_tol(tol)
    try:
        given = list(list_of_scores)
    except TypeError as error:
        raise TypeError(
            f"list_of_scores: expected a sequence of score matrices, got "
            f"{type(list_of_scores).__name__} ({error})."
        ) from error
    if len(given) < 2:
        raise ValueError(
            f"list_of_scores: expected at least two score matrices, got {len(given)}."
        )
    samples = _checked(given)
    n, n_classes = samples[0].shape
    weight = check_weight(sample_weight, n, rows=indexed(*given))
    checked = check_prior(prior, n_classes)
    warn_of_samples(samples, weight, uniform=checked.is_uniform)
    target = resolve_device(device, *samples)
    dtypes = {sample.dtype for sample in samples}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
    # All pairs of samples read the same copy.
    store = torch.cat([converted(sample.to(target), dtype) for sample in samples])
    normalised = torch.from_numpy(weight / weight.sum()).to(target)

    first, second = np.triu_indices(len(samples))
    at_once = max(_ROWS_AT_ONCE // n, 1)
    results: list[Any] = []
    doubts: list[str] = []
    for begin in range(0, len(first), at_once):
        a, b = first[begin : begin + at_once], second[begin : begin + at_once]
        zeros = np.zeros(len(a), dtype=np.int64)
        pairs = PairedScores(store, store, normalised, zeros + n, a * n, b * n, zeros)
        totals = np.full(len(a), weight.sum())
        names = list(zip(a.tolist(), b.tolist(), strict=True))
        solved = solve_pairs(pairs, checked, totals, tol, certify=certify, names=names)
        for (i, j), r in zip(names, solved, strict=True):
            if doubts:
                break  # one example is enough
            both, pair = (samples[i], samples[j]), f"list_of_scores[{i}] and list_of_scores[{j}]"
            doubts = doubt_of_disjoint_pairs(Problem(*both, weight), r.terms, pair)
        results += [(r.score, r.beta, r.agreement_rate, r.standard_error, r.gap) for r in solved]
    for message in doubts:
        warn_caller(message)
    scores, betas, rates, errors, gaps = np.empty((5, len(samples), len(samples)))
    for matrix, values in zip(
        (scores, betas, rates, errors, gaps), zip(*results, strict=True), strict=True
    ):
        matrix[first, second] = matrix[second, first] = values
    different = np.triu_indices(len(samples), 1)
    between = scores[different]
    i, j = (int(index[between.argmin()]) for index in different)
    return AgreementMatrix(
        scores=scores,
        betas=betas,
        agreement_rates=rates,
        standard_errors=errors,
        gap=float(gaps.max()),
        mean=float(between.mean()),
        worst=float(between.min()),
        worst_pair=(i, j),
    )


def _checked(given: list[Any]) -> list[torch.Tensor]:
    """Return the samples as tensors of one shape."""
    samples = [check_scores(scores, f"list_of_scores[{i}]") for i, scores in enumerate(given)]
    of = "list_of_scores[0]"
    for i, sample in enumerate(samples):
        name = f"list_of_scores[{i}]"
        check_frames(given[i], given[0], name, of)
        check_same_shape(tuple(samples[0].shape), tuple(sample.shape), of, name)
    return samples
