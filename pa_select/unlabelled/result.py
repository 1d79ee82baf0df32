"""What `expected_score` returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from pa_select.utils.optional_imports import optional_import


class ExpectedScore(NamedTuple):
    """What `expected_score` expects of one model at the other site.

    Attributes
    ----------
    score : float
        The expected value of the metric on the rows of the second sample, in its own unit.
    standard_error : float
        Standard error of `score`, from the pairs and from the labelled rows; with several
        estimators also from the errors of the posteriors that the labels show. With few groups of
        labelled rows it is larger, so that plus and minus 1.96 of it are an interval of Student's
        t. nan for one pair.
    low, high : float
        For the accuracy, a 95 % interval in [0, 1] that does not assume calibrated posteriors:
        from the accuracy on the labelled rows less the rate of disagreement to their sum, each
        limit further away by what the exact intervals of the two rates say. For the (root) mean
        squared and the mean absolute error of a regressor likewise, with the norm of the
        difference of the predictions; if the errors have heavy tails, it holds less often. nan
        for another metric.
    validation_score : float
        The metric on the labelled rows.
    disagreement : float
        Share of pairs whose two rows are predicted to belong to different classes, in [0, 1].
        Of a regressor: the root mean square of the difference of the two predictions, in the
        unit of the target.
    beta : float
        Inverse temperature at which the labelled rows have the highest likelihood, in [0, inf].
        Of a regressor: the slope of the line that calibrates its predictions.
    n_pairs : int
        Number of pairs, of different objects.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_score
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> model = GaussianNB().fit(X[:60], y[:60])
    >>> found = expected_score(model, X[120:], 1.1 * X[120:], X[60:120], y[60:120])
    >>> found.n_pairs, found.low < found.score < found.high
    (58, True)
    >>> found.score < found.validation_score
    True
    """

    score: float
    standard_error: float
    low: float
    high: float
    validation_score: float
    disagreement: float
    beta: float
    n_pairs: int

    def to_frame(self) -> Any:
        """Return a table of one row.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas, which comes with the extra ``plot``, is missing.
        """
        return optional_import("pandas", "plot").DataFrame([self._asdict()])
