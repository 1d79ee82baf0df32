"""The rules for where to split an interval of inverse temperatures.

If the kernel rises at the left end of an interval and falls at the right end, the interval is
split where a maximum is expected. Any other interval is split where its bound is attained, but
away from its ends. The next point beyond the last one is where a line of the asymptotic slope
falls below the best value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.utils.typing import Floats

# Part of the result: no larger inverse temperature is tried.
LARGEST_BETA = 1e307
# Speed only: intervals over more than this factor are split on the logarithmic scale.
_WIDE = 16.0
# Speed only: an expected maximum counts if it exceeds the values at the ends by more than this,
# in nats.
_WORTH_A_STEP = 1e-7
# Speed only: of several points in an interval each is closer than the last to where it is split by
# this factor, which is below 1.
_CLOSER = 0.35


def split_between(
    left: Any, right: Any, a: Floats, c: Floats, attained: Floats
) -> tuple[Floats, Floats]:
    """Return where to split intervals, and the expected gain of a maximum there.

    Parameters
    ----------
    left, right : named tuples
        The kernel at both ends, as `Kernel.evaluate` returns it.
    a, c : ndarray of shape (n,)
        The ends.
    attained : ndarray of shape (n,)
        Where in the interval its bound is attained, from 0 at the left end to 1; nan if that
        is not known.

    Returns
    -------
    split : ndarray of shape (n,)
    gain : ndarray of shape (n,)
        By how much the maximum is expected to exceed the values at the ends, in nats; inf
        where no maximum is expected.
    """
    split = _away_from_the_ends(a + (c - a) * np.where(np.isnan(attained), 0.5, attained), a, c)
    maximum, gain = _expected_maximum(left, right, a, c)
    return np.where((maximum > a) & (maximum < c), maximum, split), gain


def split_beyond(last: Floats, slope: Floats, excess: Floats) -> Floats:
    """Return the next point beyond the last one.

    Parameters
    ----------
    last : ndarray of shape (n,)
        The last points.
    slope : ndarray of shape (n,)
        The asymptotic slope of the kernel's convex part, at most 0.
    excess : ndarray of shape (n,)
        By how much the bound beyond the last point exceeds the best value.
    """
    # If the slope is negative, the bound is below the best value from here on.
    enough = last + excess / -slope
    step = np.clip(np.where(slope < 0, enough, np.inf), 1.5 * last, 30 * last)
    return np.minimum(np.where(slope < 0, step, 4 * last), LARGEST_BETA)


def points_around(split: Floats, begin: Floats, end: Floats, most: int) -> Floats:
    """Return `split`, and on either side of it points that get closer and closer to it.

    Parameters
    ----------
    split, begin, end : ndarray of shape (n,)
        Where to split intervals, and their ends.
    most : int
        The largest number of points in each interval, which gets an odd number.

    Returns
    -------
    ndarray of shape (n_points, n)
    """
    share = _CLOSER ** np.arange(1, (most + 1) // 2)[:, None]
    return np.concatenate(
        [split - (split - begin) * share, split[None], split + (end - split) * share]
    )


def _expected_maximum(left: Any, right: Any, a: Floats, c: Floats) -> tuple[Floats, Floats]:
    """Return where a maximum between two points is expected, and its expected gain.

    The cubic that has the slopes and the curvatures of both ends interpolates the slope as a
    function of log(beta). The maximum is expected where the cubic is zero; nan if the kernel
    does not rise at the left end and fall at the right end.
    """
    h = np.log(c / a)
    # In units of beta, derivatives with respect to beta are those with respect to log(beta).
    g, k = left.slope, right.slope
    dg, dk = h * (left.curvature + g), h * (right.curvature + k)
    gain = np.full_like(h, np.inf)
    for slope, change in ((g, dg), (k, dk)):
        gain = np.fmin(gain, np.where(change < 0, -(slope**2) * h / (2 * change), np.inf))
    inside = (a > 0) & (g > 0) & (k < 0) & (gain > _WORTH_A_STEP)
    at = np.full_like(h, np.nan)
    if inside.any():
        zero = _zero_of_cubic(*(x[inside] for x in (g, k, dg, dk)))
        at[inside] = a[inside] * np.exp(h[inside] * zero)
    return at, np.where(inside, gain, np.inf)


def _zero_of_cubic(g: Floats, k: Floats, dg: Floats, dk: Floats) -> Floats:
    """Find the zero in [0, 1] of cubics with values g > 0 and k < 0 and slopes dg and dk."""
    low, high = np.zeros_like(g), np.ones_like(g)
    t = g / (g - k)
    for _ in range(8):
        u = 1 - t
        value = u * u * ((1 + 2 * t) * g + t * dg) + t * t * ((3 - 2 * t) * k - u * dk)
        slope = u * ((1 - 3 * t) * dg - 6 * t * (g - k)) - t * (2 - 3 * t) * dk
        low, high = np.where(value > 0, t, low), np.where(value > 0, high, t)
        t = t - value / slope
        t = np.where((t >= low) & (t <= high), t, (low + high) / 2)
    return t


def _away_from_the_ends(split: Floats, a: Floats, c: Floats) -> Floats:
    """Move a splitting point away from the ends of its interval."""
    ratio = c / a
    wide = (a > 0) & (ratio > _WIDE)
    low = np.where(wide, a * ratio**0.25, a + 0.1 * (c - a))
    high = np.where(wide, a * ratio**0.75, c - 0.1 * (c - a))
    low = np.where(a == 0, 0.02 * c, low)
    return np.clip(split, low, high)
