"""Measures of one model's predictions: against scikit-learn, scipy and by hand."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import entropy, sem
from sklearn import metrics
from sklearn.metrics import auc, log_loss, roc_auc_score

from papers.measures import prediction_measures, sample_gap


def sample(n=200, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return 2 * np.eye(n_classes)[y] + rng.normal(size=(n, n_classes)), y


@pytest.mark.parametrize("n_classes", [2, 4])
def test_against_other_implementations(n_classes):
    scores, y = sample(n_classes=n_classes)
    p = softmax(scores, axis=1)
    found = prediction_measures(scores, y)
    assert_allclose(found.accuracy, metrics.accuracy_score(y, p.argmax(1)))
    assert_allclose(found.log_loss, log_loss(y, p))
    assert_allclose(found.entropy, entropy(p, axis=1).mean())
    means = metrics.precision_recall_fscore_support(y, p.argmax(1), average="macro")
    assert_allclose([found.precision, found.recall, found.f1], means[:3])
    binary = roc_auc_score(y, p[:, 1]) if n_classes == 2 else None
    assert_allclose(found.roc_auc, binary or roc_auc_score(y, p, multi_class="ovr"))


def test_classes_that_are_never_predicted():
    found = prediction_measures([[2.0, 1, 0], [2, 1, 0], [1, 2, 0], [2, 1, 0]], [0, 0, 0, 2])
    assert_allclose([found.precision, found.recall], [2 / 9, 2 / 9])


def test_rejection_curve_from_its_definition():
    scores, y = sample(60)
    scores[:20] = scores[0]  # of one entropy
    p = softmax(scores, axis=1)
    uncertainty, wrong = entropy(p, axis=1).round(12), p.argmax(1) != y
    curve = [(1.0, 0.0)]
    for level in np.unique(uncertainty):
        kept = uncertainty <= level
        curve.append((1 - kept.mean(), wrong[kept].mean()))
    assert_allclose(prediction_measures(scores, y).uncertainty_auc, auc(*zip(*curve, strict=True)))


def test_by_hand():
    scores = np.log([[0.5, 0.25, 0.25], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
    y = [0, 1, 2, 1]
    found = prediction_measures(scores, y, tail=0.25)
    assert found.accuracy == 0.75
    assert_allclose(found.cvar, -np.log(0.3))
    # Kept first: rows 2, 1, 3 (wrong), 0; error rates 0, 0, 1/3, 1/4.
    assert_allclose(found.uncertainty_auc, 0.25 * (1 / 6 + (1 / 3 + 1 / 4) / 2))
    assert_allclose(prediction_measures(scores, y, tail=1).cvar, found.log_loss)


def test_margin_is_the_tenth_percentile():
    scores, y = sample()
    margins = [s[k] - np.delete(s, k).max() for s, k in zip(scores, y, strict=True)]
    assert_allclose(prediction_measures(scores, y).margin, np.percentile(margins, 10))


def test_types_of_scores_and_names_of_classes():
    scores, y = sample()
    found = prediction_measures(scores, y)
    names = np.array(["d", "b", "a", "c"])
    assert prediction_measures(scores, names[y], classes=names) == found
    assert prediction_measures(torch.tensor(scores, requires_grad=True), torch.tensor(y)) == found


@pytest.mark.filterwarnings("error")
def test_extremes():
    sure = np.array([[0.0, -1e4], [-1e4, 0.0]])
    assert prediction_measures(sure, [0, 1]) == (1, 0, 0, 0, 0, 1e4, 1, 1, 1, 1)
    assert prediction_measures(sure, [1, 0]) == (0, 1e4, 0, 0.5, 1e4, -1e4, 0, 0, 0, 0)
    assert np.isnan(prediction_measures([[1.0, 0.0]], [0]).roc_auc)
    scores, y = sample()
    seen = y < 3
    some = prediction_measures(scores[seen], y[seen]).roc_auc
    areas = [roc_auc_score(y[seen] == k, softmax(scores[seen], axis=1)[:, k]) for k in range(3)]
    assert_allclose(some, np.mean(areas))


def test_the_gap_of_two_samples_against_other_implementations():
    (a, y), (b, z) = sample(300, seed=1), sample(80, seed=2)
    b = 0.5 * b
    gap = sample_gap(a, y, b, z)
    right, still = (a.argmax(1) == y), (b.argmax(1) == z)
    losses = log_loss(y, softmax(a, axis=1)), log_loss(z, softmax(b, axis=1))
    assert_allclose(gap.accuracy_drop, right.mean() - still.mean())
    assert_allclose(gap.relative_accuracy_drop, 1 - still.mean() / right.mean())
    assert_allclose([gap.log_loss, gap.other_log_loss], losses)
    assert_allclose(gap.log_loss_gap, losses[1] - losses[0])
    assert_allclose(gap.relative_log_loss_gap, losses[1] / losses[0] - 1)
    # The samples are independent.
    assert_allclose(gap.accuracy_drop_se, np.hypot(sem(right), sem(still)))
