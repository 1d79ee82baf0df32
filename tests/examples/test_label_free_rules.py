"""Estimates of the accuracy on a target without labels, against computations by hand."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pa_select import class_scores, posterior_agreement

SOURCE = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
LABELS = np.array([0, 0, 1, 0])  # the last one is predicted wrong
TARGET = np.array([[0.95, 0.05], [0.55, 0.45], [0.35, 0.65], [0.1, 0.9]])


def test_estimates_without_labels_are_those_by_hand():
    import label_free_rules as rules

    # One of four is wrong, so that the threshold is the second smallest certainty: that of 0.7.
    assert rules.thresholded_confidence(SOURCE, LABELS, TARGET) == 0.5
    assert rules.thresholded_confidence(SOURCE, [0, 0, 1, 1], TARGET) == 0.75  # that of 0.6
    assert rules.thresholded_confidence(SOURCE, [1, 1, 0, 0], TARGET) == 0
    # Three labels are 0 and one is 1, which the last row gets.
    found = rules.transported_confidence(LABELS, TARGET)
    assert found == pytest.approx((0.95 + 0.55 + 0.35 + 0.9) / 4)
    found = rules.transported_confidence([0, 1, 0, 1], TARGET)
    assert found == pytest.approx(TARGET.max(1).mean())
    # Three rows of shares of 3/4 and 1/4: two labels are 0 and one is 1.
    found = rules.transported_confidence(LABELS, TARGET[:3])
    assert found == pytest.approx((0.95 + 0.55 + 0.65) / 3)
    # The polynomial 1 + x + x^2 / 2 is 1 and 2.5 at 0 and 1.
    shares = np.array([1, 2.5]) / 3.5
    assert rules.matrix_norm(np.array([[0.0, 1.0]])) == pytest.approx(np.mean(shares**4) ** 0.25)
    # Predictions that are nearly certain: half of the shares are 1, the others 0.
    certain = np.array([[0.0, 20.0], [20.0, 0.0]])
    assert rules.matrix_norm(certain) == pytest.approx(0.5**0.25)
    assert rules.nuclear_norm(np.eye(2)) == pytest.approx(1)
    assert rules.nuclear_norm(np.tile([1.0, 0.0], (4, 1))) == pytest.approx(np.sqrt(0.5))
    singular = np.sqrt(np.linalg.eigvalsh(TARGET.T @ TARGET))
    assert rules.nuclear_norm(TARGET) == pytest.approx(singular.sum() / np.sqrt(8))


def test_models_are_compared_on_the_target_alone():
    from label_free_problems import Problem
    from label_free_rules import search, with_target

    X, y = make_classification(120, 4, n_informative=3, n_redundant=0, random_state=0)
    problem = Problem(X[:60], y[:60], X[60:], X[60:], y[60:])
    folds = np.arange(0, 60, 2), np.arange(1, 60, 2)
    both, options = with_target(problem, folds)
    found, *_ = search([LogisticRegression(), GaussianNB()], both, 0, **options)
    for candidate, model in enumerate([LogisticRegression(), GaussianNB()]):
        one, other = (clone(model).fit(X[rows], y[rows]) for rows in folds)
        scores = (class_scores(fitted, X[60:])[0] for fitted in (one, other))
        # Two models are one pair, with one temperature.
        by_hand = posterior_agreement(*scores, prior="marginal").score
        assert found.cv_results_["agreement"][candidate] == pytest.approx(by_hand, abs=1e-3)
        right = one.score(X[folds[1]], y[folds[1]]) + other.score(X[folds[0]], y[folds[0]])
        assert found.cv_results_["mean_test_score"][candidate] == pytest.approx(right / 2)
