"""Paths that no other test takes: missing extras, unusual classifiers, lone pairs."""

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from pa_select import class_scores, posterior_agreement
from pa_select.agreement.standard_errors import standard_error
from pa_select.pairing import NearestPairing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)


class Odd(ClassifierMixin, BaseEstimator):
    """A classifier whose decision function and probabilities have a given form."""

    def __init__(self, decision=None, probabilities=None):
        self.decision = decision
        self.probabilities = probabilities

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return self.decision(X)

    def predict_proba(self, X):
        return self.probabilities(X)

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


def test_a_missing_package_names_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r'faiss, .* pip install "pa-select\[faiss\]"'):
        NearestPairing(backend="faiss")(X, X[::-1])


def test_decisions_of_one_column_are_those_of_two_classes():
    flat = Odd(decision=lambda X: X[:, 0]).fit(X, Y)
    column = Odd(decision=lambda X: X[:, :1]).fit(X, Y)
    scores, classes = class_scores(column, X)
    np.testing.assert_allclose(scores, class_scores(flat, X)[0])
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], X[:, 0], atol=1e-15)
    assert classes.tolist() == [0, 1]


def test_decisions_of_another_width_give_way_to_probabilities():
    p = np.tile([[0.2, 0.8]], (60, 1))
    odd = Odd(decision=lambda X: X, probabilities=lambda X: p).fit(X, Y)
    np.testing.assert_allclose(class_scores(odd, X)[0], np.log(p), atol=1e-12)
    odd.probabilities = lambda X: p[:, :1]
    with pytest.raises(TypeError, match=r"predict_proba with 2 columns, .* got shape \(60, 1\)"):
        class_scores(odd, X)


def test_one_pair_or_object_has_no_standard_error():
    assert np.isnan(standard_error(np.ones(1), np.ones(1)))
    assert np.isnan(standard_error(np.ones(2), np.array([1.0, 0.0]), (np.arange(2), np.arange(2))))
    one = np.zeros(2, dtype=int)
    assert np.isnan(standard_error(np.arange(2.0), np.full(2, 0.5), (one, one)))
    # More objects on the second side than on the first.
    terms, weight = np.array([1.0, 3.0, 5.0]), np.full(3, 1 / 3)
    found = standard_error(terms, weight, (np.array([0, 1, 2]), np.array([3, 4, 5])))
    # Three pairs of six objects.
    assert found == pytest.approx(np.sqrt(6 / 5 * 2 * (2 / 3) ** 2))


def test_a_group_of_processes_has_to_be_there():
    with pytest.raises(ValueError, match=r"process_group: .* call torch.distributed.init_process"):
        posterior_agreement(X, X, process_group="world")
