"""A heat map of rank correlations of measures with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import axes_for, ink, legend_above, pyplot

if TYPE_CHECKING:
    from pa_select.assessment import RankCorrelation


class RankCorrelationDisplay:
    """Kendall's tau of every measure with every gap as a heat map.

    Create it with `from_correlation`. Correlations whose adjusted p-value is below the level
    are written in bold with a star.

    Parameters
    ----------
    tau : array-like of shape (n_measures, n_gaps)
        The correlations; nan leaves a cell empty.
    measures, gaps : sequence of str
        Names of the rows and of the columns.
    p_value : array-like of shape (n_measures, n_gaps), default=None
        P-values that decide which correlations are marked. None: no marks.
    level : float, default=0.05
        Correlations with a p-value below it are marked.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The heat map, with colours from -1 to 1.
    texts_ : ndarray of shape (n_measures, n_gaps) of matplotlib Text, or None
        The values in the cells.
    colorbar_ : matplotlib Colorbar or None
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.assessment.rank_correlation : Computes the numbers.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", figures 7 to 12.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.assessment import rank_correlation
    >>> from pa_select.plotting import RankCorrelationDisplay
    >>> rng = np.random.default_rng(0)
    >>> loss = rng.normal(size=40)
    >>> measures = {"good": rng.normal(size=40) - 2 * loss, "useless": rng.normal(size=40)}
    >>> found = rank_correlation(measures, {"accuracy drop": loss})
    >>> display = RankCorrelationDisplay.from_correlation(found)
    >>> [text.get_text() for text in display.texts_[:, 0]]
    ['-0.66*', '0.09']
    """

    def __init__(
        self,
        *,
        tau: Any,
        measures: Sequence[Any],
        gaps: Sequence[Any],
        p_value: Any = None,
        level: float = 0.05,
    ) -> None:
        self.tau = tau
        self.measures = measures
        self.gaps = gaps
        self.p_value = p_value
        self.level = level

    @classmethod
    def from_correlation(
        cls,
        correlation: RankCorrelation,
        *,
        level: float = 0.05,
        ax: Any = None,
        **kwargs: Any,
    ) -> RankCorrelationDisplay:
        """Draw what `pa_select.assessment.rank_correlation` returns.

        Parameters
        ----------
        correlation : RankCorrelation
            The correlations.
        level : float, default=0.05
            Correlations with an adjusted p-value below it are marked.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        RankCorrelationDisplay

        Raises
        ------
        TypeError
            If `correlation` is not a RankCorrelation.
        """
        pyplot()
        if not hasattr(correlation, "p_adjusted"):
            raise TypeError(
                f"correlation: expected a RankCorrelation, got {type(correlation).__name__}."
            )
        display = cls(
            tau=correlation.tau,
            measures=correlation.measures,
            gaps=correlation.gaps,
            p_value=correlation.p_adjusted,
            level=level,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        include_values: bool = True,
        values_format: str = ".2f",
        cmap: Any = "RdBu_r",
        colorbar: bool = True,
        im_kw: dict[str, Any] | None = None,
        text_kw: dict[str, Any] | None = None,
    ) -> RankCorrelationDisplay:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure, larger for many measures and gaps.
        include_values : bool, default=True
            Whether to write the values into the cells.
        values_format : str, default=".2f"
            Format of the values.
        cmap : str or matplotlib Colormap, default="RdBu_r"
            The colour map; by default two hues that meet at 0.
        colorbar : bool, default=True
            Whether to draw a colour bar.
        im_kw, text_kw : dict, default=None
            Passed on to ``ax.imshow`` and to the values' ``ax.text``.

        Returns
        -------
        RankCorrelationDisplay
            This display.

        Raises
        ------
        ValueError
            If there is not one name for each row and column, or not one p-value for each
            correlation.
        """
        tau = np.asarray(self.tau, dtype=np.float64)
        p_value = np.asarray(np.ones(tau.shape) if self.p_value is None else self.p_value)
        measures, gaps = ([str(name) for name in names] for names in (self.measures, self.gaps))
        if tau.shape != (len(measures), len(gaps)):
            raise ValueError(
                f"tau: expected shape {(len(measures), len(gaps))} by the names, got {tau.shape}."
            )
        if p_value.shape != tau.shape:
            raise ValueError(f"p_value: expected shape {tau.shape}, got {p_value.shape}.")
        em = pyplot().rcParams["font.size"] / 72
        longest = max(map(len, measures))
        size = (0.62 * len(gaps) + 0.6 * em * longest + 1.4, 0.3 * len(measures) + 1.4)
        ax = axes_for(ax, figsize=size)
        style = {"cmap": cmap, "vmin": -1, "vmax": 1, "aspect": "auto"} | (im_kw or {})
        self.image_ = ax.imshow(np.ma.masked_invalid(tau), **style)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax, label="Kendall's $\\tau$")
        self.texts_ = None
        if include_values:
            self.texts_ = np.empty(tau.shape, dtype=object)
            for (i, j), value in np.ndenumerate(tau):
                marked = bool(p_value[i, j] < self.level)
                own = {
                    "ha": "center",
                    "va": "center",
                    "color": self._colour(value),
                    "fontweight": "bold" if marked else "normal",
                }
                text = _without_minus_zero(format(value, values_format)) + "*" * marked
                text = text if np.isfinite(value) else ""
                self.texts_[i, j] = ax.text(j, i, text, **own | (text_kw or {}))
        ax.set_xticks(range(len(gaps)), gaps, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(len(measures)), measures)
        ax.set(xlabel="gap", ylabel="measure")
        ax.tick_params(length=0)
        if include_values and self.p_value is not None:
            from matplotlib.lines import Line2D

            label = f"adjusted p < {self.level:g}"
            style = {"marker": "*", "color": ink(ax), "linestyle": "none", "label": label}
            legend_above(ax, [Line2D([], [], **style)], handlelength=1)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _colour(self, value: float) -> str:
        """Return black or white, whichever contrasts with the cell."""
        if np.isnan(value):
            return "black"
        red, green, blue, _ = self.image_.cmap(self.image_.norm(value))
        return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def _without_minus_zero(text: str) -> str:
    return text if text.strip("-0.%") else text.lstrip("-")
