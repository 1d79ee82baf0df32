"""Pairings of two samples, and what takes them."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from pa_select import PAScorer, PASearchCV, posterior_agreement
from pa_select.pairing import IdentityPairing, LabelPairing, NearestPairing, pair_environments

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
A, Y_A = DIGITS[:200], LABELS[:200]
# Darker, and in another order.
ORDER = np.random.default_rng(0).permutation(200)
B, Y_B = 0.8 * A[ORDER], Y_A[ORDER]
ALL = [
    IdentityPairing(),
    LabelPairing(),
    NearestPairing(),
    NearestPairing(within_label=True),
    NearestPairing(features=PCA(5).fit(A)),
]


@pytest.mark.parametrize("pairing", ALL, ids=repr)
def test_every_pairing(pairing):
    pairs = clone(pairing)(A, B, Y_A, Y_B)
    assert pairs.a.shape == pairs.b.shape
    assert pairs.a.dtype.kind == pairs.b.dtype.kind == "i"
    assert pairs.n_left_out == 400 - len(np.unique(pairs.a)) - len(np.unique(pairs.b))
    assert bool(pairs.why) == bool(pairs.n_left_out)
    again = pairing(A, B, Y_A, Y_B)
    assert_array_equal(again.b, pairs.b)
    if getattr(pairing, "within_label", False) or isinstance(pairing, LabelPairing):
        assert_array_equal(Y_A[pairs.a], Y_B[pairs.b])


def test_nearest_rows_by_brute_force():
    distances = cdist(A, B)
    assert_array_equal(NearestPairing()(A, B).b, distances.argmin(1))
    distances[Y_A[:, None] != Y_B] = np.inf
    assert_array_equal(NearestPairing(True)(A, B, Y_A, Y_B).b, distances.argmin(1))
    city = NearestPairing(metric="cityblock")(torch.tensor(A), torch.tensor(B))
    assert_array_equal(city.b, cdist(A, B, "cityblock").argmin(1))


@pytest.mark.parametrize(("unit", "origin"), [(1, 0), (1e-30, 0), (1e25, 0), (1, 1e6), (0, 3)])
def test_faiss_finds_the_nearest_rows(unit, origin):
    pytest.importorskip("faiss")
    points = np.random.default_rng(0).normal(size=(900, 8))
    first, second = origin + unit * points[:400], origin + unit * points[400:]
    labels = LABELS[:400], LABELS[400:900]
    for within_label in (False, True):
        found, expected = (
            NearestPairing(within_label, backend=backend)(first, second, *labels)
            for backend in ("faiss", "sklearn")
        )
        assert_array_equal(found.a, expected.a)
        # Of two rows that are equally far but for rounding either may be taken.
        distances = [np.linalg.norm(first[p.a] - second[p.b], axis=1) for p in (found, expected)]
        np.testing.assert_allclose(*distances, rtol=1e-3)
        assert (found.b == expected.b).mean() > 0.98 or unit == 0
        if within_label:
            assert_array_equal(labels[0][found.a], labels[1][found.b])


def test_rows_of_a_label_that_the_other_lacks_are_left_out():
    pairs = NearestPairing(True)(A, B[Y_B != 3], Y_A, Y_B[Y_B != 3])
    assert 3 not in Y_A[pairs.a]
    assert "of the first" in pairs.why


def test_environments_against_a_reference():
    names = np.repeat(["u", "v", "w"], 40)
    pairs = pair_environments(names, LABELS[:120], 0, reference="v")
    assert set(names[pairs.a]) == {"v"}
    assert set(names[pairs.b]) == {"u", "w"}
    assert_array_equal(LABELS[pairs.a], LABELS[pairs.b])
    nearest = pair_environments(names, X=DIGITS[:120], pairing=NearestPairing(), reference="v")
    distances = cdist(DIGITS[40:80], DIGITS[:40]).argmin(1)
    assert_array_equal(nearest.b[names[nearest.b] == "u"], distances)
    with pytest.raises(ValueError, match="reference: expected one of the environments"):
        pair_environments(names, LABELS[:120], reference="x")


def test_scorers_and_searches_take_any_pairing():
    model = LogisticRegression(max_iter=300).fit(DIGITS, LABELS)
    X, y = np.concatenate([A, B]), np.concatenate([Y_A, Y_B])
    names = np.repeat(["today", "dark"], 200)
    pairing = NearestPairing(within_label=True)
    agreement = PAScorer(pairing=pairing).agreement(model, X, y, environments=names)
    pairs = pairing(B, A, Y_B, Y_A)  # "dark" comes first
    by_hand = posterior_agreement(
        model.decision_function(B[pairs.a]), model.decision_function(A[pairs.b]), prior="marginal"
    )
    assert agreement.score == pytest.approx(by_hand.score, abs=1e-6)
    assert agreement.n_pairs == len(pairs.a)

    search = PASearchCV(LogisticRegression(max_iter=300), {"C": [0.01, 1]}, pairing=pairing, cv=3)
    search.fit(X, y, environments=names)
    assert search.pairing_ is pairing
    at_random = clone(search).set_params(pairing="repeated").fit(X, y, environments=names)
    different = search.cv_results_["agreement"] != at_random.cv_results_["agreement"]
    assert different.all()
    with pytest.raises(ValueError, match="environments: expected some with pairing"):
        search.fit(X, y)


def test_a_function_of_the_user_may_pair():
    model = LogisticRegression(max_iter=300).fit(DIGITS, LABELS)
    X, names = np.concatenate([A, B]), np.repeat([0, 1], 200)

    def in_reverse(X_a, X_b, y_a, y_b):
        return list(range(200)), np.arange(200)[::-1]

    score = PAScorer(pairing=in_reverse)(model, X, environments=names)
    scores = model.decision_function(A), model.decision_function(B)[::-1]
    by_hand = posterior_agreement(*scores, prior="marginal", certify=False)
    assert score == pytest.approx(by_hand.score, abs=1e-9)

    for returned, message in [
        (([], []), "pairing: expected pairs of the rows scored, got none"),
        (([0], [200]), "pairing: expected row numbers of environment 1, 0 to 199"),
    ]:
        of_integers = tuple(np.array(rows, dtype=int) for rows in returned)
        with pytest.raises(ValueError, match=message):
            PAScorer(pairing=lambda *_, r=of_integers: r)(model, X, environments=names)
