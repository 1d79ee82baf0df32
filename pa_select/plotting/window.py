"""The part of a plane that shows the points that matter, whatever lies far away."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Points closer than this on an axis are not worth an axis of their own.
_SMALLEST_SPAN = 1e-3
# Median deviations below the median at which a point lies far below the others.
_FAR_BELOW = 6
_MARGIN = 0.06


def far_below(points: Floats, errors: Floats) -> Mask:
    """Which points lie far below most of the others, on any axis.

    Parameters
    ----------
    points, errors : ndarray of shape (n_points, n_axes)
        Finite coordinates and their standard errors.

    Returns
    -------
    ndarray of shape (n_points,) of bool
    """
    middle = np.median(points, axis=0)
    deviation = np.median(np.abs(points - middle), axis=0)
    scale = np.maximum(np.maximum(deviation, np.median(errors, axis=0)), _SMALLEST_SPAN)
    far: Mask = (points < middle - _FAR_BELOW * scale).any(axis=1)
    return far


def window(points: Floats, errors: Floats, kept: Mask) -> Any:
    """Ends of the axes that show the points kept, and what is not far from them.

    A point is far from those kept if, on some axis, its distance from them is larger than
    their extent with their standard errors.

    Parameters
    ----------
    points, errors : ndarray of shape (n_points, n_axes)
        Finite coordinates and their standard errors.
    kept : ndarray of shape (n_points,) of bool
        At least one of them.

    Returns
    -------
    ndarray of shape (2, n_axes) or None
        The lower and the upper ends; None where no point is far.
    """
    low, high = (points - errors)[kept].min(axis=0), (points + errors)[kept].max(axis=0)
    distance = np.clip(np.maximum(low - points, points - high), 0, None)
    # Where the points kept coincide, half of the others give the scale.
    others = distance[~kept] if not kept.all() else distance
    extent = high - low
    extent = np.where(extent < _SMALLEST_SPAN, np.median(others, axis=0), extent)
    near = (distance <= extent).all(axis=1)
    if near.all():
        return None
    low = np.minimum(low, points[near].min(axis=0))
    high = np.maximum(high, points[near].max(axis=0))
    margin = np.maximum(_MARGIN * (high - low), _SMALLEST_SPAN)
    return np.stack([low - margin, high + margin])
