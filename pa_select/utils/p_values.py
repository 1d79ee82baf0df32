"""p-values of differences, and Holm's adjustment for several comparisons."""

from __future__ import annotations

import math

import numpy as np

from pa_select.utils.typing import Floats

#: Two candidates are told apart if the p-value of no difference is below this level.
LEVEL_TOLD_APART = 0.05


def p_value(mean: float, error: float, n: int, largest: float, rounding: float = 0.0) -> float:
    """Return the two-sided p-value of no mean difference, by Student's t with a correction.

    The correction is that of `pa_select.compare_agreement`: one pair is added that speaks against
    the mean difference. `mean` and `error` are the mean of the differences of n independent units
    (pairs or groups) and its standard error, and `largest` is the largest absolute difference. The
    p-value is 1 if no difference is larger than `rounding`, and nan if n is less than 2 or the
    error is nan.
    """
    # Imported here: scipy would slow the command line.
    from scipy.special import stdtr

    if n < 2 or not math.isfinite(error):
        return math.nan
    if largest <= rounding:
        return 1.0
    squares = error**2 * n * (n - 1)  # around the mean
    against = max(0.0, largest - math.sqrt(squares / n + mean**2))
    corrected = (n * abs(mean) - against) / (n + 1)
    if corrected <= 0:
        return 1.0
    squares += n * (abs(mean) - corrected) ** 2 + (against + corrected) ** 2
    t = corrected / math.sqrt(squares / (n * (n + 1)))
    return float(2 * stdtr(n - 1, -t))


def adjust_by_holm(p_values: Floats) -> Floats:
    """Adjust p-values by Holm's method; nan values stay nan and are not counted."""
    adjusted = np.full(p_values.shape, np.nan)
    made = ~np.isnan(p_values)
    p = p_values[made]
    order = np.argsort(p)
    scaled = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    back = np.empty(len(p))
    back[order] = np.minimum(scaled, 1)
    adjusted[made] = back
    return adjusted
