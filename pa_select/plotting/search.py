"""Plots of a search's candidates by score and by what decides between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_regressor

from pa_select.model_selection.rules import (
    column,
    cv_results_of,
    decides,
    errors_of,
    first_metric,
    new_site_names,
    rule_of,
)
from pa_select.model_selection.summary import (
    LEAST_NATS,
    candidate_names,
    column_in_words,
    metric_in_words,
)
from pa_select.plotting.axes import (
    AGREEMENT,
    GREY,
    Display,
    pyplot,
    style_of,
    text_colour,
)
from pa_select.utils.typing import Axes, Floats, Labels, Line, Mask, Search, Vector

_MEAN = "mean_test_"
# Opacity of the error bars.
_ALPHA = 0.7
# Area of the discs of all weights together, in square points, and their opacity.
_AREA, _ALPHA_OF_DISCS = 2500, 0.25
# Scores closer than this differ only by rounding.
_TIE = 1e-9
# The smallest extent of the points that an axis is scaled to.
_SMALLEST_SPAN = 1e-3
# A point is far below the others if it is this many median deviations below the median.
_FAR_BELOW = 6
_MARGIN = 0.06


@dataclass(eq=False, repr=False, kw_only=True)
class PASearchDisplay(Display):
    """What decides between a search's candidates against their score, with the chosen one marked.

    Create it with `from_result`. The agreement decides, or for pairs the expected score at another
    site. If the score alone would choose another candidate, that one is marked too. Keywords of
    `plot` go to ``ax.errorbar`` of all candidates.

    Candidates without a score, or without what decides (they failed, or have no class scores),
    cannot be drawn; the legend counts them. Candidates that are further from the eligible ones, in
    score or agreement, than these are from each other, and without a guard eligible ones far below
    the others, are outside the axes: the legend counts them, and marks at the edges show their
    direction. ``ax_.autoscale()`` shows all. Set a title with ``figure_.suptitle``.

    Parameters
    ----------
    score, score_error : array-like of shape (n_candidates,)
        Mean score of each candidate and its standard error.
    value, value_error : array-like of shape (n_candidates,)
        What decides, the agreement in nats per pair or the expected score at the other site, and
        its standard error; no `value_error`: no error bars.
    eligible : array-like of shape (n_candidates,) of bool
        Whether the candidate could be chosen.
    names : sequence of n_candidates str, default=None
        Names of the candidates. None: no names in the legend.
    best_index : int, default=None
        The candidate that was chosen.
    threshold : float, default=nan
        The lowest score that the guard allows; nan if there is no guard.
    score_name, value_name : str
        Names of the score and of what decides.
    new_site_low, new_site_high : array-like of shape (n_candidates,), default=None
        The ends of the interval of each candidate's score at a new site, which the legend gives
        for the chosen one; nan if they are not known. None: no interval.
    weights : array-like of shape (n_candidates,), default=None
        Share of the vote that each candidate has in a committee, the area of a disc behind its
        mark. None: no discs.

    Attributes
    ----------
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The candidates, "eligible" and "not eligible"; kinds without candidates are missing.
    threshold_, chosen_, score_choice_ : matplotlib Line2D or None
        The guard's threshold, and the marks of the chosen candidate and of another one if its
        score is the best.
    weights_ : matplotlib PathCollection or None
        The discs of the weights.
    outside_ : matplotlib Line2D or None
        Marks at the edges of the axes, in the direction of candidates outside the axes.
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.PASearchCV : The search.
    pa_select.model_selection.GuardedSelection : Decides which candidates are eligible.
    ExpectedScoreDisplay : Expected scores with their intervals, a row for each candidate.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from pa_select import PASearchCV, PASearchDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearDiscriminantAnalysis(solver="lsqr")
    >>> search = PASearchCV(model, {"shrinkage": [0, 0.1, 0.5, 0.9]}).fit(X, y)
    >>> display = PASearchDisplay.from_result(search)
    >>> display.chosen_.get_label(), display.score_choice_.get_label()
    ('chosen: shrinkage=0', 'best score: shrinkage=0.1')
    """

    score: Vector
    score_error: Vector
    value: Vector
    value_error: Vector | None = None
    eligible: Labels
    names: Sequence[str] | None = None
    best_index: int | None = None
    threshold: float = np.nan
    score_name: str = "score"
    value_name: str = AGREEMENT
    new_site_low: Vector | None = None
    new_site_high: Vector | None = None
    weights: Vector | None = None

    @classmethod
    def from_result(cls, result: Search, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the candidates of a fitted search, named by the parameters that differ.

        Parameters
        ----------
        result : PASearchCV, PARandomizedSearchCV or a search of scikit-learn
            A fitted search. One of scikit-learn has a `GuardedSelection` as its ``refit``.
        ax, **kwargs
            As in `plot`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        """
        pyplot()
        table = cv_results_of(result, "result")
        metric, name = first_metric(result, table), decides(result)
        scoring = getattr(result, "scoring", None)
        rule = result.refit
        if "eligible" in table:  # a search of ours, which has rules by name
            named = result.multimetric_ and rule == metric
            given = {"sites": "disagreement" in table, "views": f"{_MEAN}{metric}_views" in table}
            rule = rule_of(rule, metric, may_be_rule=not named, **given)
        of_score = getattr(rule, "score", metric)  # a function may look at no score
        expected = f"expected_{metric}"
        if name == expected or is_regressor(result.estimator):
            name, value_name = expected, f"expected {metric_in_words(metric, scoring)}"
            value_name += " at the other site"
        else:
            name = "agreement" if name == f"mean_test_{of_score}" else name.removeprefix(_MEAN)
            # A search of ours says what the column is; others have the agreement as a metric.
            of_other = "eligible" in table and not name.startswith("agreement")
            value_name = column_in_words(name, scoring) if of_other else AGREEMENT
        value = column(table, name)
        score, error = column(table, of_score), errors_of(table, of_score)
        eligible = np.isfinite(score) & np.isfinite(value)
        if "eligible" in table:
            eligible = np.asarray(table["eligible"], dtype=bool)
        elif hasattr(rule, "eligible"):
            eligible = rule.eligible(table)
        # A guard that excludes nobody would only widen the axes.
        guard = rule.lowest(table) if hasattr(rule, "lowest") and not eligible.all() else np.nan
        low, high = new_site_names(of_score)
        return cls(
            score=score,
            score_error=error,
            value=value,
            value_error=_error_of(table, name),
            value_name=value_name,
            eligible=np.asarray(eligible),
            names=candidate_names(table["params"], getattr(result, "estimator", None)),
            best_index=getattr(result, "best_index_", None),
            threshold=guard,
            score_name=metric_in_words(of_score, scoring),
            new_site_low=table.get(low),
            new_site_high=table.get(high),
            weights=table.get("weight"),
        ).plot(ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        points = np.column_stack([self.score, self.value]).astype(np.float64)
        n, has_bars = len(points), self.value_error is not None
        given = (self.score_error, np.zeros(n) if self.value_error is None else self.value_error)
        errors = np.nan_to_num(np.column_stack(given).astype(np.float64))
        eligible = np.asarray(self.eligible, dtype=bool)
        drawn = np.isfinite(points).all(axis=1)
        style = kwargs if has_bars else {"yerr": None} | kwargs
        self.errorbars_ = self._draw_all(ax, points, errors, eligible, style)
        self.weights_ = self._draw_weights(ax, points)
        self.threshold_ = None
        if np.isfinite(self.threshold):
            style = {"color": text_colour(ax), "ls": "--", "lw": 1, "zorder": 1}
            self.threshold_ = ax.axvline(self.threshold, label="guard", **style)
        chosen, by_score = self.best_index, self._best_by_score(points[:, 0])
        self.chosen_ = self.score_choice_ = None
        if chosen is not None:
            self.chosen_ = self._mark_one(ax, chosen, points, "chosen", "*", style_of(1).color)
            if self.new_site_low is not None and self.new_site_high is not None:
                low, high = np.column_stack([self.new_site_low, self.new_site_high])[chosen]
                if np.isfinite([low, high]).all():
                    label = f"{self.chosen_.get_label()},\nat a new site {low:.2f} to {high:.2f}"
                    self.chosen_.set_label(label)
        if by_score is not None:
            name = f"best {self.score_name}"
            self.score_choice_ = self._mark_one(ax, by_score, points, name, "D", style_of(2).color)
        marked = np.isin(np.arange(n), [x for x in (chosen, by_score) if x is not None])
        if drawn.any():
            self._limit(ax, points[drawn], errors[drawn], eligible[drawn], marked[drawn])
        self.outside_ = self._mark_outside(ax, points[drawn])
        has_error = bool(np.any(self.score_error))
        ax.set(
            xlabel=f"cross-validated {self.score_name}" + ", with standard error" * has_error,
            ylabel=self.value_name + ",\nwith standard error" * has_bars,
        )
        marks = [self.threshold_, self.outside_, self.chosen_, self.score_choice_]
        if self.weights_ is not None:
            (face,) = self.weights_.get_facecolor()
            style = {"ls": "none", "color": face, "mew": 0, "label": "larger disc: more weight"}
            marks += ax.plot([], [], "o", markersize=12, **style)
        self._legend(ax, [*self.errorbars_.values(), *marks], fontsize="small")

    def _draw_all(
        self, ax: Axes, points: Floats, errors: Floats, eligible: Mask, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Draw the candidates with their error bars, in a style for each kind."""
        kinds = {
            "eligible": (
                eligible,
                {"color": style_of(0).color, "marker": "o", "mec": text_colour(ax)},
            ),
            "not eligible": (~eligible, {"color": GREY, "marker": "x", "mew": 1.6}),
        }
        found, drawn = {}, np.isfinite(points).all(axis=1)
        for kind, (mask, own) in kinds.items():
            if not mask.any():
                continue
            here, missing = mask & drawn, int((mask & ~drawn).sum())
            style: dict[str, Any] = {"markersize": 6, "elinewidth": 0.8, "ls": "none", "mew": 0.8}
            style["zorder"] = 4 if kind == "eligible" else 2
            style["label"] = f"{kind} ({mask.sum()}{f', {missing} not drawn' if missing else ''})"
            style["xerr"], style["yerr"] = errors[here].T
            found[kind] = ax.errorbar(*points[here].T, **style | own | kwargs)
            for bars in found[kind].lines[2]:  # in a crowd they must not hide the marks
                bars.set_alpha(kwargs.get("alpha", _ALPHA))
        return found

    def _draw_weights(self, ax: Axes, points: Floats) -> Any:
        """Draw a disc behind each candidate; the area of all discs together is always the same."""
        if self.weights is None:
            return None
        area = _AREA * np.asarray(self.weights, dtype=np.float64)
        style: dict[str, Any] = {"color": style_of(0).color, "alpha": _ALPHA_OF_DISCS}
        style |= {"lw": 0, "zorder": 0}
        return ax.scatter(points[:, 0], points[:, 1], s=area, **style)

    def _best_by_score(self, score: Floats) -> int | None:
        """Return the candidate with the best score, or None if the chosen one's is as high."""
        if not np.isfinite(score).any():
            return None
        top = int(np.nanargmax(score))
        if self.best_index is not None and not score[top] > score[self.best_index] + _TIE:
            return None
        return top

    def _mark_one(
        self, ax: Axes, candidate: int, points: Floats, what: str, marker: str, color: str
    ) -> Line:
        """Mark a candidate, and name it in the legend."""
        label = what if self.names is None else f"{what}: {self.names[candidate]}"
        if not np.isfinite(points[candidate]).all():
            label += " (not drawn)"
        x, y = points[candidate, :, None]
        return self._mark(ax, x, y, marker, color=color, label=label, zorder=3)

    def _limit(
        self, ax: Axes, points: Floats, errors: Floats, eligible: Mask, marked: Mask
    ) -> None:
        """Limit the axes to the candidates that are eligible or marked, and those near."""
        if not np.isfinite(self.threshold):
            eligible = eligible & ~_far_below(points, errors)
        kept = eligible | marked
        limits = _window(points, errors, kept) if kept.any() else None
        if limits is not None:
            if np.isfinite(self.threshold):
                beside = self.threshold - 0.03 * (limits[1, 0] - self.threshold)
                limits[0, 0] = min(limits[0, 0], beside)
            ax.set(xlim=limits[:, 0], ylim=limits[:, 1])
        low, high = ax.get_ylim()
        if self.value_name == AGREEMENT and high < LEAST_NATS:
            ax.set_ylim(min(low, 0.0), LEAST_NATS)  # hardly any agreement looks like it

    def _mark_outside(self, ax: Axes, points: Floats) -> Line | None:
        """Mark the candidates outside the axes at the nearest place inside."""
        low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
        outside = ((points < low) | (points > high)).any(axis=1)
        if not outside.any():
            return None
        style: dict[str, Any] = {"markersize": 7, "clip_on": False, "zorder": 5, "color": GREY}
        style["label"] = f"outside the axes ({outside.sum()})"
        return ax.plot(*np.clip(points[outside], low, high).T, "s", **style)[0]


def _error_of(table: dict[str, Any], name: str) -> Floats | None:
    """Return the standard errors of what decides, or None if the search has none."""
    if f"mean_test_{name}" in table:
        return errors_of(table, name)
    error = table.get(f"{name}_se")
    return None if error is None else np.nan_to_num(np.asarray(error, dtype=np.float64))


def _far_below(points: Floats, errors: Floats) -> Mask:
    """Return which points, given with standard errors, lie far below most others on any axis."""
    middle = np.median(points, axis=0)
    deviation = np.median(np.abs(points - middle), axis=0)
    scale = np.maximum(np.maximum(deviation, np.median(errors, axis=0)), _SMALLEST_SPAN)
    far: Mask = (points < middle - _FAR_BELOW * scale).any(axis=1)
    return far


def _window(points: Floats, errors: Floats, kept: Mask) -> Floats | None:
    """Return the ends of axes that show the points kept and those near, or None if none is far.

    A point is far if, on some axis, its distance from the points kept is larger than their
    extent, including standard errors. The ends are an array of shape (2, n_axes).
    """
    low, high = (points - errors)[kept].min(axis=0), (points + errors)[kept].max(axis=0)
    distance = np.clip(np.maximum(low - points, points - high), 0, None)
    # If the points kept coincide, the median distance of the others gives the scale.
    others = distance[~kept] if not kept.all() else distance
    extent = high - low
    extent = np.where(extent < _SMALLEST_SPAN, np.median(others, axis=0), extent)
    near = (distance <= extent).all(axis=1)
    if near.all():
        return None
    low = np.minimum(low, points[near].min(axis=0))
    high = np.maximum(high, points[near].max(axis=0))
    margin = np.maximum(_MARGIN * (high - low), _SMALLEST_SPAN)
    return np.stack([low - margin, high + margin])
