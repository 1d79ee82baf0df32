"""Objects whose two measurements do not belong together are noticed at every door."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge

from pa_select import PASearchCV, SiteAdapter, expected_score
from pa_select.command_line.command import main
from pa_select.two_sites.paired_rows import compared_objects, doubts_of_pairing

X, Y = load_digits(return_X_y=True)
# Dim scans of another scanner, with noise.
A = X[:40]
B = 0.4 * A + np.random.default_rng(0).normal(scale=0.3, size=A.shape)
ROWS, LABELS = X[300:600], Y[300:600]
MODEL = LogisticRegression(max_iter=200).fit(X[600:900], Y[600:900])

ORDERS = {
    "two exchanged": np.r_[:3, 17, 4:17, 3, 18:40],
    "half in a circle": np.r_[np.roll(np.arange(20), 1), 20:40],
    "all in another order": np.random.default_rng(1).permutation(40),
}


def of_class_scores(rows):
    a, b, val = map(MODEL.decision_function, (A, rows, ROWS))
    return expected_score(None, a, b, val, LABELS)


DOORS = {
    "search": lambda rows: PASearchCV(MODEL, {}).fit(ROWS, LABELS, paired=(A, rows)),
    "search of regressors": lambda rows: PASearchCV(Ridge(), {}).fit(
        ROWS, LABELS + 0.5, paired=(A, rows)
    ),
    "adapter": lambda rows: SiteAdapter().fit(rows, A),
    "trained model": lambda rows: expected_score(MODEL, A, rows, ROWS, LABELS),
    "class scores": of_class_scores,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("order", [None, *ORDERS])
def test_what_does_not_belong_together_is_said(door, order):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DOORS[door](B if order is None else B[ORDERS[order]])
    said = [str(w.message) for w in caught if "the same object" in str(w.message)]
    assert len(said) == (order is not None)
    for text in said:
        assert ("Were these objects exchanged?" in text) == (order != "all in another order")
        assert ("in a random order" in text) == (order == "all in another order")


def test_exchanged_objects_are_named():
    words = "got 20 of 40 rows .*0 of X_a with 1 of X_b.* and 17 more"
    with pytest.warns(UserWarning, match=words):
        SiteAdapter().fit(B[ORDERS["half in a circle"]], A)


def test_the_command_line_says_it_once_for_all_models(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = ORDERS["two exchanged"]
    for name, model in (
        ("one", MODEL),
        ("two", LogisticRegression(C=1e-3, max_iter=500).fit(ROWS, LABELS)),
    ):
        for file, values in (("a", A), ("b", B[rows]), ("val", X[900:1200])):
            np.save(f"{name}_{file}.npy", model.decision_function(values))
    np.save("y.npy", Y[900:1200])
    models = [x for n in ("one", "two") for x in ("--model", n, *(f"{n}_{f}.npy" for f in "ab"))]
    models[4:4], models[9:9] = ["one_val.npy"], ["two_val.npy"]
    assert main(["expect", *models, "--labels", "y.npy"]) == 0
    errors = capsys.readouterr().err
    assert errors.count("the same object") == 1
    assert "3 of one_a.npy with 17 of one_b.npy" in errors


def test_of_many_objects_the_compared_ones_are_named():
    a = MODEL.decision_function(X[1200:1600])
    some, rows = compared_objects(len(a)), np.arange(len(a))
    i, j = some[[30, 90]]
    assert (i, j) != (30, 90)
    rows[[i, j]] = j, i
    b = a[rows] + np.random.default_rng(0).normal(scale=0.01, size=a.shape)
    (said,) = doubts_of_pairing(a, b, "a.npy", "b.npy")
    named = "2 of 150 rows that resemble another object's row much more than their own"
    assert f"{named} ({i} of" in said


def test_units_do_not_matter_and_few_pairs_and_other_columns_are_not_looked_at():
    rows = ORDERS["two exchanged"]
    for factor in (1e-6, 1e6):
        (said,) = doubts_of_pairing(A, factor * B[rows] + 5, "a", "b")
        assert "3 of a with 17 of b" in said
    assert doubts_of_pairing(A[:19], B[rows][:19], "a", "b") == []
    assert doubts_of_pairing(A, B[rows][:, ::2], "a", "b") == []  # no column has its partner


@pytest.mark.parametrize("n_hard", [30, 60])
def test_the_size_of_a_single_finite_score_exchanges_nothing(n_hard, tmp_path, capsys):
    rng = np.random.default_rng(0)
    scores, models = MODEL.decision_function(X[:60]), []
    for model in "12":
        sides = [scores + rng.normal(scale=0.01, size=scores.shape) for _ in range(2)]
        for side in sides:
            hard = side[:n_hard]
            side[:n_hard] = np.where(hard == hard.max(axis=1, keepdims=True), 0, -np.inf)
            side[:n_hard] += rng.normal(size=(n_hard, 1))
        assert doubts_of_pairing(*sides, "a", "b") == []
        files = [str(tmp_path / f"{model}{name}.npy") for name in ("a", "b", "val")]
        for file, values in zip(files, [*sides, MODEL.decision_function(ROWS)], strict=True):
            np.save(file, values)
        models += ["--model", model, *files]
    np.save(tmp_path / "y.npy", LABELS)
    assert main(["expect", *models, "--labels", str(tmp_path / "y.npy")]) == 0
    assert "the same object" not in capsys.readouterr().err


def test_rows_that_may_be_right_are_not_called_exchanged():
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
