"""Objects whose two measurements do not belong together are noticed at every door."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge

from pa_select import PASearchCV, SiteAdapter, expected_score
from pa_select.command_line.command import main
from pa_select.two_sites.paired_rows import doubts_of_pairing

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
