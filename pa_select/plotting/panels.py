"""Several axes of one figure, side by side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pa_select.plotting.axes import axes_for, pyplot


def n_columns(n: int) -> int:
    """How many panels of n stand side by side."""
    return n if n <= 3 else math.ceil(math.sqrt(n))


def given_panels(ax: Any) -> list[Any]:
    """The axes of an array, or the only ones."""
    return [axes_for(one) for one in np.asarray(ax, dtype=object).ravel()]


def new_panels(n: int) -> list[Any]:
    """Axes of the same scales in a new figure, with room for a legend at the right."""
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
    for lowest in axes[n - columns : n]:  # where there is nothing below
        lowest.tick_params(labelbottom=True)
    return axes[:n]
