"""The part of the plane in which candidates are told apart."""

import numpy as np
from numpy.testing import assert_array_equal

from pa_select.plotting.window import far_below, window

GOOD = np.array([[0.90, 1.0], [0.91, 1.1], [0.92, 1.05], [0.93, 1.02]])
NONE = np.zeros((4, 2))


def with_points(*points):
    more = np.array(points)
    kept = np.arange(len(GOOD) + len(more)) < len(GOOD)
    return np.concatenate([GOOD, more]), np.zeros((len(kept), 2)), kept


def test_no_window_where_all_is_near():
    assert window(GOOD, NONE, np.ones(4, dtype=bool)) is None
    # As far from the others as these are from each other.
    assert window(*with_points([0.871, 1.0], [0.91, 1.19])) is None


def test_what_is_further_away_is_outside():
    low, high = window(*with_points([0.871, 1.0], [0.86, 1.0], [0.9, 9.0]))
    assert 0.86 < low[0] < 0.871
    assert 0.93 < high[0] < 0.96
    assert 0.9 < low[1] < 1.0
    assert 1.1 < high[1] < 1.2


def test_error_bars_of_what_is_kept_are_inside():
    points, errors, kept = with_points([0.5, 1.0])
    errors[:] = 0.02, 0.3
    low, high = window(points, errors, kept)
    assert_array_equal(low < [0.88, 0.7], True)
    assert_array_equal(high > [0.95, 1.4], True)


def test_around_one_point_half_of_the_others_are_shown():
    points = np.array([[0.9, 1.0], [0.89, 0.9], [0.88, 1.1], [0.87, 0.8], [0.1, -300.0]])
    low, high = window(points, 0 * points, np.arange(5) == 0)
    inside = ((points > low) & (points < high)).all(axis=1)
    assert inside[:3].all()
    assert not inside[-1]


def test_only_what_is_far_below_the_most_is_terrible():
    points = np.concatenate([GOOD, [[0.1, 1.0], [0.92, -3.0], [1.0, 9.0]]])
    assert_array_equal(far_below(points, 0 * points), [0, 0, 0, 0, 1, 1, 0])
    assert not far_below(GOOD, NONE).any()
    # Errors as large as the distances.
    assert not far_below(points, np.full(points.shape, 1.0)).any()
    # Scores that tie leave no deviation.
    tied = np.array([[0.9, 1.0]] * 5 + [[0.899, 1.0]])
    assert not far_below(tied, 0 * tied).any()
