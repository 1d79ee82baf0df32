"""Scores of candidates are shrunk as far as their errors explain how they differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pa_select.two_sites.engine import near_best
from pa_select.two_sites.engine import shrunk_scores as shrink


def shrunk_scores(*given):
    return shrink(*given).scores


rates = st.floats(0, 1)
errors = st.floats(0.001, 0.2)


@st.composite
def candidates(draw):
    n = draw(st.integers(1, 6))
    return [
        draw(arrays(float, n, elements=of, fill=st.nothing()))
        for of in (rates, errors, rates, errors)
    ]


def by_hand(score, error, level, level_error):
    """The formula of the page of theory, one candidate after the other."""
    n = len(score)
    best = max(zip(score, error, strict=True))  # of equal scores the one with the larger error
    near = [c for c in range(n) if score[c] >= best[0] - 2 * best[1]]
    centre = sum(score[c] - level[c] for c in near) / len(near)
    noise = [error[c] ** 2 + level_error[c] ** 2 for c in range(n)]
    away = [score[c] - level[c] - centre for c in range(n)]
    widest = max((score[c], noise[c]) for c in range(n))
    chosen = {c for c in range(n) if score[c] >= widest[0] - 4 * widest[1] ** 0.5}
    found, misfit = [], []
    for c in range(n):
        some = chosen | {c}
        spread = max(0, sum(away[k] ** 2 - noise[k] for k in some) / len(some))
        found.append(level[c] + centre + spread / (spread + noise[c]) * away[c])
        misfit.append((sum(away[k] ** 2 for k in some) / len(some)) ** 0.5)
    return found, misfit


@given(candidates())
def test_the_formula(given):
    for found, expected in zip(shrink(*given)[:2], by_hand(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("unknown", [0, 1, 2, 3])
def test_what_is_unknown_of_one_candidate_does_not_touch_the_others(unknown):
    columns = [
        np.array([0.7, 0.9, 0.6]),
        np.array([0.05, 0.04, 0.03]),
        np.array([0.8, 0.5, 0.7]),
        np.array([0.02, 0.03, 0.04]),
    ]
    without = shrunk_scores(*(column[[0, 2]] for column in columns))
    columns[unknown][1] = np.nan
    found = shrunk_scores(*columns)
    np.testing.assert_allclose(found[[0, 2]], without)
    np.testing.assert_equal(found[1], columns[0][1])


def test_nothing_known():
    score = np.array([0.7, np.nan])
    found = shrink(score, score, np.full(2, np.nan), score)
    np.testing.assert_equal(found.scores, score)
    np.testing.assert_array_equal(found.misfit, 0)


def test_a_bad_candidate_does_not_touch_the_others():
    score, error = np.array([-0.30, -0.35, -0.40, -2.9]), np.array([0.05, 0.05, 0.06, 0.4])
    level, level_error = np.array([-0.25, -0.32, -0.33, -0.9]), np.full(4, 0.03)
    columns = score, error, level, level_error
    without, found = shrink(*(column[:3] for column in columns)), shrink(*columns)
    np.testing.assert_allclose(found.scores[:3], without.scores)
    np.testing.assert_allclose(found.misfit[:3], without.misfit, atol=1e-12)
    assert found.misfit.max() == found.misfit[3] > 0.5 > 0.05 > found.misfit[:3].max()


def test_the_best_candidate_is_near_itself():
    score, error = np.array([0.7, 0.69, 0.4]), np.array([np.nan, 0.1, 0.1])
    assert near_best(score, error, np.full(3, True)).tolist() == [True, False, False]
    assert near_best(score, np.full(3, 0.01), np.array([False, True, True])).tolist() == [
        False,
        True,
        False,
    ]
    assert not near_best(score, error, np.full(3, False)).any()
