"""Conversion of what users give to arrays and tensors, and its checks."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from pa_select.utils.arrays import (
    as_array,
    as_numbers,
    check_column,
    check_matrix,
    check_weight_values,
)
from pa_select.utils.frames import reordered
from pa_select.utils.typing import Array, Floats, Ints, Labels, Prior, Scores, Vector, Weights

#: The inverse of a smaller class probability could overflow.
SMALLEST_PRIOR = 1e-100
# Types that float64 holds exactly and torch can compare. Other types are converted to float64
# at once, so that the same scores tie in every later step.
_KEPT = {
    *(torch.uint8, torch.int8, torch.int16, torch.int32),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


def as_scores(values: Any, name: str) -> torch.Tensor:
    """Return real numbers as a tensor of a type that all functions of torch take."""
    tensor = as_tensor(values, name)
    if tensor.is_complex():
        raise TypeError(f"{name}: expected real numbers, got {tensor.dtype}.")
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    return tensor if tensor.dtype in _KEPT else tensor.double()


def as_floats(values: Any, name: str) -> Floats:
    floats: Floats = as_scores(values, name).to("cpu", torch.float64).numpy()
    return floats


def as_tensor(values: Any, name: str) -> torch.Tensor:
    """Return numbers of any container and type as a tensor, without a copy if possible."""
    if isinstance(values, torch.Tensor):
        return values.detach().resolve_neg()
    array = as_numbers(values, name)
    # torch has no longer types than double and complex double, and no foreign byte order.
    dtype = {"g": "d", "G": "D"}.get(array.dtype.char, array.dtype.newbyteorder("="))
    with np.errstate(over="ignore"):
        array = array.astype(dtype, copy=False)
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    with warnings.catch_warnings():
        # torch warns that a read-only array could be written to; it is only read here.
        warnings.filterwarnings("ignore", message=".*non-writable")
        return torch.from_numpy(array)


def as_labels(values: Labels, name: str, rows: object = None) -> Array:
    """Return labels or groups of any type; check that they are in the order of ``rows``."""
    check_order(values, rows, name)
    if isinstance(values, torch.Tensor):
        tensor = as_tensor(values, name).cpu()
        # numpy lacks some floating types, such as bfloat16.
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    return as_array(values, name)


def check_groups(groups: Labels, n: int, rows: object = None) -> Ints:
    """Return the groups of n pairs, of one type and none missing, as integers."""
    values = check_column(as_labels(groups, "groups", rows), n, "groups")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def indexed(*samples: Any) -> Any:
    """Return the first sample with a pandas index, or None."""
    return next((x for x in samples if hasattr(x, "iloc")), None)


def check_order(values: object, rows: object, name: str, of: str = "the scores") -> None:
    """Refuse values that have the index of ``rows``, but in another order."""
    if hasattr(values, "iloc") and reordered(rows, values):
        raise ValueError(
            f"{name}: expected the rows of {of} in the same order, got the same index in "
            "another order."
        )


def check_frames(scores: object, other: object, name: str, of: str) -> None:
    """Refuse a DataFrame whose rows or columns are in another order than those of `other`."""
    check_order(scores, other, name, of)
    columns = [getattr(x, "columns", None) for x in (other, scores)]
    if all(c is not None for c in columns):
        expected, got = (list(c) for c in columns if c is not None)
        if expected != got:
            raise ValueError(
                f"{name}: expected the columns of {of} in the same order, {expected}, got {got}."
            )


def check_scores(scores: Scores, name: str, *, shard: bool = False) -> torch.Tensor:
    """Return one score matrix as a tensor (n, K): finite or -inf, K >= 2, no row all -inf.

    With `shard` it may have no rows, and then also no columns.
    """
    tensor = as_scores(scores, name)
    if shard and tensor.ndim == 2 and not len(tensor) and tensor.shape[1] != 1:
        return tensor
    check_matrix(tensor, name)
    return tensor


def check_weight(
    sample_weight: Weights | None,
    n: int,
    name: str = "sample_weight",
    *,
    rows: object = None,
    shard: bool = False,
) -> Floats:
    """Return the weights of n pairs in float64; None is one weight of 1, broadcast to all.

    They must be in the order of ``rows``. With `shard`, as in a chunk, all may be 0.
    """
    if sample_weight is None:
        return np.broadcast_to(np.ones(1), n)
    check_order(sample_weight, rows, name)
    weight = as_floats(sample_weight, name)
    if weight.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), got {weight.shape}.")
    check_weight_values(weight, name, may_be_zero=shard)
    return weight


class CheckedPrior(NamedTuple):
    r"""A checked class prior: uniform, given, or marginal."""

    #: The marginal prior is the mean posterior, which changes with the inverse temperature.
    kind: Literal["uniform", "given", "marginal"] = "uniform"
    #: (n_classes,) normalised probabilities, if they were given.
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


def check_prior(prior: Prior, n_classes: int) -> CheckedPrior:
    """Return a checked prior."""
    if isinstance(prior, str):
        if prior == "uniform":
            return CheckedPrior("uniform")
        if prior == "marginal":
            return CheckedPrior("marginal")
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
    return CheckedPrior("given", vector / vector.sum())


def is_marginal(prior: object) -> bool:
    """Whether the prior is "marginal": it then changes with the inverse temperature."""
    return isinstance(prior, str) and prior == "marginal"


def is_raise(error_score: object) -> bool:
    """Whether errors of single problems are raised; the alternative is a result of nan."""
    if isinstance(error_score, str) and error_score == "raise":
        return True
    if isinstance(error_score, (float, np.floating)) and np.isnan(error_score):
        return False
    raise ValueError(f"error_score: expected 'raise' or nan, got {error_score!r}.")


def check_beta(beta: float | Vector) -> Floats:
    """Return inverse temperatures in [0, inf], of any shape."""
    betas = as_floats(beta, "beta")
    if not (betas >= 0).all():
        wrong = betas[~(betas >= 0)].ravel()[0]
        raise ValueError(f"beta: expected inverse temperatures in [0, inf], got {wrong}.")
    return betas
