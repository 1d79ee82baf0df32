"""What trained models, or their saved outputs, are expected to score at another site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.validation import _num_samples

from pa_select.scores.candidate_posterior import (
    CandidatePosterior,
    posterior_of_parts,
    scores_of_changes,
    scores_on_random_folds,
)
from pa_select.scores.class_scores import columns_of
from pa_select.scores.precomputed import RecordedRegressor, response_methods
from pa_select.two_sites.classification import Classification, doubt_of_lapses
from pa_select.two_sites.engine import (
    LABELLED,
    Engine,
    Output,
    SiteExpectation,
    changes_of_halves,
    reference_labels,
)
from pa_select.two_sites.regression import Regression
from pa_select.two_sites.score_of_units import (
    Differences,
    LabelledRows,
    check_reference,
    group_codes,
)
from pa_select.two_sites.site_adapter import cross_adapted
from pa_select.utils.arrays import check_column, check_scoring_argument, labels_of
from pa_select.utils.estimators import named_estimators
from pa_select.utils.frames import check_columns
from pa_select.utils.typing import (
    Adapter,
    Array,
    Estimators,
    Floats,
    Groups,
    Ints,
    Labels,
    Rows,
    Scorer,
)

# With fewer labelled rows for each class, and fewer than so many, calibrations are clearly wrong.
# Targets that are numbers count as two classes.
_FEWEST_ROWS_PER_CLASS, _FEW_ROWS = 2, 20


class ExpectedScore(NamedTuple):
    """The expected score of one model at the other site, with its error.

    It prints the score with its standard error, and its interval if there is one.

    Attributes
    ----------
    score : float
        The expected value of the metric on the rows of the second sample, in its own unit.
    standard_error : float
        Standard error of `score`, from the pairs and the labelled rows; with several estimators
        it includes how wrong the posteriors are on labelled rows. nan for one pair.
    low, high : float
        For the accuracy, a 95 % interval in [0, 1] that does not assume calibrated posteriors:
        the accuracy on the labelled rows minus and plus the rate of disagreement, widened by
        the exact intervals of both rates. For the (root) mean squared and the mean absolute
        error of a regressor likewise, with the norm of the difference of the predictions; it
        holds less often if the errors have heavy tails. nan for other metrics.
    validation_score : float
        The metric on the labelled rows.
    disagreement : float
        Share of pairs with two different predictions, in [0, 1]. For a regressor the root mean
        squared difference of the two predictions, in the unit of the target.
    beta : float
        Inverse temperature at which the labelled rows have the highest likelihood, in [0, inf].
        For a regressor the slope of the line that calibrates its predictions.
    n_pairs : int
        Number of pairs.
    change, change_standard_error : float
        What the pairs add to the score on labelled rows: by how much the metric is expected to be
        higher for the rows of the second sample, or for a new version of the model, and the
        standard error over the pairs, whose labels are not known. Of metrics of predicted classes
        it counts two more pairs. A change within 1.96 standard errors is not clear.
    difference_standard_error : float
        Of several estimators, the standard error of the difference between `score` and that of the
        estimator with the highest expected score; 0 for that one. It is smaller than both
        `standard_error` suggest, since all estimators predict the same rows and pairs. A
        difference within 1.96 of these errors is not clear. 0 for a single estimator, too.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_score
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> model = GaussianNB().fit(X[:60], y[:60])
    >>> found = expected_score(model, X[120:], 1.1 * X[120:], X[60:120], y[60:120])
    >>> found
    ExpectedScore(score=0.9017 +- 0.045, low=0.7714, high=1, validation_score=0.9333, n_pairs=58)
    >>> found.low < found.score < found.validation_score
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
    change: float = float("nan")
    change_standard_error: float = float("nan")
    difference_standard_error: float = 0.0

    def __repr__(self) -> str:
        interval = f"low={self.low:.4g}, high={self.high:.4g}, " if self.low == self.low else ""
        return (
            f"ExpectedScore(score={self.score:.4g} +- {self.standard_error:.2g}, {interval}"
            f"validation_score={self.validation_score:.4g}, n_pairs={self.n_pairs})"
        )


def estimates(
    estimators: Estimators,
    X_a: Rows,
    X_b: Rows,
    X_val: Rows,
    y_val: Labels | None,
    scoring: str | Scorer | None = None,
    adapter: Adapter = None,
    reference: Any = "ensemble",
    groups: Groups = None,
    warnings: list[str] | None = None,
    of_fold: bool = False,
    pair_groups: Groups = None,
) -> dict[str, ExpectedScore]:
    """Compute what `expected_score` returns for several estimators and aligned pairs.

    It does not warn. If a list of `warnings` is given, those of the outputs of the estimators are
    added to it. A classifier may know none of the labels of a test fold.
    """
    named = named_estimators(estimators)
    of_regressors = _are_regressors(named)
    check_reference(reference, of_regressors)
    check_columns(X_val, X_a, "X_val", "X_a")
    y_val = check_column(labels_of(X_val, y_val, "X_val"), _num_samples(X_val), "y_val")
    if groups is not None:
        groups = check_column(groups, len(y_val), "groups")
    if pair_groups is not None:
        pair_groups = check_column(pair_groups, _num_samples(X_a), "pair_groups")
        pair_groups = group_codes(pair_groups, "pair_groups")
    if adapter is not None:
        X_b = cross_adapted(adapter, X_b, X_a, seed=0, groups=pair_groups)
    task, y_val, scorer = _task(named, y_val, scoring)
    outputs = [[task.output(one, X, scorer) for one in named.values()] for X in (X_val, X_a, X_b)]
    if not isinstance(reference, str):
        reference = [task.output(reference, X, scorer) for X in (X_val, X_a)]
    for name, model in zip(named, outputs[LABELLED], strict=True):
        if isinstance(task, Classification):
            model.check_methods(scorer)
            if not of_fold:
                _check_some_known(y_val, model.classes, name, "y_val")
    both = groups, pair_groups
    found = of_outputs(task, list(named), outputs, y_val, scorer, reference, *both)
    if warnings is not None and isinstance(task, Classification):
        warnings += _missed_labels(list(named), outputs[LABELLED], y_val)
        warnings += found.doubts_of_scores(["X_val"] * len(named))
    if warnings is not None and not of_fold:
        warnings += found.doubts_of_labels("X_val", "y_val")
    return found.by_name


def _task(
    named: Mapping[str, Any], y: Array, scoring: str | Scorer | None
) -> tuple[Classification | Regression, Array, Scorer]:
    """Return what the engine asks of the estimators, their labels, and the scorer."""
    check_scoring_argument(scoring)
    task: Classification | Regression = Classification()
    if _are_regressors(named):
        y = y.astype(np.float64)
        task = Regression(float(y.min(initial=np.inf)))
    if scoring is None:
        scoring = _metric_of_searches(named)
    return task, y, task.scorer(scoring, y)


def doubt_of_few_labels(estimator: Any, X: Rows) -> list[str]:
    """Return what to warn of if the labelled rows of a fold hardly calibrate an estimator."""
    n, n_classes = _num_samples(X), len(getattr(estimator, "classes_", "ab"))
    fewest = min(_FEWEST_ROWS_PER_CLASS * n_classes, _FEW_ROWS)
    if n >= fewest:
        return []
    return [
        f"X: expected at least {fewest} labelled rows in each test fold, got {n}. They hardly "
        "calibrate what the estimator predicts. Take fewer and larger folds, or PASearchCV, which "
        "calibrates on the rows of all folds."
    ]


def _check_some_known(y: Array, classes: Array, name: str, argument: str) -> None:
    """Refuse a classifier that knows no label."""
    if not np.isin(y, classes).any():
        columns_of(y, classes, name, argument)


def _metric_of_searches(named: Mapping[str, Any]) -> str | Scorer | None:
    """Return the metric of fitted searches, if all estimators are such and have the same one."""
    metrics = [
        getattr(one, "scoring", None) if hasattr(one, "best_estimator_") else None
        for one in named.values()
    ]
    first = metrics[0]
    if not (isinstance(first, str) or hasattr(first, "_score_func")):
        return None
    return first if all(metric == first for metric in metrics) else None


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} others"


@dataclass(frozen=True)
class _TrainedModels:
    """The outputs of trained models, which are models of one split."""

    #: For labelled rows, and for the pairs at both sites, those of each model.
    by_sample: Sequence[Sequence[Output]]
    a: int = 1
    b_samples: tuple[int, ...] = (2,)

    def __len__(self) -> int:
        return len(self.by_sample[0])

    def outputs(self, model: int, sample: int) -> list[Output]:
        """Return a model's outputs for the rows of a sample."""
        return [self.by_sample[sample][model]]


@dataclass(frozen=True)
class Expected:
    """What is expected of trained models, and what their expected scores were computed from."""

    by_name: dict[str, ExpectedScore]
    _scorer: Scorer
    _outputs: Sequence[Output]
    _y: Array
    _found: SiteExpectation
    differences: Differences
    #: For each model, the labelled rows whose label has the score -inf.
    _lapses: list[Ints]

    def doubts_of_scores(self, names: Sequence[str]) -> list[str]:
        """Return what to warn of if labelled rows lack scores of labels.

        `names` has what each model's labelled rows are called.
        """
        most = max(range(len(names)), key=lambda model: len(self._lapses[model]))
        return doubt_of_lapses(self._lapses[most], len(self._y), names[most])

    def doubts_of_labels(self, rows: str, labels: str) -> list[str]:
        """Return what to warn of if labelled rows cannot calibrate a model; the names have them.

        A model whose class scores tell all labels may predict otherwise, by another threshold.
        """
        of_predictions = response_methods(self._scorer) in ([], ["predict"])
        certain = [
            name
            for (name, one), output in zip(self.by_name.items(), self._outputs, strict=True)
            if one.beta == np.inf and not (of_predictions and (output.predicted != self._y).any())
        ]
        found = []
        if certain:
            found.append(
                f"{rows}: expected rows of which each model gets some wrong, got rows without an "
                f"error of {_listed(certain)}. Either such a model was fitted to them, or they "
                "are too few to calibrate its posteriors, which count as certain."
            )
        unrelated = [name for name, one in self.by_name.items() if one.beta <= 0]
        if unrelated:
            found.append(
                f"{labels}: expected the labels of {rows}, got labels that the predictions of "
                f"{_listed(unrelated)} say nothing about. Are the rows, and the classes, in the "
                "same order?"
            )
        return found

    def not_told_from_best(self) -> list[str]:
        """Return the other models whose expected score differs little from the highest one."""
        found = self.differences.not_told_from(self.differences.best)
        return [name for name, is_alike in zip(self.by_name, found, strict=True) if is_alike]

    def posterior(self) -> CandidatePosterior | None:
        """Compute the posterior over the models; None without two parts that have scores.

        A part is one of five random folds of the labelled rows, or half of these folds if there
        are fewer than 25 rows, or for regressors half of these rows, with half of the pairs.
        """
        if len(self._y) < 2:
            return None
        of_regressors = isinstance(self._outputs[0], RecordedRegressor)
        given = self._scorer, self._outputs, self._y, of_regressors
        found, (folds, by_fold) = self._found, scores_on_random_folds(*given)
        if not np.isfinite(by_fold).all(axis=0).any():  # the metric needs more rows
            return None
        of_rows = found.believed * (by_fold - by_fold.mean(axis=0))
        expected = np.array([one.score for one in self.by_name.values()])

        def of_halves(n: int) -> Floats:
            return changes_of_halves([found], n, seed=0)[0]

        parts = scores_of_changes(folds, expected, of_rows, of_halves, of_regressors)
        return posterior_of_parts(*parts)


def of_outputs(
    task: Classification | Regression,
    names: Sequence[str],
    outputs: Sequence[Sequence[Output]],
    y_val: Array,
    scorer: Scorer,
    reference: Any = "ensemble",
    groups: Array | None = None,
    pair_groups: Array | None = None,
) -> Expected:
    """Estimate how trained models score at another site, from their recorded predictions.

    `outputs` has what each model predicts for labelled rows, and for the same objects at both
    sites. `reference` may be what another model predicts for the labelled rows and for the pairs
    at the first site. Labelled rows and pairs may be in groups.
    """
    every = np.arange(len(y_val))
    known = [np.isin(y_val, getattr(one, "classes", y_val)) for one in outputs[LABELLED]]
    if isinstance(task, Classification):
        outputs, reference = _with_all_classes(names, outputs, y_val, reference)
    models = _TrainedModels(outputs)
    if not isinstance(reference, str):
        reference = {models.a: reference_labels(task, reference[0], y_val, reference[1])}
    elif len(names) == 1:  # the ensemble of a single model is itself
        reference = "self"
    scores = [task.score(scorer, one, y_val) for one in outputs[LABELLED]]
    validation = {"score": (np.array(scores), None)}
    labelled = LabelledRows(y_val, [every], groups)
    engine = Engine(task, {"score": scorer}, labelled, models, validation, "score", reference)
    found = engine.at(models, pair_groups)
    differences = engine.differences([found], np.zeros(len(names), dtype=np.intp))
    columns = found.columns
    unknown = np.full(len(names), np.nan)
    fields: dict[str, Any] = {
        "score": columns["expected_score"],
        "standard_error": columns["expected_score_se"],
        "low": columns.get("expected_score_low", unknown),
        "high": columns.get("expected_score_high", unknown),
        "validation_score": scores,
        "disagreement": columns["disagreement"],
        "change": [one.score for one in found.changes],
        "change_standard_error": columns["expected_score_se_pairs"],
        "beta": [engine.calibration(model).strength for model in range(len(names))],
        "difference_standard_error": differences.errors_from(differences.best),
    }
    n_pairs = len(outputs[models.a][0].predicted)
    by_name = {
        name: ExpectedScore(**{f: float(x[model]) for f, x in fields.items()}, n_pairs=n_pairs)
        for model, name in enumerate(names)
    }
    # A class that a classifier lacks has no score for a good reason.
    lapses = [
        rows[is_known[rows]]
        for rows, is_known in zip(map(engine.lapses, range(len(names))), known, strict=True)
    ]
    return Expected(by_name, scorer, outputs[LABELLED], y_val, found, differences, lapses)


def _with_all_classes(
    names: Sequence[str], outputs: Sequence[Sequence[Output]], y_val: Array, reference: Any
) -> tuple[list[list[Output]], Any]:
    """Give classifiers, and the reference, the columns of all classes and labels.

    A row whose label a classifier does not know is missed.
    """
    known = [*zip(names, outputs[LABELLED], strict=True)]
    if not isinstance(reference, str):  # what stands in for labels has to know them all
        columns_of(y_val, reference[0].classes, "the reference", "y_val")
        known.append(("the reference", reference[0]))
    classes = np.unique(np.concatenate([y_val, *(model.classes for _, model in known)]))
    if not isinstance(reference, str):
        reference = [one.with_classes(classes) for one in reference]
    return [[one.with_classes(classes) for one in of_source] for of_source in outputs], reference


def _missed_labels(names: Sequence[str], models: Sequence[Output], y_val: Array) -> Iterator[str]:
    """Yield what to warn of if labels are no classes of a classifier."""
    for name, model in zip(names, models, strict=True):
        unknown = ~np.isin(y_val, model.classes)
        if unknown.any():
            label = y_val[unknown].tolist()[0]
            yield (
                f"y_val: expected classes of {name}, got other labels in {unknown.sum()} of "
                f"{len(y_val)} rows, such as {label!r}: these rows count as missed."
            )


def _are_regressors(named: Mapping[str, Any]) -> bool:
    """Whether the estimators are regressors; a model that is none may be a torch classifier."""
    kinds = {
        name: hasattr(one, "__sklearn_tags__") and is_regressor(one) for name, one in named.items()
    }
    if len(set(kinds.values())) > 1:
        regressor, other = (next(n for n in kinds if kinds[n] == kind) for kind in (True, False))
        raise TypeError(
            "estimators: expected either classifiers or regressors, got both: "
            f"{regressor} is a regressor, and {other} is not."
        )
    return all(kinds.values())
