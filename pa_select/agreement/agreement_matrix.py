"""Agreement of all pairs of several samples, environments or models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pa_select.agreement.inputs.suspicious_scores import warn_of_samples
from pa_select.agreement.inputs.validation import (
    check_frames,
    check_prior,
    check_scores,
    check_tol,
    check_weight,
    indexed,
    is_raise,
)
from pa_select.agreement.pairs.block import converted
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solved_problems import solve_pairs
from pa_select.utils.devices import resolve_device
from pa_select.utils.html import bar_cell, html_table
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Device, ErrorScore, Floats, Matrix, Prior, Weights

# This many pairs are solved at once: it bounds the memory of their terms, not the result.
_ROWS_AT_ONCE = 1 << 22


#: Samples that a notebook shows of a matrix.
_SHOWN = 12


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
    failures : dict
        Why entries are nan, with ``error_score=nan``: by the number of a sample whose scores
        are wrong, or by the numbers (i, j) of two whose agreement could not be certified.
        `mean`, `worst` and `gap` cover the other entries.
    """

    scores: Floats
    betas: Floats
    agreement_rates: Floats
    standard_errors: Floats
    gap: float
    mean: float
    worst: float
    worst_pair: tuple[int, int]
    failures: dict[Any, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"AgreementMatrix(mean={self.mean:.6g}, worst={self.worst:.6g} nats per pair "
            f"(samples {self.worst_pair[0]} and {self.worst_pair[1]} of {len(self.scores)}))"
        )

    def _repr_html_(self) -> str:
        shown = self.scores[:_SHOWN, :_SHOWN]
        most = float(np.nanmax(shown, initial=0.0))
        samples = [str(i) for i in range(len(shown))]
        caption = (
            f"Agreement of {len(self.scores)} samples in nats per pair: mean {self.mean:.3g}, "
            f"worst {self.worst:.3g} (samples {self.worst_pair[0]} and {self.worst_pair[1]})"
        )
        if len(self.scores) > _SHOWN:
            caption += f"; the first {_SHOWN} are shown"
        rows = (
            (name, [bar_cell(value, most, f"{value:.2f}") for value in row])
            for name, row in zip(samples, shown, strict=True)
        )
        return html_table(caption, ["sample", *samples], rows)


def agreement_matrix(
    list_of_scores: Iterable[Matrix],
    *,
    prior: Prior = "uniform",
    sample_weight: Weights | None = None,
    tol: float | None = None,
    certify: bool = True,
    device: Device = None,
    error_score: ErrorScore = "raise",
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
    tol : float, default=None
        Largest certified gap, in nats per pair. None: as in `posterior_agreement`.
    certify : bool, default=True
        Whether to certify the maxima, as in `posterior_agreement`.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where to compute, as in `posterior_agreement`.
    error_score : "raise" or nan, default="raise"
        What becomes of a sample whose scores are wrong, or of two samples whose agreement
        cannot be certified. "raise": an error. nan: a warning, and nan in the matrix; all
        other entries are what they are without this sample.

    Returns
    -------
    AgreementMatrix

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As `posterior_agreement`; also if fewer than two samples are right.

    Warns
    -----
    UserWarning
        If samples look like probabilities or, with the uniform prior, nearly all their
        predictions are of one class. The message names the samples. With
        ``error_score=nan``, if entries are nan.

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
    tol = check_tol(tol, prior)
    try:
        given = list(list_of_scores)
    except TypeError as error:
        raise TypeError(
            f"list_of_scores: expected a sequence of score matrices, got "
            f"{type(list_of_scores).__name__} ({error})."
        ) from error
    isolate = not is_raise(error_score)
    failures: dict[Any, str] = {}
    known = _checked(given, failures if isolate else None)
    if len(known) < 2:
        wrong = "".join(f" {reason}" for reason in failures.values())
        raise ValueError(
            f"list_of_scores: expected at least two score matrices, got {len(known)}.{wrong}"
        )
    samples, numbers = list(known.values()), np.array(list(known))
    n, n_classes = samples[0].shape
    weight = check_weight(sample_weight, n, rows=indexed(*(given[i] for i in known)))
    checked = check_prior(prior, n_classes)
    uniform = checked.is_uniform
    warn_of_samples(samples, weight, uniform=uniform, numbers=list(known))
    target = resolve_device(device, *samples)
    dtypes = {sample.dtype for sample in samples}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
    # All pairs of samples read the same copy.
    store = torch.cat([converted(sample.to(target), dtype) for sample in samples])
    normalised = torch.from_numpy(weight / weight.sum()).to(target)

    first, second = np.triu_indices(len(samples))
    at_once = max(_ROWS_AT_ONCE // n, 1)
    results: list[Any] = []
    for begin in range(0, len(first), at_once):
        a, b = first[begin : begin + at_once], second[begin : begin + at_once]
        zeros = np.zeros(len(a), dtype=np.int64)
        pairs = PairedScores(store, store, normalised, zeros + n, a * n, b * n, zeros)
        totals = np.full(len(a), weight.sum())
        names = list(zip(numbers[a].tolist(), numbers[b].tolist(), strict=True))
        solved = solve_pairs(
            pairs, checked, totals, tol, certify=certify, names=names, isolate=isolate
        )
        failures |= {
            name: r.failure for name, r in zip(names, solved, strict=True) if r.failure is not None
        }
        results += [(r.score, r.beta, r.agreement_rate, r.standard_error, r.gap) for r in solved]
    shape = (len(given), len(given))
    scores, betas, rates, errors, gaps = (np.full(shape, np.nan) for _ in range(5))
    first, second = numbers[first], numbers[second]
    for matrix, values in zip(
        (scores, betas, rates, errors, gaps), zip(*results, strict=True), strict=True
    ):
        matrix[first, second] = matrix[second, first] = values
    if failures:
        where, reason = next(iter(failures.items()))
        warn_caller(
            f"Entries of the matrix are nan, for {len(failures)} reasons. The first, of "
            f"{'samples' if isinstance(where, tuple) else 'sample'} {where}: {reason}"
        )
    different = np.triu_indices(len(given), 1)
    between = scores[different]
    certified = between[~np.isnan(between)]
    if not len(certified):
        reason = next(iter(failures.values()))
        raise RuntimeError(f"list_of_scores: expected two samples with an agreement. {reason}")
    worst_pair = tuple(int(index[np.nanargmin(between)]) for index in different)
    known_gaps = gaps[first, second][~np.isnan(scores[first, second])]
    return AgreementMatrix(
        scores=scores,
        betas=betas,
        agreement_rates=rates,
        standard_errors=errors,
        gap=float(known_gaps.max()),
        mean=float(certified.mean()),
        worst=float(certified.min()),
        worst_pair=(worst_pair[0], worst_pair[1]),
        failures=failures,
    )


def _checked(given: list[Any], failures: dict[Any, str] | None) -> dict[int, torch.Tensor]:
    """Return the samples by number; without those that are wrong, if there are `failures`."""

    def passed(check: Callable[[int, str], Any], numbers: Iterable[int]) -> dict[int, Any]:
        right = {}
        for i in numbers:
            try:
                right[i] = check(i, f"list_of_scores[{i}]")
            except (TypeError, ValueError) as error:
                if failures is None:
                    raise
                failures[i] = str(error)
        return right

    samples = passed(lambda i, name: check_scores(given[i], name), range(len(given)))
    if not samples:
        return samples
    # The most frequent shape: a single wrong sample does not condemn the others.
    shapes = Counter(sample.shape for sample in samples.values())
    usual = samples[0].shape if failures is None else shapes.most_common(1)[0][0]
    first = next(i for i, sample in samples.items() if sample.shape == usual)

    def compare(i: int, name: str) -> torch.Tensor:
        of = f"list_of_scores[{first}]"
        check_frames(given[i], given[first], name, of)
        if samples[i].shape != usual:
            raise ValueError(
                f"{name}: expected the shape of {of}, {tuple(usual)}, got "
                f"{tuple(samples[i].shape)}."
            )
        return samples[i]

    return passed(compare, samples)
