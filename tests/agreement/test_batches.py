"""Many problems at once, blocks, weights and the matrix of all pairs."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import get_ident

import numpy as np
import pytest

import pa_select.agreement.pairs.paired_scores as pairs_module
from pa_select import agreement_matrix, pa_kernel, posterior_agreement
from pa_select.agreement.pairs.paired_scores import PairedScores

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


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_matrix_of_all_pairs(prior, monkeypatch):
    # The package has the function under the name of its module.
    matrix_module = import_module("pa_select.agreement.agreement_matrix")
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(60, 3)) * 3
    samples = [signal + s * rng.normal(size=(60, 3)) for s in (0.5, 1, 4, 0.2)]
    weight = rng.random(60)
    matrix = agreement_matrix(samples, prior=prior, sample_weight=weight)
    for i in range(4):
        for j in range(4):
            one = posterior_agreement(samples[i], samples[j], prior=prior, sample_weight=weight)
            assert matrix.scores[i, j] == pytest.approx(one.score, abs=1e-9)
            assert matrix.betas[i, j] == pytest.approx(one.beta, rel=1e-3)
            assert matrix.agreement_rates[i, j] == pytest.approx(one.agreement_rate)
            assert matrix.standard_errors[i, j] == pytest.approx(one.standard_error, rel=1e-3)
    upper = matrix.scores[np.triu_indices(4, 1)]
    assert matrix.mean == pytest.approx(upper.mean())
    assert matrix.worst == upper.min() == matrix.scores[matrix.worst_pair]
    assert 2 in matrix.worst_pair
    assert 0 <= matrix.gap <= 1e-5
    monkeypatch.setattr(matrix_module, "_ROWS_AT_ONCE", 1)
    one_by_one = agreement_matrix(samples, prior=prior, sample_weight=weight)
    np.testing.assert_allclose(one_by_one.scores, matrix.scores, atol=1e-12)


# Of 500 pairs all passes have enough rows for threads, or those at several temperatures alone.
@pytest.mark.parametrize("elements", [100, 500])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_torch_threads_are_used_and_restored(n_threads, elements, monkeypatch):
    torch = pytest.importorskip("torch")
    a, b = problem(0, n=500)
    expected = posterior_agreement(a, b, prior="marginal")
    monkeypatch.setattr(pairs_module, "_THREAD_BLOCK_ELEMENTS", elements)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        same(posterior_agreement(a, b, prior="marginal"), expected, abs=1e-9)
        assert torch.get_num_threads() == n_threads
        scores, start = torch.zeros(9000, 2), np.array([0])
        pairs = PairedScores(scores, scores, torch.ones(9000), start + 9000, start, start, start)
        ran_in = {thread for _, thread in pairs.map_blocks(lambda block: get_ident(), start)}
        assert (ran_in == {get_ident()}) == (n_threads == 1)
        with pytest.raises(ZeroDivisionError):
            list(pairs.map_blocks(lambda block: 1 / 0, start))
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


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
