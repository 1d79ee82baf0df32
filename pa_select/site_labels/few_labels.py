"""Trained models at a new site: which rows to label, and how accurate the models are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from pa_select.model_selection.committee import PACommittee
from pa_select.scores.answers import METHODS
from pa_select.scores.precomputed import RecordedClassifier
from pa_select.site_labels.drawn_rows import draw_rows, estimates
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import named_estimators
from pa_select.utils.messages import optional_import
from pa_select.utils.sklearn_private import StrOptions
from pa_select.utils.typing import Array, Estimators, Floats, Frame, Ints, Labels, RandomState

# Before so many labels the votes say little about which rows are in doubt.
_FIRST_ROWS = 10
# Three labels leave two for a committee that did not see the third.
_FEWEST_LABELS = 3


class FewLabels(BaseEstimator):
    """Ask for the labels of a few rows of a new site, and estimate how accurate models are there.

    `ask` draws rows of the site, `tell` takes their labels, again and again. The models that these
    labels cannot tell apart vote (`PACommittee`). Each model and the committee have an estimated
    accuracy on all rows of the site, with its error. Nothing is fitted.

    Parameters
    ----------
    models : list or dict of fitted estimators, or None
        Classifiers of scikit-learn, skorch nets or torch modules. Each one predicts `X_site` once.
    X_site : array-like of n rows, or list or dict of array-like of shape (n, n_classes)
        The rows of the site. If `models` is None, the logits or log-probabilities that each model
        returned for them; labels are then numbers of columns, or names of a DataFrame's columns.
    draw : {"random", "disagreement"}, default="random"
        How `ask` draws rows: with equal probabilities, or from the tenth label on half in
        proportion to the entropy of the models' votes, which the accuracies take into account.
    random_state : int, RandomState instance or None, default=None
        Pass an int to draw the same rows in every run.

    Attributes
    ----------
    rows_, labels_ : ndarray of shape (n_labelled,)
        The labelled rows, in the order in which they were drawn, and their labels.
    committee_ : PACommittee
        The models that remain, as from `PACommittee.from_models`; if `models` is None, its `X` are
        row numbers of shape (n, 1). This and what follows is there from the third label on.
    expected_score_, expected_score_se_ : float
        The committee's estimated accuracy and its standard error. Each label is compared with the
        vote of a committee of four fifths of the other labels (cross-fitting).
    expected_interval_ : tuple of float
        The 95 % interval of the committee's accuracy.

    See Also
    --------
    PACommittee.from_models : The committee alone.
    expected_score : For objects that were measured at both sites, without labels.

    Notes
    -----
    A model's accuracy is its mean hit on the labelled rows, corrected by what the committee thinks
    of all rows [1]_. Weights undo unequal probabilities of drawing rows [2]_. Both are on the page
    :doc:`/theory`. The best of many models looks better than it is.

    References
    ----------
    .. [1] A. N. Angelopoulos et al., "Prediction-powered inference", Science 2023.
    .. [2] S. Farquhar et al., "On statistical bias in active learning", ICLR 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select import FewLabels
    >>> X, y = load_digits(return_X_y=True)
    >>> models = [LogisticRegression(C=C, max_iter=50) for C in (1e-5, 0.01, 0.1)]
    >>> models = [model.fit(X[:500] / 16, y[:500]) for model in models]
    >>> X_site, y_site = X[500:] / 40, y[500:]  # a darker scanner
    >>> site = FewLabels(models, X_site, random_state=0)
    >>> for _ in range(3):
    ...     rows = site.ask(10)
    ...     site = site.tell(rows, y_site[rows])  # somebody looks at ten digits
    >>> f"{site.expected_score_:.2f} +- {site.expected_score_se_:.2f}"
    '0.84 +- 0.07'
    >>> low, high = site.expected_interval_
    >>> low < site.committee_.score(X_site, y_site) < high
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "draw": [StrOptions({"random", "disagreement"})],
        "random_state": ["random_state"],
    }

    committee_: PACommittee
    _asked: dict[int, float]
    _skipped: Ints

    def __init__(
        self,
        models: Estimators | None,
        X_site: Any,
        *,
        draw: Literal["random", "disagreement"] = "random",
        random_state: RandomState = None,
    ) -> None:
        self.models = models
        self.X_site = X_site
        self.draw = draw
        self.random_state = random_state

    def ask(self, n: int = 10) -> Ints:
        """Draw rows to label.

        Parameters
        ----------
        n : int, default=10
            How many rows.

        Returns
        -------
        ndarray of shape (n,)
            Numbers of unlabelled rows of `X_site`: the same ones until `tell` has their labels.
        """
        self._record()
        if not self._asked:
            weights = None
            if self.draw == "disagreement" and len(self.rows_) >= _FIRST_ROWS:
                weights = self.committee_.posterior_.weights
            seen = np.append(self.rows_, self._skipped)
            self._asked = draw_rows(self._said, seen, n, weights, self._random)
        return np.array(list(self._asked), dtype=np.int64)

    def tell(
        self, rows: Ints, labels: Labels, drawn: Literal["asked", "random", "chosen"] = "asked"
    ) -> Self:
        """Take labels of rows.

        Parameters
        ----------
        rows : array-like of shape (n,)
            All rows that `ask` returned, in any order.
        labels : array-like of shape (n,)
            Their labels. None or nan: nobody can label the row. It is not asked for again. If
            these are the hard rows, the accuracies are too high for all rows, and too low for the
            others.
        drawn : {"asked", "random", "chosen"}, default="asked"
            Rows with labels from elsewhere are "random" if all unlabelled rows were equally
            likely. Else they are "chosen" and come first: they help to choose models, and the
            accuracies are those on all other rows.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If these are not the rows that `ask` returned, a row has a label, `labels` are not one
            for each row or are words and classes numbers, or chosen rows come after others.
        """
        self._record()
        numbers, skipped = np.asarray(rows).tolist(), list[int]()
        if np.ndim(labels) == 1 and len(labels) == len(numbers):
            of_row = dict(zip(numbers, list(labels), strict=True))  # type: ignore[arg-type]
            skipped = [row for row, x in of_row.items() if x is None or x != x]  # noqa: PLR0124
            labels = [x for row, x in of_row.items() if row not in skipped] if skipped else labels
        free = set(range(self._said.shape[1])) - set(self.rows_.tolist())
        if drawn not in ("asked", "random", "chosen"):
            raise ValueError(f"drawn: expected 'asked', 'random' or 'chosen', got {drawn!r}.")
        if drawn == "asked" and numbers and not self._asked:
            raise ValueError(
                "drawn: expected 'random' or 'chosen' for rows that `ask` did not return, got "
                "'asked'."
            )
        if drawn == "asked" and sorted(numbers) != sorted(self._asked):
            raise ValueError(
                f"rows: expected all rows that `ask` returned, {list(self._asked)}, got {numbers}."
            )
        if drawn != "asked" and self._asked:
            raise ValueError("drawn: expected 'asked' for the rows that `ask` returned, first.")
        if drawn != "asked" and sorted(free & {*numbers}) != sorted(numbers):
            raise ValueError(
                f"rows: expected each row once, without a label and not asked for, got {numbers}."
            )
        if drawn == "chosen" and np.isfinite(self._probabilities).any():
            raise ValueError("drawn: expected 'chosen' before all others, got it after them.")
        drawn_with = self._asked or {
            row: {"random": 1 / (len(free) - i), "chosen": np.nan}[drawn]
            for i, row in enumerate(numbers)
        }
        drawn_with = {row: x for row, x in drawn_with.items() if row not in skipped}
        numbers = [row for row in numbers if row not in skipped]
        told = check_column(labels, len(numbers), "labels")
        given = dict(zip(numbers, told.tolist(), strict=True))
        known = self._recorded[0].classes.tolist()[0]
        strange = [x for x in given.values() if isinstance(x, str) != isinstance(known, str)]
        if strange:
            raise ValueError(f"labels: expected classes such as {known!r}, got {strange[0]!r}.")
        self._keep(
            np.append(self.rows_, np.array(list(drawn_with), dtype=np.int64)),
            np.array([*self.labels_, *(given[row] for row in drawn_with)]),
            np.append(self._probabilities, list(drawn_with.values())),
        )
        self._skipped = np.append(self._skipped, np.array(skipped, dtype=np.int64))
        return self

    def summary(self) -> Frame:
        """Return the estimated accuracy of each model and of the committee.

        Returns
        -------
        pandas.DataFrame
            A row for each model, and one for the committee: the expected score, its standard
            error, its 95 % interval from low to high, and the weight of the model.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before the third label.
        """
        if not hasattr(self, "committee_"):
            raise NotFittedError(
                f"labels: expected at least {_FEWEST_LABELS} for a summary, got "
                f"{len(getattr(self, 'rows_', ()))}."
            )
        weights, pandas = self.committee_.posterior_.weights, optional_import("pandas", "plot")
        columns = ["expected_score", "standard_error", "low", "high"]
        table = pandas.DataFrame(self._estimates, [*self._names, "committee"], columns)
        return table.assign(weight=[*weights, np.nan])

    def _record(self) -> None:
        """Let each model predict the rows, once."""
        if hasattr(self, "_recorded"):
            return
        self._validate_params()
        models: Any = self.X_site if self.models is None else named_estimators(self.models)
        named = models if isinstance(models, Mapping) else dict(enumerate(models))
        outputs = {
            str(name): RecordedClassifier.of_scores(one, "X_site")
            if self.models is None
            else RecordedClassifier.of(one, self.X_site, with_probabilities=False)
            for name, one in named.items()
        }
        kinds = {name: one.classes.dtype.kind in "OUST" for name, one in outputs.items()}
        if len(set(kinds.values())) > 1:
            words = next(name for name, are_words in kinds.items() if are_words)
            raise TypeError(
                f"models: expected classes of one type, got words by model {words!r} and numbers "
                "by others; fit all of them to the same labels."
            )
        self._names, self._random = list(outputs), check_random_state(self.random_state)
        self._said = np.array([one.predicted for one in outputs.values()])
        self.rows_, self.labels_ = np.array([], dtype=np.int64), np.array([], self._said.dtype)
        self._probabilities: Floats = np.array([])  # with which rows were drawn; nan: chosen
        self._asked, self._skipped = {}, np.array([], dtype=np.int64)
        # Their decision values are the class scores, whichever method of the model had these.
        self._recorded = [replace(one, methods=METHODS) for one in outputs.values()]

    def _keep(self, rows: Ints, labels: Array, probabilities: Floats) -> None:
        """Keep labelled rows, and what they say of the models."""
        if len(rows) >= _FEWEST_LABELS:
            classes = {x for one in self._recorded for x in one.classes.tolist()}
            if classes.isdisjoint(labels.tolist()):
                known, got = min(classes), labels.tolist()[0]
                raise ValueError(f"labels: expected classes such as {known!r}, got {got!r}.")
            committee, self._estimates = estimates(self._recorded, rows, labels, probabilities)
            if self.models is not None:
                models = list(named_estimators(self.models).values())
                committee = committee._mapped(lambda _, candidate: models[candidate])
            self.committee_ = committee
            self.expected_score_, self.expected_score_se_, *interval = self._estimates[-1].tolist()
            self.expected_interval_ = tuple(interval)
        self.rows_, self.labels_, self._probabilities = rows, labels, probabilities
        self._asked = {}
