"""The expected score of skorch nets: caches of skorch's callbacks, rows in Datasets."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring
from torch.utils.data import TensorDataset

from pa_select import PAScorer, expected_score, expected_scorer
from pa_select.scores.class_scores import cached_for_only

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = (X[:, 0] + 0.5 * RNG.normal(size=300) > 0).astype(np.int64)
A = RNG.normal(size=(50, 3)).astype(np.float32)
B = (A + RNG.normal(size=A.shape)).astype(np.float32)


def dataset(rows, labels=None):
    """Return rows as a Dataset; no labels are zeros, as skorch expects a second entry."""
    return TensorDataset(
        torch.tensor(rows), torch.zeros(len(rows)) if labels is None else torch.tensor(labels)
    )


def history(scorer, *fitted_to, use_caching=True, kind=NeuralNetClassifier, **parameters):
    """Train a small net and return the scorer's column of its history."""
    torch.manual_seed(0)
    scoring = EpochScoring(scorer, name="score", lower_is_better=False, use_caching=use_caching)
    outputs = 2 if kind is NeuralNetClassifier else 1
    net = kind(
        torch.nn.Linear,
        module__in_features=3,
        module__out_features=outputs,
        max_epochs=3,
        lr=0.1,
        verbose=0,
        callbacks=[("score", scoring)],
        **parameters,
    )
    return net.fit(*fitted_to).history[:, "score"]


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
def test_an_epoch_has_the_same_score_with_skorchs_cache_and_with_datasets(scoring):
    options = {"criterion": torch.nn.CrossEntropyLoss}
    plain = history(expected_scorer(A, B, scoring=scoring), X, Y, use_caching=False, **options)
    assert len(set(plain)) == 3
    lazy = expected_scorer(dataset(A), dataset(B), scoring=scoring)
    arrays, of_arrays, of_datasets = (
        expected_scorer(A, B, scoring=scoring),
        (X, Y),
        (dataset(X, Y), Y),
    )
    for scorer, rows, use_caching in (  # each two of the three together
        (arrays, of_arrays, True),
        (arrays, of_datasets, False),
        (lazy, of_arrays, False),
        (lazy, of_datasets, True),
    ):
        found = history(scorer, *rows, use_caching=use_caching, **options)
        assert found == pytest.approx(plain, rel=1e-5)


def test_the_epochs_of_a_regressor_are_scored_from_the_cache():
    target = X[:, :1] * 2
    one, other = (
        history(expected_scorer(A, B), X, target, use_caching=cached, kind=NeuralNetRegressor)
        for cached in (True, False)
    )
    assert one == pytest.approx(other, rel=1e-5)
    assert len(set(one)) == 3


@pytest.mark.parametrize(
    "scorer", [PAScorer("paired", paired=(A, B)), PAScorer("views", views=lambda X: 2 * X + 1)]
)
def test_the_agreement_of_an_epoch_is_the_same_with_skorchs_cache(scorer):
    options = {"criterion": torch.nn.CrossEntropyLoss}
    one, other = (history(scorer, X, Y, use_caching=cached, **options) for cached in (True, False))
    assert one == pytest.approx(other, rel=1e-5)
    assert len(set(one)) == 3


def test_expected_scores_of_datasets_are_those_of_their_rows():
    module = torch.nn.Linear(3, 2)
    module.weight.data = torch.tensor([[-1.0, 0, 0], [1, 0, 0]])
    plain = expected_score(module, A, B, X, Y)
    assert expected_score(module, dataset(A), dataset(B), dataset(X, Y), None) == plain
    assert expected_score(module, A, dataset(B), dataset(X), Y) == plain


def test_only_the_rows_that_were_cached_are_read_from_the_cache():
    class Doubling:
        def forward_iter(self, X):
            return iter([2 * X])

    net, rows = Doubling(), np.ones(2)
    with cached_for_only(rows, net):
        assert next(net.forward_iter(rows)).tolist() == [2, 2]
    cached = iter([np.zeros(2)])  # skorch's own cache can be read once
    net.forward_iter = lambda *_: cached
    with cached_for_only(rows, net):
        for _ in range(2):
            assert next(net.forward_iter(rows)).tolist() == [0, 0]
        assert next(net.forward_iter(np.ones(2))).tolist() == [2, 2]
    assert next(net.forward_iter(np.ones(3))).tolist() == [0, 0]  # for the next scorer
    with cached_for_only(rows, object()):
        pass
