"""Whether 95 % intervals contain the truth in 95 % of samples, where the optimum is inside."""

import numpy as np
import pytest

from pa_select import compare_agreement, confidence_interval, posterior_agreement

# The error of such a truth is at most a seventh of that of a sample, and widens none by over 1 %.
N_TRUTH = 50_000


def draw(rng, n, noise=1.0, k=4):
    y = rng.choice(k, n, p=[0.5, 0.3, 0.1, 0.1])
    scores = 2 * np.eye(k)[y] + rng.normal(size=(n, k))
    return tuple(scores + noise * rng.normal(size=(n, k)) for _ in range(2))


@pytest.mark.slow
def test_coverage_of_intervals_and_of_differences():
    rng = np.random.default_rng(1)
    easy, hard = (
        # A difference varies less than a score, so that its truth must be known better.
        posterior_agreement(*draw(rng, 4 * N_TRUTH, noise), certify=False).score
        for noise in (1.0, 1.2)
    )
    score_inside, difference_inside = [], []
    # Classifiers of one set of objects: the same true class in each pair.
    seeds = rng.integers(1 << 30, size=150)
    results = []
    for noise in (1.0, 1.2):
        samples = (draw(np.random.default_rng(seed), 100, noise) for seed in seeds)
        both = map(list, zip(*samples, strict=True))
        results.append(posterior_agreement(*both, certify=False))
    for first, second in zip(*results, strict=True):
        low, high = confidence_interval(first)
        score_inside.append(low < easy < high)
        found = compare_agreement(first, second)
        error = abs(found.difference - (easy - hard))
        difference_inside.append(error < 1.96 * found.standard_error)
    assert 0.9 <= np.mean(score_inside) <= 0.99
    assert 0.9 <= np.mean(difference_inside) <= 0.99
