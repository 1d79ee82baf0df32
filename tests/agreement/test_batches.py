"""Many problems at once, blocks, weights and the matrix of all pairs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pa_select.agreement.pairs.paired_scores as pairs_module
from pa_select import pa_kernel, posterior_agreement

PRIORS = ["uniform", "marginal", [0.2, 0.3, 0.1, 0.4]]


def problem(seed, n=50, k=4):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, k)) * np.exp(rng.normal())
    return a, a + rng.normal(size=(n, k)) * np.exp(rng.normal())


def same(one, other, abs=1e-12):
    assert one.score == pytest.approx(other.score, abs=abs)
    assert one.beta == pytest.approx(other.beta, rel=1e-5)
    assert one.log_kernel == pytest.approx(other.log_kernel, abs=1e-6)
    assert one.n_pairs == other.n_pairs
    assert one.agreement_rate == pytest.approx(other.agreement_rate)
    np.testing.assert_allclose(one.terms, other.terms, atol=1e-4)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_a_batch_is_its_problems(prior):
    problems = [problem(seed) for seed in range(12)]
    if isinstance(prior, str):  # of different lengths and numbers of classes
        problems += [problem(i, n, k) for i, (n, k) in enumerate([(3, 2), (70, 5), (1, 2)])]
    # One that is solved without an evaluation, one with its optimum at 0.
    problems += [(np.eye(4)[[0, 1, 2, 3]], np.eye(4)[[0, 1, 2, 3]]), (np.eye(4), -np.eye(4))]
    alone = [posterior_agreement(a, b, prior=prior) for a, b in problems]
    together = posterior_agreement(*map(list, zip(*problems, strict=True)), prior=prior)
    for (a, _), one, other in zip(problems, alone, together, strict=True):
        same(one, other)
        assert (len(other.terms), other.n_classes) == a.shape
        # With few scores all problems have as many points in a round as the one that needs most,
        # and the marginal prior's refinement ends by rounding.
        assert other.n_evaluations <= 3 * one.n_evaluations + 3


def test_three_axes_and_weights():
    a, b = (np.stack(x) for x in zip(*(problem(seed) for seed in range(6)), strict=True))
    weight = np.random.default_rng(0).random((6, 50))
    for w in (None, weight, list(weight), weight[0]):
        results = posterior_agreement(a, b, sample_weight=w)
        for i, result in enumerate(results):
            mine = w if w is None or np.ndim(w) == 1 else w[i]
            same(posterior_agreement(a[i], b[i], sample_weight=mine), result)


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_blocks_do_not_change_the_result(prior, monkeypatch):
    problems = list(zip(*(problem(seed, n=37) for seed in range(7)), strict=True))
    weights = [np.random.default_rng(i).random(37) for i in range(7)]
    whole = posterior_agreement(*map(list, problems), prior=prior, sample_weight=weights)
    for elements in (16, 60, 1000):
        monkeypatch.setitem(pairs_module._BLOCK_BYTES, "cpu", 8 * elements)
        parts = posterior_agreement(*map(list, problems), prior=prior, sample_weight=weights)
        for one, other in zip(whole, parts, strict=True):
            same(one, other, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_kernel_takes_many_temperatures(prior):
    a, b = problem(3)
    betas = np.array([[0, 0.5, 1], [2, 7, np.inf]])
    values = pa_kernel(a, b, betas, prior=prior)
    assert values.shape == (2, 3)
    for beta, value in zip(betas.ravel(), values.ravel(), strict=True):
        one = pa_kernel(a, b, beta, prior=prior)
        assert isinstance(one, float)
        assert one == pytest.approx(value, abs=1e-12)
    assert pa_kernel(a, b, [], prior=prior).shape == (0,)


def test_concurrent_callers_keep_their_threads(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(pairs_module, "_THREAD_BLOCK_ELEMENTS", 100)
    a, b = problem(0, n=300)
    expected = posterior_agreement(a, b).score

    def call(n_threads):
        torch.get_num_threads()  # a new thread asks once, and forgets what was set before
        torch.set_num_threads(n_threads)
        scores = [posterior_agreement(a, b).score for _ in range(5)]
        return scores, torch.get_num_threads()

    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(3) as pool:
            for n_threads, (scores, after) in enumerate(pool.map(call, (1, 2, 3)), 1):
                assert scores == pytest.approx([expected] * 5, abs=1e-12)
                assert after == n_threads
    finally:
        torch.set_num_threads(before)
