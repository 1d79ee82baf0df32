"""Coarse evaluations: what they may get wrong, and that no result depends on them."""

from unittest import mock

import numpy as np
import pytest
import torch
from helpers import oracle
from helpers.problems import check_against_the_oracle, random_problem, varied_suite

from pa_select import pa_kernel, posterior_agreement
from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import check_prior
from pa_select.agreement.kernels import kernel_sums as kernel_module
from pa_select.agreement.kernels import marginal_prior
from pa_select.agreement.kernels.fixed_prior import FixedPrior
from pa_select.agreement.kernels.marginal_prior import MarginalPrior, _errors_of_prior
from pa_select.agreement.kernels.marginal_sums import ModelRuns
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.solver.branch_and_bound import MAX_EVALUATIONS


@pytest.fixture
def coarse_counts(monkeypatch):
    """Allow coarse evaluations of small problems, and count both kinds."""
    monkeypatch.setattr(kernel_module, "_FEWEST_SCORES", 0)
    counts = {False: 0, True: 0}
    for cls in (FixedPrior, MarginalPrior):

        def evaluate(self, beta, unit, problems, *, coarse=False, original=cls.evaluate):
            counts[coarse] += len(beta)
            return original(self, beta, unit, problems, coarse=coarse)

        monkeypatch.setattr(cls, "evaluate", evaluate)
    return counts


@pytest.fixture
def far_off(monkeypatch):
    """Coarse sums that are wrong by as much as they admit, and that is much."""
    rng = np.random.default_rng(5)
    for cls in (FixedPrior, MarginalPrior):

        def evaluate(self, beta, unit, problems, *, coarse=False, original=cls.evaluate):
            sums = original(self, beta, unit, problems)
            if not coarse:
                return sums
            error = np.full(len(beta), 1e-3)
            # All of it in one of the convex parts, up or down.
            first = rng.choice([-1, 1], len(beta)) * rng.integers(0, 2, len(beta))
            second = np.where(first == 0, rng.choice([-1, 1], len(beta)), 0)
            both = first - second
            changes = {"l1": first, "l2": second, "dl1": first, "dl2": second}
            changes |= {"value": both, "slope": both, "curvature": both}
            fields = sums._fields
            wrong = {k: getattr(sums, k) + v * error for k, v in changes.items() if k in fields}
            for name in ("log_prior", "d_log_prior"):
                if name in fields:
                    wrong[name] = getattr(sums, name) - both[:, None, None] * error[0]
            return sums._replace(**wrong, error=error)

        monkeypatch.setattr(cls, "evaluate", evaluate)


def kernels(a, b, weight):
    """The kernels of one problem with both priors, and its limits."""
    pairs = concatenate([Problem(torch.as_tensor(a), torch.as_tensor(b), weight)])
    weights = np.zeros(a.shape[1])
    limits = kernel_module.limits(pairs, weights)
    yield FixedPrior(pairs, weights, limits), limits
    yield MarginalPrior(ModelRuns.one_model_each(pairs)), limits


def opposite(rng, n_classes, share):
    """Scores of which some rows have large ones on both sides, which nearly cancel."""
    a, b = rng.normal(size=(2, 200, n_classes))
    large = 1e5 * np.sign(rng.normal(size=a.shape)) * (rng.random((200, 1)) < share)
    return a + large, b - large, np.ones(200)


def problems():
    # One temperature suits the rows without large scores, another one the others.
    for n_classes, share in ((2, 1.0), (2, 0.05), (10, 0.05), (100, 0.05)):
        yield opposite(np.random.default_rng(0), n_classes, share)
    for _, a, b in varied_suite():
        yield a[:100], b[:100], np.ones(min(len(a), 100))
    for seed in range(100):
        yield random_problem(np.random.default_rng(seed))


def thirds(kernel, sums, beta):
    """The third derivatives by which the marginal prior bounds intervals of various lengths."""
    with mock.patch.object(
        marginal_prior, "two_cubics", side_effect=marginal_prior.two_cubics
    ) as bounded:
        with np.errstate(all="ignore"):
            for step in (1, 3):
                some = slice(-step), slice(step, None)
                ends = [sums._make(x[i] for x in sums) for i in some]
                at = [beta[i] for i in some]
                kernel.bound(*ends, at, at)
    return np.concatenate([call.args[3] for call in bounded.call_args_list], axis=1)


@pytest.mark.slow
def test_coarse_sums_are_within_their_error():
    rng = np.random.default_rng(0)
    compared, rare = 0, False
    for a, b, weight in problems():
        for kernel, limits in kernels(a, b, weight):
            if not kernel_module.may_be_coarse(limits, 1 << 20) or limits.disjoint[0]:
                continue
            beta = np.geomspace(1e-3, 1e3, 8) * 10 ** rng.uniform(-0.4, 0.4) / limits.typical_range
            beta[1::2] = beta[::2] * 1.2
            same = np.zeros(8, dtype=np.int64)
            exact = kernel.evaluate(beta, beta, same)
            coarse = kernel.evaluate(beta, beta, same, coarse=True)
            assert (exact.error == 0).all()
            assert (coarse.error > 0).all()
            assert (np.abs(coarse.value - exact.value) <= coarse.error).all()
            slope, curvature = coarse.error, coarse.error
            if isinstance(kernel, MarginalPrior):
                errors = _errors_of_prior(coarse, np.ones(8))
                slope = coarse.error + (coarse.overlap * errors.slope).sum((1, 2))
                curvature = (1 + np.log(a.shape[1])) * coarse.error
                curvature += (coarse.overlap * errors.curvature).sum((1, 2))
                names = "log_prior", "d_log_prior", "d2_log_prior"
                for name, most in zip(names, errors, strict=False):
                    difference = np.abs(getattr(coarse, name) - getattr(exact, name))
                    rare |= bool((difference > coarse.error[:, None, None]).any())
                    assert (difference <= most).all(), name
                # The intervals are from each point to the next one.
                bounds = [thirds(kernel, x, beta) for x in (coarse, exact)]
            else:
                bounds = [np.array([x.rise, x.fall]) for x in (coarse, exact)]
            assert not (bounds[0] < bounds[1] * (1 - 1e-9)).any()  # never of a bound that is nan
            allowed = {"slope": slope, "curvature": curvature}
            for name in ("l1", "l2", "dl2", *allowed):
                difference = np.abs(getattr(coarse, name) - getattr(exact, name))
                assert (difference <= allowed.get(name, coarse.error)).all(), name
            compared += 1
    assert compared > 200
    assert rare  # a class whose log prior is further off than all sums


@pytest.mark.parametrize("counts", [[12_000], [7000, 5000], [6000, 6000]], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_coarse_sums_of_many_pairs_are_within_their_error(counts, weighted):
    rng = np.random.default_rng(0)
    problems = []
    for n in counts:
        a = 3 + rng.normal(size=(n, 2))
        scores = map(torch.as_tensor, (a, a + rng.normal(size=(n, 2))))
        weight = rng.random(n) if weighted else np.broadcast_to(np.ones(1), n)
        problems.append(Problem(*scores, weight))
    pairs = concatenate(problems)
    log_weights = np.zeros(2)
    kernel = FixedPrior(pairs, log_weights, kernel_module.limits(pairs, log_weights))
    for beta in (0.1, 1.0, 10.0):
        at, every = np.full(len(counts), beta), np.arange(len(counts))
        exact = kernel.evaluate(at, at, every)
        coarse = kernel.evaluate(at, at, every, coarse=True)
        for name in ("l1", "l2", "dl1", "dl2", "curvature"):
            difference = np.abs(getattr(coarse, name) - getattr(exact, name))
            assert (difference <= coarse.error / 3).all(), name


@pytest.mark.parametrize(("n_problems", "n"), [(1, 40_000), (40, 1000)])
def test_coarse_sums_do_not_depend_on_what_torch_may_round(n_problems, n):
    rng = np.random.default_rng(0)
    scores = torch.tensor(2 * rng.normal(size=(n_problems, n, 10)))
    problems = [Problem(a, a.flip(1) / 2 + a, np.broadcast_to(np.ones(1), n)) for a in scores]
    kernel = MarginalPrior(ModelRuns.one_model_each(concatenate(problems)))
    at, every = np.full(n_problems, 0.5), np.arange(n_problems)
    exact = kernel.evaluate(at, at, every)
    allowed = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        coarse = kernel.evaluate(at, at, every, coarse=True)
    finally:
        torch.set_float32_matmul_precision(allowed)
    for name in ("overlap", "d_log_prior", "d2_log_prior", "distance"):
        difference = np.abs(getattr(coarse, name) - getattr(exact, name))
        assert difference.max() <= coarse.error.max(), name


def test_two_priors_do_not_share_what_is_kept_of_a_block():
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(2 * rng.normal(size=(50, 3))) for _ in range(2))
    pairs = concatenate([Problem(a, b, np.broadcast_to(np.ones(1), 50))])
    one, zero = np.ones(1), np.zeros(1, dtype=np.int64)
    for prior in ([0.2, 0.3, 0.5], [0.8, 0.1, 0.1], None):
        checked = check_prior("uniform" if prior is None else prior, 3)
        weights, constant = checked.log_weights(3), checked.constant(3)
        kernel = FixedPrior(pairs, weights, kernel_module.limits(pairs, weights))
        value = kernel.evaluate(one, one, zero).value[0] + constant
        expected = oracle.kernel(a, b, 1.0, "uniform" if prior is None else prior)
        assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_bounds_with_coarse_ends_hold(far_off):
    rng = np.random.default_rng(1)
    for seed in range(40):
        a, b, weight = random_problem(np.random.default_rng(seed))
        for kernel, limits in kernels(a, b, weight):
            if not kernel_module.may_be_coarse(limits, 1 << 20) or limits.disjoint[0]:
                continue
            ends = np.sort(10 ** rng.uniform(-3, 3, (40, 2)), axis=1) / limits.typical_range
            ends[:30, 1] = ends[:30, 0] * (1 + 10 ** rng.uniform(-5, 0, 30))
            same = np.zeros(40, dtype=np.int64)
            for kinds in ((True, True), (True, False), (False, True)):
                both = zip(ends.T, kinds, strict=True)
                left, right = (kernel.evaluate(x, x, same, coarse=kind) for x, kind in both)
                with np.errstate(all="ignore"):
                    bound, _ = kernel.bound(left, right, tuple(ends.T), tuple(ends.T))
                for end in (left, right):  # where it is as high as its point
                    bound = np.maximum(bound, end.value + end.error)
                beyond = kernel.beyond(right, ends[:, 1], same)
                inside = np.linspace(*ends.T, 9)
                outside = ends[:, 1] * np.geomspace(1, 1e4, 9)[:, None]
                for points, upper in ((inside, bound), (outside, beyond)):
                    every = np.zeros(points.size, dtype=np.int64)
                    values = kernel.evaluate(points.ravel(), points.ravel(), every).value
                    best = values.reshape(points.shape).max(0)
                    above = best - upper > 1e-10 * (1 + np.abs(best))
                    assert not above.any(), (seed, type(kernel), kinds, ends[above])


def test_few_steps_are_exact(coarse_counts):
    problems = [(a, b) for name, a, b in varied_suite() if name.startswith(("normal", "noisy"))]
    for a, b in problems:
        posterior_agreement(a, b)
    # At 0, where the maximum is expected, and after Newton's step.
    assert coarse_counts[False] <= 3.5 * len(problems)


@pytest.mark.parametrize(("prior", "n_problems"), [("uniform", 80), ("marginal", 30)])
def test_coarse_steps_against_brute_force(coarse_counts, prior, n_problems):
    check_against_the_oracle(range(20_000, 20_000 + n_problems), n_points=300, prior=prior)
    assert coarse_counts[True] > coarse_counts[False]


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_coarse_steps_that_are_far_off(far_off, monkeypatch, prior):
    monkeypatch.setattr(kernel_module, "_FEWEST_SCORES", 0)
    check_against_the_oracle(range(30_000, 30_040), n_points=300, prior=prior)
    for seed in range(30_100, 30_130):
        a, b, weight = random_problem(np.random.default_rng(seed))
        found = posterior_agreement(a, b, prior=prior, sample_weight=weight, certify=False)
        attained = pa_kernel(a, b, found.beta, prior=prior, sample_weight=weight)
        assert found.score == pytest.approx(attained, abs=1e-10)


@pytest.mark.parametrize("prior", ["uniform", "marginal", [0.2, 0.3, 0.5]], ids=str)
@pytest.mark.parametrize("certify", [True, False])
def test_the_result_does_not_depend_on_them(coarse_counts, monkeypatch, prior, certify):
    rng = np.random.default_rng(2)
    a = 3 * rng.normal(size=(40, 30, 3))
    b = a + rng.normal(size=(40, 30, 1)) * rng.normal(size=(40, 30, 3))
    found = posterior_agreement(a, b, prior=prior, certify=certify)
    assert coarse_counts[True] > coarse_counts[False]
    monkeypatch.setattr(kernel_module, "_FEWEST_SCORES", 1 << 30)
    exact = posterior_agreement(a, b, prior=prior, certify=certify)
    for one, other in zip(found, exact, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-10)
        assert one.beta == pytest.approx(other.beta, rel=1e-4)


def test_large_integers_lose_nothing():
    # Their differences decide, which float32 could not tell apart before centring.
    rng = np.random.default_rng(3)
    a = rng.integers(-3, 4, (5000, 10))
    b = a + rng.integers(-1, 2, a.shape)
    expected = posterior_agreement(a, b)
    shifted = posterior_agreement(a + (1 << 40), b - (1 << 41))
    assert shifted.score == pytest.approx(expected.score, abs=1e-12)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("difference", [1e-306, 1e-310])
def test_the_search_ends_at_the_largest_inverse_temperature(prior, difference):
    rng = np.random.default_rng(0)
    a, b = 1e-300 + difference * rng.random((2, 30, 3))
    b[5:] = a[5:]
    with pytest.raises(RuntimeError, match="with an inverse temperature of 1e.307, the largest"):
        posterior_agreement(a, b, prior=prior)
    with pytest.warns(UserWarning, match="ended after an inverse temperature of 1e.307"):
        found = posterior_agreement(a, b, prior=prior, certify=False)
    assert found.n_evaluations < MAX_EVALUATIONS
