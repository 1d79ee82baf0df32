"""What a committee checks: its search, metric and labels, and trained models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.multiclass import check_classification_targets

from pa_select.model_selection.evaluation import (
    ARGUMENTS,
    ONE_METRIC,
    check_fit_params,
    check_only_metric,
    class_of_rows,
    metrics_of,
    takes_parameter,
    undefined,
)
from pa_select.scores.candidate_posterior import (
    CandidatePosterior,
    posterior_of_parts,
    scores_of_pairs,
    scores_on_random_folds,
)
from pa_select.scores.class_scores import warn_of_trained_module
from pa_select.scores.precomputed import RecordedClassifier, RecordedRegressor
from pa_select.utils.arrays import check_column, check_scoring_argument
from pa_select.utils.estimators import named_estimators
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Array, Estimators, Floats, Ints, Rows, Scorer


def checked_search(search: Any, metric: str | None) -> Any:
    """Return a clone of a search; refuse what is none, or has another kind of estimator."""
    if isinstance(search, type) or search is None:
        got = "None" if search is None else f"the class {search.__name__}"
        raise TypeError(
            f"search: expected a search such as GridSearchCV(estimator, grid), got {got}."
        )
    # What is asked of a search; its class may be anybody's.
    if not all(hasattr(search, name) for name in ("estimator", "cv", "refit")):
        raise TypeError(
            "search: expected a search such as GridSearchCV(estimator, grid), got "
            f"{type(search).__name__}."
        )
    if not (is_classifier(search.estimator) or is_regressor(search.estimator)):
        raise ValueError(
            "search: expected a search of classifiers or regressors, got one of "
            f"{type(search.estimator).__name__}."
        )
    if isinstance(search.cv, Iterator):
        raise TypeError(
            "search: expected a cv that can be read several times, such as list(cv), got a "
            f"{type(search.cv).__name__}."
        )
    scoring = getattr(search, "scoring", None)
    check_scoring_argument(scoring, several=True)
    known = metrics_of(scoring)
    if known == ONE_METRIC:
        check_only_metric(metric)
    elif known is not None and (search.refit if metric is None else metric) not in known:
        raise ValueError(f"metric: expected one of {known}, got {metric!r}.")
    warn_of_trained_module(search.estimator)
    # Cloned, so that the search that was given stays as it is.
    return clone(search)


def check_params(search: Any, params: Mapping[str, Any]) -> None:
    """Refuse parameters of ``fit`` that the search's estimator does not take."""
    if get_config()["enable_metadata_routing"]:
        return  # a scorer or a splitter may request them, and scikit-learn checks it
    for name in ARGUMENTS:
        if name in params and not takes_parameter(search.estimator, name, likely=False):
            raise TypeError(
                f"fit: expected parameters of {type(search).__name__}.fit, got {name!r}, which "
                "PASearchCV takes: PASearchCV(estimator, grid, refit='committee').fit(X, y, "
                f"{name}=...)."
            )
    of_fits = {name: value for name, value in params.items() if name != "groups"}
    check_fit_params(search.estimator, of_fits, ["groups"])


def check_classes(y: Any) -> None:
    """Refuse labels that are not one class for each row."""
    if y is not None:  # without labels the estimator says what it needs
        check_column(y, _num_samples(y), "y")
        check_classification_targets(y)


def check_scores(defined: Sequence[Floats], n_pairs: int, n_rows: int) -> None:
    """Warn if only some of the pairs of parts have scores, and refuse scores of no model."""
    n = len(defined[0])
    if not np.isfinite(defined).all(axis=(0, 1)).any() or not n:
        raise ValueError(
            "scoring: expected a metric that is finite for a model on all parts of the "
            f"{n_rows} labelled rows, got none; give more rows, or another metric."
        )
    if n < n_pairs:
        warn_caller(
            f"scoring: expected a metric that is defined on all parts of the {n_rows} labelled "
            f"rows, got one that is not on {n_pairs - n} of {n_pairs} pairs of parts, which are "
            "left out."
        )


def check_some_score(
    table: Mapping[str, Any], metric: str, tests: Sequence[Ints], y: Array | None, groups: Any
) -> None:
    """Refuse a table in which no candidate has a score in all splits.

    `tests` are the test rows of the splits, `y` has all labels of classifiers, and `groups` those
    of all rows, or they are None.
    """
    if np.isfinite(table.get(f"mean_test_{metric}", 0.0)).any():
        return
    by_split = [table[f"split{split}_test_{metric}"][0] for split in range(len(tests))]
    split = int(np.argmin(np.isfinite(by_split)))
    why = "" if y is None else class_of_rows(y[tests[split]])
    why = why or (
        "the metric may not be defined on such small test folds, or for this estimator: the "
        "search's warnings say why"
    )
    raise ValueError(
        f"scoring: expected a candidate with a finite {metric!r} in every split of cv, got none: "
        f"{undefined(repr(metric), split, why, tests[split], groups)}."
    )


def recorded_models(models: Estimators, X: Rows, y: Array) -> tuple[list[Any], list[Any]]:
    """Return trained models, and what they predict for X; classifiers with all classes."""
    try:
        known = list(named_estimators(models).values())
        regress = {hasattr(one, "__sklearn_tags__") and is_regressor(one) for one in known}
        # Votes and means do not mix.
        if len(regress) > 1:
            raise TypeError("models: expected either classifiers or regressors, got both.")
        if regress == {True}:
            return known, [RecordedRegressor.of(one, X) for one in known]
        outputs = [RecordedClassifier.of(one, X) for one in known]
    except (TypeError, ValueError) as error:
        argument, colon, rest = str(error).partition(":")
        if argument not in ("estimator", "estimators"):
            raise
        raise type(error)(f"models{colon}{rest}") from error
    classes = _all_classes(outputs, y)
    return known, [one.with_classes(classes) for one in outputs]


def _all_classes(outputs: Sequence[RecordedClassifier], y: Array) -> Array:
    """Return the classes of all models and of the labels, which a model should know."""
    # Models may have been trained on some of the classes each.
    known = {label for one in outputs for label in one.classes.tolist()}
    try:
        sorted(known)
    except TypeError as error:
        raise TypeError(f"models: expected classes of one type ({error}).") from error
    strange = [label for label in y.tolist() if label not in known]
    if strange:
        some = f"y: expected classes that a model knows, such as {min(known)!r}"
        if len(strange) == len(y):
            raise ValueError(f"{some}, got {strange[0]!r}, and no label that one knows.")
        warn_caller(
            f"{some}, got others such as {strange[0]!r} in {len(strange)} of {len(y)} rows, "
            "which no model predicts."
        )
    return np.unique(np.concatenate([y, *(one.classes for one in outputs)]))


def posterior_of_models(scorer: Scorer, outputs: Sequence[Any], y: Array) -> CandidatePosterior:
    """Return the posterior over trained models, by the parts of the rows that have scores."""
    of_regressors = isinstance(outputs[0], RecordedRegressor)
    folds, by_fold = scores_on_random_folds(scorer, outputs, y, of_regressors)
    pairs = scores_of_pairs(by_fold, folds, of_regressors)
    # A metric may not be defined on the few rows of a part, whatever the model.
    defined = np.all([np.isfinite(side).any(axis=1) for side in pairs], axis=0)
    check_scores([side[defined] for side in pairs], len(defined), len(y))
    return posterior_of_parts(*(side[defined] for side in pairs))
