"""What the displays share: their base class, axes, colours and labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Axes, Line, Vector

#: Axis label of the agreement.
AGREEMENT = "agreement (nats per pair)"
#: Colour of helper lines; visible on a light and on a dark background.
GREY = "0.5"
#: Style of a line at a value to compare with.
DOTTED: dict[str, Any] = {"color": GREY, "lw": 1, "ls": (0, (1, 3)), "zorder": 0}


class Display(ABC):
    """Base class of the displays.

    ``from_result`` draws a result: it passes `ax` and keywords on to `plot`, and returns the
    display. Subclasses are dataclasses of what they show, and override `_draw`.
    """

    ax_: Axes
    figure_: Any

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in, of a figure with ``layout="constrained"``, since the legend may be
            above them. None: a new figure.
        **kwargs : dict
            Passed on to the function of matplotlib that the class names.

        Returns
        -------
        Display
            This display.
        """
        ax = self._axes(ax)
        self._draw(ax, **kwargs)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _figsize(self) -> tuple[float, float] | None:
        """Return the size of a new figure in inches; None for matplotlib's own."""
        return None

    def _axes(self, ax: Axes | None) -> Axes:
        """Return the axes given, or those of a new figure that clips no label."""
        plt = pyplot()
        if ax is None:
            return plt.subplots(layout="constrained", figsize=self._figsize())[1]
        return ax

    @abstractmethod
    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        """Draw into the axes."""

    # What the `_draw` of several displays needs.

    @staticmethod
    def _legend(ax: Axes, handles: list[Any], **style: Any) -> Any:
        """Draw a legend above the axes, where it hides nothing, in as few rows as fit.

        Handles that are None are left out.
        """
        handles = [handle for handle in handles if handle is not None]
        style |= {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.3}
        for n_columns in range(max(len(handles), 1), 0, -1):
            legend = ax.legend(handles=handles, ncols=n_columns, frameon=False, **style)
            if legend.get_window_extent().width <= ax.get_window_extent().width:
                break
        return legend

    @staticmethod
    def _mark(ax: Axes, x: Vector, y: Vector, marker: str, **style: Any) -> Line:
        """Draw a mark with an edge; "*" is the large one of what is chosen."""
        style = {"markersize": 16 if marker == "*" else 10, "linestyle": "none"} | style
        edge = {"markeredgecolor": text_colour(ax), "markeredgewidth": 0.8}
        return ax.plot(x, y, marker=marker, **edge, **style)[0]

    def _register(self, artist: Any) -> Any:
        """Mark an artist as one of this class, so that the next one looks different; return it."""
        artist._pa_select_kind = type(self)
        return artist

    def _n_drawn(self, ax: Axes) -> int:
        """Return how many registered artists of this class the axes hold."""
        artists = [*ax.lines, *ax.containers]
        return sum(getattr(one, "_pa_select_kind", None) is type(self) for one in artists)

    @staticmethod
    def _handles(ax: Axes) -> list[Any]:
        """Return the legend's handles of what axes hold, those of registered artists first."""
        handles = ax.get_legend_handles_labels()[0]
        return sorted(handles, key=lambda handle: not hasattr(handle, "_pa_select_kind"))


class Look(NamedTuple):
    """The look of one of several models or lines, distinct also without colour."""

    color: str
    linestyle: Any
    marker: str

    @property
    def of_line(self) -> dict[str, Any]:
        """The keywords of a line."""
        return {"color": self.color, "linestyle": self.linestyle, "marker": self.marker}


# Okabe and Ito's colours, which the colour-blind can distinguish.
_LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#D55E00", (0, (5, 2)), "s"),
    Look("#009E73", (0, (5, 2, 1, 2)), "^"),
    Look("#CC79A7", (0, (1, 1.5)), "D"),
    Look("#56B4E9", (0, (9, 2)), "v"),
    Look("#E69F00", (0, (5, 2, 1, 2, 1, 2)), "P"),
)


def style_of(number: int) -> Look:
    """Return the look with this number; the looks repeat."""
    return _LOOKS[number % len(_LOOKS)]


def pyplot() -> Any:
    """Import matplotlib.pyplot, or raise an error that names its extra."""
    return optional_import("matplotlib.pyplot", "plot")


def text_colour(ax: Axes) -> Any:
    """Return the colour of the axes' labels."""
    return ax.xaxis.label.get_color()


def number(value: float) -> str:
    """Return a number with at most four digits, for a label."""
    return r"$\infty$" if value == math.inf else f"{value:.4g}"
