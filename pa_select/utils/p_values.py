"""p-values of differences, and Holm's adjustment for several comparisons."""

from __future__ import annotations

import math

import numpy as np

from pa_select.utils.typing import Floats


def p_value(difference: float, error: float) -> float:
    """Return the two-sided normal p-value of a difference; nan if its standard error is nan."""
    if error > 0:
        return math.erfc(abs(difference) / error / math.sqrt(2))
    return float(difference == 0) if error == 0 else math.nan


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
