"""No number hangs on the order of labelled rows or of pairs."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer, make_scorer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pa_select import PASearchCV, expected_score
from pa_select.scores import calibration
from pa_select.scores.calibration import beta_and_bias
from pa_select.scores.precomputed import RecordedClassifier
from pa_select.two_sites import trained
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.engine import changes_of_halves

EXACT = 1e-9


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    means = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    return np.c_[means[y] + rng.normal(size=(n, 2)), rng.normal(size=(n, 2))], y


(T, t), (V, v), (A, _) = draw(300, 0), draw(150, 1), draw(70, 2)
A[:10] = A[:10].round()
B = A * [0.6, 1, 1, 1] + 0.5 * np.random.default_rng(3).normal(size=A.shape)
NUMBERS = {len(rows): rows[:, 0] + np.square(rows[:, 1]) for rows in (T, V)}
MODELS = [
    LogisticRegression(C=0.01),
    LogisticRegression(),
    KNeighborsClassifier(15),
    DecisionTreeClassifier(max_depth=3),
    RandomForestClassifier(30, random_state=0),
]
MODELS = [model.fit(T, t) for model in MODELS]
OF_NUMBERS = [Ridge(), KNeighborsRegressor(9), DecisionTreeRegressor(max_depth=3)]
OF_NUMBERS = [model.fit(T, NUMBERS[300]) for model in OF_NUMBERS]
GROUPS, PAIR_GROUPS = np.arange(150) // 7, np.arange(70) // 3
without_formula = make_scorer(
    lambda y, predicted, sample_weight=None: np.average(y == predicted, weights=sample_weight)
)
METRICS = ["accuracy", "balanced_accuracy", "roc_auc_ovr", "neg_log_loss", without_formula]
METRICS += ["r2", "neg_mean_absolute_error", "neg_median_absolute_error"]
OPTIONS = {
    "plain": {},
    "adapter": {"adapter": "ridge"},
    "self": {"reference": "self"},
    "groups": {"groups": GROUPS, "pair_groups": PAIR_GROUPS, "adapter": "ridge"},
}


def numbers(found):
    return np.array([list(one) for one in found.values()], dtype=float)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("scoring", METRICS, ids=str)
def test_rows_and_pairs_in_any_order_have_equal_expected_scores(scoring, options, seed):
    rng = np.random.default_rng(seed)
    rows, pairs = rng.permutation(150), rng.permutation(70)
    is_of_numbers = scoring in METRICS[-3:]
    models, y = (OF_NUMBERS, NUMBERS[150]) if is_of_numbers else (MODELS, v)
    found = expected_score(models, A, B, V, y, scoring=scoring, **options)
    moved = {
        name: value[rows] if name == "groups" else value[pairs] if name == "pair_groups" else value
        for name, value in options.items()
    }
    again = expected_score(models, A[pairs], B[pairs], V[rows], y[rows], scoring=scoring, **moved)
    np.testing.assert_allclose(numbers(again), numbers(found), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("seed", range(20))
def test_rows_in_any_order_have_one_calibration(seed):
    rng = np.random.default_rng(seed)
    n_classes, n = int(rng.choice([2, 3, 10])), int(rng.choice([20, 60, 2000]))
    y = rng.choice(n_classes, n, p=rng.dirichlet(np.full(n_classes, rng.choice([0.3, 3]))))
    size, told, off = rng.choice([0.01, 1, 30]), rng.choice([0, 0.3, 2, 6]), rng.choice([0, 3])
    scores = told * np.eye(n_classes)[y] + rng.normal(size=(n, n_classes))
    scores = size * (scores + off * rng.normal(size=n_classes))
    beta, bias = beta_and_bias(scores, y)
    order = rng.permutation(n)
    again = beta_and_bias(scores[order], y[order])
    assert again[0] == pytest.approx(beta, rel=EXACT)
    np.testing.assert_allclose(again[1], bias, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_have_the_calibration_that_they_have_without_a_start_from_some(
    monkeypatch, weighted
):
    rng = np.random.default_rng(0)
    y = np.sort(rng.choice(3, 3000, p=[0.7, 0.2, 0.1]))  # in the order of the classes
    scores = 2 * np.eye(3)[y] + rng.normal(size=(3000, 3)) + [3, 0, 0]
    weight = rng.integers(0, 3, 3000) * 1.0 if weighted else None
    found = beta_and_bias(scores, y, weight)
    for most in (100, 2999):
        monkeypatch.setattr(calibration, "_MANY", most)
        again = beta_and_bias(scores, y, weight)
        assert again[0] == pytest.approx(found[0], rel=EXACT)
        np.testing.assert_allclose(again[1], found[1], rtol=EXACT, atol=EXACT)
    # Those that are taken have no error, and one that is not taken has one.
    sure = 5 * np.eye(3)[y]
    sure[1] = [0, 5, 0]
    assert 0 < beta_and_bias(sure, y)[0] < np.inf


SITES = {
    "one": (A, B),
    "two": {"p": (A, B), "q": (A, B + [0.0, 0.5, 0.0, 0.0])},  # the same objects
    "others": {"p": (A, B), "q": (A[:40] + 0.1, B[:40])},
}


@pytest.mark.parametrize("sites", SITES.values(), ids=SITES)
@pytest.mark.filterwarnings("ignore:fit was given no")
def test_a_search_weighs_candidates_by_pairs_in_any_order(sites):
    grid = {"max_depth": [1, 2, 4, None], "min_samples_leaf": [1, 20]}
    models = DecisionTreeClassifier(random_state=0), grid

    def shuffled(pair):
        order = np.random.default_rng(len(pair[0])).permutation(len(pair[0]))
        return tuple(rows[order] for rows in pair)

    moved = shuffled(sites) if isinstance(sites, tuple) else None
    moved = moved or {name: shuffled(pair) for name, pair in sites.items()}
    found, again = (PASearchCV(*models).fit(V, v, paired=pairs) for pairs in (sites, moved))
    for column in ("expected_score", "expected_score_se", "weight"):
        np.testing.assert_allclose(
            again.cv_results_[column], found.cv_results_[column], rtol=EXACT, atol=EXACT
        )


def outputs_of(n_rows, n_pairs):
    (X, y), (a, _) = draw(n_rows, 5), draw(n_pairs, 6)
    b = a * [0.6, 1, 1, 1] + 0.5 * np.random.default_rng(7).normal(size=a.shape)
    outputs = [[RecordedClassifier.of(m, rows) for m in MODELS[:4]] for rows in (X, a, b)]
    names = [str(number) for number in range(4)]
    return trained.of_outputs(
        Classification(), names, outputs, y, get_scorer("accuracy"), reference="self"
    )


@pytest.mark.parametrize(("n_rows", "n_pairs"), [(40, 40), (60, 30), (300, 100), (1000, 300)])
def test_weights_do_not_hang_on_which_halves_are_drawn(n_rows, n_pairs, monkeypatch):
    found, weights = outputs_of(n_rows, n_pairs), []
    for seed in range(4):
        monkeypatch.setattr(
            trained,
            "changes_of_halves",
            lambda at, n, seed, drawn=seed: changes_of_halves(at, n, drawn),
        )
        weights.append(found.posterior().weights)
    assert np.ptp(weights, axis=0).max() < 0.02


def test_sites_with_the_same_objects_have_the_same_halves():
    found = outputs_of(60, 30)._found
    same, other = changes_of_halves([found, found], 50, seed=0)
    np.testing.assert_array_equal(same, other)
    # Another site, whose pairs contribute otherwise, shares the halves if it has the objects.
    moved = found._replace(contributions=found.contributions * [[1.0], [2.0], [3.0], [1.0]])
    one, three = changes_of_halves([found, moved], 50, seed=0)
    np.testing.assert_allclose(three, one * [1.0, 2.0, 3.0, 1.0])
    alone = changes_of_halves([moved], 50, seed=0)[0]
    apart = moved._replace(of_first_site=moved.of_first_site[:, ::-1])
    np.testing.assert_array_equal(changes_of_halves([found, apart], 50, seed=0)[1], alone)


def test_both_halves_together_change_nothing_on_average():
    halves, others = changes_of_halves([outputs_of(60, 31)._found], 4000, seed=0)[0]
    assert halves.shape == (4000, 4)
    # They are in the ratio of the 31 pairs to those of the half.
    np.testing.assert_allclose(15 * halves, -16 * others, atol=1e-12)
    assert np.abs(halves.mean(axis=0)).max() < 0.01
