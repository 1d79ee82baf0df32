"""Ends of axes that show the points that matter, without those far away."""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.utils.typing import Floats, Mask

# The smallest extent of the points that an axis is scaled to.
_SMALLEST_SPAN = 1e-3
# A point is far below the others if it is this many median deviations below the median.
_FAR_BELOW = 6
_MARGIN = 0.06


def far_below(points: Floats, errors: Floats) -> Mask:
    """Return which points lie far below most of the others, on any axis.

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
    """Return the ends of axes that show the points kept and the points not far from them.

    A point is far if, on some axis, its distance from the points kept is larger than their
    extent, including standard errors.

    Parameters
    ----------
    points, errors : ndarray of shape (n_points, n_axes)
        Finite coordinates and their standard errors.
    kept : ndarray of shape (n_points,) of bool
        The points kept, at least one.

    Returns
    -------
    ndarray of shape (2, n_axes) or None
        The lower and the upper ends; None if no point is far.
    """
    low, high = (points - errors)[kept].min(axis=0), (points + errors)[kept].max(axis=0)
    distance = np.clip(np.maximum(low - points, points - high), 0, None)
    # If the points kept coincide, the median distance of the others gives the scale.
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
