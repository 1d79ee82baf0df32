"""The study of a few labels at a new site: others' rules by brute force, one small setting."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import entr
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

STUDY = "study_few_labels"


def test_model_selector_asks_where_models_differ_and_finds_the_right_one():
    from few_labels_rules import model_selector

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    said = np.array([y, np.where(rng.random(60) < 0.5, y, 0), (y + 1) % 3])
    said[:, :20] = y[:20]  # these rows say nothing
    found = model_selector(said, y, (1, 5, 100), 0.4, rng)
    assert found[100].tolist() == [0]
    # The first row parts the models most evenly, as far as expected with uniform labels.
    entropies = {}
    for row in range(20, 60):
        entropies[row] = 0
        for label in range(3):
            w = np.where(said[:, row] == label, 1.5, 1.0)
            entropies[row] += entr(w / w.sum()).sum()
    asked = []

    class Recorded(np.random.Generator):
        def choice(self, rows):
            asked.append(rows)
            return rows[0]

    model_selector(said, y, (1,), 0.4, Recorded(np.random.PCG64(0)))
    best = [row for row, value in entropies.items() if value <= min(entropies.values()) + 1e-9]
    np.testing.assert_array_equal(asked[0] + 20, best)


def test_the_gain_that_coda_expects_is_that_of_new_counts():
    from few_labels_rules import _best, _gain

    rng = np.random.default_rng(0)
    n_models, n_rows, n_classes = 3, 4, 2
    said = rng.integers(0, n_classes, (n_models, n_rows))
    counts = 1 + 3 * rng.random((n_models, n_classes, n_classes))
    of_row = rng.dirichlet([1, 1], n_rows)
    of_class = of_row.mean(axis=0)

    def best(of_counts):
        return of_class @ np.array([_best(of_counts, c) for c in range(n_classes)])

    gain = entr(best(counts)).sum() * np.ones(n_rows)
    for row in range(n_rows):
        for label in range(n_classes):
            after = counts.copy()
            after[np.arange(n_models), label, said[:, row]] += 1
            gain[row] -= of_row[row, label] * entr(best(after)).sum()
    np.testing.assert_allclose(_gain(said, of_row, of_class, counts), gain, atol=1e-3)
    # And the probability to be best is that of draws.
    draws = np.array([
        stats.beta(one[0, 0], one[0, 1]).rvs(20_000, random_state=i)
        for i, one in enumerate(counts)
    ])  # fmt: skip
    share = np.bincount(draws.argmax(axis=0), minlength=n_models) / 20_000
    np.testing.assert_allclose(_best(counts, 0), share, atol=0.02)


def test_a_setting_is_measured_and_tabulated(study, monkeypatch):
    monkeypatch.setattr(study, "SIZES", (10, 20))
    monkeypatch.setattr(study, "STEPS", (10, 20))
    X, y = load_wine(return_X_y=True)
    models = [LogisticRegression(max_iter=5), GaussianNB(), KNeighborsClassifier()]
    models = [model.fit(X[::4], y[::4]) for model in models]
    rows = np.delete(np.arange(len(y)), np.s_[::4])
    rows = np.random.default_rng(0).permutation(rows)
    choices, estimates, accuracies = study.measured(models, X[rows], y[rows], range(2))
    assert set(choices["n"]) == {10, 20}
    assert choices["accuracy"].between(accuracies.min() - 0.2, 1).all()
    # Each rule, draw and number of labels once.
    assert len(choices) == 2 * 2 * (len(study.EPSILONS) + 5)
    assert not choices.duplicated(["rule", "draw", "n"]).any()
    assert len(estimates) == 2 * 2 * 2
    assert estimates["models: interval holds"].mean() > 0.8
    assert estimates["committee: estimate less truth"].abs().mean() < 0.2


@pytest.mark.parametrize(
    ("values", "scale", "sign", "text"),
    [
        ([0.01, 0.03], 100, True, "+2.0 +- 1.0"),
        ([0.01, 0.03], 100, False, "2.0 +- 1.0"),
        ([0.9, 1.0], 1, False, "0.95 +- 0.05"),
    ],
)
def test_numbers_have_errors(study, values, scale, sign, text):
    assert study.with_error(values, scale, sign) == text
