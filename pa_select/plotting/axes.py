"""What the displays share: their base class, axes, colours and labels."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from pa_select.utils.messages import optional_import

#: Axis label of the agreement.
AGREEMENT = "agreement (nats per pair)"
#: Colour of helper lines; visible on a light and on a dark background.
GREY = "0.5"
#: Mark of what is chosen.
STAR = {"marker": "*", "markersize": 16, "markeredgewidth": 0.8, "linestyle": "none"}


class Display(ABC):
    """Base class of the displays.

    ``from_result`` draws a given result and ``from_estimator`` computes one first; both return
    the display. Subclasses are dataclasses of what they show, and override `_draw`.
    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to the function of matplotlib that the class names.

        Returns
        -------
        Display
            This display.
        """
        self._check()
        ax = self._axes(ax)
        self._draw(ax, **kwargs)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _check(self) -> None:  # noqa: B027  (not every display needs it)
        """Raise an error if the parameters do not match, before there is a figure."""

    def _figsize(self) -> tuple[float, float] | None:
        """Return the size of a new figure in inches; None for matplotlib's own."""
        return None

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, figsize=self._figsize())

    @abstractmethod
    def _draw(self, ax: Any, **kwargs: Any) -> None:
        """Draw into the axes."""


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


def check_kind(result: Any, kind: type, name: str = "result") -> None:
    """Raise a TypeError if a result is not of the class `kind`."""
    if not isinstance(result, kind):
        raise TypeError(f"{name}: expected {_a(kind)}, got {type(result).__name__}.")


def named_results(
    result: Any, kind: type, or_else: str = ""
) -> tuple[list[Any], list[str] | None]:
    """Return results of the class `kind`, and their names if they are given as a dict."""
    if isinstance(result, kind):
        return [result], None
    if not isinstance(result, Mapping) or not result:
        got = "an empty dict" if isinstance(result, Mapping) else type(result).__name__
        raise TypeError(f"result: expected {or_else}{_a(kind)} or a dict of these, got {got}.")
    for name, one in result.items():
        check_kind(one, kind, f"result[{name!r}]")
    return list(result.values()), [str(name) for name in result]


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
