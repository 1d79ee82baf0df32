"""The expected score at another site, as a scorer of scikit-learn."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from sklearn.base import BaseEstimator

from pa_select.scores.cached_outputs import cached_for_only
from pa_select.unlabelled.expected_score import estimates
from pa_select.unlabelled.paired_rows import aligned_pairs, check_pairs
from pa_select.unlabelled.site_adapter import cross_adapted
from pa_select.utils.dataset_rows import is_dataset
from pa_select.utils.pickling import SavedWithVersions
from pa_select.utils.warn_caller import warn_caller

# Scorers that have warned; their own attributes would change what a search caches.
_HAVE_WARNED: WeakSet[Any] = WeakSet()


class ExpectedScorer(SavedWithVersions, BaseEstimator):
    """The scorer that `expected_scorer` makes.

    Parameters
    ----------
    X_a, X_b, scoring, adapter
        As in `expected_scorer`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.unlabelled import ExpectedScorer
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
    >>> scorer = ExpectedScorer(X[1::2], X[1::2] + 0.5)
    >>> 0.6 < scorer(model, X[1::2], y[1::2]) < 1
    True
    """

    def __init__(self, X_a: Any, X_b: Any, scoring: Any = None, adapter: Any = None) -> None:
        self.X_a = X_a
        self.X_b = X_b
        self.scoring = scoring
        self.adapter = adapter

    @property
    def __name__(self) -> str:
        """The name of the score in scikit-learn's displays and skorch's histories."""
        return "expected_score"

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """Return the expected score of a fitted classifier or regressor.

        Parameters
        ----------
        estimator : object
            A fitted classifier or regressor.
        X : array-like or torch Dataset of n rows
            Labelled rows that it was not fitted to, such as a test fold. They calibrate its
            posteriors or predictions.
        y : array-like of shape (n,), or None
            Their labels. None: those of the Dataset.

        Returns
        -------
        float
            The expected value of the metric at the other site.

        Raises
        ------
        TypeError, ValueError
            As `expected_score`.
        """
        # A search scores hundreds of models: warnings of the pairs come once.
        warnings: list[str] = []
        with cached_for_only(X, estimator):
            given = *self._rows(), X, y, self.scoring
            (found,) = estimates([estimator], *given, warnings=warnings).values()
        if warnings and self not in _HAVE_WARNED:
            _HAVE_WARNED.add(self)
            warn_caller(warnings[0])
        return float(found.score)

    def _rows(self) -> tuple[Any, Any]:
        """Return the rows of both sites, adapted if they are to be; they are kept."""
        if self.adapter is None and not (is_dataset(self.X_a) or is_dataset(self.X_b)):
            return self.X_a, self.X_b
        given = self.X_a, self.X_b, self.adapter
        kept: Any = getattr(self, "_kept", ((None,) * 3, None))
        if not all(one is other for one, other in zip(kept[0], given, strict=True)):
            X_a, X_b = aligned_pairs(self.X_a, self.X_b)
            if self.adapter is not None:
                X_b = cross_adapted(self.adapter, X_b, X_a, seed=0)
            kept = self._kept = given, (X_a, X_b)
        rows: tuple[Any, Any] = kept[1]
        return rows


def expected_scorer(
    X_a: Any, X_b: Any, *, scoring: Any = None, adapter: Any = None
) -> ExpectedScorer:
    """Make a scorer of the score that is expected at another site.

    In `GridSearchCV`, `cross_val_score` and wherever scikit-learn takes a scorer, the test
    fold's labels calibrate the fold's model, and the pairs, which nobody labelled, say what
    it is expected to score at the other site.

    Parameters
    ----------
    X_a, X_b : array-like or torch Dataset of n rows
        The same objects, measured at the labelled site and at the other one. They must not be
        rows of the data that are searched. The rows of Datasets are stacked, and labels that they
        have are not used.
    scoring : str or callable, default=None
        A scorer of scikit-learn, by name or as made by ``make_scorer``; for classifiers the
        metric must take sample weights. None: the accuracy, or R2 for regressors.
    adapter : None, "ridge" or estimator, default=None
        Maps the rows of b to rows of a first, as in `expected_score`.

    Returns
    -------
    ExpectedScorer
        A function of estimator, X and y.

    Raises
    ------
    ValueError
        If `X_a` and `X_b` are not two measurements of the same objects.

    Warns
    -----
    UserWarning
        As `expected_score` for the pairs. In a search the warning that the paired objects seem
        to be of other classes than a test fold comes once, for the first model that shows it.

    See Also
    --------
    expected_score : The score of trained classifiers, with its error and interval.
    PASearchCV : ``fit(X, y, paired=(X_a, X_b))`` calibrates on all folds together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_scorer
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> here, there = X[:60], X[:60] + np.random.default_rng(0).normal(0, 4, (60, 64))
    >>> search = GridSearchCV(
    ...     RandomForestClassifier(30, random_state=0),
    ...     {"max_depth": [1, 8]},
    ...     scoring=expected_scorer(here, there),
    ... )
    >>> search.fit(X[60:500], y[60:500]).best_params_
    {'max_depth': 8}
    """
    # Wrong pairs would make every fold of a search fail.
    check_pairs(X_a, X_b)
    scorer = ExpectedScorer(X_a, X_b, scoring, adapter)
    scorer._rows()  # once, and not in every process of a search
    return scorer
