"""The adapter between sites: what it learns, what it has not seen, and bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_wine, make_classification
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import shuffle

from pa_select import PASearchCV, expected_score
from pa_select.two_sites import SiteAdapter
from pa_select.two_sites.site_adapter import SlopesAndRidge, cross_adapted


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


class Standardisation(TransformerMixin, BaseEstimator):
    """Direct standardisation as chemometrics packages have it: a transformer."""

    def fit(self, X, y):
        self.matrix_ = np.linalg.lstsq(X, y)[0]
        return self

    def transform(self, X):
        return X @ self.matrix_


@pytest.mark.filterwarnings("ignore:No candidate:UserWarning")
def test_a_transformer_is_an_adapter_as_a_regressor_is():
    X, y = load_wine(return_X_y=True)
    X, y = shuffle(X / X.std(0), y, random_state=0)
    pair, rows = (X[:60], 1.3 * X[:60]), (X[60:], y[60:])
    same = LinearRegression(fit_intercept=False)
    found, expected = (SiteAdapter(a).fit(*pair[::-1]) for a in (Standardisation(), same))
    np.testing.assert_allclose(found.transform(1.3 * X), expected.transform(1.3 * X))
    model = LogisticRegression().fit(X[60:120], y[60:120])
    held_out = X[120:], y[120:]
    scores = [expected_score(model, *pair, *held_out, adapter=a).score for a in (found, same)]
    assert scores[0] == pytest.approx(scores[1])
    search, other = (
        PASearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, adapter=a).fit(
            *rows, paired=pair
        )
        for a in (Standardisation(), same)
    )
    assert search.expected_score_ == pytest.approx(other.expected_score_)


def without_rule(n=20, d=40, seed=0):
    """Pairs whose rows differ by noise that no column has more of."""
    a = np.random.default_rng(seed).normal(size=(n, d))
    return a, a + 0.3 * np.random.default_rng(seed + 1).normal(size=(n, d))


@pytest.mark.parametrize("n", [2, 5, 20])
def test_rows_stay_nearly_as_measured_if_the_sites_differ_without_a_rule(n):
    a, b = without_rule(n)
    _, rows = without_rule(100, seed=9)
    offset = a.mean(0) - b.mean(0)
    changed = np.square(SiteAdapter().fit(b, a).transform(rows) - rows - offset).mean()
    assert changed < (0.2 if n == 5 else 0.1) * 0.3**2
    # A regression of the whole row keeps little of it with so few pairs.
    whole = SiteAdapter(SlopesAndRidge({})).fit(b, a).transform(rows)
    assert np.square(whole - rows).mean() > 0.5


def test_slopes_need_few_pairs():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 60))
    gain, offset = np.exp(rng.normal(size=(2, 60)))
    b = gain * a + offset + 0.1 * gain * rng.normal(size=a.shape)
    adapter = SiteAdapter().fit(b[:20], a[:20])
    errors = np.square(adapter.transform(b[20:]) - a[20:]).mean(0)
    assert errors.max() < 0.15
    assert np.allclose(adapter.regressor_.slopes_ * gain, 1, atol=0.15)


def test_penalties_are_those_with_the_smallest_error_of_pairs_left_out():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(25, 4)) * [1, 5, 0.2, 3]
    b = a @ (np.eye(4) + 0.3 * rng.normal(size=(4, 4))) + 0.3 * rng.normal(size=a.shape)
    ridge = SlopesAndRidge({}).fit(b, a)

    def error(penalty):
        model = make_pipeline(StandardScaler(), Ridge(4 * penalty))
        rows = StandardScaler().fit_transform(b), StandardScaler().fit_transform(a)
        return -cross_val_score(model[1], *rows, cv=25, scoring="neg_mean_squared_error").mean()

    penalties = np.logspace(-4, 3, 15)
    best = min(penalties, key=error)
    assert 1e-4 < best < 1e3
    assert ridge.penalty_ == pytest.approx(best)
    known = make_pipeline(StandardScaler(), Ridge(4 * best)).fit(b, a)
    assert np.allclose(ridge.predict(b), known.predict(b))


def test_units_do_not_matter():
    a, b = without_rule(30, 6)
    b = b @ np.triu(np.ones((6, 6))) + 2
    unit = 10.0 ** np.arange(-30, 30, 10)
    adapted = SiteAdapter().fit(b[:20], a[:20]).transform(b[20:])
    again = SiteAdapter().fit(b[:20] * unit, a[:20] * unit).transform(b[20:] * unit)
    np.testing.assert_allclose(again / unit, adapted, rtol=1e-9)
    # The units of another site's own columns do not matter either.
    own = [SiteAdapter().fit(x[:20, :5], a[:20]).transform(x[20:, :5]) for x in (b, b * unit)]
    np.testing.assert_allclose(*own, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e3, 1e6, 1e12, 1e200])
@pytest.mark.parametrize("every", [1, 2])
def test_sites_may_measure_in_other_units(unit, every):
    X, _ = load_wine(return_X_y=True)
    noisy = X * (1 + 0.02 * np.random.default_rng(0).normal(size=X.shape))
    units = np.where(np.arange(X.shape[1]) % every == 0, unit, 1.0)

    def error(adapter, rows):
        return np.square((adapter.transform(rows) - X[60:]) / X.std(0)).mean()

    same = error(SiteAdapter().fit(noisy[:60], X[:60]), noisy[60:])
    other = error(SiteAdapter().fit(units * noisy[:60], X[:60]), units * noisy[60:])
    assert other < 2 * same + 0.01


def test_constant_columns():
    a, b = without_rule(20, 5)
    a[:, 0], b[:, 1], a[:, 2], b[:, 2] = 7.0, 0.1 + 0.2, 1.0, 3.0
    adapter = SiteAdapter().fit(b, a)
    rows = without_rule(100, 5, seed=9)[1]
    adapted = adapter.transform(rows)
    # What never varies at b is kept, but for the difference of the means.
    kept = a.mean(0) - b.mean(0) + rows
    assert np.allclose(adapted[:, 2], kept[:, 2])
    assert np.allclose(adapter.regressor_.slopes_[1:3], 1)
    others = adapter.transform(np.where(np.arange(5) == 1, b, rows[:20]))[:, 1]
    assert np.abs(others - a[:, 1].mean()).max() < 3 * a[:, 1].std()
    # What never varies at a hardly varies once it is adapted.
    assert adapted[:, 0].std() < 0.2 * rows[:, 0].std()


def test_columns_of_other_names_have_no_slopes():
    a, b = (pd.DataFrame(x, columns=list("vwxyz")) for x in pairs())
    assert SiteAdapter().fit(b, a).regressor_.partners is None
    for names, partners in (("abcde", {}), ("wvaxb", {0: 1, 1: 0, 2: 3})):
        adapter = SiteAdapter().fit(b.set_axis(list(names), axis=1), a)
        assert adapter.regressor_.partners == partners
    assert SiteAdapter().fit(b.to_numpy()[:, :4], a).regressor_.partners == {}


@pytest.mark.parametrize("extra", [[], ["of b alone"]])
@pytest.mark.parametrize("names", ["vwxy", "yqwv"])
def test_columns_that_both_sites_have_keep_their_slopes(names, extra):
    a, b = (pd.DataFrame(x, columns=list("vwxyzq")) for x in without_rule(20, 6))
    rows = pd.DataFrame(without_rule(100, 6, seed=9)[1], columns=b.columns)
    names = list(names)
    here, there = (x.assign(**{"of b alone": 0.0})[extra + names] for x in (b, rows))
    mapped = SiteAdapter().fit(here, a).transform(there)
    changed = mapped[names] - rows[names] - (a - b)[names].mean()
    assert np.square(changed.to_numpy()).mean() < 0.1 * 0.3**2


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


def test_frames_stay_frames_and_are_aligned():
    a, b = (pd.DataFrame(x, columns=list("vwxyz")) for x in pairs())
    mapped = SiteAdapter().fit(b, a).transform(b.iloc[::-1])
    assert list(mapped.columns) == list("vwxyz")
    assert list(mapped.index) == list(b.index[::-1])
    np.testing.assert_allclose(mapped, SiteAdapter().fit(b, a.iloc[::-1]).transform(b)[::-1])
    # An adapter is taken for its regressor.
    again = cross_adapted(SiteAdapter(), b, a, 0)
    assert isinstance(again, pd.DataFrame)
    assert np.allclose(again, a, atol=0.1 * a.std().to_numpy())


@pytest.mark.parametrize(("given", "expected"), [("float32", "float32"), ("int64", "float64")])
def test_rows_have_the_floating_type_of_those_that_a_model_knows(given, expected):
    a, b = pairs()
    a = (10 * a).astype(given)
    assert SiteAdapter().fit(b, a).transform(b).dtype == expected
    assert cross_adapted("ridge", b, a, 0).dtype == expected


def test_bad_input_is_named():
    a, b = pairs(10)
    with pytest.raises(TypeError, match="adapter: expected None, 'ridge' or an estimator"):
        SiteAdapter("lasso").fit(b, a)
    with pytest.raises(ValueError, match="X_a: expected the 60 objects of X_b, .* got 59 rows"):
        SiteAdapter().fit(np.ones((60, 2)), np.ones((59, 2)))
    with pytest.raises(ValueError, match="at least two pairs"):
        cross_adapted("ridge", b[:1], a[:1], 0)


def test_an_adapter_may_impute_missing_values():
    X, y = make_classification(200, 8, n_informative=4, random_state=0)
    # Rows of other columns, which no candidate predicts.
    more = np.column_stack([1.1 * X[:40], X[:40, 0]])
    more[[3, 7], 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        SiteAdapter().fit(more, X[:40])
    imputes = make_pipeline(SimpleImputer(), Ridge())
    search = PASearchCV(LogisticRegression(), {}, adapter=imputes, cv=2)
    assert search.fit(X[40:], y[40:], paired=(X[:40], more)).expected_score_ > 0.5
    SiteAdapter(imputes).fit(*(pd.DataFrame(x).convert_dtypes() for x in (more, X[:40])))
