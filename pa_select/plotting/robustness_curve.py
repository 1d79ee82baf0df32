"""Plots of robustness against the power of a shift or the share of rows it reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pa_select.plotting import robustness_table
from pa_select.plotting.axes import (
    DOTTED,
    Display,
    axes_for,
    bars_within,
    check_kind,
    pyplot,
    style_of,
)
from pa_select.utils.typing import Axes, Estimators, Floats, Labels, Prior, Rows, Vector

if TYPE_CHECKING:
    from pa_select.assessment import RobustnessCurve

# Dotted and dash-dotted, both unlike the first lines of data.
_REFERENCE_STYLES = ((0, (1, 3)), (0, (8, 3, 1, 3)))
_WORDS = {"ratio": "share of shifted rows", "power": "power of the shift"}


@dataclass(eq=False, repr=False, kw_only=True)
class RobustnessCurveDisplay(Display):
    """A measure of robustness against the extent of a shift, a line for each classifier.

    Create it with `from_result` or `from_estimator`. Error bars are one standard error. Infinite
    values are marked at the edge. Several displays of one panel may share their axes; `plot`
    takes an array of Axes for several panels. Keywords of `plot` go to ``ax.errorbar``.

    Grey lines mark the largest possible agreement, log n_classes, and the agreement of a model
    that always predicts one class: 0 under the marginal prior and log n_classes under the
    uniform one.

    Parameters
    ----------
    x : array-like of shape (n_points,)
        Powers or ratios, increasing.
    values : array-like of shape (n_panels, n_estimators, n_points)
        The measure.
    errors : array-like of shape (n_panels, n_estimators, n_points), default=None
        Standard errors of `values`.
    names : sequence of n_estimators str
        Names of the estimators in the legend.
    panels : sequence of n_panels float
        The power (if `x` are ratios) or the ratio of each panel.
    x_name, column : str
        Whether `x` are a "ratio" or a "power", and which column `values` are ("pa").
    prior : {"uniform", "marginal"} or array-like, default=None
        The class prior of the agreement, for the label of its axis.
    n_classes : int, default=None
        Number of classes, for the grey lines. None: no such lines.

    Attributes
    ----------
    errorbars_, edges_ : list of (dict of str to matplotlib ErrorbarContainer; Line2D)
        The lines, and the marks of values at the edge, by estimator; a dict for each panel.
    references_ : list of (list of matplotlib Line2D)
        The grey lines that were added, a list for each panel; empty without agreements.
    axes_, ax_, figure_ : list of matplotlib Axes; Axes, Figure
        The panels, the first one, and its figure.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.1 (agreement against the adversarial ratio and the power of an attack).
    .. [2] Master's thesis on posterior agreement, sections 4.1 and 4.2, Experiments 2 to 4.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from pa_select import RobustnessCurveDisplay, robustness_curve
    >>> from pa_select.shifts import GaussianNoise
    >>> X, y = load_wine(return_X_y=True)
    >>> model, noise = GaussianNB().fit(X[::2], y[::2]), GaussianNoise(relative=True)
    >>> curve = robustness_curve(model, X[1::2], shift=noise, powers=[0.3, 1])
    >>> display = RobustnessCurveDisplay.from_result(curve)
    >>> [f"{line.get_ydata()[0]:.2f}" for line in display.references_[0]]
    ['1.10', '0.00']
    """

    x: Vector
    values: Floats
    errors: Floats | None = None
    names: Sequence[str]
    panels: Sequence[float]
    x_name: str = "ratio"
    column: str = "pa"
    prior: Prior | None = None
    n_classes: int | None = None

    _shapes = dict.fromkeys(("values", "errors"), ("panels", "names", "x"))

    @classmethod
    def from_result(
        cls,
        result: RobustnessCurve,
        *,
        column: str = "pa",
        x: str | None = None,
        at: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a column of a robustness curve.

        Parameters
        ----------
        result : RobustnessCurve
            What `pa_select.robustness_curve` returns.
        column : str, default="pa"
            The column of the table to draw, with its standard error if the table has one.
        x : {"ratio", "power"}, default=None
            The horizontal axis. None: what varies and is not fixed by `at`, or the ratio.
        at : dict of str to float or sequence of float, default=None
            Values of the other variable, such as ``{"power": 0.3}``; each has a panel. None:
            all values.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        from pa_select.assessment import RobustnessCurve

        check_kind(result, RobustnessCurve)
        return cls(**robustness_table.cut(result, column, x, at)).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimators,
        X: Rows,
        y: Labels | None = None,
        *,
        shift: Any,
        powers: float | Vector | None = None,
        ratios: float | Vector | None = None,
        prior: Prior = "marginal",
        options: Mapping[str, Any] | None = None,
        column: str = "pa",
        x: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Measure how fitted classifiers withstand a shift, and draw it.

        Parameters
        ----------
        estimator, X, y, shift, powers, prior
            As in `pa_select.robustness_curve`.
        ratios : float or sequence of float, default=None
            Shares of the rows that the shift reaches. None: 0, 0.1, ..., 1 for a single
            power, all rows for several powers.
        options : dict, default=None
            Other arguments of `pa_select.robustness_curve`, such as ``groups``. Only the metric
            of the column is computed.
        column, x, ax, **kwargs
            As in `from_result`.
        """
        pyplot()
        metrics = robustness_table.METRICS
        if column not in metrics:
            raise ValueError(f"column: expected one of {list(metrics)}, got {column!r}.")
        robustness_table.check_at(x, None)
        if ax is not None:
            _given_panels(ax)
        from pa_select.assessment import robustness_curve

        if ratios is None:
            one = powers is None or np.size(powers) == 1
            ratios = np.linspace(0, 1, 11).round(1) if one else 1.0
        curve = robustness_curve(
            estimator,
            X,
            y,
            shift=shift,
            powers=powers,
            ratios=ratios,
            metrics=[metrics[column]],
            # With the uniform prior "pa" and "pa_uniform" are equal and computed once.
            prior="uniform" if column in robustness_table.OF_UNIFORM_PRIOR else prior,
            **(options or {}),
        )
        return cls.from_result(curve, column=column, x=x, ax=ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        self.errorbars_, self.edges_, self.references_ = [], [], []
        for i, panel in enumerate(self.axes_):
            self._scale(panel)
            bars, edges = self._draw_panel(panel, i, kwargs)
            self.errorbars_.append(bars)
            self.edges_.append(edges)
            self.references_.append(self._draw_references(panel))
        handles = self._handles(ax)
        if len(self.axes_) == 1:
            self._legend(ax, handles, handlelength=3)
        else:
            corner = self.axes_[_n_columns(len(self.axes_)) - 1]
            style: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
            corner.legend(handles=handles, handlelength=3, frameon=False, **style)

    def _axes(self, ax: Any) -> Axes:
        """Find the Axes of the panels, give them titles and labels, and return the first."""
        n, label = len(self.panels), robustness_table.label_of(self.column, self.prior)
        along, other = _WORDS[self.x_name], _WORDS[robustness_table.AXES[self.x_name]]
        titles = [f"{other}: {_short(panel)}" for panel in self.panels]
        if n == 1:
            self.axes_ = [axes_for(ax)]
            whole = self.x_name == "power" and self.panels[0] == 1
            self.axes_[0].set(xlabel=along if whole else f"{along} ({titles[0]})", ylabel=label)
            return self.axes_[0]
        self.axes_ = _new_panels(n) if ax is None else _given_panels(ax)
        if len(self.axes_) != n:
            raise ValueError(
                f"ax: expected Axes for each of {n} panels ({other}), got {len(self.axes_)}; `at` "
                "chooses fewer panels."
            )
        if ax is None:
            self.axes_[0].figure.supxlabel(along, fontsize="medium")
            self.axes_[0].figure.supylabel(label, fontsize="medium", ma="center")
        for one, title in zip(self.axes_, titles, strict=True):
            one.set_title(title, fontsize="medium")
            if ax is not None:
                one.set(xlabel=along, ylabel=label)
        return self.axes_[0]

    def _scale(self, ax: Axes) -> None:
        """Use logarithmic axes for inverse temperatures and for powers in equal ratios."""
        x = np.asarray(self.x)
        if self.column == "beta":
            ax.set_yscale("log")
            self._label_inverse_temperatures(ax)
        if len(self.panels) > 1:
            from matplotlib import ticker

            # More ticks would touch those of the next panel.
            ax.xaxis.set_major_locator(ticker.MaxNLocator(3, steps=[1, 2, 5, 10]))
            ax.xaxis.set_major_formatter("{x:g}")
        if self.x_name == "power" and len(x) > 2 and x[0] > 0:
            spread = [np.std(step) / np.mean(step) for step in (np.diff(x), np.diff(np.log(x)))]
            if spread[1] < spread[0] - 1e-9:
                ax.set_xscale("log")
                shown = x[:: math.ceil(len(x) / 8)]
                ax.set_xticks(shown, [_short(value) for value in shown])
                ax.set_xticks([], minor=True)
        elif len(x) == 1:
            ax.set_xticks(x, [_short(x[0])])

    def _label_inverse_temperatures(self, ax: Axes) -> None:
        """Label with plain numbers, also between powers of ten if the axis spans few."""
        from matplotlib import ticker

        values = np.asarray(self.values, dtype=np.float64)
        known = values[(values > 0) & np.isfinite(values)]
        decades = np.log10(known.max() / known.min()) if known.size else 0.0
        between = (1, 2, 3, 5) if decades < 1 else (1, 3) if decades < 3 else (1,)
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=between))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")

    def _draw_panel(self, ax: Axes, panel: int, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        bars, edges = {}, {}
        x, n_before = np.asarray(self.x), self._n_drawn(ax)
        for i, name in enumerate(self.names):
            y = np.array(self.values[panel][i], dtype=np.float64)
            high, low = y == np.inf, (y == -np.inf) | ((y <= 0) & (ax.get_yscale() == "log"))
            at_edge = high | low
            y[at_edge] = np.nan
            error = None if self.errors is None else self.errors[panel][i]
            if error is not None and self.column in robustness_table.SHARES:
                error = bars_within(y, error, 0.0, 1.0)
            # From the seventh line on the colours repeat, with other dashes and marks.
            n = n_before + i
            style = style_of(n + n // 6).of_line | {"color": style_of(n).color, "label": name}
            style |= {"markersize": 4, "elinewidth": 0.8} | kwargs
            bars[name] = self._register(ax.errorbar(x, y, yerr=error, **style))
            line = bars[name].lines[0]
            if at_edge.any():
                style = {"transform": ax.get_xaxis_transform(), "clip_on": False, "ls": "none"}
                style |= {"marker": line.get_marker(), "markersize": 8, "mfc": "none"}
                style["mec"] = line.get_color()
                (edges[name],) = ax.plot(x[at_edge], high[at_edge].astype(float), **style)
        return bars, edges

    def _draw_references(self, ax: Axes) -> list[Any]:
        """Draw the reference values of an agreement as lines below the data."""
        values = robustness_table.reference_values(self.column, self.prior, self.n_classes)
        drawn = {line.get_label() for line in ax.lines}
        return [
            ax.axhline(value, label=label, **DOTTED | {"ls": style})
            for style, (label, value) in zip(_REFERENCE_STYLES, values.items(), strict=False)
            if label not in drawn
        ]


def _short(value: float) -> str:
    return r"$\infty$" if value == math.inf else f"{value:g}"


def _n_columns(n: int) -> int:
    """Return how many of n panels are side by side."""
    return n if n <= 3 else math.ceil(math.sqrt(n))


def _given_panels(ax: object) -> list[Any]:
    """Return a list of the Axes in an array, or of a single Axes."""
    return [axes_for(one) for one in np.asarray(ax, dtype=object).ravel()]


def _new_panels(n: int) -> list[Any]:
    """Return Axes with shared scales in a new figure, with room for a legend at the right."""
    columns = _n_columns(n)
    rows = math.ceil(n / columns)
    shared = {"sharex": True, "sharey": True, "squeeze": False, "layout": "constrained"}
    size = 2.5 * columns + 2.2, 2.2 * rows + 0.9
    figure, grid = pyplot().subplots(rows, columns, figsize=size, **shared)
    axes = list(grid.ravel())
    for unused in axes[n:]:
        figure.delaxes(unused)
    for lowest in axes[n - columns : n]:  # without a panel below
        lowest.tick_params(labelbottom=True)
    return axes[:n]
