"""Each bound and guard of the solver by itself, so that one that is broken is seen at once.

tests/mutations.py lists which fault each of these tests finds.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import oracle
from helpers.problems import random_problem
from mutations import TABLE
from scipy.special import logsumexp

import pa_select
from pa_select import posterior_agreement
from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import check_prior
from pa_select.agreement.kernels import kernel_sums as kernel_module
from pa_select.agreement.kernels import marginal_prior
from pa_select.agreement.kernels.fixed_prior import FixedPrior
from pa_select.agreement.kernels.marginal_prior import MarginalPrior
from pa_select.agreement.kernels.marginal_sums import ModelRuns
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.agreement.standard_errors import standard_error
from pa_select.solver import bounds


def kernel_of(a, b, weight=None, prior=None, marginal=False):
    """The kernel of one problem, its limits and the constant that it leaves out."""
    weight = np.ones(len(a)) if weight is None else weight
    scores = (torch.from_numpy(np.array(x, float, order="C")) for x in (a, b))
    pairs = concatenate([Problem(*scores, weight)])
    k = np.shape(a)[1]
    checked = check_prior("uniform" if prior is None else prior, k)
    weights, constant = checked.log_weights(k), checked.constant(k)
    limits = kernel_module.limits(pairs, weights)
    if marginal:
        kernel = MarginalPrior(ModelRuns.one_model_each(pairs))
        return kernel, kernel.limits(limits), 0.0
    return FixedPrior(pairs, weights, limits), limits, constant


def bounds_of(kernel, ends, unit_at_zero):
    """Bounds on intervals and beyond their right ends."""
    same = np.zeros(len(ends), dtype=np.int64)
    units = np.where(ends > 0, ends, unit_at_zero)
    left, right = (kernel.evaluate(ends[:, j], units[:, j], same) for j in (0, 1))
    with np.errstate(all="ignore"):
        bound, _ = kernel.bound(left, right, tuple(ends.T), tuple(units.T))
    return bound, kernel.beyond(right, ends[:, 1], same)


def bound_of_wrong_sums(kernel, ends, signs):
    """The bound on an interval whose sums are wrong by the error that they admit.

    ``signs`` tell in which direction, for each field at the left end and the right one.
    """
    error, same, sums = np.array([0.5]), np.zeros(1, dtype=np.int64), []
    for j, end in enumerate(ends[:, None]):
        exact = kernel.evaluate(end, end, same)
        wrong = {name: getattr(exact, name) + sign[j] * error for name, sign in signs.items()}
        sums.append(exact._replace(error=error, **wrong))
    with np.errstate(all="ignore"):
        bound, _ = kernel.bound(*sums, tuple(ends[:, None]), tuple(ends[:, None]))
    return bound[0]


def intervals(rng, scale, n=24):
    """Narrow and wide ones, and two that begin at 0."""
    ends = np.sort(10 ** rng.uniform(-2, 2, (n, 2)), axis=1)
    ends[: n // 2, 1] = ends[: n // 2, 0] * (1 + 10 ** rng.uniform(-2, 0, n // 2))
    ends[0, 0] = ends[-1, 0] = 0
    return ends / scale


def problems(n):
    """Random ones, and some where a bound is nearly attained."""
    for seed in range(n):
        yield random_problem(np.random.default_rng(seed))
    rng = np.random.default_rng(0)
    for margins in ([1.0], [1.0, 30.0], 10 ** rng.uniform(-2, 2, 6)):
        a = np.column_stack([margins, np.zeros(len(margins))])
        yield a, a, np.ones(len(a))
        yield a, a[:, ::-1], np.ones(len(a))
        yield a, 0 * a, np.ones(len(a))


def by_itself(monkeypatch, module, only):
    """Leave one bound of a prior to an interval."""

    def nothing_known(*arguments):
        n = np.shape(arguments[0].l1 if hasattr(arguments[0], "l1") else arguments[0][0])
        return np.full((2, *n), np.nan)

    for name in {"_chord_minus_tangents", "_lines_minus_tangents", "two_cubics"} - {only}:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, nothing_known)


@pytest.mark.parametrize("only", ["_chord_minus_tangents", "two_cubics"])
def test_each_bound_of_the_fixed_prior_holds_by_itself(monkeypatch, only):
    by_itself(monkeypatch, bounds, only)
    rng = np.random.default_rng(0)
    n_known = 0
    for a, b, weight in problems(50):
        prior = rng.dirichlet(np.full(a.shape[1], 0.5)) + 1e-3
        prior = None if rng.random() < 0.5 else prior / prior.sum()
        kernel, limits, constant = kernel_of(a, b, weight, prior)
        if limits.disjoint[0]:
            continue
        scale = limits.typical_range[0] or 1.0
        ends = intervals(rng, scale)
        bound, beyond = bounds_of(kernel, ends, 1 / scale)
        inside = np.linspace(*ends.T, 12)
        shares = "uniform" if prior is None else prior
        values = oracle.kernel(a, b, inside.ravel(), shares, weight)
        best = values.reshape(inside.shape)[1:-1].max(0) - constant
        room = 1e-10 * (1 + np.abs(best))
        assert not (best > bound + room).any()
        n_known += np.isfinite(bound).sum()
        outside = ends[:, 1] * np.geomspace(1, 1e3, 8)[:, None]
        values = oracle.kernel(a, b, outside.ravel(), shares, weight)
        best = values.reshape(outside.shape).max(0) - constant
        assert (best <= beyond + 1e-10 * (1 + np.abs(best))).all()
    assert n_known > 500


def third_derivative(a, b, weight, prior, beta):
    """Of the kernel, from the third cumulants of the scores under the posteriors."""

    def cumulants(scores, factor):
        shifted = scores - scores.max(1, keepdims=True)
        p = factor * np.exp(beta * shifted)
        p /= p.sum(1, keepdims=True)
        deviations = shifted - (p * shifted).sum(1, keepdims=True)
        return (p * deviations**3).sum(1)

    ones = np.ones(np.shape(a)[1])
    joint = cumulants(a + b, ones if prior is None else 1 / prior)
    return (joint - cumulants(a, ones) - cumulants(b, ones)) @ weight / weight.sum()


def test_third_derivatives_are_within_their_bounds():
    rng = np.random.default_rng(0)
    tightest = {"rise": 0.0, "fall": 0.0}
    # Two whose third derivative is nearly attained, up and down.
    cases = [
        (np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), np.ones(1)),
        (np.array([[0.0, -0.8]]), np.array([[-1.0, 0.0]]), np.ones(1)),
    ]
    for a, b, weight in [*cases, *problems(40)]:
        prior = None if rng.random() < 0.5 else rng.dirichlet(np.ones(a.shape[1])) + 1e-3
        prior = prior if prior is None else prior / prior.sum()
        kernel, limits, _ = kernel_of(a, b, weight, prior)
        if limits.disjoint[0]:
            continue
        scale = limits.typical_range[0] or 1.0
        for beta in np.array([0.02, 0.5, 3.0, 10.0, 20.0, 50.0]) / scale:
            at = np.array([beta])
            sums = kernel.evaluate(at, at, np.zeros(1, dtype=np.int64))
            for times in (1.0, 1.3, 1.99, 4.0, 30.0):
                third = beta**3 * third_derivative(a, b, weight, prior, times * beta)
                for name, value in (("rise", third), ("fall", -third)):
                    room = 1e-12 * (1 + abs(value))
                    bound = getattr(sums, name)[0]
                    assert value <= bound + room
                    if bound > 1e-9:
                        tightest[name] = max(tightest[name], value / bound)
    assert min(tightest.values()) > 0.9, tightest


# Which way an error of each sum makes the bounds lower, at the left and at the right end.
LOWER = {"l1": (-1, -1), "l2": (1, 1), "dl1": (-1, 1), "dl2": (1, -1), "curvature": (-1, -1)}


@pytest.mark.parametrize("only", ["_chord_minus_tangents", "two_cubics"])
def test_bounds_leave_room_for_the_errors_of_all_sums(monkeypatch, only):
    by_itself(monkeypatch, bounds, only)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=(5, 3))
        b = a + rng.normal(size=(5, 3))
        kernel, _, constant = kernel_of(a, b)
        ends = np.exp(rng.normal()) * np.array([1, 1.5])
        bound = bound_of_wrong_sums(kernel, ends, LOWER)
        best = oracle.kernel(a, b, np.linspace(*ends, 20)).max() - constant
        assert bound >= best - 1e-12, seed


@pytest.mark.parametrize("only", ["_lines_minus_tangents", "two_cubics"])
def test_bounds_of_the_marginal_prior_leave_room_for_errors(monkeypatch, only):
    by_itself(monkeypatch, marginal_prior, only)
    lower = {"l1": (-1, -1), "l2": (1, 1), "dl2": (1, -1), "log_prior": (1, 1)}
    lower |= {"d_log_prior": (1, -1), "value": (-1, -1), "slope": (-1, 1), "curvature": (-1, -1)}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=(5, 3))
        b = a + rng.normal(size=(5, 3))
        kernel, _, _ = kernel_of(a, b, marginal=True)
        ends = np.exp(rng.normal()) * np.array([1, 1.1])
        bound = bound_of_wrong_sums(kernel, ends, lower)
        best = oracle.kernel(a, b, np.linspace(*ends, 20), prior="marginal").max()
        assert bound >= best - 1e-12, seed


def test_every_end_of_an_interval_counts_where_errors_make_room():
    # With errors, tangents of L2 that meet inside need not be where the bound is largest.
    kernel, limits, _ = kernel_of([[1.0, 0.0]], [[0.0, 1.0]])
    ends = np.array([[1.0, 1.5]])
    same = np.zeros(1, dtype=np.int64)
    left, right = (kernel.evaluate(ends[:, j], ends[:, j], same) for j in (0, 1))
    rough = [x._replace(error=np.array([0.05])) for x in (left, right)]
    with np.errstate(all="ignore"):
        bound, _ = kernel.bound(*rough, tuple(ends.T), tuple(ends.T))
    assert bound[0] >= left.value[0] + 2 * 0.05


def parts_of_marginal_kernel(a, b, weight, beta):
    """L1 at some temperatures, (n,), and the second derivative of L2."""
    a, b = (x - x.max(1, keepdims=True) for x in (a, b))
    tempered = [beta[:, None, None] * x for x in (a, b)]
    p = [np.exp(x - logsumexp(x, axis=2, keepdims=True)) for x in tempered]
    with np.errstate(divide="ignore"):
        log_prior = np.log(weight @ (p[0] + p[1]) / 2)
    joint = beta[:, None, None] * (a + b) - log_prior[:, None]
    variances = [(q * x * x).sum(2) - (q * x).sum(2) ** 2 for q, x in zip(p, (a, b), strict=True)]
    return logsumexp(joint, axis=2) @ weight, (variances[0] + variances[1]) @ weight


def of_few_values(rng):
    """Scores of rows that are nearly decided, and of classes that a single row prefers."""
    n, k = rng.choice([1, 2, 3, 5, 20]), rng.integers(2, 9)
    scores = []
    for _ in range(2):
        size = rng.choice([0.0, 0.3, 1, 2, 4, 8], (n, 1))
        scores.append(-size * (rng.random((n, k)) < rng.choice([0.3, 0.7, 0.95])))
    if rng.random() < 0.5:
        row, rare = rng.integers(n), rng.integers(k)
        for x in scores:
            x[:, rare] -= rng.choice([3, 8])
            x[row, rare] = x[row].max() + rng.choice([-3, 0, 1, 3])
    return *scores, rng.choice([0.1, 1, 2], n)


def test_third_order_of_the_marginal_prior_holds_by_itself():
    # L1 alone, since the bound of L2 leaves so much room that it would hide a fault.
    closest, steps = np.zeros(2), np.array([[0.2], [0.5], [1.0]])
    for seed in range(300):
        rng = np.random.default_rng(seed)
        a, b, weight = of_few_values(rng) if seed % 2 else random_problem(rng)
        kernel, limits, _ = kernel_of(a, b, weight, marginal=True)
        scale = limits.typical_range[0]
        if limits.disjoint[0] or not scale or not np.isfinite(a.min() + b.min()):
            continue
        start = 10 ** rng.uniform(-2, 1.5, 8) / scale
        length = start * 10 ** rng.uniform(-2, 0.3, 8)
        ends = np.array([start, start + length])
        with np.errstate(all="ignore"):
            sums = [
                kernel.evaluate(x, x, np.zeros(8, dtype=np.int64)).in_lengths(length / x)
                for x in ends
            ]
            exact = [marginal_prior._errors_of_prior(x, length) for x in sums]
            bounds = marginal_prior._third_derivatives(*sums, exact)
        bounds -= sums[0].side_cube * [[1], [1 / 8]]
        weight = np.broadcast_to(weight / weight.sum(), len(a))
        for i, (at, x, bound) in enumerate(zip(sums, ends, bounds, strict=True)):
            side = 1 - 2 * i
            _, of_l2 = parts_of_marginal_kernel(a, b, weight, x)
            slope, curvature = side * (at.slope + at.dl2), at.curvature + of_l2 * length**2
            inside = (x + side * length * steps).ravel()
            l1 = parts_of_marginal_kernel(a, b, weight, inside)[0].reshape(3, 8)
            more = l1 - at.l1 - steps * (slope + steps * curvature / 2)
            # Differences of moments lose digits where distances are large.
            more -= 1e-11 * (1 + np.abs(at.l1) + at.distance.max((1, 2)) ** 3)
            known = np.isfinite(bound)
            above = (more > bound * steps**3 / 6) & known
            assert not above.any(), (seed, side)
            share = more / np.maximum(bound * steps**3 / 6, 1e-9)
            closest[i] = max(closest[i], share[:, known].max(initial=0))
    assert (closest > [0.9, 0.5]).all(), closest


def test_limits_of_ties_priors_and_disjoint_pairs():
    a, b = [[1, 1, 0], [2, 0, 0]], [[1, 1, 1], [5, 0, 0]]
    prior = np.array([0.2, 0.3, 0.5])
    _, found, constant = kernel_of(a, b, prior=prior)
    ends = np.array([found.at_zero[0], found.at_infinity[0]]) + constant
    assert ends == pytest.approx(oracle.kernel(a, b, [0.0, np.inf], prior=prior))
    # The first pair's 2 and 3 top classes meet in 2 of 6 ways; the second's are the same one.
    assert found.agreement_rate[0] == pytest.approx((2 / 6 + 1) / 2)
    # No overlap exceeds one over the number of ties.
    assert found.ceiling[0] + constant == pytest.approx(-np.log(0.2) - np.log(3) / 2)
    # A pair of weight 0 may be disjoint.
    zero = -np.inf
    a, b = [[0, zero], [1, 0]], [[zero, 0], [2, 0]]
    assert kernel_of(a, b)[1].disjoint[0]
    _, ignored, _ = kernel_of(a, b, np.array([0.0, 1.0]))
    assert not ignored.disjoint[0]
    assert np.isfinite(ignored.at_infinity[0])


def test_one_posterior_that_cannot_meet_keeps_the_temperature_at_zero():
    zero = -np.inf
    result = posterior_agreement([[0, zero], [9, 0]], [[zero, 0], [9, 0]])
    assert (result.score, result.beta, result.upper_bound) == (0, 0, 0)


def test_the_better_of_zero_and_infinity_wins_and_infinity_wins_ties():
    constant = np.zeros((5, 3))
    result = posterior_agreement(constant, constant)
    assert (result.score, result.beta) == (0, np.inf)
    # Ties at the top: 1/4 at infinity, 1/3 at 0.
    assert posterior_agreement([[1, 1, 0]], [[0, 1, 1]]).beta == 0


def test_the_standard_error_by_its_formula():
    terms, weight = np.array([1.0, 2.0, 4.0, 9.0]), np.array([0.1, 0.2, 0.3, 0.4])
    deviations = weight * (terms - weight @ terms)
    alone = standard_error(terms, weight)
    assert alone == pytest.approx(np.sqrt(4 / 3 * (deviations**2).sum()))
    # Pairs (1, 3), (1, 2), (0, 1), (0, 0): two pairs count together if they share an object.
    first, second = np.array([1, 1, 0, 0]), np.array([3, 2, 1, 0])
    share = [[{i, j} & {k, m} != set() for k, m in zip(first, second, strict=True)]
             for i, j in zip(first, second, strict=True)]  # fmt: skip
    variance = deviations @ np.array(share, dtype=float) @ deviations
    assert variance > (deviations[:3] ** 2).sum()
    found = standard_error(terms, weight, (first, second))
    assert found == pytest.approx(np.sqrt(4 / 3 * variance))


def test_dependence_never_makes_a_standard_error_smaller_than_nothing():
    # Deviations of the same objects cancel; what stays is that of independent pairs.
    terms, weight = np.array([1.0, -1.0, 1.0, -1.0]), np.full(4, 0.25)
    objects = np.array([0, 0, 1, 1]), np.array([2, 2, 3, 3])
    expected = np.sqrt(4 / 3 * (weight**2).sum())
    assert standard_error(terms, weight, objects) == pytest.approx(expected)


def test_an_error_bound_of_coarse_sums_grows_with_what_is_summed():
    small, _ = kernel_module.coarse_errors(np.array([0.0]), 2)
    assert kernel_module.coarse_errors(np.array([0.0]), 1000)[0] > 10 * small
    assert kernel_module.coarse_errors(np.array([0.0]), 2, 20.0)[0] > 50 * small
    assert kernel_module.coarse_errors(np.array([1e6]), 2)[0] > 1e4 * small


def test_temperatures_and_scores_that_single_precision_cannot_hold_are_exact():
    typical = np.array([1.0, 1e-20, 1e20, 1.0])
    _, limits, _ = kernel_of([[1.0, 0.0]], [[1.0, 0.0]])
    limits = limits._replace(typical_range=typical, largest_range=np.array([1, 1e-20, 1e20, 1e15]))
    assert kernel_module.may_be_coarse(limits, 1 << 20).tolist() == [True, False, False, False]
    assert not kernel_module.may_be_coarse(limits, 10).any()
    betas = np.array([1e-6, 1e-2, 1e2, 1e6])
    assert bounds.coarse_betas(betas, np.ones(4)).tolist() == [False, True, True, False]


def test_the_table_of_mutations_fits_the_code():
    stale = [
        f"{file}: {wrong}"
        for (file, _, _), rows in TABLE.items()
        for wrong, old, _ in rows
        if (Path(pa_select.__file__).parent / file).read_text().count(old) != 1
    ]
    assert not stale
