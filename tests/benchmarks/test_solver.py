"""What a certified maximum costs, as ratios measured in the same run.

Run them with ``make bench``. Each prints the time of a solve in units of one plain
evaluation of the two softmaxes in float64, and how many solves Adam as in the papers
takes (learning rate 0.1 from beta = 1, 500 full-batch steps).
"""

from time import perf_counter

import numpy as np
import pytest

from pa_select import posterior_agreement


def problem(n, k):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), rng.integers(0, k, n)] += 3
    return tuple(scores + 0.7 * rng.normal(size=(n, k)) for _ in range(2))


def seconds(work, repeats=3):
    best = np.inf
    for _ in range(repeats):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def adam(torch, a, b, n_steps):
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([beta], lr=0.1)
    for _ in range(n_steps):
        optimiser.zero_grad()
        overlap = torch.softmax(beta * a, 1) * torch.softmax(beta * b, 1)
        (-overlap.sum(1).log().mean()).backward()
        optimiser.step()


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize(("n", "k"), [(1_000, 10), (10_000, 10), (10_000, 2), (1_000, 1000)])
def test_solve(benchmark, n, k, prior):
    torch = pytest.importorskip("torch")
    a, b = problem(n, k)
    result = benchmark(posterior_agreement, a, b, prior=prior)
    assert 0 < result.score < np.log(k)
    if not benchmark.enabled:
        return
    first, second = torch.tensor(a), torch.tensor(b)
    softmaxes = seconds(lambda: (torch.softmax(first, 1), torch.softmax(second, 1)))
    ten_steps = seconds(lambda: adam(torch, first, second, 10))
    solve = benchmark.stats.stats.min
    print(
        f"\nN={n} K={k} {prior}: {result.n_evaluations} evaluations, a solve takes "
        f"{solve / softmaxes:.1f} softmaxes, 500 Adam steps "
        f"{50 * ten_steps / solve:.1f} solves"
    )


def test_many_small_problems(benchmark):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(500, 200, 10))
    b = a + 0.5 * rng.normal(size=a.shape)
    results = benchmark(posterior_agreement, a, b)
    assert all(result.gap <= 1e-6 for result in results)
