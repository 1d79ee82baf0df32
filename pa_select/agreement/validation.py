"""Turn what users pass as scores, weights and priors into paired scores, or say why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pa_select._arrays import n_axes
from pa_select._score_checks import check_same_shape, check_size, check_values
from pa_select._score_checks import check_tol as _check_tol
from pa_select.agreement.arrays import (
    as_floats,
    as_scores,
    check_frames,
    check_order,
)
from pa_select.agreement.kernel import Floats
from pa_select.agreement.pairs import PairedScores

#: Smaller class probabilities have inverses that overflow.
SMALLEST_PRIOR = 1e-100


def is_batch(scores: Any) -> bool:
    """Whether scores hold many problems: three axes, or a list of matrices."""
    if isinstance(scores, (list, tuple)):
        return len(scores) > 0 and n_axes(scores[0]) >= 2
    return n_axes(scores) == 3


def _refuse_class_scores(scores: Any, name: str) -> None:
    """A pair (scores, classes) reads like a batch, but is what `class_scores` returns."""
    if isinstance(scores, tuple) and [n_axes(x) for x in scores] == [2, 1]:
        raise ValueError(
            f"{name}: expected scores, got a tuple of scores and classes; take the first of "
            "what class_scores returns."
        )


def resolve_device(device: Any, *scores: torch.Tensor) -> torch.device:
    """Device to compute on: the scores' own, or the one asked for."""
    if device is None:
        for x in scores:
            if x.device.type != "cpu":
                return x.device
        return torch.device("cpu")
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device: expected None, 'auto', 'cpu', 'cuda' or a torch.device, got {device!r}."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: got {device!r}, but torch finds no CUDA device.")
    if resolved.type == "mps":
        raise ValueError("device: got 'mps', which has no float64; use 'cpu' or 'cuda'.")
    return resolved


def check_tol(tol: Any, prior: Any = "uniform") -> float:
    """The largest gap to certify; None is the default for this prior."""
    return _check_tol(tol, 1e-5 if is_marginal(prior) else 1e-6)


def check_scores(scores: Any, name: str, *, shard: bool = False) -> torch.Tensor:
    """One score matrix as a tensor (n, K): finite or -inf, K >= 2, no row all -inf.

    A shard may have no rows, and then also no columns.
    """
    _refuse_class_scores(scores, name)
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
    _check_values(tensor, name)
    return tensor


def _check_values(tensor: torch.Tensor, name: str, n_rows: int | None = None) -> None:
    """Check a matrix, or the matrices of ``n_rows`` rows that it stacks."""
    if tensor.is_floating_point():
        check_values(tensor, name, torch, n_rows)


def check_pair(
    scores_a: Any, scores_b: Any, suffix: str = "", *, shard: bool = False
) -> tuple[torch.Tensor, ...]:
    """Both score matrices of one problem, of equal shape."""
    check_frames(scores_b, scores_a, f"scores_b{suffix}", f"scores_a{suffix}")
    a = check_scores(scores_a, f"scores_a{suffix}", shard=shard)
    b = check_scores(scores_b, f"scores_b{suffix}", shard=shard)
    names = f"scores_a{suffix}", f"scores_b{suffix}"
    check_same_shape(tuple(a.shape), tuple(b.shape), *names)
    return a, b


def check_batch(
    scores_a: Any, scores_b: Any, *, shard: bool = False
) -> list[tuple[torch.Tensor, ...]]:
    """Score matrices of many problems: two arrays (p, n, K), or two lists of matrices."""
    for name, scores, other in (("scores_a", scores_a, "b"), ("scores_b", scores_b, "a")):
        _refuse_class_scores(scores, name)
        if not is_batch(scores):
            raise ValueError(
                f"{name}: expected many problems, as scores_{other} has, got a single matrix."
            )
    lists = [isinstance(scores, (list, tuple)) for scores in (scores_a, scores_b)]
    scores_a = scores_a if lists[0] else as_scores(scores_a, "scores_a")
    scores_b = scores_b if lists[1] else as_scores(scores_b, "scores_b")
    if len(scores_a) != len(scores_b):
        raise ValueError(
            f"scores_b: expected as many problems as scores_a, {len(scores_a)}, got "
            f"{len(scores_b)}."
        )
    if shard or any(lists):
        pairs = zip(scores_a, scores_b, strict=True)
        return [check_pair(a, b, f"[{i}]", shard=shard) for i, (a, b) in enumerate(pairs)]
    a, b = _check_stack(scores_a, "scores_a"), _check_stack(scores_b, "scores_b")
    shapes = tuple(a.shape), tuple(b.shape)
    check_same_shape(*shapes, "scores_a", "scores_b")
    return list(zip(a, b, strict=True))


def _check_stack(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Score matrices of many problems in one tensor (p, n, K)."""
    if tensor.ndim != 3 or 0 in tensor.shape or tensor.shape[2] < 2:
        raise ValueError(
            f"{name}: expected scores of shape (n_problems, n_pairs, n_classes) with at least "
            f"one problem, one pair and 2 classes, got shape {tuple(tensor.shape)}."
        )
    _check_values(tensor.reshape(-1, tensor.shape[2]), name, tensor.shape[1])
    return tensor


def check_weight(
    sample_weight: Any,
    n: int,
    name: str = "sample_weight",
    *,
    rows: Any = None,
    shard: bool = False,
) -> Floats:
    """Weights of n pairs in float64; None weighs all alike, without memory for each.

    They are in the order of ``rows``. Those of a shard may all be 0.
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
    """Weights of n pairs in float64, whatever their sum."""
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


def check_prior(prior: Any, n_classes: int) -> Floats | None | str:
    """None for the uniform prior, "marginal", or a normalised vector (K,)."""
    if isinstance(prior, str):
        if prior == "uniform":
            return None
        if prior == "marginal":
            return "marginal"
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
    return vector / vector.sum()


def is_marginal(prior: Any) -> bool:
    """Whether the prior is the marginal one, which moves with the inverse temperature."""
    return isinstance(prior, str) and prior == "marginal"


def check_beta(beta: Any) -> Floats:
    """Inverse temperatures in [0, inf], of any shape."""
    betas = as_floats(beta, "beta")
    if not (betas >= 0).all():
        wrong = betas[~(betas >= 0)].ravel()[0]
        raise ValueError(f"beta: expected inverse temperatures in [0, inf], got {wrong}.")
    return betas


def concatenate(
    problems: Sequence[tuple[torch.Tensor, ...]],
    weights: Sequence[Floats],
    device: Any,
    totals: Sequence[float] | None = None,
) -> PairedScores:
    """Paired scores of problems that follow one another, on the device to use.

    Weights are divided by ``totals``; None: by the sum of each problem's.
    """
    target = resolve_device(device, *(x for pair in problems for x in pair))

    def stack(index: int) -> torch.Tensor:
        parts = [pair[index] for pair in problems]
        if len(parts) == 1:
            return parts[0].to(target)
        dtypes = {x.dtype for x in parts}
        dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
        return torch.cat([x.to(target, dtype) for x in parts])

    counts = np.array([len(pair[0]) for pair in problems])
    starts = np.cumsum(counts) - counts
    return PairedScores(
        stack(0), stack(1), normalised(weights, target, totals), counts, starts, starts, starts
    )


def normalised(
    weights: Sequence[Floats], device: torch.device, totals: Sequence[float] | None = None
) -> torch.Tensor:
    """Weights of problems that follow one another, those of each divided by their sum."""
    totals = [float(w.sum()) for w in weights] if totals is None else totals
    if len(weights) == 1 and weights[0].strides == (0,):
        n = len(weights[0])
        return torch.full((1,), 1 / totals[0], dtype=torch.float64, device=device).expand(n)
    parts = [w / t for w, t in zip(weights, totals, strict=True)]
    return torch.from_numpy(parts[0] if len(parts) == 1 else np.concatenate(parts)).to(device)
