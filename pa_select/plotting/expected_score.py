"""What classifiers are expected to score at another site, beside what they score here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.model_selection.candidate_names import candidate_names
from pa_select.model_selection.results_columns import scores_and_errors
from pa_select.model_selection.search_results import cv_results_of, first_metric, metric_in_words
from pa_select.plotting.axes import (
    GREY,
    STAR,
    axes_for,
    bars_within,
    ink,
    legend_above,
    look,
    pyplot,
)
from pa_select.plotting.named_results import in_order, named_results
from pa_select.utils.typing import Floats, Ints

if TYPE_CHECKING:
    from pa_select.unlabelled import ExpectedScore

_OTHER_SITE = "the other site"
# Inches for a row, for the axis and the legend, and for the scores.
_ROW, _AROUND, _WIDTH = 0.21, 1.6, 4.2
# Width of a letter of a name, in em.
_LETTER = 0.55


class ExpectedScoreDisplay:
    """The expected score of each candidate at another site, beside the score on labelled rows.

    Create it with `from_search` or `from_scores`. Each candidate has a row, and the lowest row
    has the worst expected score. A thick line is the standard error of the expected score. For
    the accuracy a thin line is the interval that does not assume calibrated posteriors. A grey
    mark is the score on the labelled rows. A square is the score of a candidate that predicts
    adapted rows.

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
        Whether the rows of the other site are mapped by an adapter before a candidate
        predicts them. None: for none of them.
    true_score : array-like of shape (n_candidates,), default=None
        Scores of the candidates at the other site, if somebody knows the labels; nan where
        nobody does. None: no marks.
    score_name : str, default="score"
        Name of the score.
    claimed_name : str, default="score on the labelled rows"
        Name of `claimed`, for the legend.
    site : str, default="the other site"
        Name of the site, for the axis.

    Attributes
    ----------
    candidates_ : ndarray of shape (n_rows,)
        Numbers of the candidates that are drawn, from the lowest row to the highest one.
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The expected scores, "expected" and "adapted"; kinds without candidates are missing.
    intervals_ : matplotlib LineCollection or None
        The intervals.
    claimed_ : matplotlib Line2D or None
        The scores on the labelled rows.
    true_ : matplotlib Line2D or None
        The true scores.
    chosen_ : matplotlib Line2D or None
        The mark of the chosen candidate.
    ax_, figure_ : matplotlib Axes, Figure

    Notes
    -----
    Candidates without an expected score (they failed) are not drawn. If some candidates are not
    drawn, the axis of the rows says how many are.

    See Also
    --------
    pa_select.PASearchCV : ``fit(X, y, paired=(X_a, X_b))`` computes expected scores.
    pa_select.expected_score : Computes those of trained classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import ExpectedScoreDisplay, expected_score
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> models = {"bayes": GaussianNB(), "logistic": LogisticRegression(max_iter=5000)}
    >>> for model in models.values():
    ...     _ = model.fit(X[:700], y[:700])
    >>> pairs = slice(1300, 1400)  # nobody labelled these
    >>> again = 0.5 * X[pairs] + 4 * np.random.default_rng(0).random((100, 64))
    >>> found = expected_score(models, X[pairs], again, X[700:1300], y[700:1300])
    >>> truth = {name: model.score(again, y[pairs]) for name, model in models.items()}
    >>> display = ExpectedScoreDisplay.from_scores(found, true_scores=truth)
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['bayes', 'logistic']
    >>> display.ax_.get_xlabel()
    'expected accuracy at the other site'
    """

    def __init__(
        self,
        *,
        score: Any,
        standard_error: Any,
        low: Any = None,
        high: Any = None,
        claimed: Any = None,
        names: Sequence[str] | None = None,
        best_index: int | None = None,
        adapted: Any = None,
        true_score: Any = None,
        score_name: str = "score",
        claimed_name: str = "score on the labelled rows",
        site: str = _OTHER_SITE,
    ) -> None:
        self.score = score
        self.standard_error = standard_error
        self.low = low
        self.high = high
        self.claimed = claimed
        self.names = names
        self.best_index = best_index
        self.adapted = adapted
        self.true_score = true_score
        self.score_name = score_name
        self.claimed_name = claimed_name
        self.site = site

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        score: str | None = None,
        site: str | None = None,
        true_scores: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ExpectedScoreDisplay:
        """Draw the candidates of a fitted search.

        Parameters
        ----------
        search : PASearchCV or PARandomizedSearchCV
            A search that was fitted with `paired`.
        score : str, default=None
            Name of the metric. None: the metric that decides.
        site : str, default=None
            Name of the site, if there are several. None: the worst site of each candidate.
        true_scores : array-like of shape (n_candidates,) or dict of str to float, default=None
            Scores at the site, if somebody knows the labels: one for each candidate in the
            order of ``cv_results_``, or by the names that the display gives the candidates.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        ExpectedScoreDisplay
            The names of the candidates are the parameters that differ between them.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        TypeError, ValueError
            If `search` is not a search or was fitted without `paired`, or it does not know the
            score, the site or a candidate of `true_scores`.
        """
        pyplot()
        table = cv_results_of(search)
        metric = score or first_metric(search, table)
        columns = _columns(table, metric, site)
        names = candidate_names(table["params"], getattr(search, "estimator", None))
        claimed, _ = scores_and_errors(table, metric)
        words = metric_in_words(metric, getattr(search, "scoring", None))
        # Of other metrics only errors of regressors have intervals; they are negative.
        if words == "score" and "low" in columns and np.nanmin(claimed, initial=0) >= 0:
            words = "accuracy"
        display = cls(
            **columns,
            claimed=claimed,
            names=names,
            best_index=getattr(search, "best_index_", None),
            true_score=in_order(true_scores, names),
            score_name=words,
            claimed_name=f"cross-validated {words}",
            site=_place(table, site),
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def from_scores(
        cls,
        scores: ExpectedScore | Mapping[str, ExpectedScore],
        *,
        score_name: str | None = None,
        true_scores: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ExpectedScoreDisplay:
        """Draw what `pa_select.expected_score` returns.

        Parameters
        ----------
        scores : ExpectedScore or dict of str to ExpectedScore
            The expected score of a classifier, or of several by their names.
        score_name : str, default=None
            Name of the metric. None: "accuracy" if there are intervals, else "score".
        true_scores : array-like of shape (n_candidates,) or dict of str to float, default=None
            Scores at the other site, if somebody knows the labels, in the order of `scores` or
            by name.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        ExpectedScoreDisplay

        Raises
        ------
        TypeError, ValueError
            If `scores` are none, or `true_scores` are of other classifiers.
        """
        pyplot()
        from pa_select.unlabelled import ExpectedScore

        named = named_results(scores, ExpectedScore, "scores")
        names = list(named)
        fields = ("score", "standard_error", "low", "high", "validation_score")
        score, error, low, high, claimed = (
            np.array([getattr(one, name) for one in named.values()], dtype=np.float64)
            for name in fields
        )
        has_intervals = not np.isnan(low).all()
        # Of other metrics only errors of regressors have intervals; they are negative.
        words = score_name or ("accuracy" if has_intervals and claimed.min() >= 0 else "score")
        display = cls(
            score=score,
            standard_error=error,
            low=low if has_intervals else None,
            high=high if has_intervals else None,
            claimed=claimed,
            names=names,
            true_score=in_order(true_scores, names),
            score_name=words,
            claimed_name=f"{words} on the labelled rows",
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        max_candidates: int = 30,
        errorbar_kw: dict[str, Any] | None = None,
    ) -> ExpectedScoreDisplay:
        """Draw the candidates.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure, higher for many candidates.
        max_candidates : int, default=30
            Largest number of rows. They are those of the best expected scores, and the row of
            the chosen candidate.
        errorbar_kw : dict, default=None
            Passed on to ``ax.errorbar`` of the expected scores.

        Returns
        -------
        ExpectedScoreDisplay
            This display.

        Raises
        ------
        ValueError
            If there is not one value for each candidate, or `max_candidates` is not positive.
        """
        if not isinstance(max_candidates, (int, np.integer)) or max_candidates < 1:
            raise ValueError(
                f"max_candidates: expected a positive integer, got {max_candidates!r}."
            )
        score = np.asarray(self.score, dtype=np.float64)
        n = len(score)
        names = [str(i) for i in range(n)] if self.names is None else [*map(str, self.names)]
        if len(names) != n:
            raise ValueError(f"names: expected one for each of {n} candidates, got {len(names)}.")
        self.candidates_ = shown = self._shown(score, max_candidates)
        names = [names[i] for i in shown]
        ax = axes_for(ax, figsize=_size_for(names))
        rows = np.arange(len(shown))
        self.intervals_ = self._draw_intervals(ax, n)
        claimed = {"marker": "|", "color": GREY, "markersize": 11, "mew": 2.5, "zorder": 3}
        claimed["label"] = self.claimed_name
        self.claimed_ = self._draw_marks(ax, "claimed", n, claimed)
        self.errorbars_ = self._draw_expected(ax, score, errorbar_kw or {})
        truth = {"marker": "D", "color": look(2).color, "markersize": 6, "zorder": 6}
        truth |= {"mfc": "none", "mew": 1.5, "label": f"true {self.score_name}"}
        self.true_ = self._draw_marks(ax, "true_score", n, truth)
        self.chosen_ = None
        at = np.flatnonzero(shown == self.best_index)
        if self.best_index is not None and len(at):
            style = {"color": look(1).color, "markeredgecolor": ink(ax), "zorder": 4, **STAR}
            style["markersize"] = 20  # the mark of its score is in front of it
            (self.chosen_,) = ax.plot(score[shown[at]], at, label="chosen", **style)
        ax.set_yticks(rows, names)
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(-0.7, len(rows) - 0.3), xlabel=f"expected {self.score_name} at {self.site}")
        ax.set_ylabel(f"{len(rows)} of {n} candidates" if len(rows) < n else "")
        ax.grid(axis="y", color=GREY, lw=0.5, alpha=0.3)
        ax.set_axisbelow(True)
        marks = [self.intervals_, self.claimed_, self.true_, self.chosen_]
        handles = [*self.errorbars_.values(), *(mark for mark in marks if mark is not None)]
        layout = ax.figure.get_layout_engine()
        if layout is not None:  # long names leave less room for the legend
            layout.execute(ax.figure)
        legend_above(ax, handles, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _shown(self, score: Floats, most: int) -> Ints:
        """Return the candidates to draw: the best ones and the chosen one, the worst first."""
        drawn = np.isfinite(score)
        order = np.argsort(np.where(drawn, score, np.nan), kind="stable")[: drawn.sum()]
        kept = order[-most:]
        if self.best_index is not None and drawn[self.best_index] and self.best_index not in kept:
            kept = np.concatenate([[self.best_index], kept[1:]])
        return kept

    def _values(self, name: str, n: int) -> Floats | None:
        """Return the values of the candidates shown, or None if none were given."""
        given = getattr(self, name)
        if given is None:
            return None
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (n,):
            raise ValueError(f"{name}: expected one for each of {n} candidates, got {given!r}.")
        return values[self.candidates_]

    def _draw_intervals(self, ax: Any, n: int) -> Any:
        low, high = self._values("low", n), self._values("high", n)
        if low is None or high is None:
            return None
        style = {"color": look(0).color, "lw": 1, "alpha": 0.8, "zorder": 2}
        return ax.hlines(np.arange(len(low)), low, high, label="interval (95 %)", **style)

    def _draw_marks(self, ax: Any, name: str, n: int, style: dict[str, Any]) -> Any:
        values = self._values(name, n)
        if values is None:
            return None
        return ax.plot(values, np.arange(len(values)), ls="none", **style)[0]

    def _draw_expected(self, ax: Any, score: Floats, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Draw the expected scores, in a marker for each kind."""
        shown, n = self.candidates_, len(score)
        adapted, errors = self._values("adapted", n), self._values("standard_error", n)
        is_adapted = np.zeros(len(shown), bool) if adapted is None else adapted == 1
        errors = np.zeros(len(shown)) if errors is None else np.nan_to_num(errors)
        # The interval ends where scores end, such as an accuracy at 1.
        ends = self._values("low", n), self._values("high", n)
        low, high = (np.full(len(shown), np.nan) if end is None else end for end in ends)
        style = {"color": look(0).color, "elinewidth": 3.5, "ls": "none", "markersize": 6}
        style |= {"mec": ink(ax), "mew": 0.8, "zorder": 5}
        found = {}
        for kind, mask, marker in (
            ("expected", ~is_adapted, "o"),
            ("adapted", is_adapted, "s"),
        ):
            if not mask.any():
                continue
            label = f"{kind}, with standard error"
            at = np.flatnonzero(mask)
            bars = bars_within(score[shown[at]], errors[at], low[at], high[at])
            own = {"xerr": bars, "marker": marker, "label": label}
            found[kind] = ax.errorbar(score[shown[mask]], at, **style | own | kwargs)
        return found


def _columns(table: dict[str, Any], metric: str, site: str | None) -> dict[str, Any]:
    """Return the display's columns of a metric at a site, or at the worst one."""
    if f"expected_{metric}" not in table:
        recorded = [name[10:] for name in table if name.startswith("mean_test_")]
        known = [name for name in recorded if f"expected_{name}" in table]
        wanted = f"one of the metrics {known}" if known else "a search that was fitted with paired"
        name, got = ("score", repr(metric)) if known else ("search", "one without expected scores")
        raise ValueError(f"{name}: expected {wanted}, got {got}.")
    sites = _sites(table)
    if site is not None and site not in sites:
        wanted = f"None or one of {sites}" if sites else "None, since the site has no name"
        raise ValueError(f"site: expected {wanted}, got {site!r}.")
    end = "" if site is None else f"_{site}"
    sources = {
        "score": f"expected_{metric}{end}",
        "standard_error": f"expected_{metric}_se{end}",
        "low": f"expected_{metric}_low{end}",
        "high": f"expected_{metric}_high{end}",
        "adapted": f"adapted{end}",
    }
    return {name: table[source] for name, source in sources.items() if source in table}


def _sites(table: dict[str, Any]) -> list[str]:
    """Return the names of the sites; none for a single site without a name."""
    start = "disagreement_"
    return [name[len(start) :] for name in table if name.startswith(start)]


def _place(table: dict[str, Any], site: str | None) -> str:
    """Return the name of a site, or what None stands for."""
    sites = _sites(table)
    if site is not None or len(sites) == 1:
        return site or sites[0]
    return "the worst site" if sites else _OTHER_SITE


def _size_for(names: list[str]) -> tuple[float, float]:
    """Return the size of a figure with a row for each name, in inches."""
    em = pyplot().rcParams["font.size"] / 72
    longest = max(map(len, names), default=0)
    return _WIDTH + _LETTER * em * longest + 0.4, _AROUND + _ROW * max(len(names), 4)
