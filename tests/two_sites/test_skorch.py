"""Nets of skorch: its cache, its SliceDict and SliceDataset, torch's Datasets and DataLoaders."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import shuffle
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring
from skorch.helper import SliceDataset, SliceDict
from torch.utils.data import TensorDataset

from pa_select import PACommittee, PAScorer, PAScoring, PASearchCV, expected_score, expected_scorer

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
X = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
A, V, LABELS = X[:50], X[50:], Y[50:]


def shifted(rows):
    return (1.5 * rows + 0.3).astype(np.float32)


B = shifted(A)


class Whole(torch.nn.Linear):
    def __init__(self):
        super().__init__(13, 3)


class InParts(Whole):
    def forward(self, left, right):
        return super().forward(torch.cat([left, right], 1))


class Seeded(NeuralNetClassifier):
    def initialize(self):
        torch.manual_seed(0)
        return super().initialize()


def net(module=Whole, **params):
    defaults = {"lr": 0.1, "max_epochs": 3, "verbose": 0, "iterator_train__shuffle": False}
    return Seeded(module, criterion=torch.nn.CrossEntropyLoss, **defaults | params)


def dataset(rows, labels=None):
    """Return rows as a Dataset; no labels are zeros, as skorch expects a second entry."""
    labels = np.zeros(len(rows)) if labels is None else labels
    return TensorDataset(torch.tensor(rows), torch.tensor(labels))


def in_dataset(rows):
    return SliceDataset(dataset(rows))


def in_dict(rows):
    return SliceDict(left=rows[:, :6], right=rows[:, 6:])


KINDS = pytest.mark.parametrize(
    ("wrap", "model"), [(in_dataset, net()), (in_dict, net(InParts))], ids=["dataset", "dict"]
)
GRID = {"lr": [0.001, 0.1]}


def score_of_paired(wrap, model):
    search = PASearchCV(model, GRID, cv=3)
    return search.fit(wrap(V), LABELS, paired=(wrap(A), wrap(B))).cv_results_["expected_score"]


def score_of_views(wrap, model):
    search = PASearchCV(model, GRID, cv=3).fit(wrap(V), LABELS, views=wrap(shifted(V)))
    return search.cv_results_["agreement"]


def score_of_scorer(wrap, model):
    scorer = expected_scorer(wrap(A), wrap(B))
    search = GridSearchCV(model, GRID, scoring=scorer, cv=3).fit(wrap(V), LABELS)
    return search.cv_results_["mean_test_score"]


def score_of_agreement(wrap, model):
    scorer = PAScorer(paired=(wrap(A), wrap(B)))
    search = GridSearchCV(model, GRID, scoring=scorer, cv=3).fit(wrap(V), LABELS)
    return search.cv_results_["mean_test_score"]


def score_of_function(wrap, model):
    fitted = clone(model).fit(wrap(V[:60]), LABELS[:60])
    return [expected_score(fitted, wrap(A), wrap(B), wrap(V[60:]), LABELS[60:]).score]


def score_of_callback(wrap, model):
    callback = PAScoring((wrap(A), wrap(B)))
    fitted = clone(model).set_params(callbacks=[callback]).fit(wrap(V), LABELS)
    return fitted.history[:, "pa"]


DOORS = [door for name, door in globals().items() if name.startswith("score_of_")]


@KINDS
@pytest.mark.parametrize("door", DOORS)
def test_rows_in_containers_of_skorch_have_the_numbers_of_arrays(door, wrap, model):
    expected = door(np.array, net())
    assert np.ptp(expected) > 0 or len(expected) == 1
    np.testing.assert_allclose(door(wrap, model), expected, atol=2e-6)


def history(scorer, *fitted_to, use_caching=True, model=None):
    """Train a small net and return the scorer's column of its history."""
    scoring = EpochScoring(scorer, name="score", lower_is_better=False, use_caching=use_caching)
    fitted = (model or net(lr=0.02)).set_params(callbacks=[("score", scoring)]).fit(*fitted_to)
    return fitted.history[:, "score"]


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
def test_an_epoch_has_the_same_score_with_skorchs_cache_and_with_datasets(scoring):
    arrays = expected_scorer(A, B, scoring=scoring)
    plain = history(arrays, V, LABELS, use_caching=False)
    assert len(set(plain)) == 3
    lazy = expected_scorer(dataset(A), dataset(B), scoring=scoring)
    for scorer, rows, use_caching in (  # each two of the three together
        (arrays, V, True),
        (arrays, dataset(V, LABELS), False),
        (lazy, V, False),
        (lazy, dataset(V, LABELS), True),
    ):
        found = history(scorer, rows, LABELS, use_caching=use_caching)
        assert found == pytest.approx(plain, rel=1e-5)


def test_the_epochs_of_a_regressor_are_scored_from_the_cache():
    def epochs(use_caching):
        torch.manual_seed(0)
        model = NeuralNetRegressor(torch.nn.Linear(13, 1), lr=0.02, max_epochs=3, verbose=0)
        given = expected_scorer(A, B), V, 2 * V[:, :1]
        return history(*given, use_caching=use_caching, model=model)

    one, other = map(epochs, (True, False))
    assert one == pytest.approx(other, rel=1e-5)
    assert len(set(one)) == 3


@pytest.mark.parametrize(
    "scorer", [PAScorer("paired", paired=(A, B)), PAScorer("views", views=lambda X: 2 * X + 1)]
)
def test_the_agreement_of_an_epoch_is_the_same_with_skorchs_cache(scorer):
    one, other = (history(scorer, V, LABELS, use_caching=cached) for cached in (True, False))
    assert one == pytest.approx(other, rel=1e-5)
    assert len(set(one)) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda wrap: expected_scorer(wrap(A), wrap(B)),
        lambda wrap: PAScorer(paired=(wrap(A), wrap(B))),
        lambda wrap: PAScorer(),
    ],
)
def test_the_epochs_of_a_net_of_parts_are_scored_with_and_without_the_cache(make):
    plain = history(make(np.array), V, LABELS, use_caching=False)
    assert len(set(plain)) > 1
    for use_caching in (True, False):
        given = make(in_dict), in_dict(V), LABELS
        found = history(*given, use_caching=use_caching, model=net(InParts, lr=0.02))
        assert found == pytest.approx(plain, rel=1e-5)


def test_expected_scores_of_datasets_are_those_of_their_rows():
    module, rows, y = net().fit(V[:60], LABELS[:60]).module_, V[60:], LABELS[60:]
    plain = pytest.approx(expected_score(module, A, B, rows, y), rel=1e-5)
    assert expected_score(module, dataset(A), dataset(B), dataset(rows, y), None) == plain
    assert expected_score(module, A, dataset(B), dataset(rows), y) == plain


@pytest.mark.parametrize("refit", [True, "committee"])
def test_a_net_of_numbers_learns_targets_in_a_column(refit):
    def seeded():
        torch.manual_seed(0)
        return torch.nn.Linear(13, 1)

    model = NeuralNetRegressor(seeded, max_epochs=20, verbose=0)
    target = (V[:, :1] - V[:, 1:2]).astype(np.float32)
    by_sklearn = GridSearchCV(model, {"lr": [0.05, 0.1]}, cv=3).fit(V, target)
    found = PASearchCV(model, {"lr": [0.05, 0.1]}, cv=3, refit=refit)
    found.fit(V, target, paired=(A, B))
    scores = (search.cv_results_["mean_test_score"] for search in (found, by_sklearn))
    np.testing.assert_allclose(*scores, rtol=1e-3)
    if refit is True:
        assert found.score(V, target) > 0.5


@pytest.mark.parametrize(
    "fit",
    [
        lambda model: PASearchCV(model, {}, cv=2).fit(V, LABELS, paired=(A, B)),
        lambda model: PASearchCV(make_pipeline(model), {}, cv=2).fit(V, LABELS, views=shifted(V)),
        lambda model: PACommittee(GridSearchCV(model, {}, cv=2)).fit(V, LABELS),
        lambda model: PACommittee(PASearchCV(model, {}, cv=2)).fit(V, LABELS),
    ],
)
def test_a_search_of_a_net_that_has_trained_its_own_module_warns_once(fit, recwarn):
    def n_said(model):
        recwarn.clear()
        said = "the module itself, a Whole, after 3 epochs"
        fitted = fit(model)
        found = sum(said in str(w.message) for w in recwarn)
        assert sum(said in message for message in fitted.warnings_) == found
        return found

    assert n_said(net(Whole()).fit(V, LABELS)) == 1
    for harmless in (net(Whole()), net(Whole()).initialize(), net().fit(V, LABELS)):
        assert n_said(harmless) == 0
    assert n_said(net(lambda: Whole()).fit(V, LABELS)) == 0


def test_the_labels_of_a_dataset_are_read_once():
    class Counted(torch.utils.data.Dataset):
        n_read = 0

        def __len__(self):
            return len(V)

        def __getitem__(self, i):
            self.n_read += 1
            return V[i], int(LABELS[i])

    rows, model = Counted(), net().fit(V, LABELS)
    expected_scorer(A, B)(model, rows)
    without, rows.n_read = rows.n_read, 0
    expected_scorer(A, B)(model, rows, LABELS)
    assert without == rows.n_read + len(V)


def test_the_cache_of_an_epoch_is_whole_after_a_scorer_ran():
    model = net().fit(V, LABELS)
    cached = [torch.ones(len(V), 3)]
    model.forward_iter = lambda *_, **__: iter(cached)  # as skorch's EpochScoring does it
    expected_scorer(A, B)(model, V, LABELS)
    for rows in (V, A):  # the next scorer reads it, whatever rows it asks for
        assert next(model.forward_iter(rows)) is cached[0]
