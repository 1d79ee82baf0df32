"""The columns of ``cv_results_`` that say what candidates will score at a new site."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pa_select.scores.new_site import FEWEST_SITES, Scale, interval_of_new_site
from pa_select.utils.typing import Floats


def new_site_names(metric: str) -> tuple[str, str]:
    """Return the names of the columns of the two ends of a metric's interval."""
    suffix = "" if metric == "score" else f"_{metric}"
    return f"new_site_low{suffix}", f"new_site_high{suffix}"


def new_site_columns(
    metric: str, scores: Floats, sizes: Floats, *, of_regressors: bool
) -> dict[str, Floats]:
    """Make the columns from the scores at the sites, (n_sites, n_candidates), and their rows.

    Sites without a score of any candidate are left out, such as those that lack a class.
    Candidates that lack a score at one of the others have nan. There are no columns if fewer than
    three sites are left.
    """
    known = np.isfinite(scores).any(axis=1)
    if known.sum() < FEWEST_SITES:
        return {}
    scores = scores[known]
    scale = _scale_of(scores[np.isfinite(scores)], of_regressors)
    ends = interval_of_new_site(scores.T, sizes[known] if scale.is_rate else None, scale)
    return dict(zip(new_site_names(metric), ends, strict=True))


def new_site_interval_of(
    table: Mapping[str, Any], metric: str, candidate: int
) -> tuple[float, float]:
    """Return a candidate's interval; nan if there is none."""
    low, high = (
        float(table[name][candidate]) if name in table else math.nan
        for name in new_site_names(metric)
    )
    return low, high


def _scale_of(scores: Floats, of_regressors: bool) -> Scale:
    """Guess the bounds of a metric from the scores of all candidates at all sites."""
    lowest, highest = scores.min(), scores.max()
    if highest <= 0 and lowest < 0:  # losses and errors have a minus sign
        return Scale(-math.inf, 0.0)
    if of_regressors:
        return Scale(-math.inf, 1.0 if highest <= 1 else math.inf)
    if lowest >= -1 and highest <= 1:
        return Scale(0.0 if lowest >= 0 else -1.0, 1.0)
    return Scale(-math.inf, math.inf)
