"""The adapter between sites: what it learns, what it has not seen, and bad input."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from skorch import NeuralNetClassifier

from pa_select import PASearchCV, expected_score
from pa_select.unlabelled import SiteAdapter
from pa_select.unlabelled.site_adapter import cross_adapted


def pairs(n=80, d=5, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, d)) * 10.0 ** np.arange(d)
    return a, a @ (np.eye(d) + 1e-6 * rng.normal(size=(d, d))) * 3 + 7


@pytest.mark.parametrize("regressor", ["ridge", LinearRegression(), PLSRegression(5)])
def test_a_linear_difference_is_undone(regressor):
    a, b = pairs()
    adapter = SiteAdapter(regressor).fit(b[:60], a[:60])
    assert np.allclose(adapter.transform(b[60:]), a[60:], atol=0.02 * a.std(0))
    assert repr(clone(adapter)) == repr(adapter)


def test_no_row_is_mapped_by_an_adapter_that_has_seen_it():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(40, 35)), rng.normal(size=(40, 35))
    seen = SiteAdapter(LinearRegression()).fit(b, a).transform(b)
    unseen = cross_adapted(LinearRegression(), b, a, seed=0)
    assert np.square(seen - a).mean() < 0.2 < 1 < np.square(unseen - a).mean()
    # Which pairs it has seen does not depend on their order.
    order = rng.permutation(40)
    turned = cross_adapted(LinearRegression(), b[order], a[order], seed=0)
    np.testing.assert_allclose(turned, unseen[order], rtol=1e-6, atol=1e-6)
    assert not np.allclose(cross_adapted(LinearRegression(), b, a, seed=1), unseen)


@pytest.mark.parametrize("n_sparse", [1, 2])
def test_sparse_rows_are_mapped_as_dense_ones(n_sparse):
    a, b = (x.astype("f4") for x in pairs())
    given = [csr_array(b), csr_array(a) if n_sparse == 2 else a]
    expected = SiteAdapter().fit(b, a).transform(b)
    found = SiteAdapter().fit(*given).transform(csr_array(b))
    assert found.dtype == "float32"
    assert np.allclose(found, expected)
    assert np.allclose(cross_adapted("ridge", *given, 0), cross_adapted("ridge", b, a, 0))


def test_a_search_adapts_sparse_pairs():
    X, y = make_classification(200, 6, n_informative=4, random_state=0)
    a = X[:60], 3 * X[:60] + 1
    grid = {"C": [0.01, 1.0]}

    def found(convert):
        search = PASearchCV(LogisticRegression(), grid, adapter="ridge")
        search.fit(convert(X[60:]), y[60:], paired=tuple(map(convert, a)))
        return search.cv_results_["expected_score"], search.predict(convert(a[1]))

    for sparse, dense in zip(found(csr_array), found(np.asarray), strict=True):
        assert np.allclose(sparse, dense)


def test_frames_stay_frames():
    a, b = (pd.DataFrame(x, columns=list("vwxyz")) for x in pairs())
    mapped = SiteAdapter().fit(b, a).transform(b.iloc[::-1])
    assert list(mapped.columns) == list("vwxyz")
    assert list(mapped.index) == list(b.index[::-1])  # else they would not be aligned with a
    assert isinstance(cross_adapted("ridge", b, a, 0), pd.DataFrame)


@pytest.mark.parametrize(("given", "expected"), [("float32", "float32"), ("int64", "float64")])
def test_rows_have_the_floating_type_of_those_that_a_model_knows(given, expected):
    a, b = pairs()
    a = (10 * a).astype(given)
    assert SiteAdapter().fit(b, a).transform(b).dtype == expected
    assert cross_adapted("ridge", b, a, 0).dtype == expected


@pytest.mark.filterwarnings("ignore:The chosen candidate may:UserWarning")
@pytest.mark.filterwarnings(
    "ignore:(The interval of the chosen|y_val. expected the labels):UserWarning"
)  # one epoch
def test_a_net_of_single_precision_reads_adapted_rows():
    X, y = make_classification(300, 6, n_informative=4, random_state=0)
    X = X.astype("float32")
    torch.manual_seed(0)
    net = NeuralNetClassifier(lambda: torch.nn.Linear(6, 2), max_epochs=3, verbose=0)
    net.fit(X[:150], y[:150])
    rows = X[150:200], 0.5 * X[150:200], X[200:], y[200:]
    adapted = expected_score(net, *rows, adapter="ridge")
    assert adapted.disagreement == 0
    search = PASearchCV(net, {"lr": [0.01]}, cv=2, adapter="ridge")
    search.fit(X[:150], y[:150], paired=rows[:2])
    assert search.best_adapted_.predict(0.5 * X).shape == (300,)


def test_frames_are_aligned_and_transformers_are_taken():
    a, b = (pd.DataFrame(x, columns=list("vwxyz")) for x in pairs())
    learnt = [SiteAdapter().fit(b, rows).transform(b) for rows in (a, a.iloc[::-1])]
    assert np.allclose(*learnt)
    scaled = cross_adapted(StandardScaler(), b, a, 0)
    assert np.allclose(scaled.std(), 1, atol=0.2)
    again = cross_adapted(SiteAdapter(), b, a, 0)
    assert np.allclose(again, a, atol=0.1 * a.std().to_numpy())


def test_bad_input_is_named():
    a, b = pairs(10)
    with pytest.raises(TypeError, match="adapter: expected None, 'ridge' or an estimator"):
        SiteAdapter(LinearRegression).fit(b, a)
    with pytest.raises(ValueError, match="adapter: expected a regressor of several outputs"):
        SiteAdapter(SVR()).fit(b, a)
    with pytest.raises(TypeError, match="adapter: expected None, 'ridge' or an estimator"):
        SiteAdapter("lasso").fit(b, a)
    with pytest.raises(ValueError, match="adapter: expected rows of numbers in X_b"):
        SiteAdapter().fit(np.array([["x"]] * 10), a)
    with pytest.raises(ValueError, match="adapter: expected rows of numbers in X_a"):
        SiteAdapter().fit(b, a.reshape(10, 5, 1))
    with pytest.raises(ValueError, match="at least two pairs"):
        cross_adapted("ridge", b[:1], a[:1], 0)
    # A transformer that looks at one side only is taken as it is.
    assert SiteAdapter(StandardScaler()).fit(b, a).transform(b).std() == pytest.approx(1)
