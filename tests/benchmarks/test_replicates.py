"""Replicates of a bootstrap at common inverse temperatures, and each as a problem of its own."""

from time import perf_counter

import numpy as np
import pytest
import torch

from pa_select.agreement.inputs.validation import CheckedPrior
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.find_maxima import find_maxima
from pa_select.agreement.solver.replicate_maxima import (
    MARGINAL_TOLERANCE,
    replicate_maxima,
)

SIZES = [(100, 10, 1000), (1_000, 10, 1000), (10_000, 10, 100)]


def scores(n, k):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), rng.integers(0, k, n)] += 3
    return [torch.from_numpy(scores + 0.7 * rng.normal(size=(n, k))) for _ in range(2)]


def one_by_one(a, b, weights, prior):
    m, n = weights.shape
    zeros = np.zeros(m, dtype=np.int64)
    weight = torch.from_numpy(weights.ravel())
    pairs = PairedScores(a, b, weight, zeros + n, zeros, zeros, np.arange(m) * n)
    return find_maxima(pairs, prior, 1e-3, certify=False).score


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize(("n", "k", "m"), SIZES)
def test_replicates(benchmark, figures, one_thread, n, k, m, prior):
    if not benchmark.enabled:
        n, m = n // 10, 20
    a, b = scores(n, k)
    weights = np.random.default_rng(1).multinomial(n, np.full(n, 1 / n), m) / n
    how = a, b, weights, CheckedPrior(prior)
    found = benchmark.pedantic(replicate_maxima, how, rounds=3 if benchmark.enabled else 1)
    begin = perf_counter()
    expected = one_by_one(*how)
    old = perf_counter() - begin
    np.testing.assert_allclose(found, expected, rtol=0, atol=MARGINAL_TOLERANCE)
    if benchmark.enabled:
        ratio = old / benchmark.stats.stats.min
        row = {"pairs": n, "classes": k, "replicates": m, "prior": prior, "faster": f"{ratio:.1f}"}
        figures("replicates", row)
        print(row)
