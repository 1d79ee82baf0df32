"""Calibrations that are no more certain than the labelled rows can show."""

import numpy as np
import pytest
from sklearn.metrics import (
    log_loss,
)

from pa_select.scores.calibration import (
    beta_and_bias,
    calibrating_beta,
    doubting_calibration,
)
from pa_select.scores.class_scores import calibrated


def test_errors_of_rows_without_weight_leave_votes_as_certain_as_they_are():
    scores, kept = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 4 > 0
    y = np.where(kept, scores.argmax(axis=1), scores.argmin(axis=1))
    found, expected = (
        doubting_calibration(*given)
        for given in ((scores, y, 1.0 * kept), (scores[kept], y[kept]))
    )
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("n", [30, 120])
def test_the_bound_knows_no_unit_and_leaves_sound_calibrations_alone(scale, n):
    rng, y = np.random.default_rng(0), np.arange(n) % 3
    sound = np.eye(3)[y] + rng.normal(0, 0.6, (n, 3)) + [0.5, 0, 0]
    assert np.mean(sound.argmax(axis=1) != y) > 0.05
    beta, bias = doubting_calibration(scale * sound, y)
    if n < 40:
        assert (beta, bias.any()) == (calibrating_beta(scale * sound, y), False)
    else:
        expected = beta_and_bias(scale * sound, y)
        assert beta == expected[0]
        np.testing.assert_array_equal(bias, expected[1])
        assert bias.argmin() == 0
    sure = np.eye(3)[y] + rng.uniform(0, 0.5, (n, 3))
    assert calibrating_beta(sure, y) == np.inf
    of_sure = doubting_calibration(sure, y)[0]
    assert scale * doubting_calibration(scale * sure, y)[0] == pytest.approx(of_sure)
    # A row that ties is in doubt at any temperature, and a class of -inf never.
    tied = np.vstack([sure, [1, 1, 0]])
    assert np.isfinite(doubting_calibration(tied, np.r_[y, 0])[0])
    assert doubting_calibration(np.where(np.eye(3)[y] == 1, 0.0, -np.inf), y)[0] > 0


def test_scores_that_are_sure_but_for_an_offset_are_doubted_too():
    """Slope and biases would explain all rows; the votes stay as uncertain as n rows show."""
    rng, y = np.random.default_rng(0), np.arange(60) % 5 // 4
    scores = rng.normal(0, 0.1, 60) + y - 3  # all of them favour class 0
    scores = np.stack([-scores, scores], axis=1)
    assert (scores.argmax(axis=1) == 0).all()
    beta, bias = doubting_calibration(scores, y)
    proba = calibrated(scores, beta, bias)
    np.testing.assert_array_equal(proba.argmax(axis=1), y)
    assert np.mean(1 - proba.max(axis=1)) >= 0.5 / 61 * (1 - 1e-9)


def test_flat_scores_of_a_rare_class_keep_their_ranking():
    """An offset beside flat scores does not make the votes flat: the slope is fitted with it."""
    rng, y = np.random.default_rng(0), np.arange(400) % 10 == 0
    signal = rng.normal(0, 1, 400) + 2 * y
    margin = 0.02 * signal - 2.2
    scores = np.stack([np.zeros(400), margin], axis=1)
    beta, bias = doubting_calibration(scores, y * 1)
    temperature = calibrating_beta(scores, y * 1)
    assert beta > 20 * temperature
    losses = [log_loss(y, calibrated(scores, *given)) for given in ((beta, bias), (temperature,))]
    assert losses[0] < 0.8 * losses[1]
