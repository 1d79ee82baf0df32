"""Several axes of one figure, side by side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pa_select.plotting.axes import axes_for, pyplot


def n_columns(n: int) -> int:
    """Return how many of n panels are side by side."""
    return n if n <= 3 else math.ceil(math.sqrt(n))


def given_panels(ax: Any) -> list[Any]:
    """Return a list of the Axes in an array, or of a single Axes."""
    return [axes_for(one) for one in np.asarray(ax, dtype=object).ravel()]


def new_panels(n: int) -> list[Any]:
    """Return Axes with shared scales in a new figure, with room for a legend at the right."""
    columns = n_columns(n)
    rows = math.ceil(n / columns)
    figure, grid = pyplot().subplots(
        rows,
        columns,
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
        figsize=(2.5 * columns + 2.2, 2.2 * rows + 0.9),
    )
    axes = list(grid.ravel())
    for unused in axes[n:]:
        figure.delaxes(unused)
    for lowest in axes[n - columns : n]:  # without a panel below
        lowest.tick_params(labelbottom=True)
    return axes[:n]
