"""Plots of robustness against the power of a shift or the share of rows it reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pa_select.plotting.axes import (
    AGREEMENT,
    DOTTED,
    Display,
    number,
    pyplot,
    style_of,
)
from pa_select.utils.typing import Axes, Floats, HasArray, Prior, Vector

if TYPE_CHECKING:
    from pa_select.shifts import RobustnessCurve

#: The two variables that can be the horizontal axis, each with the other one.
_OTHER = {"ratio": "power", "power": "ratio"}
#: The axis label of each column.
LABELS = {
    "mean_norm": "mean distance moved",
    "success_rate": "share of successful attacks",
    "pa": AGREEMENT,
    "pa_uniform": AGREEMENT,
    "beta": "inverse temperature $\\beta^*$\n(at the edges: 0, $\\infty$)",
    "standard_error": "standard error of the agreement\n(nats per pair)",
    "standard_error_uniform": "standard error of the agreement\n(nats per pair)",
    "gap": "certified gap (nats per pair)",
    "afr_pred": "share of kept predictions\n($\\mathrm{AFR_{pred}}$)",
    "pa_change": "change of the agreement\n(nats per pair)",
    "clean_accuracy": "accuracy before the shift",
    "shifted_accuracy": "accuracy under the shift",
    "afr_true": "accuracy under the shift\n($\\mathrm{AFR_{true}}$)",
    "accuracy_drop": "lost accuracy",
    "relative_accuracy_drop": "lost accuracy\n(share of that before)",
    "log_loss": "log-loss (nats)",
    "log_loss_gap": "increase of the log-loss (nats)",
    "relative_log_loss_gap": "increase of the log-loss\n(share of that before)",
    "kl": "divergence of the posteriors (nats)",
    "wasserstein": "distance of the posteriors (0 to 1)",
}
# The columns with standard errors whose name is not that of the column and "_se".
_ERRORS = {
    "pa": "standard_error",
    "pa_uniform": "standard_error_uniform",
    "afr_true": "shifted_accuracy_se",
}
# The columns that depend on the class prior.
_OF_PRIOR = ("pa", "beta", "standard_error", "gap", "pa_change")
_OF_UNIFORM_PRIOR = ("pa_uniform", "standard_error_uniform")
# Dotted and dash-dotted, both unlike the first lines of data.
_REFERENCE_STYLES = ((0, (1, 3)), (0, (8, 3, 1, 3)))
_WORDS = {"ratio": "share of shifted rows", "power": "power of the shift"}


@dataclass(eq=False, repr=False, kw_only=True)
class RobustnessCurveDisplay(Display):
    """A measure of robustness against the extent of a shift, a line for each classifier.

    Create it with `from_result`. Error bars are one standard error. Infinite values are marked at
    the edge. Several displays of one panel may share their axes; several panels have a figure of
    their own. Keywords of `plot` go to ``ax.errorbar``.

    Grey lines mark the largest possible agreement, log n_classes, and the agreement of a model
    that gives all rows the same posterior of one class: 0 under the marginal prior and log
    n_classes under the uniform one.

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

    @classmethod
    def from_result(
        cls,
        result: RobustnessCurve,
        *,
        column: str = "pa",
        x: str | None = None,
        at: Mapping[str, float] | None = None,
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
        at : dict of str to float, default=None
            The value of the other variable, such as ``{"power": 0.3}``. None: a panel for each
            value.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        return cls(**_cut(result, column, x, at)).plot(ax, **kwargs)

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

    def _axes(self, ax: Axes | None) -> Axes:
        """Find the Axes of the panels, give them titles and labels, and return the first."""
        n, label = len(self.panels), _label_of(self.column, self.prior)
        along, other = _WORDS[self.x_name], _WORDS[_OTHER[self.x_name]]
        titles = [f"{other}: {number(panel)}" for panel in self.panels]
        if n == 1:
            self.axes_ = [super()._axes(ax)]
            whole = self.x_name == "power" and self.panels[0] == 1
            self.axes_[0].set(xlabel=along if whole else f"{along} ({titles[0]})", ylabel=label)
            return self.axes_[0]
        if ax is not None:
            raise ValueError(
                f"ax: expected None for {n} panels ({other}); `at` chooses one panel."
            )
        self.axes_ = _new_panels(n)
        self.axes_[0].figure.supxlabel(along, fontsize="medium")
        self.axes_[0].figure.supylabel(label, fontsize="medium", ma="center")
        for one, title in zip(self.axes_, titles, strict=True):
            one.set_title(title, fontsize="medium")
        return self.axes_[0]

    def _scale(self, ax: Axes) -> None:
        """Use logarithmic axes for inverse temperatures and for powers in equal ratios."""
        x = np.asarray(self.x)
        if self.column == "beta":
            ax.set_yscale("log")
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
                ax.set_xticks(shown, [number(value) for value in shown])
                ax.set_xticks([], minor=True)
        elif len(x) == 1:
            ax.set_xticks(x, [number(x[0])])

    def _draw_panel(self, ax: Axes, panel: int, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        bars, edges = {}, {}
        x, n_before = np.asarray(self.x), self._n_drawn(ax)
        for i, name in enumerate(self.names):
            y = np.array(self.values[panel][i], dtype=np.float64)
            high, low = y == np.inf, (y == -np.inf) | ((y <= 0) & (ax.get_yscale() == "log"))
            at_edge = high | low
            y[at_edge] = np.nan
            error = None if self.errors is None else self.errors[panel][i]
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
        values = _reference_values(self.column, self.prior, self.n_classes)
        drawn = {line.get_label() for line in ax.lines}
        return [
            ax.axhline(value, label=label, **DOTTED | {"ls": style})
            for style, (label, value) in zip(_REFERENCE_STYLES, values.items(), strict=False)
            if label not in drawn
        ]


def _n_columns(n: int) -> int:
    """Return how many of n panels are side by side."""
    return n if n <= 3 else math.ceil(math.sqrt(n))


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


def _prior_of(column: str, prior: Prior | None) -> Prior | None:
    """Return the class prior under which a column was computed, or None without a prior."""
    if column in _OF_UNIFORM_PRIOR:
        return "uniform"
    return prior if column in _OF_PRIOR else None


def _label_of(column: str, prior: Prior | None) -> str:
    """Return the axis label of a column, with its prior."""
    under = _prior_of(column, prior)
    if under is None:
        return LABELS[column]
    return f"{LABELS[column]},\n{under if isinstance(under, str) else 'given'} prior"


def _reference_values(column: str, prior: Prior | None, n_classes: int | None) -> dict[str, float]:
    """Return the reference values of an agreement, by their labels in the legend."""
    under = _prior_of(column, prior)
    if column not in ("pa", "pa_uniform") or under is None or n_classes is None:
        return {}
    if not isinstance(under, str):
        return {"upper limit": float(-np.log(np.min(under)))}
    limit = math.log(n_classes)
    if under == "uniform":
        return {"upper limit, constant model": limit}
    return {r"upper limit ($\log K$)": limit, "constant model (0)": 0.0}


def _cut(
    curve: RobustnessCurve, column: str, x: str | None, at: Mapping[str, float] | None
) -> dict[str, Any]:
    """Return the parameters of a display."""
    lists = {"ratio": np.array(curve.ratios), "power": np.array(curve.powers)}
    if at:
        (fixed,) = at
        x = _OTHER[fixed]
    elif x is None:
        x = "power" if len(lists["ratio"]) == 1 else "ratio"
    other = _OTHER[x]
    points, panels = np.argsort(lists[x]), np.argsort(lists[other])
    if at:
        from pa_select.shifts.robustness_curve import one_of

        value = one_of(lists[other].tolist(), at[other], f"at[{other!r}]")
        panels = panels[lists[other][panels] == value]

    def arranged(numbers: HasArray) -> Floats:
        """Arrange the numbers of a column by panel, estimator and point."""
        shape = len(curve.estimators), len(curve.powers), len(curve.ratios)
        cube = np.asarray(numbers, dtype=np.float64).reshape(shape)
        cube = np.moveaxis(cube, (1, 2) if other == "power" else (2, 1), (0, 2))
        return cube[panels][:, :, points]

    errors = curve.table.get(_ERRORS.get(column, f"{column}_se"))
    return {
        "x": lists[x][points],
        "values": arranged(curve.table[column]),
        "errors": None if errors is None else arranged(errors),
        "names": list(curve.estimators),
        "panels": lists[other][panels].tolist(),
        "x_name": x,
        "column": column,
        "prior": curve.prior,
        "n_classes": curve.n_classes,
    }
