"""Rank correlations as a heat map, like the study's figures 7 to 12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pa_select.utils.typing import Axes, Matrix


def draw_correlations(
    ax: Axes,
    tau: Matrix,
    measures: Sequence[str],
    gaps: Sequence[str],
    p_value: Matrix | None = None,
    *,
    fontsize: float = 8,
) -> Any:
    """Draw Kendall's tau of every measure with every gap, and return the image.

    Correlations whose p-value is below 0.05 are bold with a star; nan leaves a cell empty.
    """
    tau = np.asarray(tau, dtype=np.float64)
    marked = np.zeros(tau.shape, bool) if p_value is None else np.asarray(p_value) < 0.05
    colours = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "aspect": "auto"}
    image = ax.imshow(np.ma.masked_invalid(tau), **colours)
    for (i, j), value in np.ndenumerate(tau):
        if np.isfinite(value):
            text = f"{value:.2f}".replace("-0.00", "0.00") + "*" * int(marked[i, j])
            style = {"ha": "center", "va": "center", "fontsize": fontsize}
            style["color"] = "white" if abs(value) > 0.6 else "black"
            ax.text(j, i, text, weight="bold" if marked[i, j] else "normal", **style)
    ax.set_xticks(range(len(gaps)), gaps, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(measures)), measures)
    ax.tick_params(length=0)
    return image
