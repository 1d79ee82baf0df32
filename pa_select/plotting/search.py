"""The candidates of a search by their score and their agreement."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pa_select.plotting.axes import AGREEMENT, GREY, STAR, axes_for, ink, look, pyplot
from pa_select.search.rules import make_rule
from pa_select.search.table import column, scores_and_errors


class PASearchDisplay:
    """Agreement against score of all candidates of a search, the chosen one marked.

    Made by `from_search`.

    Parameters
    ----------
    score, score_error : array-like of shape (n_candidates,)
        Mean score of each candidate and its standard error.
    agreement : array-like of shape (n_candidates,)
        Agreement, in nats per pair.
    eligible : array-like of shape (n_candidates,) of bool
        Whether the candidate could be chosen.
    best_index : int, default=None
        The candidate that was.
    threshold : float, default=nan
        The lowest score of the guard; nan where there is no guard.
    score_name : str, default="score"
        What the score is called.

    Attributes
    ----------
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The candidates, "eligible" and "not eligible"; only the kinds that there are.
    chosen_ : matplotlib Line2D or None
        The mark of the chosen candidate.
    threshold_ : matplotlib Line2D or None
        The guard's threshold.
    ax_, figure_ : matplotlib Axes, Figure

    Notes
    -----
    Candidates without a score or an agreement (that failed, or have no class scores) cannot
    be drawn; the legend counts them.

    See Also
    --------
    pa_select.PASearchCV : The search.
    pa_select.GuardedSelection : Who is eligible.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       sections 3 and 5.2 (model selection).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pa_select import PASearchCV
    >>> from pa_select.plotting import PASearchDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> search = PASearchCV(model, {"logisticregression__C": [1e-4, 0.01, 1, 100]})
    >>> display = PASearchDisplay.from_search(search.fit(X, y))
    >>> round(display.threshold, 3)
    0.974
    """

    def __init__(
        self,
        *,
        score: Any,
        score_error: Any,
        agreement: Any,
        eligible: Any,
        best_index: int | None = None,
        threshold: float = np.nan,
        score_name: str = "score",
    ) -> None:
        self.score = score
        self.score_error = score_error
        self.agreement = agreement
        self.eligible = eligible
        self.best_index = best_index
        self.threshold = threshold
        self.score_name = score_name

    @classmethod
    def from_search(
        cls, search: Any, *, score: str | None = None, ax: Any = None, **kwargs: Any
    ) -> PASearchDisplay:
        """Draw the candidates of a fitted search.

        Parameters
        ----------
        search : PASearchCV, PARandomizedSearchCV or a search of scikit-learn
            Fitted. One of scikit-learn's has a `GuardedSelection` as its ``refit``.
        score : str, default=None
            Name of the metric; also of what the search adds, such as "score_views". None:
            the one that guards the selection.
        ax : matplotlib Axes, default=None
            Where to draw. None: in a new figure.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        PASearchDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        TypeError, ValueError
            If it is no search, or has not recorded the score or an agreement.
        """
        pyplot()
        if not hasattr(search, "refit"):
            raise TypeError(f"search: expected a fitted search, got {type(search).__name__}.")
        check_is_fitted(search, "cv_results_")
        table = search.cv_results_
        rule = _rule_of(search, table)
        agreement = column(table, getattr(rule, "agreement", "agreement"), "search")
        guard = getattr(rule, "score", None)
        name = score or guard or _first_metric(search, table)
        value, error = scores_and_errors(table, name)
        threshold = np.nan
        if hasattr(rule, "n_se") and name == guard:
            top = int(np.nanargmax(value))
            threshold = float(value[top] - rule.n_se * error[top])
        if "eligible" in table:
            eligible = table["eligible"]
        elif hasattr(rule, "explain"):
            eligible = rule.explain(table).eligible
        else:
            eligible = np.isfinite(value) & np.isfinite(agreement)
        scoring = getattr(search, "scoring", None)
        display = cls(
            score=value,
            score_error=error,
            agreement=agreement,
            eligible=np.asarray(eligible),
            best_index=getattr(search, "best_index_", None),
            threshold=threshold,
            score_name=_in_words(name, scoring),
        )
        return display.plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, errorbar_kw: dict[str, Any] | None = None
    ) -> PASearchDisplay:
        """Draw the candidates.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: in a new figure.
        errorbar_kw : dict, default=None
            Passed on to ``ax.errorbar`` of all candidates.

        Returns
        -------
        PASearchDisplay
            Itself.
        """
        ax = axes_for(ax)
        score, agreement = np.asarray(self.score), np.asarray(self.agreement)
        eligible = np.asarray(self.eligible, dtype=bool)
        drawn = np.isfinite(score) & np.isfinite(agreement)
        self.errorbars_ = {}
        kinds = {
            "eligible": (
                eligible,
                {"color": look(0).color, "marker": "o", "mec": ink(ax), "zorder": 4},
            ),
            "not eligible": (~eligible, {"color": GREY, "marker": "x", "zorder": 2}),
        }
        for kind, (mask, own) in kinds.items():
            if not mask.any():
                continue
            here, missing = mask & drawn, int((mask & ~drawn).sum())
            style: dict[str, Any] = {"markersize": 6, "mew": 0.8, "elinewidth": 0.8, "ls": "none"}
            self.errorbars_[kind] = ax.errorbar(
                score[here],
                agreement[here],
                xerr=np.asarray(self.score_error)[here],
                label=f"{kind} ({mask.sum()}{f', {missing} not drawn' if missing else ''})",
                **style | own | (errorbar_kw or {}),
            )
        self.threshold_ = None
        if np.isfinite(self.threshold):
            self.threshold_ = ax.axvline(
                self.threshold, color=ink(ax), ls="--", lw=1, label="guard", zorder=1
            )
        self.chosen_ = None
        if self.best_index is not None:
            best = [self.best_index]
            (self.chosen_,) = ax.plot(
                score[best],
                agreement[best],
                color=look(1).color,
                markeredgecolor=ink(ax),
                label="chosen",
                zorder=3,
                **STAR,
            )
        ax.set(xlabel=f"cross-validated {self.score_name}, with standard error", ylabel=AGREEMENT)
        marks = [mark for mark in (self.chosen_, self.threshold_) if mark is not None]
        ax.legend(handles=[*self.errorbars_.values(), *marks])
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _in_words(metric: str, scoring: Any) -> str:
    """A metric's name, of a search that has but one the name of that."""
    if isinstance(scoring, str) and metric.split("_")[0] == "score":
        metric = scoring + metric[len("score") :]
    return metric.replace("_", " ")


def _rule_of(search: Any, table: dict[str, Any]) -> Any:
    """The rule by which a search chose, None if it has none that this library knows."""
    if callable(search.refit):
        return search.refit
    if not hasattr(search, "selection"):
        return None
    return make_rule(search.selection, _first_metric(search, table), search.pairing_)


def _first_metric(search: Any, table: dict[str, Any]) -> str:
    """The metric that guards a search which was not told of another."""
    if isinstance(search.refit, str):
        return search.refit
    return next(name for name in table if name.startswith("mean_test_"))[len("mean_test_") :]
