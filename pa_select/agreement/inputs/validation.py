"""Checks of the scores, weights, priors, tolerances and inverse temperatures of users."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from pa_select.agreement.inputs.arrays import (
    as_floats,
    as_scores,
    check_order,
)
from pa_select.utils.arrays import n_axes
from pa_select.utils.score_checks import check_size, check_values
from pa_select.utils.score_checks import check_tol as _check_tol
from pa_select.utils.typing import Floats

#: The inverse of a smaller class probability could overflow.
SMALLEST_PRIOR = 1e-100


def check_class_scores(scores: Any, name: str) -> None:
    """Refuse the pair (scores, classes) that `class_scores` returns: it looks like a batch."""
    if isinstance(scores, tuple) and [n_axes(x) for x in scores] == [2, 1]:
        raise ValueError(
            f"{name}: expected scores, got a tuple of scores and classes; take the first of "
            "what class_scores returns."
        )


def check_tol(tol: Any, prior: Any = "uniform") -> float:
    """Check the largest gap to certify; None is the default for this prior."""
    return _check_tol(tol, 1e-5 if is_marginal(prior) else 1e-6)


def check_scores(scores: Any, name: str, *, shard: bool = False) -> torch.Tensor:
    """Return one score matrix as a tensor (n, K): finite or -inf, K >= 2, no row all -inf.

    With `shard` it may have no rows, and then also no columns.
    """
    check_class_scores(scores, name)
    tensor = as_scores(scores, name)
    if tensor.ndim != 2:
        hint = (
            " One margin per row is not enough: give both classes a column, for example "
            "numpy.column_stack([-margin / 2, margin / 2])."
            if tensor.ndim == 1
            else ""
        )
        raise ValueError(
            f"{name}: expected scores of shape (n_pairs, n_classes), got shape "
            f"{tuple(tensor.shape)}.{hint}"
        )
    n, n_classes = tensor.shape
    if shard and n == 0 and n_classes != 1:
        return tensor
    check_size((n, n_classes), name)
    check_score_values(tensor, name)
    return tensor


def check_score_values(tensor: torch.Tensor, name: str, n_rows: int | None = None) -> None:
    """Check a matrix, or stacked matrices of ``n_rows`` rows each."""
    if tensor.is_floating_point():
        check_values(tensor, name, torch, n_rows)


def check_weight(
    sample_weight: Any,
    n: int,
    name: str = "sample_weight",
    *,
    rows: Any = None,
    shard: bool = False,
) -> Floats:
    """Return the weights of n pairs in float64; None is one weight of 1, broadcast to all.

    They must be in the order of ``rows``. With `shard` all may be 0.
    """
    if sample_weight is None:
        return np.broadcast_to(np.ones(1), n)
    weight = check_weight_values(sample_weight, n, name, rows)
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not 0 < total < np.inf and not (shard and total == 0):
        raise ValueError(f"{name}: expected a positive and finite sum, got {total}.")
    return weight


def check_weight_values(sample_weight: Any, n: int, name: str, rows: Any = None) -> Floats:
    """Return the weights of n pairs in float64, without a check of their sum."""
    check_order(sample_weight, rows, name)
    weight = as_floats(sample_weight, name)
    if weight.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), got {weight.shape}.")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{name}: expected finite non-negative weights, got {weight[row]} in row {row}."
        )
    return weight


class Prior(NamedTuple):
    r"""A checked class prior: uniform, given, or marginal.

    Attributes
    ----------
    kind : {"uniform", "given", "marginal"}
        The marginal prior is the mean posterior, which changes with the inverse temperature.
    given : ndarray of shape (n_classes,) or None
        Normalised probabilities, if they were given.
    """

    kind: Literal["uniform", "given", "marginal"] = "uniform"
    given: Floats | None = None

    @property
    def is_marginal(self) -> bool:
        return self.kind == "marginal"

    @property
    def is_uniform(self) -> bool:
        return self.kind == "uniform"

    @property
    def argument(self) -> Any:
        """What `posterior_agreement` takes for this prior."""
        return self.kind if self.given is None else self.given

    def log_weights(self, n_classes: int) -> Floats:
        r"""Return :math:`\log\max\pi - \log\pi_j`; 0 for the marginal prior."""
        if self.given is None:
            return np.zeros(n_classes)
        log_prior: Floats = np.log(self.given)
        return log_prior.max() - log_prior

    def constant(self, n_classes: int) -> float:
        r"""Return :math:`-\log\max\pi`, which kernels lack; 0 for the marginal prior."""
        if self.given is not None:
            return -float(np.log(self.given).max())
        return 0.0 if self.is_marginal else math.log(n_classes)

    def largest_score(self, n_classes: int) -> float:
        """Return the largest agreement: all pairs agree on the class of the least prior."""
        return math.log(n_classes) if self.given is None else -float(np.log(self.given).min())


def check_prior(prior: Any, n_classes: int) -> Prior:
    """Return a checked prior."""
    if isinstance(prior, str):
        if prior == "uniform":
            return Prior("uniform")
        if prior == "marginal":
            return Prior("marginal")
        raise ValueError(
            "prior: expected 'uniform', 'marginal' or a vector of class probabilities, "
            f"got {prior!r}."
        )
    index: Any = getattr(prior, "index", None)
    if getattr(index, "is_monotonic_increasing", True) is False:
        raise ValueError(
            "prior: expected class probabilities in the order of the scores' columns, got a "
            f"Series with the index {list(index)}; give its values in that order."
        )
    vector = as_floats(prior, "prior")
    if vector.shape != (n_classes,):
        raise ValueError(
            f"prior: expected one probability for each of {n_classes} classes, shape "
            f"({n_classes},), got shape {vector.shape}."
        )
    wrong = ~(np.isfinite(vector) & (vector >= SMALLEST_PRIOR))
    if wrong.any():
        j = int(wrong.argmax())
        raise ValueError(
            f"prior: expected positive class probabilities of at least {SMALLEST_PRIOR:g}, got "
            f"{vector[j]} for class {j}."
        )
    if abs(vector.sum() - 1) > 1e-6:
        raise ValueError(f"prior: expected probabilities that sum to 1, got {vector.sum():.9g}.")
    return Prior("given", vector / vector.sum())


def is_marginal(prior: Any) -> bool:
    """Whether the prior is "marginal": it then changes with the inverse temperature."""
    return isinstance(prior, str) and prior == "marginal"


def is_raise(error_score: Any) -> bool:
    """Whether errors of single problems are raised; the alternative is a result of nan."""
    if isinstance(error_score, str) and error_score == "raise":
        return True
    if isinstance(error_score, (float, np.floating)) and np.isnan(error_score):
        return False
    raise ValueError(f"error_score: expected 'raise' or nan, got {error_score!r}.")


def check_beta(beta: Any) -> Floats:
    """Return inverse temperatures in [0, inf], of any shape."""
    betas = as_floats(beta, "beta")
    if not (betas >= 0).all():
        wrong = betas[~(betas >= 0)].ravel()[0]
        raise ValueError(f"beta: expected inverse temperatures in [0, inf], got {wrong}.")
    return betas
