"""Errors of rows and pairs in groups: by hand, of equal groups, and of differences."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pa_select import PASearchCV, expected_score

MEANS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return MEANS[y] + rng.normal(size=(n, 2)), y


MODEL = LogisticRegression().fit(*draw(300, 0))
LABELLED = draw(300, 1)


def of_images(n_images, n_pairs, scoring="accuracy", **given):
    """What is expected if images are copies of one another."""
    a, _ = draw(n_pairs, 2)
    b = a + np.random.default_rng(3).normal(scale=0.3, size=a.shape)
    images = np.repeat(np.arange(n_images), n_pairs)
    pairs = np.tile(a, (n_images, 1)), np.tile(b, (n_images, 1))
    return expected_score(MODEL, *pairs, *LABELLED, scoring=scoring, pair_groups=images, **given)


def test_the_two_pairs_that_are_added_are_no_images():
    found = of_images(4, 1000)
    # The images are equal, so that only the two pairs add to the error.
    error = np.sqrt(1 + 2 * 4000 / 4002 * found.change**2) / 4002
    assert found.change_standard_error == pytest.approx(error, rel=1e-6)
    a, _ = draw(4000, 4)
    b = a + np.random.default_rng(5).normal(scale=0.3, size=a.shape)
    apart = expected_score(MODEL, a, b, *LABELLED)
    images = np.arange(4000) % 4  # which do not differ
    together = expected_score(MODEL, a, b, *LABELLED, pair_groups=images)
    assert 0.0005 < apart.change_standard_error < 0.002
    assert together.change_standard_error < 4 * apart.change_standard_error
    assert together.standard_error == pytest.approx(apart.standard_error, rel=0.05)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "f1_macro"])
def test_the_error_falls_if_equal_images_get_more_pairs(scoring):
    errors = [of_images(4, n, scoring).change_standard_error for n in (50, 200, 800)]
    assert errors[1] < 0.3 * errors[0]
    assert errors[2] < 0.3 * errors[1]


def below(found):
    """How far the lower end of an interval is below what the disagreement explains."""
    return found.validation_score - found.disagreement - found.low


def test_the_interval_gets_narrower_if_equal_images_get_more_pairs():
    found = [below(of_images(4, n)) for n in (100, 400, 1600)]
    assert 0.1 > found[0] > found[1] > found[2]
    # Many pairs leave what the labelled rows do not know.
    alone = expected_score(MODEL, *draw_pairs(6400), *LABELLED)
    assert found[2] == pytest.approx(below(alone), abs=0.01)


def draw_pairs(n):
    a, _ = draw(n, 6)
    return a, a + np.random.default_rng(7).normal(scale=0.3, size=a.shape)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss"])
def test_the_error_of_a_difference_is_at_most_the_sum_of_both_errors(scoring):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(400, 3)), rng.normal(size=(100, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)
    search = PASearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, None]}, scoring=scoring
    )
    search.fit(X, y, groups=np.arange(400) % 5, paired=(A, A + 0.3 * rng.normal(size=A.shape)))
    error = search.cv_results_["expected_score_se"]
    for i in range(4):
        for j in range(i):
            assert search.compare(i, j).standard_error <= error[i] + error[j]
    if scoring == "accuracy":
        assert search.compare(0, 1).standard_error < 0.02  # the trees differ in few rows


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore:.*(say nothing about|resemble|without an error):UserWarning")
def test_errors_of_opposite_models_in_few_groups_are_bounded(seed):
    rng = np.random.default_rng(seed)
    n_groups, n = int(rng.integers(2, 8)), int(rng.choice([30, 200]))
    groups = np.arange(n) % n_groups
    T, X = (
        rng.normal(size=(200, 3)),
        rng.normal(size=(n, 3)) + rng.normal(size=(n_groups, 3))[groups],
    )
    t, y = ((rows[:, 0] > 0.5 * rng.normal(size=len(rows))).astype(int) for rows in (T, X))
    models = [LogisticRegression().fit(T, t), LogisticRegression().fit(T, 1 - t)]
    pairs = X + 0.1, X + rng.normal(size=(n_groups, 3))[groups]
    for scoring in ("accuracy", "balanced_accuracy", "f1"):
        one, other = expected_score(
            models, *pairs, X, y, scoring=scoring, groups=groups, pair_groups=groups
        ).values()
        difference = max(one.difference_standard_error, other.difference_standard_error)
        assert difference <= one.standard_error + other.standard_error + 1e-12


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss"])
def test_a_group_for_each_row_and_pair_is_no_group(scoring):
    given = MODEL, *draw_pairs(60), *LABELLED
    plain = expected_score(*given, scoring=scoring)
    alone = expected_score(*given, scoring=scoring, pair_groups=np.arange(60))
    assert alone == pytest.approx(plain, nan_ok=True, rel=0.01)
    assert alone.change_standard_error == pytest.approx(plain.change_standard_error)


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1_macro"])
def test_groups_without_an_error_still_have_one(scoring):
    rows, labels = np.repeat(100 * MEANS, 30, axis=0), np.repeat(range(3), 30)
    far = np.arange(90) % 5
    with pytest.warns(UserWarning, match="rows without an error"):
        found = expected_score(MODEL, *draw_pairs(60), rows, labels, scoring=scoring, groups=far)
    assert 0.01 < found.standard_error < 0.05
