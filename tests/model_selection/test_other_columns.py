"""Sites that measure other columns: only adapted rows are judged, in each way to ask."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from pa_select import PASearchCV, SiteAdapter, expected_score, expected_scorer, plan_pairs
from pa_select.two_sites.site_adapter import cross_adapted

GRID = {"C": [1e-4, 1e-2, 1.0]}
X, Y = make_classification(400, 6, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
rng = np.random.default_rng(0)
A, LABELS, X, Y = X[:60], Y[:60], X[60:], Y[60:]
# The other site has nine columns, or three.
MORE = A @ rng.normal(size=(6, 9)) + 5 + 0.1 * rng.normal(size=(60, 9))
FEWER = A[:, :3] + 0.1 * rng.normal(size=(60, 3))
NEAR = A + 0.3 * rng.normal(size=A.shape)
NAMES = [f"x{i}" for i in range(6)]
FRAME, FRAME_A = (pd.DataFrame(rows, columns=NAMES) for rows in (X, A))
OTHER_NAMES = pd.DataFrame(MORE[:, :6], columns=[f"band {i}" for i in range(6)])
# The seed of the parts of pairs that take turns in a search with random_state=0.
SEED = check_random_state(0).randint(2**31 - 2)
SAID = ["expected_score", "expected_score_se", "expected_score_low", "expected_score_high"]


def searched(paired, adapter="ridge", X=X, **params):
    params = {"cv": 2, "random_state": 0} | params
    return PASearchCV(LogisticRegression(), GRID, adapter=adapter, **params).fit(
        X, Y, paired=paired
    )


@pytest.mark.parametrize("rows", [MORE, FEWER], ids=["more", "fewer"])
def test_only_adapted_rows_are_judged(rows):
    search = searched((A, rows))
    table = search.cv_results_
    assert table["adapted"].all()
    # The same as pairs whose rows were mapped before, each by an adapter learnt on the others.
    by_hand = searched((A, cross_adapted("ridge", rows, A, SEED)), adapter=None).cv_results_
    for name in (*SAID, "agreement", "disagreement", "n_pairs"):
        np.testing.assert_allclose(table[name], by_hand[name], err_msg=name)
    assert search.best_adapted_.predict(rows).shape == (60,)
    assert isinstance(search.best_adapted_[0], SiteAdapter)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(search)).predict(A), search.predict(A))


@pytest.mark.filterwarnings("ignore:The chosen candidate may be no better than chance:UserWarning")
def test_the_expected_score_is_near_the_truth():
    search = searched((A, MORE))
    low, high = search.expected_interval_
    assert low < search.best_adapted_.score(MORE, LABELS) < high
    with pytest.warns(UserWarning, match="resemble each other no more than rows in a random"):
        nothing = searched((A, rng.normal(size=(60, 4))))
    assert nothing.expected_score_ < search.expected_score_ - 0.1


def test_other_names_are_other_columns():
    search = searched((FRAME_A, OTHER_NAMES.iloc[::-1]), X=FRAME)
    assert search.cv_results_["adapted"].all()
    adapted = search.best_adapted_[0].transform(OTHER_NAMES)
    assert list(adapted.columns) == NAMES
    assert list(adapted.index) == list(OTHER_NAMES.index)
    assert search.best_adapted_[0].regressor_.partners == {}
    assert search.best_adapted_.score(OTHER_NAMES, LABELS) > 0.5
    # Arrays of as many columns are those of X.
    array = searched((FRAME_A, OTHER_NAMES.to_numpy()), X=FRAME)
    alone = searched((FRAME_A, OTHER_NAMES.to_numpy()), X=FRAME, adapter=None).cv_results_
    better = array.cv_results_["expected_score"] >= alone["expected_score"] - 1e-12
    assert better.all()
    same = ~array.cv_results_["adapted"]
    for name in SAID:
        np.testing.assert_allclose(array.cv_results_[name][same], alone[name][same])


def test_each_site_has_its_columns():
    alone = {"near": searched((A, NEAR)), "own": searched((A, MORE))}
    search = searched({"near": (A, NEAR), "own": (A, MORE)})
    table = search.cv_results_
    for site, one in alone.items():
        for name in ("expected_score", "adapted"):
            np.testing.assert_allclose(table[f"{name}_{site}"], one.cv_results_[name])
    both = [table[f"expected_score_{site}"] for site in alone]
    np.testing.assert_array_equal(table["expected_score"], np.min(both, axis=0))
    assert search.best_adapted_["own"].predict(MORE).shape == (60,)
    assert search.best_adapted_["near"].predict(NEAR).shape == (60,)


@pytest.mark.filterwarnings("ignore:X_a. expected objects of the classes:UserWarning")
def test_trained_models_scorers_and_plans():
    model = LogisticRegression().fit(X[:200], Y[:200])
    rows = X[200:], Y[200:]
    found = expected_score(model, A, MORE, *rows, adapter="ridge")
    by_hand = expected_score(model, A, cross_adapted("ridge", MORE, A, seed=0), *rows)
    assert found == by_hand
    scorer = expected_scorer(A, MORE, adapter="ridge")
    assert scorer(model, *rows) == pytest.approx(found.score)
    grid = GridSearchCV(LogisticRegression(), GRID, scoring=scorer, error_score="raise")
    assert grid.fit(X, Y).best_score_ > 0.3
    (plan,) = plan_pairs(model, A, MORE, *rows, adapter="ridge", n_pairs=[60])
    assert plan.score == pytest.approx(found.score)


def test_regressors():
    y = X @ np.arange(6)
    search = PASearchCV(Ridge(), {"alpha": [0.1, 10]}, adapter="ridge", scoring="r2")
    search.fit(X, y, paired=(A, MORE))
    assert search.expected_score_ > 0.5
    assert search.best_adapted_.predict(MORE).shape == (60,)


ADAPTERS = [LinearRegression(), PLSRegression(3), KNeighborsRegressor(), SiteAdapter()]
ADAPTERS += [make_pipeline(StandardScaler(), Ridge()), SiteAdapter(Ridge())]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=repr)
def test_any_regressor_is_an_adapter(adapter):
    search = searched((A, MORE), adapter=clone(adapter))
    by_hand = searched((A, cross_adapted(adapter, MORE, A, SEED)), adapter=None)
    np.testing.assert_allclose(
        search.cv_results_["expected_score"], by_hand.cv_results_["expected_score"]
    )
    assert search.best_adapted_.score(MORE, LABELS) > 0.5


def test_without_an_adapter_the_error_names_the_columns():
    with pytest.raises(ValueError, match=r"^paired\[1\]: .* got 'band 0'.* If the other site"):
        searched((FRAME_A, OTHER_NAMES), adapter=None, X=FRAME)
    with pytest.raises(ValueError, match=r"shape \(6,\).* got \(9,\)\. If the other site"):
        searched((A, MORE), adapter=None)
    with pytest.raises(ValueError, match="X_b: expected the columns of X_a, got 'band 0'"):
        expected_scorer(FRAME_A, OTHER_NAMES)


def test_columns_in_another_order_are_refused_also_with_an_adapter():
    turned = FRAME_A[NAMES[::-1]] + 1
    with pytest.raises(ValueError, match=r"in their order.* cure is paired\[1\]\[paired\[0\].col"):
        searched((FRAME_A, turned), X=FRAME)
    with pytest.raises(ValueError, match="X_b: expected the columns of X_a in their order"):
        SiteAdapter().fit(turned, FRAME_A)


class Unchanged(RegressorMixin, BaseEstimator):
    """Predicts the rows themselves."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X


def test_an_adapter_must_map_to_the_columns_of_the_labelled_site():
    with pytest.raises(ValueError, match="adapter: expected rows of the 6 columns.*got shape"):
        searched((A, MORE), adapter=Unchanged())
    with pytest.raises(ValueError, match="X: expected the columns of X_b, got 'x0'"):
        SiteAdapter().fit(OTHER_NAMES, FRAME_A).transform(FRAME_A)
