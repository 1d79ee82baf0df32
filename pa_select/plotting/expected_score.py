"""What classifiers are expected to score at another site, beside what they score here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pa_select.model_selection.rules import column, cv_results_of, first_metric
from pa_select.model_selection.summary import (
    candidate_names,
    metric_in_words,
    sites_of,
)
from pa_select.plotting.axes import (
    GREY,
    Display,
    pyplot,
    style_of,
    text_colour,
)
from pa_select.utils.typing import Axes, Floats, Ints, Labels, Line, Search, Vector

_OTHER_SITE = "the other site"
# Largest number of candidates drawn.
_MOST = 30
# Inches for a row, for the axis and the legend, and for the scores.
_ROW, _AROUND, _WIDTH = 0.21, 1.6, 4.2


@dataclass(eq=False, repr=False, kw_only=True)
class ExpectedScoreDisplay(Display):
    """The expected score of each candidate at another site, and its score on labelled rows.

    Create it with `from_result`. Each candidate has a row; the lowest one has the worst expected
    score. A thick line is the standard error, a thin line the interval of an accuracy, which does
    not assume calibrated posteriors. A grey mark is the score on the labelled rows. A square is
    the score of a candidate that predicts adapted rows. Keywords of `plot` go to ``ax.errorbar``
    of the expected scores.

    At most 30 candidates are drawn, the best ones and the chosen one; those without an expected
    score (they failed) are not. The axis says how many are drawn.

    Parameters
    ----------
    score, standard_error : array-like of shape (n_candidates,)
        Expected score of each candidate at the other site, and its standard error.
    low, high : array-like of shape (n_candidates,), default=None
        Interval of the expected score. None: no intervals.
    claimed : array-like of shape (n_candidates,), default=None
        Score of each candidate on the labelled rows. None: no marks.
    names : sequence of n_candidates str, default=None
        Names of the candidates. None: their numbers.
    best_index : int, default=None
        The candidate that was chosen.
    adapted : array-like of shape (n_candidates,) of bool, default=None
        Whether a candidate predicts rows that an adapter has mapped. None: none of them does.
    true_scores : array-like of shape (n_candidates,), default=None
        Scores of the candidates at the other site; nan where unknown. None: no marks.
    score_name, claimed_name, site : str
        Names of the score, of `claimed` and of the site, for the axis and the legend.

    Attributes
    ----------
    candidates_ : ndarray of shape (n_rows,)
        Numbers of the candidates that are drawn, from the lowest row to the highest one.
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The expected scores, "expected" and "adapted"; kinds without candidates are missing.
    intervals_ : matplotlib LineCollection or None
        The intervals.
    claimed_, true_, chosen_ : matplotlib Line2D or None
        The scores on the labelled rows, the true scores and the mark of the chosen candidate.
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.PASearchCV : ``fit(X, y, paired=(X_a, X_b))`` computes expected scores.
    pa_select.expected_score : Computes the expected scores of trained classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import BernoulliNB, GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_score
    >>> from pa_select.plotting import ExpectedScoreDisplay
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> models = {"gauss": GaussianNB(), "binary": BernoulliNB(binarize=8)}
    >>> models = {name: model.fit(X[:700], y[:700]) for name, model in models.items()}
    >>> pairs = slice(1300, 1400)  # nobody labelled these
    >>> again = 0.5 * X[pairs] + 4 * np.random.default_rng(0).random((100, 64))
    >>> scores = expected_score(models, X[pairs], again, X[700:1300], y[700:1300])
    >>> display = ExpectedScoreDisplay.from_result(scores)
    >>> display.ax_.get_xlabel(), [text.get_text() for text in display.ax_.get_yticklabels()]
    ('expected accuracy at the other site', ['gauss', 'binary'])
    """

    score: Vector
    standard_error: Vector
    low: Vector | None = None
    high: Vector | None = None
    claimed: Vector | None = None
    names: Sequence[str] | None = None
    best_index: int | None = None
    adapted: Labels | None = None
    true_scores: Vector | None = None
    score_name: str = "score"
    claimed_name: str = "score on the labelled rows"
    site: str = _OTHER_SITE

    @classmethod
    def from_result(
        cls,
        result: Any,
        *,
        site: str | None = None,
        true_scores: Vector | Mapping[str, float] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the candidates of a fitted search, or what `pa_select.expected_score` returns.

        Parameters
        ----------
        result : PASearchCV, PARandomizedSearchCV, ExpectedScore or dict of str to ExpectedScore
            A search that was fitted with `paired`, or the expected score of a classifier, or of
            several by name. Candidates of a search are named by the parameters that differ.
        site : str, default=None
            Name of the site; if a search has several, the one to draw. None: the worst site of
            each candidate.
        true_scores : array-like of shape (n_candidates,) or dict of str to float, default=None
            Scores at the site, if the labels are known: one for each candidate in its
            order, or by the names that the display gives the candidates.
        ax, **kwargs
            As in `plot`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        """
        pyplot()
        given = (_of_search if hasattr(result, "refit") else _of_scores)(result, site)
        truth = _in_order(true_scores, given["names"])
        return cls(**given, true_scores=truth).plot(ax, **kwargs)

    def _axes(self, ax: Axes | None) -> Axes:
        self.candidates_ = self._shown()
        return super()._axes(ax)

    def _names_shown(self) -> list[str]:
        names = range(len(self.score)) if self.names is None else self.names
        return [str(names[candidate]) for candidate in self.candidates_]

    def _figsize(self) -> tuple[float, float]:
        names = self._names_shown()
        longest = max(map(len, names), default=0)
        width = 0.6 * longest * pyplot().rcParams["font.size"] / 72  # about that, in inches
        return _WIDTH + width + 0.4, _AROUND + _ROW * max(len(names), 4)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        n, rows = len(self.score), np.arange(len(self.candidates_))
        self.intervals_ = None
        if self.low is not None and self.high is not None:
            style = {"color": style_of(0).color, "lw": 1, "alpha": 0.8, "zorder": 2}
            ends = self._values("low"), self._values("high")
            self.intervals_ = ax.hlines(rows, *ends, label="interval (95 %)", **style)
        style = {"marker": "|", "color": GREY, "markersize": 11, "mew": 2.5, "zorder": 3}
        self.claimed_ = self._draw_marks(ax, "claimed", self.claimed_name, style)
        self.errorbars_ = self._draw_expected(ax, kwargs)
        style = {"marker": "D", "color": style_of(2).color, "markersize": 6, "zorder": 6}
        style |= {"mfc": "none", "mew": 1.5}
        self.true_ = self._draw_marks(ax, "true_scores", f"true {self.score_name}", style)
        self.chosen_ = None
        row = np.flatnonzero(self.candidates_ == self.best_index)
        if self.best_index is not None and len(row):
            # Larger, because the mark of its score is in front of it.
            style = {"color": style_of(1).color, "markersize": 20, "zorder": 4}
            score = self._values("score")[row]
            self.chosen_ = self._mark(ax, score, row, "*", label="chosen", **style)
        ax.set_yticks(rows, self._names_shown())
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(-0.7, len(rows) - 0.3), xlabel=f"expected {self.score_name} at {self.site}")
        ax.set_ylabel(f"{len(rows)} of {n} candidates" if len(rows) < n else "")
        ax.grid(axis="y", color=GREY, lw=0.5, alpha=0.3)
        ax.set_axisbelow(True)
        marks = [self.intervals_, self.claimed_, self.true_, self.chosen_]
        layout = ax.figure.get_layout_engine()
        if layout is not None:  # long names leave less room for the legend
            layout.execute(ax.figure)
        self._legend(ax, [*self.errorbars_.values(), *marks], fontsize="small")

    def _shown(self) -> Ints:
        """Return the candidates to draw: the best ones and the chosen one, the worst first."""
        score = np.asarray(self.score, dtype=np.float64)
        drawn = np.isfinite(score)
        order = np.argsort(np.where(drawn, score, np.nan), kind="stable")[: drawn.sum()]
        left_out, best = order[:-_MOST], order[-_MOST:]
        if self.best_index in left_out:
            return np.concatenate([[self.best_index], best[1:]])
        return best

    def _values(self, name: str) -> Floats:
        """Return the values of the candidates shown; nan if none were given."""
        values = getattr(self, name)
        if values is None:
            return np.full(len(self.candidates_), np.nan)
        return np.asarray(values, dtype=np.float64)[self.candidates_]

    def _draw_marks(self, ax: Axes, name: str, label: str, style: dict[str, Any]) -> Line | None:
        if getattr(self, name) is None:
            return None
        x = self._values(name)
        return ax.plot(x, np.arange(len(x)), ls="none", label=label, **style)[0]

    def _draw_expected(self, ax: Axes, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Draw the expected scores, in a marker for each kind."""
        is_adapted = self._values("adapted") == 1
        score, errors = self._values("score"), np.nan_to_num(self._values("standard_error"))
        # The interval ends where scores end, such as an accuracy at 1.
        room = [score - self._values("low"), self._values("high") - score]
        bars = np.fmin([errors, errors], np.maximum(room, 0))
        style: dict[str, Any] = {"elinewidth": 3.5, "ls": "none", "markersize": 6, "zorder": 5}
        style |= {"color": style_of(0).color, "mec": text_colour(ax), "mew": 0.8}
        drawn = {}
        for kind, mask, marker in (("expected", ~is_adapted, "o"), ("adapted", is_adapted, "s")):
            if mask.any():
                label = {"label": f"{kind}, with standard error", "marker": marker}
                x, y, error = score[mask], np.flatnonzero(mask), bars[:, mask]
                drawn[kind] = ax.errorbar(x, y, xerr=error, **style | label | kwargs)
        return drawn


def _of_search(search: Search, site: str | None) -> dict[str, Any]:
    """Return the display's parameters for the candidates of a search."""
    table = cv_results_of(search, "result")
    metric = first_metric(search, table)
    columns = _columns(table, metric, site)
    words = metric_in_words(metric, getattr(search, "scoring", None))
    claimed = column(table, metric)
    # Of other metrics only errors of regressors have intervals; they are negative.
    if words == "score" and "low" in columns and np.nanmin(claimed, initial=0) >= 0:
        words = "accuracy"
    sites = sites_of(table)
    if site is None:
        site = sites[0] if len(sites) == 1 else "the worst site" if sites else _OTHER_SITE
    return columns | {
        "claimed": claimed,
        "names": candidate_names(table["params"], getattr(search, "estimator", None)),
        "best_index": getattr(search, "best_index_", None),
        "score_name": words,
        "claimed_name": f"cross-validated {words}",
        "site": site,
    }


def _of_scores(result: Any, site: str | None) -> dict[str, Any]:
    """Return the display's parameters for expected scores of trained classifiers."""
    by_name = result if isinstance(result, Mapping) else {"classifier": result}
    scores = list(by_name.values())

    def values(name: str) -> Floats:
        return np.array([getattr(one, name) for one in scores], dtype=np.float64)

    claimed, low = values("validation_score"), values("low")
    has_intervals = not np.isnan(low).all()
    words = "accuracy" if has_intervals and claimed.min() >= 0 else "score"
    return {
        "score": values("score"),
        "standard_error": values("standard_error"),
        "low": low if has_intervals else None,
        "high": values("high") if has_intervals else None,
        "claimed": claimed,
        "names": [str(name) for name in by_name],
        "score_name": words,
        "claimed_name": f"{words} on the labelled rows",
        "site": site or _OTHER_SITE,
    }


def _in_order(true_scores: Vector | Mapping[str, float] | None, names: list[str]) -> Vector | None:
    """Return true scores in the order of the candidates; nan for names that are missing."""
    if not isinstance(true_scores, Mapping):
        return None if true_scores is None else np.atleast_1d(true_scores)
    by_name = {str(key): score for key, score in true_scores.items()}
    return np.array([by_name.get(name, np.nan) for name in names], dtype=np.float64)


def _columns(table: dict[str, Any], metric: str, site: str | None) -> dict[str, Any]:
    """Return the display's columns of a metric at a site, or at the worst one."""
    if f"expected_{metric}" not in table:
        raise ValueError("result: expected a search fitted with paired, got one without it.")
    end = "" if site is None else f"_{site}"
    sources = {
        "score": f"expected_{metric}{end}",
        "standard_error": f"expected_{metric}_se{end}",
        "low": f"expected_{metric}_low{end}",
        "high": f"expected_{metric}_high{end}",
        "adapted": f"adapted{end}",
    }
    score = {"score": table[sources.pop("score")]}
    return score | {name: table[source] for name, source in sources.items() if source in table}
