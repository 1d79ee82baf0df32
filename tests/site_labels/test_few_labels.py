"""A few labels of a new site: draws, estimates against written-out formulas, coverage."""

import pickle
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pa_select import FewLabels, PACommittee, class_scores
from pa_select.site_labels.drawn_rows import accuracies, draw_rows, draw_weights

CANDIDATES = [
    LogisticRegression(max_iter=500),
    LogisticRegression(C=0.003),
    KNeighborsClassifier(1),
    GaussianNB(),
    SVC(),
    DecisionTreeClassifier(max_depth=3, random_state=0),
    ExtraTreesClassifier(20, random_state=0),
]


def shifted(load, kind, n_train, seed=0):
    """Return trained models, and rows of a site that the models do not know, with their labels."""
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, site = order[:n_train], order[n_train:][:500]
    scale = X[train].std(axis=0)
    X_site = X[site] + scale * rng.normal(size=X[site].shape if kind == "noise" else X.shape[1])
    models = [make_pipeline(StandardScaler(), clone(one)) for one in CANDIDATES]
    return [one.fit(X[train], y[train]) for one in models], X_site, y[site]


MODELS, X, Y = shifted(load_wine, "offset", 60)
N = len(Y)


def told(n=20, steps=2, models=MODELS, **options):
    site = FewLabels(models, X, **{"random_state": 0, **options})
    for _ in range(steps):
        rows = site.ask(n // steps)
        site.tell(rows, Y[rows])
    return site


def numbers_of(site):
    return site.summary().to_numpy(), site.expected_score_, site.expected_interval_


def test_where_all_rows_are_labelled_the_models_are_known_and_the_committee_nearly():
    site = told(N, 1)
    table, right = site.summary(), [np.mean(model.predict(X) == Y) for model in MODELS]
    np.testing.assert_allclose(table["expected_score"].iloc[:-1], right, atol=1e-12)
    np.testing.assert_allclose(table["standard_error"].iloc[:-1], 0, atol=1e-12)
    low, high = site.expected_interval_
    assert low < np.mean(site.committee_.predict(X) == Y) < high


def test_rows_are_asked_once_and_until_they_are_told():
    site, seen = FewLabels(MODELS, X, random_state=0, draw="disagreement"), []
    while len(rows := site.ask(25)):
        np.testing.assert_array_equal(site.ask(3), rows)  # they still wait
        seen += rows.tolist()
        site.tell(rows, Y[rows])
    assert sorted(seen) == list(range(N))
    np.testing.assert_array_equal(site.rows_, seen)
    # Now everything is known.
    hits = [(one.predict(X) == Y).mean() for one in MODELS]
    np.testing.assert_allclose(site.summary()["expected_score"][:-1], hits, atol=1e-12)
    np.testing.assert_allclose(site.summary()["standard_error"][:-1], 0)
    assert site.tell([], []).ask(5).shape == (0,)


@pytest.mark.parametrize("draw", ["random", "disagreement"])
def test_the_same_seed_and_labels_in_any_order_give_the_same_numbers(draw):
    once, again = told(draw=draw), FewLabels(MODELS, X, draw=draw, random_state=0)
    for _ in range(2):
        rows = again.ask(10)[::-1]
        again.tell(rows, Y[rows])
    for a, b in zip(numbers_of(once), numbers_of(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_of_the_site_in_another_order_give_equal_numbers():
    order = np.random.default_rng(0).permutation(N)
    place = np.argsort(order)
    site, other = FewLabels(MODELS, X), FewLabels(MODELS, X[order])
    rows = order[:30]
    site.tell(rows, Y[rows], "random")
    other.tell(place[rows], Y[rows], "random")
    for a, b in zip(numbers_of(site), numbers_of(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_committee_is_that_of_the_labelled_rows():
    site = told(24)
    wanted = PACommittee.from_models(MODELS, X[site.rows_], Y[site.rows_])
    np.testing.assert_allclose(site.committee_.weights_, wanted.weights_)
    np.testing.assert_allclose(site.committee_.predict_proba(X), wanted.predict_proba(X))
    assert all(one in MODELS for one in site.committee_.estimators_)
    assert site.committee_.score(X, Y) == wanted.score(X, Y)


def test_accuracies_by_formulas_written_out():
    site = told(20, draw="disagreement")
    rows, y = site.rows_, Y[site.rows_]
    n = len(rows)
    # The probabilities of the draws, of which the first ten were at random.
    votes = PACommittee.from_models(MODELS, X[rows[:10]], y[:10]).posterior_.weights
    said = np.array([one.predict(X) for one in MODELS])
    q, free = [], list(range(N))
    for m, row in enumerate(rows):
        doubt = {}
        for i in free:
            shares = [votes[said[:, i] == k].sum() for k in range(3)]
            doubt[i] = -sum(v * np.log(v) for v in shares if 1e-12 < v < 1 - 1e-12)
        half = doubt[row] / sum(doubt.values())
        q.append(1 / len(free) if m < 10 else 0.5 * half + 0.5 / len(free))
        free.remove(row)
    v = np.array([
        1 + (N - n) / (N - m) * (1 / ((N - m + 1) * q[m - 1]) - 1) for m in range(1, n + 1)
    ])  # fmt: skip
    # The guesses: of the models by the committee of all labels, of the committee by the others.
    committee = PACommittee.from_models(MODELS, X[rows], y)
    probability = committee.predict_proba(X)
    guesses = [probability[np.arange(N), one] for one in said]
    hits = [one[rows] == y for one in said]
    own_hit, own_guess, own_mean = np.zeros(n), np.zeros(n), 0.0
    for fold in range(5):
        out = np.arange(n) % 5 == fold
        probability = PACommittee.from_models(MODELS, X[rows[~out]], y[~out]).predict_proba(X)
        own_hit[out] = probability[rows[out]].argmax(axis=1) == y[out]
        own_guess[out] = probability[rows[out]].max(axis=1)
        own_mean += probability.max(axis=1).mean() / 5
    cases = [(h * 1.0, g[rows], g.mean()) for h, g in zip(hits, guesses, strict=True)]
    table = site.summary()
    for (h, g, mean), found in zip(
        [*cases, (own_hit, own_guess, own_mean)], table.to_numpy(), strict=True
    ):
        a, b = h - np.average(h, weights=v), g - np.average(g, weights=v)
        part = min(max(np.average(a * b, weights=v) / np.average(b * b, weights=v), 0), 1)
        z = v * (h - part * g)
        score = part * mean + z.mean()
        left = 1 if h is own_hit else 1 - n / N  # the committee that is judged is another one
        error = np.std([*z, 1 - part * mean, -part * mean], ddof=1) * np.sqrt(left / n)
        half = student.ppf(0.975, n - 1) * error
        wanted = [score, error, max(0, score - half), min(1, score + half)]
        np.testing.assert_allclose(found[:4], wanted, rtol=1e-6)
    assert site.expected_score_ == table.loc["committee", "expected_score"]
    assert site.expected_score_se_ == table.loc["committee", "standard_error"]
    assert site.expected_interval_ == tuple(table.loc["committee", ["low", "high"]])
    np.testing.assert_array_equal(table["weight"][:-1], site.committee_.posterior_.weights)


def test_the_mean_over_all_sequences_of_draws_is_the_mean_of_all_rows():
    n_rows, n = 6, 4
    rng = np.random.default_rng(0)
    hits, doubt = rng.integers(0, 2, n_rows) * 1.0, rng.random(n_rows)
    mean, total = 0.0, 0.0
    for rows in permutations(range(n_rows), n):
        free, q = list(range(n_rows)), []
        for row in rows:
            q.append(0.5 / len(free) + 0.5 * doubt[row] / doubt[free].sum())
            free.remove(row)
        weights = draw_weights(np.array(q), n_rows)
        assert weights.min() > 0
        # Without a guess there is nothing to fit.
        rest = np.zeros((1, n))
        score = accuracies(hits[None, list(rows)], rest, np.zeros(1), weights, n_rows)[0, 0]
        mean, total = mean + np.prod(q) * score, total + np.prod(q)
    assert total == pytest.approx(1)
    assert mean == pytest.approx(hits.mean())
    np.testing.assert_allclose(draw_weights(1 / (6 - np.arange(4.0)), 6), 1)


def test_rows_are_drawn_with_the_probabilities_that_are_kept():
    said = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 0, 1]])
    random, weights = np.random.RandomState(0), np.array([0.5, 0.5])
    first = [draw_rows(said, np.array([4]), 1, weights, random) for _ in range(4000)]
    counts = np.bincount([next(iter(one)) for one in first], minlength=5) / 4000
    # Half of the probability is equal, half goes to the two rows with a divided vote.
    wanted = [0.125, 0.125, 0.375, 0.375, 0]
    np.testing.assert_allclose(counts, wanted, atol=0.03)
    assert all(q == pytest.approx(wanted[row]) for one in first for row, q in one.items())
    every = draw_rows(said, np.array([4]), 9, None, random)
    assert sorted(every) == [0, 1, 2, 3]
    np.testing.assert_allclose(list(every.values()), [1 / 4, 1 / 3, 1 / 2, 1])


class Counted(KNeighborsClassifier):
    """Counts the rows that it predicts."""

    n_calls = 0

    def predict(self, X):
        type(self).n_calls += 1
        return super().predict(X)


def test_each_model_predicts_the_site_once():
    train, y = load_wine(return_X_y=True)
    models = [Counted(k).fit(train, y) for k in (1, 5, 20)]
    site = told(2, 1, models, draw="disagreement")
    with pytest.raises(NotFittedError, match="labels: expected at least 3 for a summary"):
        site.summary()
    for _ in range(4):
        rows = site.ask(10)
        site.tell(rows, Y[rows])
    site.summary()
    again = pickle.loads(pickle.dumps(site))
    rows = again.ask(5)
    again.tell(rows, Y[rows])
    assert Counted.n_calls == 3
    assert again.committee_.predict(X).shape == (N,)


def test_a_pickle_goes_on_where_it_was():
    site = told(20, draw="disagreement")
    site.ask(7)  # some rows wait for labels
    other = pickle.loads(pickle.dumps(site))
    for _ in range(2):
        rows = site.ask(7)
        np.testing.assert_array_equal(other.ask(7), rows)
        site.tell(rows, Y[rows])
        other.tell(rows, Y[rows])
        for a, b in zip(numbers_of(site), numbers_of(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (lambda site, rows: site.tell(rows[1:], Y[rows[1:]]), "rows: expected all rows that"),
        (lambda site, rows: site.tell([*rows, N - 1], Y[[*rows, 0]]), "rows: expected all rows"),
        (lambda site, rows: site.tell(rows, Y[rows], "random"), "drawn: expected 'asked'"),
        (lambda site, rows: site.tell(rows, Y), r"labels: expected shape \(5,\), got \(118,\)"),
    ],
)
def test_other_rows_are_refused_and_nothing_changes(tell, message):
    site = told(10, 1)
    rows, before = site.ask(5), numbers_of(site)
    with pytest.raises(ValueError, match=message):
        tell(site, rows)
    np.testing.assert_array_equal(site.ask(5), rows)
    np.testing.assert_array_equal(numbers_of(site)[0], before[0])


@pytest.mark.parametrize("rows", [[N], [-1], [3, 3]])
def test_rows_that_there_are_not_are_refused(rows):
    with pytest.raises(ValueError, match="rows: expected each row once, without a label"):
        FewLabels(MODELS, X).tell(rows, Y[[0] * len(rows)], "random")
    with pytest.raises(ValueError, match="drawn: expected 'random' or 'chosen' for rows that"):
        FewLabels(MODELS, X).tell([3], Y[[3]])


def test_labels_from_elsewhere_count_as_random_only_if_the_user_says_so():
    # The first twenty rows are those that the best model has wrong, which no draw would find.
    best = MODELS[np.argmax([one.score(X, Y) for one in MODELS])]
    wrong = np.flatnonzero(best.predict(X) != Y)
    chosen, random = (FewLabels(MODELS, X, random_state=0) for _ in range(2))
    chosen.tell(wrong, Y[wrong], "chosen")
    random.tell(wrong, Y[wrong], "random")
    assert np.isnan(chosen.expected_score_)
    assert random.summary()["expected_score"].iloc[MODELS.index(best)] < 0.5
    rows = chosen.ask(N)
    assert not np.isin(rows, wrong).any()
    chosen.tell(rows, Y[rows])
    # All other rows are right.
    assert chosen.summary()["expected_score"].iloc[MODELS.index(best)] == pytest.approx(1)
    with pytest.raises(ValueError, match="drawn: expected 'chosen' before all others"):
        random.tell([int(rows[0])], Y[rows[:1]], "chosen")
    with pytest.raises(ValueError, match="drawn: .*'elsewhere'"):
        random.tell([int(rows[0])], Y[rows[:1]], "elsewhere")


def test_recorded_class_scores_are_as_good_as_the_models():
    by_model = told(20, models={"line": MODELS[0], "neighbours": MODELS[2], "trees": MODELS[6]})
    scores = {name: class_scores(by_model.models[name], X)[0] for name in by_model.models}
    # Columns in another order.
    scores["line"] = pd.DataFrame(scores["line"], columns=[0, 1, 2])[[2, 0, 1]]
    site = FewLabels(None, scores, random_state=0)
    for _ in range(2):
        rows = site.ask(10)
        site.tell(rows, Y[rows])
    pd.testing.assert_frame_equal(site.summary(), by_model.summary())
    probabilities = site.committee_.predict_proba(np.arange(N)[:, None])
    np.testing.assert_allclose(probabilities, by_model.committee_.predict_proba(X))
    stack = np.stack([class_scores(one, X)[0] for one in MODELS[:3]])
    assert list(FewLabels(None, stack).tell(rows, Y[rows], "random").summary().index) == [
        *("0", "1", "2", "committee")
    ]
    with pytest.raises(ValueError, match="X_site: expected logits or log-probabilities, got rows"):
        FewLabels(None, [MODELS[0].predict_proba(X)]).ask()


def test_nets_and_modules():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    train, y = load_wine(return_X_y=True)
    rows, site = (StandardScaler().fit(train).transform(x).astype("float32") for x in (train, X))
    torch.manual_seed(0)
    options = {"criterion": torch.nn.CrossEntropyLoss, "max_epochs": 15, "lr": 0.1, "verbose": 0}
    net = skorch.NeuralNetClassifier(lambda: torch.nn.Linear(13, 3), train_split=None, **options)
    net.fit(rows, y)
    few = FewLabels([net, net.module_, torch.nn.Linear(13, 3)], site, random_state=0)
    labelled = few.ask(20)
    few.tell(labelled, Y[labelled])
    assert few.committee_.predict(site).shape == (N,)
    found = few.summary()["expected_score"]
    assert found.iloc[0] == pytest.approx(found.iloc[1])
    assert found.iloc[0] > found.iloc[2]


def test_labels_are_words_and_one_that_no_model_knows():
    words = np.array(["barbera", "nebbiolo", "dolcetto"])
    train, y = load_wine(return_X_y=True)
    models = [one.fit(train, words[y]) for one in (GaussianNB(), DecisionTreeClassifier())]
    labels = words[Y].astype(object)
    site = FewLabels(models, X, random_state=0)
    rows = site.ask(20)
    labels[rows[0]] = "grignolino"
    with pytest.warns(UserWarning, match="y: expected classes that a model knows") as caught:
        site.tell(rows, labels[rows])
    assert len(caught) == 1
    assert "grignolino" in site.committee_.classes_
    fresh = FewLabels(models, X, random_state=0)
    rows = fresh.ask(5)
    with pytest.raises(ValueError, match=r"^labels: expected classes such as 'barbera', got 0\.$"):
        fresh.tell(rows, [0] * 5)
    np.testing.assert_array_equal(fresh.tell(fresh.ask(5), words[Y[rows]]).rows_, rows)


@pytest.mark.parametrize("kind", [list, pd.Series, lambda x: np.array(x, dtype=object)])
def test_rows_that_nobody_can_label_are_left_out_and_not_asked_for_again(kind):
    site = FewLabels(MODELS, X, random_state=0)
    rows = site.ask(10)
    labels = [None if i in (2, 7) else Y[row] for i, row in enumerate(rows)]
    site.tell(rows, kind(labels))
    without = np.delete(rows, [2, 7])
    np.testing.assert_array_equal(site.rows_, without)
    np.testing.assert_array_equal(site.labels_, Y[without])
    while len(rows := site.ask(30)):
        site.tell(rows, Y[rows])
    assert len(site.rows_) == N - 2


def test_words_for_numbers_are_refused():
    site = FewLabels(MODELS, X, random_state=0)
    rows = site.ask(5)
    with pytest.raises(ValueError, match=r"^labels: expected classes such as 0, got 9\.$"):
        site.tell(rows, [9] * 5)
    site.tell(rows, Y[rows])
    rows = site.ask(5)
    with pytest.raises(ValueError, match=r"^labels: expected classes such as 0, got 'sick'\.$"):
        site.tell(rows, ["sick"] * 5)
    words = make_pipeline(StandardScaler(), GaussianNB()).fit(X, np.array(list("abc"))[Y])
    with pytest.raises(
        TypeError, match=r"^models: .* got words by model 'Pipeline 2' and numbers"
    ):
        FewLabels([MODELS[0], words], X).ask(3)


def test_regressors_and_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="estimator: expected a classifier, got Ridge"):
        FewLabels([Ridge().fit(X, Y)], X).ask()
    with pytest.raises(ValueError, match="draw"):
        FewLabels(MODELS, X, draw="doubt").ask()
    assert not hasattr(FewLabels(MODELS, X).tell([1, 2], Y[1:3], "random"), "committee_")
    assert hasattr(FewLabels(MODELS, X).tell([1, 2, 3], Y[1:4], "random"), "committee_")
    assert repr(FewLabels(MODELS[:1], "rows", draw="disagreement")).startswith("FewLabels(")
    assert clone(FewLabels(None, [[0.0]], random_state=3)).random_state == 3


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["random", "disagreement"])
def test_accuracies_are_unbiased_and_intervals_cover(draw):
    errors, inside = {20: [], 50: []}, {20: [], 50: []}
    sets = [(load_digits, 300), (load_wine, 60)]
    for (load, n_train), kind in product(sets, ("noise", "offset")):
        models, rows, y = shifted(load, kind, n_train)
        first = FewLabels(models, rows, draw=draw)
        first._record()
        truth = (first._said == y).mean(axis=1)
        for _ in range(30):
            site = pickle.loads(pickle.dumps(first))  # the models predict once
            site._random = np.random.RandomState(len(errors[20]))
            for n in (10, 20, 50):
                asked = site.ask(n - len(site.rows_))
                table = site.tell(asked, y[asked]).summary()
                if n == 10:
                    continue
                true = np.append(truth, site.committee_.score(rows, y))
                errors[n].append(table["expected_score"] - true)
                inside[n].append((table["low"] <= true) & (true <= table["high"]))
    for n in (20, 50):
        # From 40 labels on the committee knows biases of classes, its five parts from 50 on.
        bias, rate = np.mean(errors[n], axis=0), np.mean(inside[n], axis=0)
        assert abs(bias[-1]) < 0.015  # the committee's
        assert np.abs(bias[:-1]).max() < 0.02
        assert abs(bias[:-1].mean()) < 0.01
        assert 0.9 < rate[-1] <= 1  # its standard error is 0.02
        assert 0.92 < rate[:-1].mean() < 1
        assert rate.min() > 0.88
