"""Problems that the solver is tried on, and the trial against brute force."""

import numpy as np
import pytest

from helpers import oracle
from pa_select import posterior_agreement


def random_problem(rng):
    """A small problem of a random kind, many of them with several modes."""
    n, k = int(rng.integers(1, 9)), int(rng.integers(2, 6))
    kind = rng.integers(6)
    a = rng.normal(size=(n, k)) * np.exp(rng.normal(size=(n, 1)) * rng.choice([0, 1, 3, 6]))
    if kind == 0:
        b = rng.normal(size=(n, k))
    elif kind == 1:
        b = a + np.abs(a).mean() * rng.normal(size=(n, k)) * 10 ** rng.uniform(-3, 1)
    elif kind == 2:
        b = np.where(rng.random((n, 1)) < 0.8, a, a[:, ::-1])
    elif kind == 3:
        b = a * np.exp(3 * rng.normal(size=(n, 1)))
        b[rng.random(n) < 0.2] *= -1
    elif kind == 4:
        a, b = rng.integers(-2, 3, (2, n, k)).astype(float)
    else:
        # Groups of agreeing margins, decades apart, and a few contradictions between.
        margin = np.exp(rng.normal(size=n) * 5)
        a = np.zeros((n, k))
        a[:, 0] = margin
        b = a.copy()
        against = rng.random(n) < 0.15
        b[against, 0], b[against, 1] = 0, margin[against]
    return a, b, np.exp(rng.normal(size=n) * rng.choice([0, 2]))


def two_modes():
    tops = np.repeat([44.0475, 0.10787, 1.10364], [292, 863, 15])
    a = np.column_stack([tops, np.zeros(1170)])
    return a, np.concatenate([a[:-15], a[-15:, ::-1]])


def varied_suite():
    rng = np.random.default_rng(0)

    def problem(n, k, noise=0.7, signal=3.0):
        scores = rng.normal(size=(n, k))
        scores[np.arange(n), rng.integers(0, k, n)] += signal
        return (scores + noise * rng.normal(size=(n, k)) for _ in range(2))

    for k in (2, 3, 10, 100, 1000):
        n = 2000 if k < 1000 else 200
        a, b = problem(n, k)
        yield f"normal, K={k}", a, b
        yield f"over-confident, K={k}", 20 * a, 20 * b
        yield f"one side over-confident, K={k}", 20 * a, b
        yield f"under-confident, K={k}", a / 100, b / 100
        yield f"nearly equal, K={k}", a, a + 1e-3 * b
        yield f"noisy, K={k}", *problem(n, k, noise=3.0, signal=1.0)
        yield f"unrelated, K={k}", *rng.normal(size=(2, n, k))
        yield f"opposite, K={k}", a, -a
        scale = np.exp(2 * rng.normal(size=(n, 1)))
        yield f"heavy-tailed, K={k}", scale * a, scale * b
        nearly = a.copy()
        nearly[:5] = rng.normal(size=(5, k))
        yield f"all but five agree, K={k}", a, nearly
    for q in (0.4, 0.49, 0.5, 0.51, 0.6, 0.99):
        labels = np.arange(1000) % 2
        other = np.where(np.arange(1000) < 1000 * q, labels, 1 - labels)
        yield f"hard labels, q={q}", np.eye(2)[labels], np.eye(2)[other]
    yield "two modes", *two_modes()
    extreme = np.array([[1e30, 0], [1, 0], [0, 1], [1e-30, 0]])
    yield "sixty decades", extreme, extreme[[0, 1, 1, 3]]


def check_against_the_oracle(seeds, n_points, prior="uniform"):
    batch = [random_problem(np.random.default_rng(seed)) for seed in seeds]
    first, second, weights = map(list, zip(*batch, strict=True))
    results = posterior_agreement(first, second, prior=prior, sample_weight=weights)
    tol = 1e-6
    for seed, (a, b, w), result in zip(seeds, batch, results, strict=True):
        assert 0 <= result.gap <= tol, seed
        best, _ = oracle.maximum(a, b, prior=prior, weight=w, n_points=n_points)
        # Neither below what brute force finds, nor a bound below it.
        assert best - tol <= result.score, seed
        assert best <= result.upper_bound + 1e-10, seed
        # The score is attained: it is the kernel at the reported temperature.
        attained = oracle.kernel(a, b, result.beta, prior=prior, weight=w)
        assert attained == pytest.approx(result.score, abs=1e-9), seed
