"""Class scores of classifiers, torch modules and skorch nets, and of probabilities."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pa_select.utils.arrays import (
    DEFAULT_CLIP,
    OF_LABELS,
    BadScoresError,
    are_probabilities,
    as_matrix,
    as_numbers,
    check_values,
)
from pa_select.utils.estimators import is_instance, is_pipeline, is_torch_model, unwrapped
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Floats, Index, Ints, Model, Rows

# Advice for estimators with these parameters, if they lack a score for each class.
_HINTS = {
    "decision_function_shape": "; give it decision_function_shape='ovr'.",
    "voting": "; give it voting='soft'.",
}


def class_scores(estimator: Model, X: Rows, *, batch_size: int = 1024) -> tuple[Any, Array]:
    """Compute a fitted classifier's scores, one column for each class.

    Parameters
    ----------
    estimator : object
        A fitted scikit-learn classifier (also a pipeline, a search or a calibrated
        classifier), a skorch net or a torch module.
    X : array-like of n rows
        The rows to score. For a torch module a tensor, an array or a DataFrame, converted to
        the module's floating type unless it holds integers.
    batch_size : int, default=1024
        Rows in each forward pass of a torch module. A skorch net uses its own batch size.

    Returns
    -------
    scores : ndarray or torch.Tensor of shape (n, n_classes)
        The decision function if it has a column for each class (a binary margin m becomes
        (-m / 2, m / 2)), else the logs of the clipped probabilities. For modules and nets the
        raw outputs as a tensor on their own device, without gradients; if a skorch net
        returns probabilities (criterion `torch.nn.NLLLoss`), their logs. Outputs of a type
        that numpy lacks, such as bfloat16, become float32.
    classes : ndarray of shape (n_classes,)
        The classes of the columns. For a module those of its attribute ``classes_``, or
        0, 1, ... if it has none.

    Raises
    ------
    TypeError
        If the estimator is not a single-output classifier, or has neither a decision
        function with a column for each class nor probabilities.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    log_probabilities : Scores from probabilities that were computed elsewhere.

    Notes
    -----
    A one-vs-one decision function has columns for pairs of classes and is not used.

    An exact 0 of a vote or a tree would make two posteriors disjoint, so probabilities are
    clipped: at half of one vote, 1 / (2 n), for an ensemble of n trees or a vote of n
    neighbours, and at 1e-8 otherwise. `log_probabilities` clips where you say.

    A module should return logits: probabilities would be read as logits (`posterior_agreement`
    warns). A threshold that an estimator applies to its scores has no effect.

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
    *wrappers, final = unwrapped(estimator)
    if hasattr(final, "forward") and is_torch_model(final):
        # Import torch only for a torch model.
        from pa_select.scores import modules

        for wrapper in wrappers:
            if is_pipeline(wrapper) and len(wrapper.steps) > 1:
                X = wrapper[:-1].transform(X)
        if is_instance(final, "skorch", "NeuralNet"):
            return modules.net_scores(final, X)
        return modules.module_scores(final, X, batch_size)

    name = type(final).__name__
    if not _is_classifier(estimator):
        raise TypeError(
            f"estimator: expected a classifier, got {name}. A classifier has classes_, predict, "
            "and predict_proba or decision_function; a class with BaseEstimator and "
            "ClassifierMixin as bases makes one of a function. For scores in files see the "
            "command pa-select."
        )
    if hasattr(estimator, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
    fitted: Any = estimator
    classes = fitted.classes_
    if isinstance(classes, list) or getattr(final, "multilabel_", False):
        raise TypeError(
            f"estimator: expected a classifier of one output, got {name} fitted to several."
            + OF_LABELS
        )
    classes = np.asarray(classes)
    scores = _decision_columns(estimator, final, X, len(classes))
    if scores is None:
        scores = _log_probabilities(estimator, final, X, classes)
    _check_n_rows(len(scores), X, name)
    return scores, classes


def _check_n_rows(n: int, X: Any, name: str) -> None:
    """Check that rows and scores are aligned; one candidate would else end a search of many."""
    shape = getattr(X, "shape", None)
    n_rows = shape[0] if shape else len(X) if hasattr(X, "__len__") else n
    if n != n_rows:
        raise ValueError(f"estimator: expected scores of {n_rows} rows from {name}, got {n}.")


def warn_of_trained_module(estimator: Any) -> None:
    """Warn if a net was given a module itself and has trained it: clones keep its weights."""
    *_, net = unwrapped(estimator)
    module = getattr(net, "module_", None)
    if module is not None and module is getattr(net, "module", None) and len(net.history):
        warn_caller(
            "estimator: expected a net with the class of its module, or a function that makes it, "
            f"got the module itself, a {type(module).__name__}, after {len(net.history)} epochs "
            "of training. All fits begin with its weights, and may know the rows that they are "
            f"scored on. Write {type(net).__name__}(lambda: {type(module).__name__}(...), ...)."
        )


def comparable_scores(
    estimator: Model, X: Rows, *, numbers: Ints | None = None, labels: Array | None = None
) -> tuple[Array, Array]:
    """Compute an estimator's class scores and check that agreement accepts them.

    Everything that scores several estimators calls this, so that one with bad scores can be
    left out before its scores are compared with anything. `numbers` are what errors call the rows,
    by default 0, 1, ...; an estimator that knows none of the `labels` is refused.
    """
    scores, classes = class_scores(estimator, X)
    # A model that was fitted to one class has nothing to compare.
    matrix = as_matrix(scores, "class scores", fewest_classes=1)
    if labels is not None and not np.isin(classes, labels).any():
        raise ValueError(
            f"class scores: expected some classes of y, {np.unique(labels).tolist()}, got "
            f"{np.asarray(classes).tolist()}."
        )
    check_values(matrix, "class scores", numbers=numbers)
    return matrix, classes


def _is_classifier(estimator: object) -> bool:
    if hasattr(estimator, "__sklearn_tags__"):
        from sklearn.base import is_classifier

        return bool(is_classifier(estimator))
    # Classifiers of other libraries may only follow the conventions.
    return hasattr(estimator, "classes_") and hasattr(estimator, "predict")


def _decision_columns(estimator: Any, final: object, X: Rows, n_classes: int) -> Floats | None:
    """Return the decision function with a column for each class, or None."""
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


def _log_probabilities(estimator: Any, final: Any, X: Rows, classes: Array) -> Floats:
    name = type(final).__name__
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            "estimator: expected predict_proba or a decision_function with a column for each "
            f"class, got {name} with neither"
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
    row = _wrong_row(probabilities)
    if row is not None:
        if np.isnan(probabilities[row]).any():
            raise BadScoresError(
                f"estimator: expected probabilities, got nan in row {row} from {name}."
            )
        raise TypeError(
            f"estimator: expected probabilities of exclusive classes from {name}, got a sum "
            f"of {probabilities[row].sum():.4g} in row {row}.{OF_LABELS}"
        )
    return _clipped_logs(probabilities, _resolution(final))


def _resolution(final: object) -> float:
    """Return half of the smallest step between a classifier's probabilities."""
    for votes in ("n_estimators", "n_neighbors"):
        n = getattr(final, votes, None)
        if isinstance(n, (int, np.integer)) and n >= 1:
            return 1 / (2 * int(n))
    return DEFAULT_CLIP


def log_probabilities(probabilities: Any, *, clip: float = DEFAULT_CLIP) -> Any:
    """Convert probabilities to scores for `posterior_agreement`: their logs.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes) or (n_problems, n, n_classes)
        Probabilities of exclusive classes, as a network's softmax or `predict_proba` returns
        them. Every row has non-negative numbers that sum to 1, to within 0.001. numpy arrays,
        tensors, DataFrames or lists.
    clip : float, default=1e-8
        Smallest probability, in (0, 0.5); smaller ones are raised to it, since two posteriors
        without a common class would make all other pairs irrelevant. For votes of n trees or n
        neighbours use 1 / (2 n), as `class_scores` does.

    Returns
    -------
    scores : ndarray, torch.Tensor or DataFrame of the shape of `probabilities`
        Log-probabilities, at most about 0. For a tensor, a tensor on the same device without
        gradients; for a pandas DataFrame, one with the same index and columns. The type is
        float32 if `probabilities` are float32, else float64.

    Raises
    ------
    TypeError
        If `probabilities` are not real numbers.
    ValueError
        If the shape is wrong, a row has a negative number or does not sum to 1 (the message
        names the first such row), or `clip` is not a number in (0, 0.5).

    See Also
    --------
    class_scores : Scores of a fitted classifier.
    posterior_agreement : The agreement of scores.

    Examples
    --------
    >>> from pa_select.scores import log_probabilities
    >>> log_probabilities([[0.5, 0.25, 0.25], [1, 0, 0]]).round(2)
    array([[ -0.69,  -1.39,  -1.39],
           [  0.  , -18.42, -18.42]])
    """
    _check_clip(clip)
    scores = scores_of_probabilities(probabilities, "probabilities", clip)
    if hasattr(probabilities, "iloc"):
        names = {"index": probabilities.index, "columns": probabilities.columns}
        return type(probabilities)(scores, **names)
    return scores


def scores_of_probabilities(probabilities: Any, name: str, clip: float) -> Any:
    """Return logs of clipped probabilities, an array or a tensor; errors begin with `name`."""
    values = _as_floats(probabilities, name)
    if values.ndim not in (2, 3) or not values.shape[-1]:
        hint = ""
        if values.ndim == 1:
            hint = (
                " One probability per row is not enough: give both classes a column, for "
                "example numpy.column_stack([1 - p, p])."
            )
        raise ValueError(
            f"{name}: expected shape (n, n_classes), got shape {tuple(values.shape)}.{hint}"
        )
    n, n_classes = values.shape[-2:]
    rows = values.reshape(-1, n_classes)
    row = _wrong_row(rows)
    if row is not None:
        place = f"row {row}" if values.ndim == 2 else f"problem {row // n}, row {row % n}"
        raise ValueError(
            f"{name}: expected probabilities, rows of non-negative numbers that sum to 1, got a "
            f"sum of {float(rows[row].sum()):.4g} and a least number of "
            f"{float(rows[row].min()):.4g} in {place}."
        )
    return _clipped_logs(values, clip)


def _as_floats(values: Any, name: str) -> Any:
    """Return real numbers in float32 or float64: a tensor for a tensor, else an array."""
    torch = sys.modules.get("torch")  # without torch there are no tensors
    if torch is not None and isinstance(values, torch.Tensor):
        from pa_select.agreement.inputs.validation import as_scores

        tensor = as_scores(values, name)
        return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()
    array = as_numbers(values, name)
    if array.dtype.kind == "c":
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _check_clip(clip: object) -> None:
    """Raise an error unless `clip` is a float in (0, 0.5)."""
    if not isinstance(clip, (float, np.floating)) or not 0 < clip < 0.5:
        raise ValueError(f"clip: expected a probability in (0, 0.5), got {clip!r}.")


def _wrong_row(rows: Floats) -> int | None:
    """Return the first row that does not hold probabilities of exclusive classes, or None."""
    right = are_probabilities(rows)
    return None if right.all() else right.tolist().index(False)


def _clipped_logs(probabilities: Any, clip: float) -> Any:
    """Return logs of floating-point probabilities; those below `clip` are raised to it."""
    if isinstance(probabilities, np.ndarray):
        raised = np.maximum(probabilities, clip)
        return np.log(raised, out=raised)
    return probabilities.clamp_min(clip).log()


def align_classes(scores: Array, classes: Array, all_classes: Array) -> Array:
    """Give scores a column for each of ``all_classes``.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Scores of the model's classes.
    classes : ndarray of shape (n_classes,)
        Classes of the columns, all of them among `all_classes`.
    all_classes : ndarray of shape (n_all,)
        All classes, sorted.

    Returns
    -------
    ndarray of shape (n, n_all)
        The scores. A class that the model lacks gets the row's lowest score, which is finite
        and scales with the other scores.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.scores import align_classes
    >>> align_classes(np.array([[2.0, -1.0]]), np.array([0, 2]), np.array([0, 1, 2]))
    array([[ 2., -1., -1.]])
    """
    if len(classes) == len(all_classes) and (classes == all_classes).all():
        return scores
    aligned = np.repeat(scores.min(axis=1, keepdims=True), len(all_classes), axis=1)
    aligned[:, np.searchsorted(all_classes, classes)] = scores
    return aligned


def calibrated(scores: Floats, beta: float, bias: Floats | float = 0.0) -> Floats:
    """Return posteriors at an inverse temperature, with a bias of each class, (n, n_classes)."""
    below = np.asarray(scores, dtype=np.float64)
    below = below - below.max(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        logits = beta * below
        logits[np.isnan(logits)] = 0.0  # 0 * inf: a top class at inf, or one of score -inf at 0
        if beta < 0:  # such a class is impossible, whichever way the scores rank the others
            logits[np.isneginf(below)] = -np.inf
        logits += bias
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    posterior: Floats = odds / odds.sum(axis=1, keepdims=True)
    return posterior


def columns_of(y: Array, classes: Array, name: str, argument: str = "y") -> Index:
    """Return the column of each label in an estimator's scores."""
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            f"{argument}: expected classes of {name}, {classes.tolist()}, got "
            f"{y.tolist()[row]!r} in row {row}."
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]


@contextmanager
def cached_for_only(rows: object, net: Any) -> Iterator[None]:
    """Let a net return outputs that skorch has cached for these rows, and compute all others.

    skorch's ``EpochScoring`` gives a scorer a net that returns the outputs of the validation
    rows once, whatever rows it is asked for. A scorer that asks for other rows, too, needs this.
    Estimators that are no net are left as they are.
    """
    cached = getattr(net, "__dict__", {}).get("forward_iter")
    if cached is None:
        yield
        return
    batches = list(cached())

    def forward_iter(X: Rows, *args: Any, **kwargs: Any) -> Any:
        return iter(batches) if X is rows else type(net).forward_iter(net, X, *args, **kwargs)

    net.forward_iter = forward_iter
    try:
        yield
    finally:
        net.forward_iter = lambda *_, **__: iter(batches)
