"""Axes, colours and labels that the displays share."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np

from pa_select.utils.messages import optional_import

#: Axis label of the agreement.
AGREEMENT = "agreement (nats per pair)"
#: Colour of helper lines; visible on a light and on a dark background.
GREY = "0.5"
#: Mark of what is chosen.
STAR = {"marker": "*", "markersize": 16, "markeredgewidth": 0.8, "linestyle": "none"}


class Look(NamedTuple):
    """The look of one of several models or lines, distinct also without colour."""

    color: str
    linestyle: Any
    marker: str
    hatch: str


# Okabe and Ito's colours, which the colour-blind can distinguish.
_LOOKS = (
    Look("#0072B2", "-", "o", ""),
    Look("#D55E00", (0, (5, 2)), "s", "//"),
    Look("#009E73", (0, (5, 2, 1, 2)), "^", ".."),
    Look("#CC79A7", (0, (1, 1.5)), "D", "xx"),
    Look("#56B4E9", (0, (9, 2)), "v", "\\\\"),
    Look("#E69F00", (0, (5, 2, 1, 2, 1, 2)), "P", "oo"),
)


def look(number: int) -> Look:
    """Return the look with this number; the looks repeat."""
    return _LOOKS[number % len(_LOOKS)]


def pyplot() -> Any:
    """Import matplotlib.pyplot, or raise an error that names its extra."""
    return optional_import("matplotlib.pyplot", "plot")


def axes_for(ax: Any, **figure: Any) -> Any:
    """Return the axes given, or those of a new figure that clips no label."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(layout="constrained", **figure)[1]
    if not hasattr(ax, "get_xlim"):
        raise TypeError(f"ax: expected matplotlib Axes or None, got {type(ax).__name__}.")
    return ax


def legend_above(ax: Any, handles: list[Any], **style: Any) -> Any:
    """Draw a legend above the axes, where it hides nothing, in as few rows as fit."""
    from matplotlib.font_manager import FontProperties

    size = style.get("fontsize", pyplot().rcParams["legend.fontsize"])
    em = FontProperties(size=size).get_size_in_points() / 72
    room = ax.get_position().width * ax.figure.get_size_inches()[0]
    # Count each command in a formula as one letter.
    texts = [re.sub(r"\\\w+", "x", handle.get_label()).replace("$", "") for handle in handles]
    widths = [em * (4 + 0.52 * len(text)) for text in texts]

    def fits(n_columns: int) -> bool:
        return sum(max(column) for column in np.array_split(widths, n_columns)) <= room

    n_columns = next((n for n in range(len(handles), 1, -1) if fits(n)), 1)
    return ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.3,
        ncols=n_columns,
        frameon=False,
        **style,
    )


def bars_within(values: Any, errors: Any, low: Any, high: Any) -> Any:
    """Return the lengths of error bars below and above values, cut off at bounds.

    nan and infinite bounds cut off nothing.
    """
    values = np.asarray(values, dtype=np.float64)
    room = np.maximum([values - low, high - values], 0)
    return np.fmin([errors, errors], room)


def ink(ax: Any) -> Any:
    """Return the colour of the axes' labels."""
    return ax.xaxis.label.get_color()


def n_drawn(ax: Any, kind: str) -> int:
    """Return how many lines of a kind, marked by `mark_as`, the axes hold."""
    return sum(getattr(line, "_pa_select_kind", None) == kind for line in ax.lines)


def mark_as(line: Any, kind: str) -> Any:
    """Mark a line as one of a kind, so that the next one looks different, and return it."""
    line._pa_select_kind = kind
    return line


def number(value: float) -> str:
    """Return a number with three digits, for a label."""
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:#.3g}".partition("e")
    mantissa = mantissa.rstrip(".")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if exponent else mantissa
