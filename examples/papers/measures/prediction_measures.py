"""Measures of one model's predictions on one sample, and on two samples of other rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.integrate import trapezoid
from scipy.special import entr
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from pa_select.scores.class_scores import columns_of
from pa_select.shifts.shifted_outputs import Outputs, quotient, with_errors
from pa_select.utils.arrays import check_column, check_shape
from pa_select.utils.typing import Floats, Index, Labels, Mask, Matrix


class PredictionMeasures(NamedTuple):
    """Measures of one model's predictions, from `prediction_measures`.

    Attributes
    ----------
    accuracy : float
        Share of rows whose label has the highest score.
    log_loss : float
        Log-loss of softmax(scores), in nats, at least 0.
    entropy : float
        Mean entropy of the posteriors, in nats, in [0, log n_classes].
    uncertainty_auc : float
        Area under the rejection curve, in [0, 1]; lower is better.
    cvar : float
        Conditional value at risk: mean of the largest log-losses, in nats.
    margin : float
        Quantile at 0.1, over rows, of the label's score minus the highest other score, in units
        of the scores; negative if more than a tenth of the rows is misclassified.
    roc_auc : float
        Area under the ROC curve of a class against the rest, mean over classes; in [0, 1].
    precision, recall, f1 : float
        Means over the classes that are predicted or true for some row, in [0, 1]; a class that
        is never predicted has precision 0, and one that no row has has recall 0.
    """

    accuracy: float
    log_loss: float
    entropy: float
    uncertainty_auc: float
    cvar: float
    margin: float
    roc_auc: float
    precision: float
    recall: float
    f1: float


def prediction_measures(
    scores: Matrix,
    y: Labels,
    *,
    classes: Labels | None = None,
    tail: float = 0.05,
) -> PredictionMeasures:
    """Measure one model's predictions on one sample.

    Parameters
    ----------
    scores : array-like or tensor of shape (n, n_classes)
        Logits or log-probabilities, as `class_scores` returns them.
    y : array-like of shape (n,)
        Labels.
    classes : array-like of shape (n_classes,), default=None
        The classes of the columns, as `class_scores` returns them. None: 0, 1, ...
    tail : float, default=0.05
        Share of rows, in (0, 1], that `cvar` averages over: those with the largest losses.

    Returns
    -------
    PredictionMeasures

    Raises
    ------
    TypeError, ValueError
        If the scores are not a matrix of finite numbers with at least two columns, a label is
        not among the classes, or a share is outside its range; the message names the argument.

    Notes
    -----
    The rejection curve plots the error rate of the rows that are kept against the share of
    rows that are rejected. The rows with the highest entropy are rejected first, rows of
    equal entropy together. The curve ends at 0, where all rows are rejected. Its area is
    computed with the trapezoidal rule.

    The conditional value at risk is the mean of the losses that reach the losses' quantile
    at 1 - `tail`. The study [1]_ states 5 %, but its published values are for
    ``tail=0.95``, close to the mean of all losses.

    `roc_auc` leaves out classes that no row or every row has.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", appendix C.1 (equations 4, 6, 7) and section
       5.2 (equation 3, the margin).
    .. [2] A. Malinin et al., "Shifts: a dataset of real distributional shift across multiple
       large-scale tasks", 2021 (rejection curves).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from pa_select import class_scores
    >>> from papers.measures import prediction_measures
    >>> X, y = load_wine(return_X_y=True)
    >>> scores, classes = class_scores(GaussianNB().fit(X[::2], y[::2]), X[1::2])
    >>> found = prediction_measures(scores, y[1::2], classes=classes)
    >>> f"accuracy {found.accuracy:.2f}, entropy {found.entropy:.2f} nats"
    'accuracy 0.93, entropy 0.02 nats'
    """
    if not 0 < tail <= 1:
        raise ValueError(f"tail: expected a share in (0, 1], got {tail!r}.")
    outputs, labels = _outputs_and_labels(scores, y, classes, "scores", "y")
    rows = np.arange(len(labels))
    loss = outputs.losses(labels)
    entropy = entr(np.exp(outputs.log_posterior)).sum(1)
    right = outputs.predicted == labels
    others = outputs.scores.copy()
    others[rows, labels] = -np.inf
    margins = outputs.scores[rows, labels] - others.max(1)
    precision, recall, f1, _ = precision_recall_fscore_support(
        labels, outputs.predicted, average="macro", zero_division=0
    )
    return PredictionMeasures(
        accuracy=float(right.mean()),
        log_loss=float(loss.mean()),
        entropy=float(entropy.mean()),
        uncertainty_auc=_rejection_area(~right, entropy),
        cvar=float(loss[loss >= np.quantile(loss, 1 - tail)].mean()),
        margin=float(np.quantile(margins, 0.1)),
        roc_auc=_roc_auc(outputs.log_posterior, labels),
        precision=float(precision),
        recall=float(recall),
        f1=float(f1),
    )


class SampleGap(NamedTuple):
    """What one model loses on another sample, from `sample_gap`.

    Each value but the shares has its standard error in ``<name>_se``. Accuracies are in [0, 1],
    log-losses in nats.

    Attributes
    ----------
    accuracy, other_accuracy : float
        The accuracies on both samples.
    accuracy_drop, relative_accuracy_drop : float
        Their difference, positive if the other one is lower, and its share of `accuracy`.
    log_loss, other_log_loss : float
        The log-losses of softmax(scores) on both samples.
    log_loss_gap, relative_log_loss_gap : float
        Their difference, positive if the other one is higher, and its share of `log_loss`.
    """

    accuracy: float
    accuracy_se: float
    other_accuracy: float
    other_accuracy_se: float
    accuracy_drop: float
    accuracy_drop_se: float
    relative_accuracy_drop: float
    log_loss: float
    log_loss_se: float
    other_log_loss: float
    other_log_loss_se: float
    log_loss_gap: float
    log_loss_gap_se: float
    relative_log_loss_gap: float


def sample_gap(
    scores: Matrix,
    y: Labels,
    other_scores: Matrix,
    other_y: Labels,
    *,
    classes: Labels | None = None,
) -> SampleGap:
    """Measure what one model loses on a second sample of other, independent rows.

    New photographs of the same classes are such a sample. If rows of both samples are the same
    objects, `robustness_curve` has smaller standard errors.

    Parameters
    ----------
    scores, other_scores : array-like or tensor of shape (n, n_classes)
        Logits or log-probabilities, as `class_scores` returns them. The numbers of rows differ.
    y, other_y : array-like of shape (n,)
        Their labels.
    classes : array-like of shape (n_classes,), default=None
        The classes of the columns, as `class_scores` returns them. None: 0, 1, ...

    Returns
    -------
    SampleGap

    Raises
    ------
    TypeError, ValueError
        As `prediction_measures`.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", section 3.3 (equations 1 and 2) and 3.3.2.
    .. [2] B. Recht et al., "Do CIFAR-10 classifiers generalize to CIFAR-10?", 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.measures import sample_gap
    >>> labels = np.arange(200) % 2
    >>> scores = np.eye(2)[np.where(np.arange(200) < 20, 1 - labels, labels)]  # 90 % are right
    >>> other = np.eye(2)[np.where(np.arange(100) < 30, 1 - labels[:100], labels[:100])]  # 70 %
    >>> gap = sample_gap(scores, labels, other, labels[:100])
    >>> f"{gap.accuracy_drop:.2f} +- {gap.accuracy_drop_se:.2f}"
    '0.20 +- 0.05'
    """
    found: dict[str, float] = {}
    samples = (("", scores, y), ("other_", other_scores, other_y))
    for prefix, values, labels in samples:
        outputs, columns = _outputs_and_labels(
            values, labels, classes, f"{prefix}scores", f"{prefix}y"
        )
        means = {
            f"{prefix}accuracy": 1.0 * (outputs.predicted == columns),
            f"{prefix}log_loss": outputs.losses(columns),
        }
        found |= with_errors(means, None)
    for name, gap, sign in (("accuracy", "accuracy_drop", -1), ("log_loss", "log_loss_gap", 1)):
        found[gap] = sign * (found[f"other_{name}"] - found[name])
        found[f"{gap}_se"] = float(np.hypot(found[f"{name}_se"], found[f"other_{name}_se"]))
        found[f"relative_{gap}"] = quotient(found[gap], found[name])
    return SampleGap(**found)


def _outputs_and_labels(
    scores: Matrix, y: Labels, classes: Labels | None, name: str, argument: str
) -> tuple[Outputs, Index]:
    """Return checked scores with what is derived from them, and the column of each label."""
    check_shape(scores if hasattr(scores, "dtype") else np.asarray(scores), name)
    outputs = Outputs.of(scores)
    shape = outputs.scores.shape
    wrong = ~np.isfinite(outputs.scores).all(1)
    if wrong.any():
        raise ValueError(
            f"{name}: expected finite numbers, got nan or inf in row {int(wrong.argmax())}."
        )
    known = np.arange(shape[1]) if classes is None else np.asarray(classes)
    if known.shape != shape[1:]:
        raise ValueError(f"classes: expected shape {shape[1:]}, got {known.shape}.")
    labels = check_column(y, shape[0], argument)
    return outputs, columns_of(labels, known, "the columns", argument)


def _rejection_area(wrong: Mask, uncertainty: Floats) -> float:
    """Return the area under the error rate of the rows kept, against the share rejected."""
    _, group, counts = np.unique(uncertainty, return_inverse=True, return_counts=True)
    kept = np.cumsum(counts)
    error_rate = np.append(0.0, np.cumsum(np.bincount(group, wrong)) / kept)
    return float(trapezoid(error_rate, np.append(0.0, kept / len(wrong))))


def _roc_auc(log_posterior: Floats, labels: Index) -> float:
    """Return the mean area under the ROC curves of classes that some but not all rows have."""
    areas = [
        roc_auc_score(labels == k, log_posterior[:, k])
        for k in np.unique(labels)
        if (labels != k).any()
    ]
    return float(np.mean(areas)) if areas else float("nan")
