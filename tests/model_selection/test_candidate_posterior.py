"""The posterior over candidates: brute force, invariances, limits, and what it is read from."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pa_select import PACommittee, PASearchCV, candidate_posterior
from pa_select.scores.candidate_posterior import (
    pairs_of_parts,
    posterior_of_parts,
    scores_of_pairs,
)

X, Y = load_wine(return_X_y=True)
TREE, GRID = DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, None]}
BETAS = np.r_[0, np.geomspace(1e-4, 1e4, 4001)]


def by_brute_force(a, b):
    """The largest kernel over a fine grid, and the weights there."""
    n = a.shape[1]

    def log_posteriors(scores, beta):
        return beta * scores - logsumexp(beta * scores, axis=1, keepdims=True)

    kernels = [
        np.mean(logsumexp(log_posteriors(a, x) + log_posteriors(b, x), axis=1)) + np.log(n)
        for x in BETAS
    ]
    beta = BETAS[np.argmax(kernels)]
    return max(kernels), softmax(beta * np.concatenate([a, b]), axis=1).mean(axis=0)


def parts(n_pairs=12, n_candidates=6, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    quality = rng.normal(scale=spread, size=n_candidates)
    return quality + rng.normal(size=(2, n_pairs, n_candidates))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_maximum_by_brute_force(seed):
    a, b = parts(spread=[0.3, 1, 3][seed % 3], seed=seed)
    found = candidate_posterior(a, b)
    score, weights = by_brute_force(a, b)
    assert found.score == pytest.approx(score, abs=1e-5)
    np.testing.assert_allclose(found.weights, weights, atol=0.01)
    assert found.n_effective == pytest.approx(1 / np.sum(np.square(found.weights)))
    assert (found.n_pairs, found.n_candidates) == (12, 6)


scores = arrays(np.float64, (2, 5, 4), elements=st.floats(-10, 10).map(lambda x: round(x, 3)))


@settings(deadline=None)
@given(
    scores,
    st.permutations(range(4)),
    st.permutations(range(5)),
    st.sampled_from([0.25, 3.0, 1e6]),
    arrays(np.float64, (2, 5, 1), elements=st.floats(-100, 100)),
)
def test_order_unit_and_zero_of_the_scores_do_not_matter(given, candidates, pairs, unit, zero):
    a, b = given
    found = candidate_posterior(a, b)
    assert -1e-9 <= found.score <= np.log(4) + 1e-9
    assert found.weights.sum() == pytest.approx(1)
    moved = unit * (given + zero)[:, pairs][:, :, candidates]
    same = candidate_posterior(moved[1], moved[0])
    assert same.score == pytest.approx(found.score, abs=1e-5)
    # Where two inverse temperatures are as good, as at a flat maximum, either may be found.
    if found.score > 1e-3 and np.isfinite(found.beta) and np.isfinite(same.beta):
        flat = abs(np.log(same.beta * unit / found.beta)) > 1e-2
        if not flat:
            np.testing.assert_allclose(same.weights, found.weights[list(candidates)], atol=0.02)


def test_many_equal_candidates_have_equal_weights_and_no_agreement():
    found = candidate_posterior(np.full((3, 5), 0.7), np.full((3, 5), 0.7))
    np.testing.assert_array_equal(found.weights, np.full(5, 0.2))
    assert (found.score, found.beta, found.n_effective) == (0, 0, pytest.approx(5))
    almost = np.tile([0.1, 0.1 + 1e-15], (2, 3, 1))  # they differ by rounding
    np.testing.assert_array_equal(candidate_posterior(*almost).weights, [0.5, 0.5])
    single = candidate_posterior(np.ones((3, 1)), np.zeros((3, 1)))
    assert single.weights.tolist() == [1]


def test_a_candidate_that_every_part_names_gets_all():
    a, b = parts(spread=0)
    a[:, 2] = b[:, 2] = 10
    found = candidate_posterior(a, b)
    assert found.beta == np.inf
    assert found.score == pytest.approx(np.log(6))
    np.testing.assert_array_equal(found.weights, np.arange(6) == 2)
    a[:, 4] = b[:, 4] = 10  # its equal
    np.testing.assert_array_equal(candidate_posterior(a, b).weights, [0, 0, 0.5, 0, 0.5, 0])


def test_parts_that_contradict_each_other_tell_nothing_apart():
    a = parts()[0]
    found = candidate_posterior(a, -a)
    assert found.score == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(found.weights, 1 / 6)
    assert repr(found) == "CandidatePosterior(0.0 of 1.8 nats: 6.0 of 6 candidates remain)"


def test_a_candidate_without_a_score_has_no_weight():
    a, b = parts()
    without = candidate_posterior(np.delete(a, 3, axis=1), np.delete(b, 3, axis=1))
    for value in (np.nan, -np.inf):
        b[4, 3] = value
        found = candidate_posterior(a, b)
        assert found.weights[3] == 0
        assert found.n_candidates == 5
        np.testing.assert_allclose(np.delete(found.weights, 3), without.weights)


@pytest.mark.parametrize("far", [1e3, 1e8, 1e20, 1e100])
def test_a_candidate_that_explodes_leaves_the_others_as_they_are(far):
    a, b = parts()
    with_it = (np.hstack([side, np.full((12, 1), -far)]) for side in (a, b))
    found = candidate_posterior(*with_it)
    assert found.weights[-1] == 0
    np.testing.assert_allclose(
        found.weights[:-1], candidate_posterior(a, b).weights, rtol=1e-3, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore")
def test_a_metric_that_no_part_defines_leaves_no_posterior():
    class Pairing:
        def pairs(self, splits, X, y, **_):
            return [(i, test[:5], i, test[5:10]) for i, (_, test) in enumerate(splits)]

    y = (Y == 0) * 1
    search = PASearchCV(TREE, GRID, cv=3, scoring="roc_auc", pairing=Pairing())
    search.fit(X, y, environments=1 - y)  # each environment has one class
    assert search.posterior_ is None
    assert search.best_score_ > 0.5


def test_only_disjoint_folds_of_one_repetition_are_paired():
    rows = np.arange(48)
    twice = [rows[:16], rows[16:32], rows[32:], rows[::2], rows[1::2]]
    singles = [(0, 1), (0, 2), (1, 2), (3, 4)]
    assert pairs_of_parts(twice, False) == [((i,), (j,)) for i, j in singles]
    halves = [((0,), (1, 2)), ((1,), (0, 2)), ((2,), (0, 1)), ((3,), (4,))]
    assert pairs_of_parts(twice, True) == halves
    for alone in ([rows], [], [rows[:32], rows[16:]]):
        assert pairs_of_parts(alone, False) == pairs_of_parts(alone, True) == []


def test_folds_of_few_rows_are_joined_to_halves():
    few = [test for _, test in LeaveOneOut().split(np.empty(30))]
    assert pairs_of_parts(few, False) == pairs_of_parts(few, True)
    assert {len(part) for pair in pairs_of_parts(few, False) for part in pair} == {15}
    # Two candidates of three are nearly alike; by single rows folds would contradict each other.
    right = np.ones((30, 3))
    right[::3, 0], right[1::3, 1], right[:25, 2] = 0, 0, 0
    found = posterior_of_parts(*scores_of_pairs(right, few, False))
    assert found.score > 0.1
    assert found.weights[2] < 0.1


@pytest.mark.parametrize("n_folds", range(2, 12))
def test_halves_of_a_repetition_share_no_fold_and_each_division_comes_once(n_folds):
    repetition = np.array_split(np.arange(20), n_folds)
    pairs = pairs_of_parts(2 * repetition, True)
    assert len(pairs) % 2 == 0
    for number, (a, b) in enumerate(pairs):
        first = n_folds * (number >= len(pairs) / 2)
        assert sorted(a + b) == list(range(first, first + n_folds))
        assert len(a) == n_folds // 2
    # Up to six folds have at most ten divisions, of which none is left out.
    assert len(pairs) == 2 * {2: 1, 3: 3, 4: 3}.get(n_folds, 10)
    if n_folds <= 6:
        assert len({frozenset(pair) for pair in pairs}) == len(pairs)


def test_a_search_is_read_as_its_scores_times_the_rows_of_its_folds():
    splits = list(StratifiedKFold(5).split(X, Y))  # 178 rows: not all folds are of one size
    search = GridSearchCV(TREE, GRID, cv=splits).fit(X, Y)
    sizes = [len(test) for _, test in splits]
    right = np.array([search.cv_results_[f"split{i}_test_score"] * n for i, n in enumerate(sizes)])
    first, second = np.triu_indices(5, 1)
    expected = candidate_posterior(right[first], right[second])
    for results in (search, pickle.loads(pickle.dumps(search))):
        found = candidate_posterior(results)
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-12)
    by_table = candidate_posterior(search.cv_results_, splits=iter(splits))
    np.testing.assert_array_equal(by_table.weights, found.weights)
    frame = pd.DataFrame(search.cv_results_)
    by_frame = candidate_posterior(frame, "score", splits=splits)
    np.testing.assert_array_equal(by_frame.weights, found.weights)
    assert candidate_posterior(frame).n_pairs == found.n_pairs
    of_scores = candidate_posterior(pd.DataFrame(right[first]), pd.DataFrame(right[second]))
    np.testing.assert_allclose(of_scores.weights, found.weights, atol=1e-12)
    masks = [(np.isin(range(178), a), np.isin(range(178), b)) for a, b in splits]
    np.testing.assert_array_equal(candidate_posterior(search, splits=masks).weights, found.weights)


def test_folds_of_repetitions_are_those_of_the_splitter():
    twice = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    iris = load_iris(return_X_y=True)  # folds of 50 rows
    for cv, n_pairs in ((twice, 6), (KFold(4, shuffle=True, random_state=0), 6), (None, 10)):
        found = candidate_posterior(GridSearchCV(TREE, GRID, cv=cv).fit(*iris))
        assert found.n_pairs == n_pairs
    search = RandomizedSearchCV(TREE, GRID, n_iter=3, random_state=0, cv=twice).fit(*iris)
    given = candidate_posterior(search, splits=twice.split(*iris))
    np.testing.assert_allclose(candidate_posterior(search).weights, given.weights, atol=1e-12)


def test_of_regressors_half_of_the_folds_are_compared_with_the_others():
    grid = {"max_depth": [1, 2, 3, None]}
    X, y = load_diabetes(return_X_y=True)
    splits = list(KFold(4).split(X))
    search = GridSearchCV(DecisionTreeRegressor(random_state=0), grid, cv=KFold(4)).fit(X, y)
    table = search.cv_results_
    summed = np.array(
        [table[f"split{i}_test_score"] * len(test) for i, (_, test) in enumerate(splits)]
    )
    first = summed[0] + summed[1:]
    expected = candidate_posterior(first, summed.sum(axis=0) - first)
    for results, parts_ in ((search, None), (search, "halves"), (table, "halves")):
        found = candidate_posterior(results, parts=parts_, splits=splits)
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-12)
        assert found.n_pairs == 3
    folds = candidate_posterior(search, parts="folds", splits=splits)
    assert folds.n_pairs == 6
    np.testing.assert_array_equal(folds.weights, candidate_posterior(table, splits=splits).weights)
    assert np.abs(folds.weights - expected.weights).max() > 0.01


def test_of_a_halving_search_the_last_round_counts():
    search = HalvingGridSearchCV(TREE, {"max_depth": list(range(1, 8))}, random_state=0, cv=3)
    search.fit(X, Y)
    last = search.cv_results_["iter"] == search.cv_results_["iter"].max()
    found = candidate_posterior(search)
    assert 1 < found.n_candidates == last.sum() < len(last)
    assert not found.weights[~last].any()


def test_another_metric():
    search = GridSearchCV(TREE, GRID, scoring=["accuracy", "neg_log_loss"], refit="accuracy")
    search.fit(X, Y)
    usual = candidate_posterior(search)
    np.testing.assert_array_equal(usual.weights, candidate_posterior(search, "accuracy").weights)
    assert not np.allclose(usual.weights, candidate_posterior(search, "neg_log_loss").weights)
    with pytest.raises(ValueError, match=r"metric: expected one of \['accuracy'.*got 'recall'"):
        candidate_posterior(search, "recall")


def test_what_cannot_be_compared_is_refused():
    one = GridSearchCV(TREE, GRID, cv=PredefinedSplit(np.arange(len(Y)) % 2 - 1)).fit(X, Y)
    overlap = GridSearchCV(TREE, GRID, cv=ShuffleSplit(3, test_size=0.8, random_state=0)).fit(X, Y)
    splits, ones = list(one.cv.split()), np.ones((3, 2))
    for results, options, message in (
        ((one,), {}, "splits: expected the splits .* cv=PredefinedSplit"),
        ((one,), {"splits": splits}, "cv: expected at least two .*got 1 fold "),
        ((one,), {"splits": 2 * splits}, "splits: expected the 1 splits .* got 2"),
        ((overlap,), {"splits": overlap.cv.split(X)}, "got 3 folds without two such"),
        ((ones, ones[1:]), {}, r"metric: expected scores of the shape \(3, 2\)"),
        ((ones * np.nan, ones), {}, "0 such candidates of 2"),
        (({"a": 1},), {}, "results: expected cv_results_ of a search"),
    ):
        with pytest.raises(ValueError, match=message):
            candidate_posterior(*results, **options)


@pytest.mark.parametrize("cv", [GroupKFold(4), StratifiedGroupKFold(3), LeaveOneGroupOut()])
def test_the_sizes_of_folds_of_groups_are_not_known(cv):
    groups = np.minimum(np.arange(len(Y)) % 23, 5)  # one of them has most rows
    search = GridSearchCV(TREE, GRID, cv=cv).fit(X, Y, groups=groups)
    with pytest.raises(ValueError, match=r"splits: expected the splits .* cv=.*Group.* got None"):
        candidate_posterior(search)
    splits = list(cv.split(X, Y, groups))
    weights = candidate_posterior(search, splits=splits).weights
    committee = PACommittee(search).fit(X, Y, groups=groups)
    np.testing.assert_allclose(weights, committee.posterior_.weights, atol=1e-12)


def test_a_search_of_this_package_has_it_for_every_kind_of_data():
    grid, model = {"n_neighbors": [1, 5, 20, 70]}, KNeighborsClassifier()
    rng = np.random.default_rng(0)
    Z = X / X.std(axis=0)
    rows, other = np.arange(len(Y)) % 3 > 0, Z + rng.normal(0, 0.3, X.shape)
    kinds = [
        {},
        {"views": other[rows]},
        {"environments": np.arange(rows.sum()) % 4},
        {"paired": (Z[~rows], other[~rows])},
        {"paired": {"p": (Z[~rows], other[~rows]), "q": (Z[~rows][:9], 1.1 * Z[~rows][:9])}},
    ]
    # Four environments have three divisions, of which each half comes first once.
    n_pairs = [20, 10, 60, 5_000, 5_000]
    for kind, n in zip(kinds, n_pairs, strict=True):
        search = PASearchCV(model, grid).fit(Z[rows], Y[rows], **kind)
        found = search.posterior_
        assert found is candidate_posterior(search)
        assert found.n_pairs == n
        np.testing.assert_array_equal(search.cv_results_["weight"], found.weights)
        assert found.weights[3] == found.weights.min() < 0.05, kind  # the worst one by far


def test_parts_with_environments_have_neither_rows_nor_environments_in_common():
    environment = np.arange(len(Y)) % 2
    cv = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))
    search = PASearchCV(TREE, GRID, cv=cv).fit(X, Y, environments=environment)
    table, found = search.cv_results_, search.posterior_
    right = {
        (name, fold): table[f"split{fold}_test_score_environment_{name}"]
        * np.count_nonzero(environment[test] == name)
        for name in (0, 1)
        for fold, (_, test) in enumerate(cv)
    }
    sides = [
        [{part for part in right if np.allclose(right[part], scores)} for scores in both]
        for both in zip(found.scores_a, found.scores_b, strict=True)
    ]
    # Several parts may have the same scores: two are found that have nothing in common.
    apart = [{(x, y) for x in a for y in b if x[0] != y[0] and x[1] != y[1]} for a, b in sides]
    assert all(apart)
    assert len(set.union(*apart)) > 3


def test_folds_of_whole_environments_are_the_parts():
    environment = np.arange(len(Y)) % 4
    search = PASearchCV(TREE, GRID, cv=LeaveOneGroupOut())
    search.fit(X, Y, environments=environment)
    splits = list(LeaveOneGroupOut().split(X, Y, environment))
    expected = candidate_posterior(search.cv_results_, splits=splits)
    np.testing.assert_allclose(search.posterior_.weights, expected.weights, atol=1e-12)
    assert search.posterior_.n_pairs == 6


def test_expected_scores_of_parts_have_the_expected_scores_as_their_mean():
    rng = np.random.default_rng(0)
    X_b = X[:60] + X.std(axis=0) * rng.normal(0, 0.5, (60, X.shape[1]))
    rows = np.arange(60, len(Y))
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    search = PASearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 9, 30]}, cv=cv)
    search.fit(X[rows], Y[rows], paired=(X[:60], X_b))
    found = search.posterior_
    sides = np.concatenate([found.scores_a, found.scores_b])
    sizes = [len(test) for _, test in cv.split(X[rows], Y[rows])]
    assert len(set(sizes)) > 1
    # Each fold is as often on a side as the others, with both halves of the pairs.
    mean = sides.mean(axis=0) / np.mean(sizes)
    np.testing.assert_allclose(mean, search.cv_results_["expected_score"], atol=0.02)


def test_one_split_has_no_posterior():
    split = PredefinedSplit(np.arange(len(Y)) % 2 - 1)
    search = PASearchCV(TREE, GRID, cv=split, pairing="split-half").fit(X, Y)
    assert search.posterior_ is None
    assert "weight" not in search.cv_results_
