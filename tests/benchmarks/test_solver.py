"""What a certified maximum costs, as ratios measured in the same run.

Run them with ``make bench``, which writes the tables of docs/performance.  The units are one
plain evaluation of both softmaxes in float64, the exponentials of all scores that an
evaluation cannot do without (both samples and their sum), and Adam as in the papers
(learning rate 0.1 from beta = 1, 500 full-batch steps, on tensors).
"""

from time import perf_counter, process_time

import numpy as np
import pytest
import torch

from pa_select import pa_kernel, posterior_agreement

SIZES = [
    *((n, 2) for n in (1_000, 10_000, 100_000, 1_000_000)),
    *((n, 10) for n in (100, 1_000, 10_000, 100_000, 1_000_000)),
    *((n, 100) for n in (1_000, 10_000)),
    (100_000, 100),
    (1_000, 1000),
    (10_000, 1000),
]


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


def adam(a, b, n_steps):
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([beta], lr=0.1)
    for _ in range(n_steps):
        optimiser.zero_grad()
        overlap = torch.softmax(beta * a, 1) * torch.softmax(beta * b, 1)
        (-overlap.sum(1).log().mean()).backward()
        optimiser.step()
    return max(beta.item(), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_solve(benchmark, figures, one_thread, n, k, prior):
    if not benchmark.enabled and (n * k > 1_000_000 or n > 10_000):
        pytest.skip("for the table only")
    a, b = problem(n, k)
    rounds = max(2_000_000 // (n * k), 2)
    result = benchmark.pedantic(
        posterior_agreement, (a, b), {"prior": prior}, rounds=min(rounds, 20), warmup_rounds=1
    )
    assert 0 < result.score < np.log(k)
    if prior == "uniform" and n * k <= (100_000 if benchmark.enabled else 20_000):
        reached = pa_kernel(a, b, adam(torch.tensor(a), torch.tensor(b), 500))
        assert result.score >= reached - 1e-12
    if not benchmark.enabled:
        return
    first, second = torch.tensor(a), torch.tensor(b)
    solve = benchmark.stats.stats.min
    softmaxes = seconds(lambda: (torch.softmax(first, 1), torch.softmax(second, 1)))
    # In blocks that stay in the cache, as the solver does it.
    block = torch.rand(1 << 16, dtype=torch.float64).neg_()
    exponentials = 3 * n * k / len(block) * seconds(lambda: torch.exp(block), 50)
    row = {
        "pairs": n,
        "classes": k,
        "prior": prior,
        "evaluations": result.n_evaluations,
        "in softmaxes": f"{solve / softmaxes:.1f}",
        "in exponentials": f"{solve / exponentials / result.n_evaluations:.1f}",
    }
    if prior == "uniform":
        steps = 10 if n * k <= 1_000_000 else 3
        ratio = 500 / steps * seconds(lambda: adam(first, second, steps), 2) / solve
        row["Adam"] = f"{ratio:.0f}"
        figures("solver", row)
    else:
        figures("solver_marginal", row)
    print(row)


def test_many_small_problems(benchmark, figures, one_thread):
    n = 10_000 if benchmark.enabled else 500
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n, 200, 10))
    b = a + 0.5 * rng.normal(size=a.shape)
    results = benchmark.pedantic(posterior_agreement, (a, b), rounds=1)
    assert all(result.gap <= 1e-6 for result in results)
    if benchmark.enabled:
        block = torch.rand(1 << 16, dtype=torch.float64).neg_()
        exponentials = 2 * a.size / len(block) * seconds(lambda: torch.exp(block), 50)
        solve = benchmark.stats.stats.min
        row = {
            "problems": n,
            "pairs": 200,
            "classes": 10,
            "evaluations": f"{np.mean([r.n_evaluations for r in results]):.0f}",
            "in passes of exponentials": f"{solve / exponentials:.0f}",
        }
        figures("many_problems", row)
        print(row)


@pytest.mark.skipif(torch.get_num_threads() < 2, reason="one thread")
def test_two_threads(benchmark, figures):
    a, b = problem(1_000_000 if benchmark.enabled else 150_000, 10)
    result = benchmark.pedantic(posterior_agreement, (a, b), rounds=3)
    if not benchmark.enabled:
        return
    n_threads, work = torch.get_num_threads(), []
    for n in (n_threads, 1):
        torch.set_num_threads(n)
        start = process_time()
        alone = seconds(lambda: posterior_agreement(a, b))
        work.append(process_time() - start)
    torch.set_num_threads(n_threads)
    row = {
        "pairs": len(a),
        "classes": 10,
        "threads": n_threads,
        "speed, one thread = 1": f"{alone / benchmark.stats.stats.min:.2f}",
        "CPU time, one thread = 1": f"{work[0] / work[1]:.2f}",
    }
    assert result.gap <= 1e-6
    figures("threads", row)
    print(row)
