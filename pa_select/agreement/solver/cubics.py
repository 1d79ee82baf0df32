"""The bound of a kernel on an interval by a cubic from either end."""

from __future__ import annotations

import numpy as np

from pa_select.utils.typing import Floats


def two_cubics(
    value: Floats, slope: Floats, curvature: Floats, third: Floats
) -> tuple[Floats, Floats]:
    """Bound a kernel on n intervals of length 1; return where the bounds are attained, too.

    The arguments have the shape (2, n), for the left and the right ends. Seen from either end the
    kernel is at most value + slope t + curvature t^2 / 2 + third t^3 / 6 at the distance t. So a
    slope is that into the interval. `third` must not be negative; where it is not finite there is
    no bound, nan.
    """
    # The cubics may meet anywhere; here their remainders are equal.
    rise, fall = np.cbrt(third)
    meeting = np.where(rise + fall > 0, fall / (rise + fall), 0.5)
    ends = np.array([meeting, 1 - meeting])
    (from_left, from_right), (t_left, t_right) = _cubic_maximum(
        value, slope, curvature, third, ends
    )
    return (
        np.maximum(from_left, from_right),
        np.where(from_left >= from_right, t_left, 1 - t_right),
    )


def _cubic_maximum(
    c0: Floats, c1: Floats, c2: Floats, c3: Floats, end: Floats
) -> tuple[Floats, Floats]:
    """Return the maximum of c0 + c1 t + c2 t^2 / 2 + c3 t^3 / 6 on [0, end], and its place.

    c3 must not be negative.
    """
    discriminant = c2 * c2 - 2 * c1 * c3
    t = 2 * c1 / (np.sqrt(np.maximum(discriminant, 0)) - c2)
    inside = (discriminant >= 0) & (t > 0) & (t < end)
    t = np.where(inside, t, 0.0)

    def cubic(t: Floats) -> Floats:
        value: Floats = c0 + t * (c1 + t * (c2 / 2 + t * c3 / 6))
        return value

    inner, outer = cubic(t), cubic(end)
    known = np.isfinite(discriminant)
    return np.where(known, np.maximum(inner, outer), np.nan), np.where(outer > inner, end, t)
