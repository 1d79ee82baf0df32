"""Rank correlations of measures with gaps: against scipy, and against naive resampling."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kendalltau

from papers.measures import rank_correlation
from papers.measures.rank_correlation import _replicates

NAN, INF = np.nan, np.inf


def tables(n=30, missing=True, seed=0):
    """Tables with ties, missing and infinite values."""
    rng = np.random.default_rng(seed)
    measures = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    gaps = pd.DataFrame({"x": measures.a + rng.normal(size=n), "y": rng.integers(0, 4, n)})
    measures["b"] = measures.b.round()
    measures.loc[[0, 1], "c"] = INF
    if missing:
        measures.loc[[2, 5, 6], "a"] = NAN
        gaps.loc[[3, 5], "x"] = NAN
    return measures, gaps


def test_against_scipy():
    measures, gaps = tables()
    found = rank_correlation(measures, gaps, n_bootstrap=0)
    for i, measure in enumerate(measures):
        for j, gap in enumerate(gaps):
            both = measures[measure].notna() & gaps[gap].notna()
            expected = kendalltau(measures[measure][both], gaps[gap][both])
            assert found.tau[i, j] == pytest.approx(expected.statistic)
            assert found.p_value[i, j] == pytest.approx(expected.pvalue)
            assert found.n_models[i, j] == both.sum()
    assert np.isnan(found.low).all()


@pytest.mark.parametrize("missing", [False, True])
def test_replicates_are_those_of_resampled_models(missing):
    measures, gaps = tables(12, missing)
    x, y = measures.to_numpy().T, gaps.to_numpy(dtype=float).T
    counts = np.random.RandomState(0).multinomial(12, np.full(12, 1 / 12), 20)
    replicates = _replicates(x, y, 20, None)
    found = rank_correlation(measures, gaps, n_bootstrap=20, confidence_level=0.8)
    assert_allclose([found.low, found.high], np.nanquantile(replicates, [0.1, 0.9], axis=0))
    for drawn, taus in zip(counts, replicates, strict=True):
        rows = np.repeat(np.arange(12), drawn)
        for i, j in np.ndindex(4, 2):
            a, b = x[i, rows], y[j, rows]
            both = ~(np.isnan(a) | np.isnan(b))
            assert_allclose(taus[i, j], kendalltau(a[both], b[both]).statistic, atol=1e-12)


def test_holm():
    measures, gaps = tables(40)
    found = rank_correlation(measures, gaps, n_bootstrap=0)
    # From the definition: reject in order of p until the first that is too large.
    for level in np.linspace(0.001, 1, 50, endpoint=False):
        p = np.sort(found.p_value.ravel())
        too_large = p > level / np.arange(len(p), 0, -1)
        n_rejected = int(too_large.argmax()) if too_large.any() else len(p)
        assert (found.p_adjusted <= level).sum() == n_rejected
    assert_array_equal(np.argsort(found.p_value, None)[0], np.argsort(found.p_adjusted, None)[0])


def test_tests_that_cannot_be_made_are_not_in_the_family():
    rng = np.random.default_rng(0)
    gap, good = {"gap": rng.normal(size=20)}, rng.normal(size=20)
    lonely = np.full(20, NAN)
    lonely[3] = 1.0
    found = rank_correlation({"good": good, "same": np.ones(20), "lonely": lonely}, gap)
    assert np.isnan(found.tau[1:]).all()
    assert np.isnan(found.p_adjusted[1:]).all()
    assert np.isnan(found.high[1:]).all()
    assert found.p_adjusted[0] == pytest.approx(found.p_value[0])
    assert found.low[0] < found.tau[0] < found.high[0]
    assert found.n_models[:, 0].tolist() == [20, 20, 1]


def test_seeds_and_global_state():
    measures, gaps = tables()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    found = rank_correlation(measures, gaps, n_bootstrap=50)
    assert_array_equal(found.low, rank_correlation(measures, gaps, n_bootstrap=50).low)
    other = rank_correlation(measures, gaps, n_bootstrap=50, random_state=1)
    assert (found.low != other.low).all()
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_dicts_and_frames():
    measures, gaps = tables()
    frame = rank_correlation(measures, gaps, n_bootstrap=20).to_frame()
    as_lists = measures.to_dict("list"), gaps.to_dict("list")
    lists = rank_correlation(*as_lists, n_bootstrap=20)
    pd.testing.assert_frame_equal(frame, lists.to_frame())
    assert list(frame.measure) == list("aabbccdd")
    assert list(frame.gap) == list("xy") * 4
    assert_array_equal(frame.tau, lists.tau.ravel())
