"""A robustness curve as notebooks show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pa_select.utils.html import bar_cell, table

#: Rows that a notebook shows.
_SHOWN = 30
_SHARES = {"clean_accuracy": "accuracy", "shifted_accuracy": "accuracy under the shift"}


def table_of_curve(columns: Mapping[str, Any]) -> str:
    """Return agreement and accuracies of a curve's first rows, with bars."""
    n = len(columns["pa"])
    most = float(np.nanmax(columns["pa"], initial=0.0))
    shares = [column for column in _SHARES if column in columns]

    def row(i: int) -> tuple[str, list[str]]:
        name = f"{columns['estimator'][i]}, power {columns['power'][i]:g}"
        if columns["ratio"][i] != 1:
            name += f", share {columns['ratio'][i]:g}"
        cells = [bar_cell(columns["pa"][i], most, f"{columns['pa'][i]:.2f}")]
        return name, cells + [bar_cell(columns[c][i], 1, f"{columns[c][i]:.2f}") for c in shares]

    caption = "Agreement in nats per pair" + (" and accuracies" if shares else "")
    if n > _SHOWN:
        caption += f"; the first {_SHOWN} of {n} rows"
    header = ["estimator", "agreement", *(_SHARES[column] for column in shares)]
    return table(caption, header, [row(i) for i in range(min(n, _SHOWN))])
