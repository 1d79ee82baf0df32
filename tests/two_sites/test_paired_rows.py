"""Pairs whose rows do not belong together are noticed at every door, and right ones are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from pa_select import (
    PAScorer,
    PASearchCV,
    SiteAdapter,
    expected_score,
    expected_scorer,
    plan_pairs,
)
from pa_select.scores import log_probabilities
from pa_select.two_sites.paired_rows import doubts_of_pairing, refuse_repeated_objects
from pa_select.two_sites.score_of_units import widening

X, Y = load_digits(return_X_y=True)
# Dim scans of another scanner, with noise.
A = X[:40]
B = 0.4 * A + np.random.default_rng(0).normal(scale=0.3, size=A.shape)
ROWS, LABELS = X[300:600], Y[300:600]
MODEL = LogisticRegression(max_iter=200).fit(X[600:900], Y[600:900])


def of_class_scores(a, b):
    a, b, val = map(MODEL.decision_function, (a, b, ROWS))
    return expected_score(None, a, b, val, LABELS)


SEARCHES = {
    "search": lambda a, b: PASearchCV(MODEL, {}).fit(ROWS, LABELS, paired=(a, b)),
    "search of regressors": lambda a, b: PASearchCV(Ridge(), {}).fit(
        ROWS, LABELS + 0.5, paired={"b": (a, b)}
    ),
    "trained model": lambda a, b: expected_score(MODEL, a, b, ROWS, LABELS),
    "adapter": lambda a, b: expected_score(MODEL, a, b, ROWS, LABELS, adapter="ridge"),
    "scorer": expected_scorer,
}
DOORS = {
    **SEARCHES,
    "agreement": lambda a, b: PAScorer(paired=(a, b)),
    "plan": lambda a, b: plan_pairs(MODEL, a, b, ROWS, LABELS),
}


@pytest.mark.parametrize("door", SEARCHES.values(), ids=SEARCHES)
def test_rows_in_another_order_are_noticed(door):
    other = np.random.default_rng(1).permutation(40)
    with pytest.warns(UserWarning, match="rows that resemble each other no more than rows in a"):
        door(A, B[other])


@pytest.mark.filterwarnings("error")
def test_class_scores_are_not_asked_for_their_order():
    # Of models that hardly know an object again right scores look like those in another order.
    of_class_scores(A, B)
    of_class_scores(A, B[np.random.default_rng(1).permutation(40)])


def test_nearly_all_other_orders_are_noticed():
    rng, n = np.random.default_rng(0), 100
    found = [bool(doubts_of_pairing(A, B[rng.permutation(40)], "a", "b")) for _ in range(n)]
    assert np.mean(found) > 0.9


def test_an_adapter_notices_rows_in_another_order():
    with pytest.warns(UserWarning, match="resemble each other no more than rows in a random"):
        SiteAdapter().fit(B[np.random.default_rng(1).permutation(40)], A)


def test_rows_that_may_be_right_are_in_order():
    rng, spread = np.random.default_rng(0), A.std(0)
    # Of two objects that are nearly alike each is a little nearer to the partner of the other.
    a, step = A.copy(), 0.1 * spread * rng.normal(size=64)
    a[1], b = a[0] + step, a.copy()
    b[:2] = a[0] + np.outer([0.55, 0.45], step)
    assert doubts_of_pairing(a, b, "a", "b") == []
    # Two are exchanged, but of most others no row is recognised.
    b = A + 5 * rng.normal(size=A.shape)
    b[:2] = A[[1, 0]]
    assert doubts_of_pairing(A, b, "a", "b") == []


@pytest.mark.parametrize("wrong", [np.nan, -np.inf, 1e200])
def test_rows_with_other_than_finite_numbers_are_not_looked_at(wrong):
    rows = A.copy()
    rows[0, 0] = wrong
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doubts_of_pairing(rows, B[::-1], "a", "b") == []


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("n_times", [2, 5])
def test_an_object_given_several_times_is_refused(door, n_times):
    a = np.repeat(A, n_times, axis=0)
    b = np.repeat(B, n_times, axis=0) + np.random.default_rng(0).normal(0, 0.1, a.shape)
    got = f"another row for each object, got 40 different rows in {40 * n_times}, .* pair_groups"
    with pytest.raises(ValueError, match=got):
        door(a, b)


def test_the_object_of_each_pair_may_be_given():
    once = expected_score(MODEL, A, B, ROWS, LABELS)
    again = np.repeat(np.arange(40), 5)
    found = expected_score(MODEL, A[again], B[again], ROWS, LABELS, pair_groups=again)
    assert found.score == pytest.approx(once.score)
    # Two pseudo-pairs are added to 200 pairs, and not to 40.
    squares = 42**2 * once.change_standard_error**2 - 1 - 2 * 40 / 42 * once.change**2
    squares *= 5**2 * 40 / 39 * 199 / 200 * widening(40, 200) ** 2
    error = np.sqrt(squares + 1 + 2 * 200 / 202 * once.change**2) / 202
    assert found.change_standard_error == pytest.approx(error)


def tables():
    rng = np.random.default_rng(0)
    binary, three = rng.integers(0, 2, (200, 4)), rng.integers(0, 3, (200, 3))
    few = rng.integers(0, 4, (200, 2))
    yield "three binary columns", binary[:, :3]
    yield "a column of 0 and one of 1 for each", np.eye(2)[binary].reshape(200, -1)
    yield "a column for each of three values", np.eye(3)[three].reshape(200, -1)
    yield "three values", three
    yield "powers of few values", np.c_[few, few**2]
    yield "answers from 1 to 5", rng.integers(1, 6, (200, 4))
    yield "counts", rng.poisson(0.5, (200, 6))
    yield "rounded", rng.normal(size=(200, 4)).round()
    yield "one column", rng.normal(size=(20, 1)).repeat(2, axis=0)
    yield "texts", np.repeat([["some", "text"], ["other", "words"]], 20, axis=0)
    yield "irises", load_iris().data
    for load in (load_wine, load_breast_cancer, load_digits):
        yield load.__name__, load().data
    # Some failed, and some objects were taken twice.
    yield "zeros", np.where(np.arange(178)[:, None] < 30, 0.0, load_wine().data)
    yield "a few twice", np.r_[load_wine().data, load_wine().data[:15]]


@pytest.mark.parametrize(("name", "table"), tables(), ids=[name for name, _ in tables()])
@pytest.mark.parametrize("n", [20, 40, 100, 2000])
def test_tables_in_which_rows_are_equal_by_chance_are_taken(name, table, n):
    rows = table[np.random.default_rng(1).permutation(len(table))[:n]]
    refuse_repeated_objects(rows, "X_a")
    refuse_repeated_objects(pd.DataFrame(rows), "X_a")


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_digits])
def test_repeated_measurements_are_found(load):
    rows = load().data[:60]
    for repeated in (np.repeat(rows, 2, axis=0), np.r_[rows, rows[:12]], np.tile(rows, (3, 1))):
        with pytest.raises(ValueError, match=r"got 60 different rows in .* pair_groups\.$"):
            refuse_repeated_objects(repeated, "X_a")


def test_class_scores_of_different_objects_may_be_equal():
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[600:900], Y[600:900])
    rows = X[:100], 0.8 * X[:100], ROWS
    found = expected_score(
        None, *(log_probabilities(tree.predict_proba(x), clip=1e-3) for x in rows), LABELS
    )
    assert 0 < found.score < 1
    old = MODEL.decision_function(ROWS)
    assert expected_score(None, old, old, old, LABELS).change == 0
