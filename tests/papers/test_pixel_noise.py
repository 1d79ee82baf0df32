"""Noise of single pixels: impulses and counts of light."""

from itertools import pairwise

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from papers.shifts import ImpulseNoise, ShotNoise

DIGITS = load_digits().data[:600] / 16


def test_a_small_share_is_among_a_large_one():
    X = np.full((50, 8), 0.5)
    shifted = [ImpulseNoise()(X, power=share).X for share in (0, 0.1, 0.4, 0.41, 1)]
    for few, many in pairwise(shifted):
        assert_array_equal(many[few != 0.5], few[few != 0.5])


def test_shot_noise_of_one_seed_is_one_draw():
    bright = DIGITS[:200]
    noisy, brighter = (ShotNoise(0.1)(X).X for X in (0.8 * bright, bright))
    assert (noisy <= brighter + 1e-12).all()
    near, far = (ShotNoise(scale, bounds=(0, 9))(bright).X - bright for scale in (0.01, 0.02))
    assert np.corrcoef(near[bright > 0], far[bright > 0])[0, 1] > 0.9


def test_impulses():
    X = np.full((2000, 5), 7.0)
    noisy = ImpulseNoise(0.3, bounds=(0, np.arange(10, 15)))(X).X
    white, black = noisy == np.arange(10, 15), noisy == 0
    assert_allclose(white.mean(0), 0.15, atol=0.03)
    assert_allclose(black.mean(0), 0.15, atol=0.03)
    assert (noisy[~white & ~black] == 7).all()
    assert (ImpulseNoise(1.0)(DIGITS).X % 1 == 0).all()


def test_counts_of_light():
    grey = np.full((10_000, 5), [0.0, 0.01, 0.1, 0.3, 0.5])
    for scale in (1e-4, 1 / 60, 1 / 12):  # with 1e-4 more than 1000 counts are normal
        noisy = ShotNoise(scale, bounds=(0, 10))(grey).X
        counts = noisy[:, grey[0] <= 1000 * scale] / scale
        assert_allclose(counts, np.round(counts), atol=1e-9)
        variance = scale * grey[0]
        assert (np.abs(noisy.mean(0) - grey[0]) <= 4 * np.sqrt(variance / 10_000)).all()
        assert_allclose(noisy.var(0), variance, rtol=0.1)
    # Black may be any number, and pixels count from there.
    below = ShotNoise(1 / 12, bounds=(-4, 6))(grey - 4).X
    assert_allclose(below + 4, noisy, atol=1e-12)


def test_tiny_quanta_and_rounding_beyond_the_bounds():
    for tiny in (1e-320, 1e-200, 1e-12):
        assert_allclose(ShotNoise(tiny)(DIGITS).X, DIGITS, atol=10 * np.sqrt(tiny))
    for shift in (ShotNoise(), ImpulseNoise()):
        just_outside = shift(np.array([[1 + 1e-9, -1e-9]] * 50)).X
        assert_allclose(np.clip(just_outside, 0, 1), just_outside, atol=1e-8)
