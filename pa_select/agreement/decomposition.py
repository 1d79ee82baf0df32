"""Contributions of agreeing and of disagreeing pairs to an agreement."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.inputs.arrays import as_labels
from pa_select.agreement.inputs.problem import Problem
from pa_select.utils.typing import Floats


class Part(NamedTuple):
    """Contribution of one group of pairs to an agreement.

    Attributes
    ----------
    n_pairs : int
        Number of pairs of positive weight.
    total : float
        Weighted sum of the terms of these pairs, in nats.
    share : float
        ``total`` divided by the total of all pairs; nan if that is 0.
    approximate : float
        The thesis's approximation of ``total``. It replaces posteriors by their means in the
        group, and the number of pairs by a product of rates; ``log(n_classes)`` is added for
        each pair, as in ``total``. nan without labels, with a prior that is not uniform, or
        if the formula has no value.
    """

    n_pairs: int
    total: float
    share: float
    approximate: float


def decompose(source: Problem, terms: Floats, beta: float, y: Any = None) -> dict[str, Part]:
    """Split the sum of the terms by whether pairs agree and, with labels, are right."""
    used = source.weight > 0
    weight = source.weight[used]
    weighted = weight * terms[used]
    groups = groups_of(source, y)
    approximate = dict.fromkeys(groups, math.nan)
    if y is not None and source.prior.is_uniform:
        # Probability that is not on the predicted class, in each sample.
        doubt = [1 - _top_posteriors(x, beta)[used] for x in (source.a, source.b)]
        n_classes = source.a.shape[1]
        accuracy = float(np.average(right_rows(source, y), weights=weight))
        agreement = float(np.average(~groups["disagree"], weights=weight))
        size = weight.sum()
        for name, rate, doubts in (
            ("agree_right", accuracy * agreement, doubt),
            ("agree_wrong", (1 - accuracy) * agreement, doubt),
            ("disagree", accuracy * (1 - agreement), doubt[1:]),
        ):
            here = groups[name]
            if not here.any():
                approximate[name] = 0.0
                continue
            mean = np.mean([np.average(d[here], weights=weight[here]) for d in doubts])
            overlap = mean if name == "disagree" else 1 - 2 * mean
            if overlap > 0:
                approximate[name] = size * rate * (math.log(overlap) + math.log(n_classes))
    total = float(weighted.sum())
    return {
        name: Part(
            int(here.sum()),
            part := float(weighted[here].sum()),
            part / total if total else math.nan,
            approximate[name],
        )
        for name, here in groups.items()
    }


def groups_of(source: Problem, y: Any = None) -> dict[str, NDArray[np.bool_]]:
    """Return masks of the pairs of positive weight that agree, disagree, and are right.

    With labels, agreeing pairs are split by whether the first sample is right.
    """
    used = source.weight > 0
    tops = [x.argmax(1).cpu().numpy()[used] for x in (source.a, source.b)]
    agree = tops[0] == tops[1]
    if y is None:
        return {"agree": agree, "disagree": ~agree}
    right = right_rows(source, y)
    return {"agree_right": agree & right, "agree_wrong": agree & ~right, "disagree": ~agree}


def right_rows(source: Problem, y: Any) -> NDArray[np.bool_]:
    """Return a mask of the pairs of positive weight whose first sample is right."""
    right: NDArray[np.bool_] = source.a.argmax(1).cpu().numpy() == _columns_of(y, source)
    return right[source.weight > 0]


def _columns_of(y: Any, source: Problem) -> NDArray[np.intp]:
    labels = as_labels(y, "y", source)
    n, n_classes = source.a.shape
    if labels.shape != (n,):
        raise ValueError(f"y: expected one label for each of {n} pairs, got shape {labels.shape}.")
    wanted = f"y: expected the columns of the true classes, 0 to {n_classes - 1}, got"
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{wanted} {labels.tolist()[0]!r} of type {labels.dtype}.")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"{wanted} {labels.min()} to {labels.max()}.")
    return labels.astype(np.intp)


def _top_posteriors(scores: torch.Tensor, beta: float) -> Floats:
    """Return the posterior of each row's predicted class; of one of them if several tie."""
    below = scores.double() - scores.double().amax(1, keepdim=True)
    tempered = torch.nan_to_num(beta * below, nan=0.0, neginf=-torch.inf)
    top: Floats = (1 / tempered.exp().sum(1)).cpu().numpy()
    return top
