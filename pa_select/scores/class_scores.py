"""Class scores of scikit-learn classifiers, torch modules and skorch nets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select._probabilities import DEFAULT_CLIP as DEFAULT_CLIP
from pa_select.scores.probabilities import check_clip, clipped_logs, wrong_row

# What would give an estimator with such a parameter one score for each class.
_HINTS = {
    "decision_function_shape": "; give it decision_function_shape='ovr'.",
    "voting": "; give it voting='soft'.",
}


def class_scores(
    estimator: Any, X: Any, *, clip: Any = "auto", batch_size: int = 1024
) -> tuple[Any, NDArray[Any]]:
    """Compute a fitted classifier's scores, one column for each class.

    Parameters
    ----------
    estimator : object
        A fitted scikit-learn classifier (also a pipeline, a search or a calibrated one),
        a skorch net or a torch module.
    X : array-like of n rows
        What the estimator predicts on. For a torch module a tensor, an array or a
        DataFrame, converted to the module's floating type unless it holds integers.
    clip : "auto" or float, default="auto"
        Smallest probability, where scores come from probabilities: a vote's or a tree's
        exact 0 would make two posteriors disjoint. "auto": 1 / (2 n) for an ensemble of n
        trees or a vote of n neighbours, half of one vote; 1e-8 otherwise.
    batch_size : int, default=1024
        Rows that a torch module sees at once. A skorch net has its own.

    Returns
    -------
    scores : ndarray or torch.Tensor of shape (n, n_classes)
        The decision function where it has a column for each class, a binary margin m as
        (-m / 2, m / 2); else logs of the clipped probabilities. Modules and nets give
        their raw outputs as a tensor on their own device, without gradients; outputs of a
        skorch net that are probabilities (criterion `torch.nn.NLLLoss`) give their logs.
    classes : ndarray of shape (n_classes,)
        The classes of the columns; 0, 1, ... for a module.

    Raises
    ------
    TypeError
        If the estimator is no single-output classifier, or has neither a decision
        function with a column for each class nor probabilities.
    ValueError
        If `clip` is neither "auto" nor a number in (0, 0.5), or `batch_size` is not a
        positive integer.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    log_probabilities : Scores of probabilities that were computed elsewhere.

    Notes
    -----
    A one-vs-one decision function has columns for pairs of classes and is not used. The
    order of `clip` hardly matters to the agreement of ordinary classifiers, its absence
    does. A threshold that an estimator puts on its scores is no part of them. A module
    should return logits: probabilities would be read as logits (`posterior_agreement` warns).

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3.1 (the discriminant functions of a classifier).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select import class_scores
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> scores, classes = class_scores(LogisticRegression(max_iter=500).fit(X, y), X)
    >>> scores.shape, classes
    ((150, 3), array([0, 1, 2]))
    """
    if not (isinstance(clip, str) and clip == "auto"):
        check_clip(clip, "'auto' or a probability in (0, 0.5)")
    if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
        raise ValueError(f"batch_size: expected a positive integer, got {batch_size!r}.")
    *wrappers, final = _layers(estimator)
    if _is_instance(final, "torch.nn", "Module") or _is_instance(final, "skorch", "NeuralNet"):
        # Only a process that has a torch model needs torch.
        from pa_select.scores import modules

        for wrapper in wrappers:
            if _is_pipeline(wrapper) and len(wrapper.steps) > 1:
                X = wrapper[:-1].transform(X)
        if _is_instance(final, "skorch", "NeuralNet"):
            if _is_instance(final, "skorch", "NeuralNetRegressor"):
                raise TypeError("estimator: expected a classifier, got a NeuralNetRegressor.")
            return modules.net_scores(final, X, DEFAULT_CLIP if clip == "auto" else clip)
        return modules.module_scores(final, X, batch_size)

    name = type(final).__name__
    if not _is_classifier(estimator):
        raise TypeError(f"estimator: expected a classifier, got {name}, which is none.")
    if hasattr(estimator, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list) or getattr(final, "multilabel_", False):
        raise TypeError(
            f"estimator: expected a classifier of one output, got {name} fitted to several."
        )
    if classes is None:
        raise TypeError(f"estimator: expected an attribute classes_, which {name} has not.")
    classes = np.asarray(classes)
    scores = _decision_columns(estimator, final, X, len(classes))
    if scores is None:
        scores = _log_probabilities(estimator, final, X, classes, clip)
    return scores, classes


def _is_instance(estimator: Any, module: str, name: str) -> bool:
    """`isinstance` without an import: what was never imported has no instances."""
    home = sys.modules.get(module)
    return home is not None and isinstance(estimator, getattr(home, name))


def _is_pipeline(estimator: Any) -> bool:
    return _is_instance(estimator, "sklearn.pipeline", "Pipeline")


def _is_classifier(estimator: Any) -> bool:
    if hasattr(estimator, "__sklearn_tags__"):
        from sklearn.base import is_classifier

        return bool(is_classifier(estimator))
    # Classifiers of other libraries that only follow the conventions.
    return hasattr(estimator, "classes_") and hasattr(estimator, "predict")


def _layers(estimator: Any) -> Iterator[Any]:
    """The estimator and what it holds: from searches, pipelines and frozen estimators in."""
    while True:
        yield estimator
        if _is_pipeline(estimator) and len(estimator.steps):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif _is_instance(estimator, "sklearn.frozen", "FrozenEstimator"):
            estimator = estimator.estimator
        else:
            return


def _decision_columns(estimator: Any, final: Any, X: Any, n_classes: int) -> Any:
    """Decision function with a column for each class, or None."""
    pairwise = getattr(final, "decision_function_shape", None) == "ovo" and n_classes > 2
    if pairwise or not hasattr(estimator, "decision_function"):
        return None
    decision = np.asarray(estimator.decision_function(X))
    if decision.ndim == 2 and decision.shape[1] == 1:
        decision = decision[:, 0]
    if decision.ndim == 1 and n_classes == 2:
        return np.column_stack([-decision / 2, decision / 2])
    if decision.ndim == 2 and decision.shape[1] == n_classes:
        return decision
    return None


def _log_probabilities(
    estimator: Any, final: Any, X: Any, classes: NDArray[Any], clip: Any
) -> NDArray[np.float64]:
    name = type(final).__name__
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            "estimator: expected predict_proba or a decision_function with a column for each "
            f"class, which {name} has not"
            + _HINTS.get(next((h for h in _HINTS if hasattr(final, h)), ""), ".")
        )
    probabilities = estimator.predict_proba(X)
    shape = getattr(probabilities, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] != len(classes):
        raise TypeError(
            f"estimator: expected predict_proba with {len(classes)} columns, one for each "
            f"class, got shape {shape} from {name}."
        )
    probabilities = np.asarray(probabilities, dtype=np.float64)
    row = wrong_row(probabilities)
    if row is not None:
        raise TypeError(
            f"estimator: expected probabilities of exclusive classes from {name}, got a sum "
            f"of {probabilities[row].sum():.4g} in row {row}."
        )
    return clipped_logs(probabilities, _resolution(final) if clip == "auto" else clip)


def _resolution(final: Any) -> float:
    """Half of the smallest step of a classifier's probabilities."""
    for votes in ("n_estimators", "n_neighbors"):
        n = getattr(final, votes, None)
        if isinstance(n, (int, np.integer)) and n >= 1:
            return 1 / (2 * int(n))
    return DEFAULT_CLIP
