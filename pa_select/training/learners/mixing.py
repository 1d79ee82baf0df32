"""Choosing partners of rows, and mixing rows with their partners."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Index = NDArray[np.intp]


def partners(
    same: NDArray[np.generic], other: NDArray[np.generic], rng: np.random.RandomState
) -> Index:
    """Draw a partner for each row that is equal in `same` and different in `other`.

    A row for which there is none is its own partner.
    """
    partner = np.arange(len(same))
    for value in np.unique(same):
        group = np.flatnonzero(same == value)
        for excluded in np.unique(other[group]):
            mine = other[group] == excluded
            candidates = group[~mine]
            if len(candidates):
                partner[group[mine]] = rng.choice(candidates, mine.sum())
    return partner


def mixup(X: torch.Tensor, partner: torch.Tensor, weight: float) -> torch.Tensor:
    """Interpolate between each row, with weight `weight`, and its partner.

    Raises
    ------
    TypeError
        If the rows are not floats.
    """
    if not X.is_floating_point():
        raise TypeError(f"X: expected floats to mix, got {X.dtype}.")
    return weight * X + (1 - weight) * X[partner]


def cutmix(
    X: torch.Tensor, partner: torch.Tensor, weight: float, rng: np.random.RandomState
) -> tuple[torch.Tensor, float]:
    """Replace a box of each image, about 1 - `weight` of the area, by its partner's.

    The box is the same for all images, and is cut at the border.

    Returns
    -------
    Tensor, float
        The images, and the share of each image that is not replaced.

    Raises
    ------
    ValueError
        If the rows are not images.
    """
    if X.ndim < 3:
        raise ValueError(
            "mix: expected images of shape (n, ..., height, width) for 'cutmix', got shape "
            f"{tuple(X.shape)}."
        )
    box = []
    for length in X.shape[-2:]:
        half, middle = int(length * np.sqrt(1 - weight)) // 2, rng.randint(length)
        box.append(slice(max(middle - half, 0), min(middle + half, length)))
    mixed = X.clone()
    mixed[..., box[0], box[1]] = X[partner][..., box[0], box[1]]
    area = np.prod([side.stop - side.start for side in box]) / np.prod(X.shape[-2:])
    return mixed, float(1 - area)
