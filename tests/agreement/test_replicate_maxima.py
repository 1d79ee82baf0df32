"""Replicates that are searched at common inverse temperatures, against certified maxima."""

from importlib import import_module

import numpy as np
import pytest
import torch
from helpers.problems import random_problem, two_modes
from hypothesis import given, settings
from hypothesis import strategies as st

from pa_select import bootstrap_agreement, posterior_agreement
from pa_select.agreement.inputs.problem import check_problem
from pa_select.agreement.pairs import paired_scores
from pa_select.agreement.solver import replicate_maxima as module
from pa_select.agreement.solver.find_maxima import find_maxima
from pa_select.agreement.solver.fixed_prior import FixedPrior
from pa_select.agreement.solver.kernel_sums import limits
from pa_select.agreement.solver.marginal_prior import MarginalPrior
from pa_select.agreement.solver.marginal_sums import ModelRuns


def draw(n, k, noise=0.7, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), rng.integers(0, k, n)] += 3
    return [scores + noise * rng.normal(size=(n, k)) for _ in range(2)]


def with_zeros(disjoint):
    """Some classes of probability 0, and perhaps a pair of disjoint posteriors."""
    a, b = draw(40, 3)
    a[3, 1] = a[5, 2] = b[9, 0] = -np.inf
    if disjoint:
        a[0], b[0] = [0, -np.inf, -np.inf], [-np.inf, 0, -np.inf]
    return a, b


def decisions():
    a, b = draw(60, 3)
    return a, np.where(np.eye(3)[b.argmax(1)] > 0, 0.0, -np.inf)


def rare_class():
    """Posteriors of the last class underflow, except in one pair."""
    a, b = draw(40, 3)
    for x in (a, b):
        x[:, 2] = -2000.0
        x[0] = 0, 0, 1
    return a, b


def two_scales():
    """The maximum is far beyond the first points, where the small margins decide."""
    tops = np.repeat([100.0, 0.01], 50)
    a = np.column_stack([tops, np.zeros(100)])
    return a, np.concatenate([a[:90], a[90:, ::-1]])


PROBLEMS = {
    "usual": draw(200, 4),
    "over-confident": [40 * x for x in draw(100, 5)],
    "much noise": draw(80, 3, noise=6.0),
    "unrelated": np.random.default_rng(1).normal(size=(2, 60, 3)),
    "opposite": (draw(60, 3)[0], -draw(60, 3)[0]),
    "nearly perfect": draw(150, 3, noise=0.1),
    "the same": draw(50, 3)[:1] * 2,
    "two modes": two_modes(),
    "two scales": two_scales(),
    "two classes": draw(300, 2),
    "a hundred classes": draw(50, 100),
    "five pairs": draw(5, 3, noise=1.5),
    "votes": np.random.default_rng(3).integers(0, 4, (2, 60, 3)).astype(float),
    "zeros": with_zeros(disjoint=False),
    "disjoint": with_zeros(disjoint=True),
    "decisions": decisions(),
    "rare class": rare_class(),
}
PRIORS = ["uniform", "marginal", "vector"]


def weights_of(n, m=6, seed=0):
    """Weights of replicates; those of some pairs are 0 in all of them."""
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(n, np.full(n, 1 / n), m) * (1 + rng.random(n))
    if n > 10:
        weights[:, n // 2] = 0
    return weights / weights.sum(1, keepdims=True)


def checked(a, b, prior):
    k = np.shape(a)[1]
    if prior == "vector":
        prior = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    return check_problem(np.array(a), np.array(b), None, prior)


def maxima(a, b, weights, prior):
    problem = checked(a, b, prior)
    return module.replicate_maxima(problem.a, problem.b, weights, problem.prior)


def certified(a, b, weights, prior):
    problem = checked(a, b, prior)
    separate = module._separate(module.each_pair(problem.a, problem.b), weights)
    return find_maxima(separate, problem.prior, 1e-5)


def check(a, b, weights, prior):
    found, expected = maxima(a, b, weights, prior), certified(a, b, weights, prior)
    assert (found >= expected.score - module.TOLERANCE).all()
    assert (found <= expected.upper_bound + module.TOLERANCE).all()
    return found, expected.score


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_maxima_are_the_certified_ones(name, prior):
    a, b = PROBLEMS[name]
    check(a, b, weights_of(len(a)), prior)


@pytest.mark.parametrize("prior", PRIORS)
def test_maxima_of_small_problems_with_several_modes(prior):
    for seed in range(12):
        a, b, _ = random_problem(np.random.default_rng(seed))
        check(a, b, weights_of(len(a), 3, seed), prior)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-3, 1.0, 50.0]))
@settings(max_examples=10, deadline=None)
def test_a_replicate_does_not_depend_on_the_others(prior, seed, scale):
    a, b = (scale * x for x in draw(40, 3, noise=1.0, seed=seed))
    weights = weights_of(40, 8, seed)
    order = np.random.default_rng(seed).permutation(8)
    together = maxima(a, b, weights, prior)
    apart = np.concatenate([maxima(a, b, weights[some], prior) for some in (order[:3], order[3:])])
    np.testing.assert_allclose(apart, together[order], rtol=0, atol=2 * module.TOLERANCE)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", ["usual", "much noise", "nearly perfect", "votes", "two modes"])
def test_replicates_need_no_search_of_their_own(name, prior, monkeypatch):
    a, b = PROBLEMS[name]
    monkeypatch.setattr(module, "find_maxima", None)
    assert np.isfinite(maxima(a, b, weights_of(len(a), 50), prior)).all()


@pytest.mark.parametrize("prior", PRIORS)
def test_replicates_that_need_too_many_points_are_solved_one_by_one(prior, monkeypatch):
    a, b = PROBLEMS["usual"]
    weights = weights_of(len(a))
    monkeypatch.setattr(module, "_MOST_POINTS", 10)
    found, expected = check(a, b, weights, prior)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_replicate_in_which_a_class_underflows_is_solved_by_itself(monkeypatch):
    a, b = PROBLEMS["rare class"]
    weights = np.ones((2, 40))
    weights[0, 0] = 0
    weights /= weights.sum(1, keepdims=True)
    solved = []

    def counting(pairs, *args, **options):
        solved.append(pairs.n_problems)
        return find_maxima(pairs, *args, **options)

    monkeypatch.setattr(module, "find_maxima", counting)
    check(a, b, weights, "marginal")
    assert solved == [1]
    problem = checked(a, b, "marginal")
    pairs = module.each_pair(problem.a, problem.b)
    runs = ModelRuns.one_model_each(module._separate(pairs, weights))
    kernel = module.SharedMarginalPrior(runs, pairs, torch.from_numpy(weights))
    value = kernel.evaluate(np.ones(2), np.ones(2), np.arange(2)).value
    np.testing.assert_array_equal(np.isnan(value), [True, False])


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.7, 300.0])
@pytest.mark.parametrize("name", ["usual", "zeros", "disjoint"])
def test_sums_of_shared_pairs_are_those_of_separate_problems(name, beta, kept, monkeypatch):
    monkeypatch.setattr(paired_scores, "_BLOCK_BYTES", {"cpu": 50 * 8})
    monkeypatch.setattr(module, "_OVERLAPS_AT_ONCE", 20)
    if not kept:
        monkeypatch.setattr(paired_scores, "_KEPT_BYTES", 0)
    a, b = PROBLEMS[name]
    weights = weights_of(len(a), 7)
    weights[1:, 0] = 0
    weights /= weights.sum(1, keepdims=True)
    problem = checked(a, b, "uniform")
    pairs = module.each_pair(problem.a, problem.b)
    separate = module._separate(pairs, weights)
    log_weights = np.linspace(1, 0, a.shape[1])
    shared = module.replicate_limits(pairs, weights, log_weights)
    same(shared, limits(separate, log_weights), without=["largest_range"])
    assert (shared.largest_range >= limits(separate, log_weights).largest_range).all()
    some = np.array([5, 2, 3, 6])
    at = np.full(4, beta), np.full(4, beta or 1.0), some
    one = FixedPrior(separate, log_weights, shared).evaluate(*at)
    kernel = module.SharedFixedPrior(pairs, log_weights, shared, weights)
    same(kernel.evaluate(*at), one)
    if name == "usual":
        runs = ModelRuns.one_model_each(separate)
        kernel = module.SharedMarginalPrior(runs, pairs, torch.from_numpy(weights))
        found = kernel.evaluate(*at)
        # These are maxima over all pairs, and counted from the smallest distance of all pairs.
        bounds = ["joint_cube", "largest"]
        each = MarginalPrior(runs).evaluate(*at)
        same(found, each, without=bounds)
        for name in bounds:
            assert (getattr(found, name) >= getattr(each, name) * (1 - 1e-9)).all(), name


def same(found, expected, without=()):
    for name in set(found._fields) - set(without):
        x, y = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_batches_of_replicates_change_nothing(prior, monkeypatch):
    result = posterior_agreement(*PROBLEMS["usual"], prior=prior)
    together = bootstrap_agreement(result, 20, random_state=0).scores
    # The name in the package is that of the function.
    monkeypatch.setattr(import_module("pa_select.agreement.bootstrap"), "_WEIGHTS_AT_ONCE", 1400)
    apart = bootstrap_agreement(result, 20, random_state=0).scores
    np.testing.assert_allclose(apart, together, rtol=0, atol=2 * module.TOLERANCE)
