"""The interval of the score at a new site: the formula by hand, what it holds, and its errors."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from pa_select import new_site_interval

INF, EYE = math.inf, np.eye(3)


def by_hand(values, confidence_level=0.95):
    k, total = len(values), sum(values)
    mean = total / k
    spread = math.sqrt(sum((x - mean) ** 2 for x in values) / (k - 1))
    width = stats.t.ppf((1 + confidence_level) / 2, k - 1) * spread * math.sqrt(1 + 1 / k)
    return mean - width, mean + width


@pytest.mark.parametrize(
    ("bounds", "scores", "there", "back"),
    [
        ((0, 1), [0.6, 0.9, 0.7, 0.8], lambda x: math.log(x / (1 - x)), stats.logistic.cdf),
        ((-1, 1), [-0.2, 0.9, 0.5], lambda x: 2 * math.atanh(x), lambda z: math.tanh(z / 2)),
        ((0, INF), [2.0, 3.5, 1.0], math.log, math.exp),
        ((-INF, 0), [-2.0, -3.5, -1.0], lambda x: -math.log(-x), lambda z: -math.exp(-z)),
        ((-INF, 1), [0.5, -3.5, 0.9], lambda x: -math.log(1 - x), lambda z: 1 - math.exp(-z)),
        ((-INF, INF), [2.0, -3.5, 1.0], float, float),
    ],
    ids=["0 to 1", "-1 to 1", "from 0", "up to 0", "up to 1", "any"],
)
def test_the_formula_on_the_scale_of_the_bounds(bounds, scores, there, back):
    for level in (0.95, 0.8):
        expected = [back(end) for end in by_hand([there(x) for x in scores], level)]
        found = new_site_interval(scores, bounds=bounds, confidence_level=level)
        assert found == pytest.approx(expected, rel=1e-9)


def test_sizes_by_hand():
    scores, sizes = [0.5, 0.8, 0.9, 0.75], [10, 200, 50, 80]
    right = [x * n + 0.5 for x, n in zip(scores, sizes, strict=True)]
    rates = [h / (n + 1) for h, n in zip(right, sizes, strict=True)]
    logits = np.array([math.log(p / (1 - p)) for p in rates])
    rate = sum(p * n for p, n in zip(rates, sizes, strict=True)) / sum(sizes)
    binomial = [1 / (n * rate * (1 - rate)) for n in sizes]

    def found(variance):
        weights = [1 / (variance + v) for v in binomial]
        k = sum(weights) ** 2 / sum(w * w for w in weights)
        mean = np.average(logits, weights=weights)
        return mean, np.average((logits - mean) ** 2, weights=weights) * k / (k - 1), k

    # The variance is the one that its own weights yield.
    variance = optimize.brentq(lambda x: found(x)[1] - x, 1e-6, 10)
    mean, _, k = found(variance)
    width = stats.t.ppf(0.975, k - 1) * math.sqrt(variance * (1 + 1 / k))
    expected = stats.logistic.cdf([mean - width, mean + width])
    assert new_site_interval(scores, sizes) == pytest.approx(expected, rel=1e-3)


def test_a_site_of_few_rows_hardly_widens_the_interval():
    many = [0.80, 0.84, 0.82, 0.78, 0.82, 0.79]
    low, high = new_site_interval(many, [200] * 6)
    for few, n in ((0.0, 1), (1.0, 1), (0.25, 4)):
        with_few = new_site_interval([*many, few], [200] * 6 + [n])
        as_large = new_site_interval([*many, few], [200] * 7)
        assert high - low < with_few[1] - with_few[0] < 0.5 * (as_large[1] - as_large[0])
        assert with_few[0] > 0.55


def test_sizes_of_no_difference_leave_the_error_of_all_rows():
    low, high = new_site_interval([0.9] * 3, [10] * 3)
    logit = math.log(9.5 / 1.5)
    error = 1.959964 / math.sqrt(30 * (9.5 / 11) * (1.5 / 11))
    assert [low, high] == pytest.approx(stats.logistic.cdf([logit - error, logit + error]), 1e-5)


def test_scores_at_a_bound():
    low, high = new_site_interval([1.0, 1.0, 1.0], [20, 20, 20])
    assert 0.8 < low < 1 == high
    assert new_site_interval([0, 0, 0], [20, 20, 20]) == pytest.approx((0, 1 - low))
    # The interval reaches the bound that one site reaches, if it does not have few rows.
    low, high = new_site_interval([1.0, 0.9, 0.95, 0.85], [40, 50, 50, 50])
    assert 0.1 < low < 0.85 < high == 1
    assert new_site_interval([1.0, 0.9, 0.95, 0.85], [2, 50, 50, 50])[1] < 1
    assert new_site_interval([0, 1, 1, 0], [1, 1, 1, 1]) == (0, 1)
    # Without sizes the logit is unknown: the interval is that of the scores, cut at the bounds.
    scores = [1.0, 0.8, 0.9]
    assert new_site_interval(scores) == pytest.approx((by_hand(scores)[0], 1))
    low, high = new_site_interval([0.0, 2.0, 1.0], bounds=(0, INF))
    assert (low, high) == pytest.approx((0, by_hand([0, 2, 1])[1]))


def test_sites_that_differ_much_say_nothing_of_one_end():
    low, high = new_site_interval([1e-9, 1e150, 3e200], bounds=(0, INF))
    assert 0 <= low < high == INF


def test_symmetry_and_order():
    scores, sizes = np.array([0.55, 0.9, 0.7, 0.8, 1.0]), np.array([30, 20, 50, 8, 3])
    low, high = new_site_interval(scores, sizes)
    mirrored = new_site_interval(1 - scores, sizes)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high))
    assert new_site_interval(scores[::-1], sizes[::-1]) == pytest.approx((low, high))
    percent = new_site_interval(100 * scores, sizes, bounds=(0, 100))
    assert percent == pytest.approx((100 * low, 100 * high))
    narrow = new_site_interval(scores[:4], sizes[:4], confidence_level=0.5)
    wide = new_site_interval(scores[:4], sizes[:4])
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize("n_sites", [3, 5, 12])
@pytest.mark.parametrize("heavy", [False, True])
def test_coverage(n_sites, heavy):
    rng = np.random.default_rng([n_sites, heavy])
    held = []
    for _ in range(600):
        unit = rng.standard_t(3, n_sites + 1) / 3**0.5 if heavy else rng.normal(size=n_sites + 1)
        truth = stats.logistic.cdf(1.4 + 0.5 * unit)
        sizes = rng.integers(30, 200, n_sites)
        low, high = new_site_interval(rng.binomial(sizes, truth[:-1]) / sizes, sizes)
        held.append(low <= truth[-1] <= high)
    # Of 600 such intervals 93 % to 100 % hold, where errors of the mean hold 40 to 65 %.
    assert np.mean(held) > 0.92


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.8, 0.9],), {}, "at least 3 sites, got 2: .* three are needed"),
        (([0.5, 1.3, 0.7],), {}, "scores: expected scores between the bounds 0 and 1, got 1.3"),
        (([0.5, 0.6, 0.7], [0, 2, 3]), {}, "sizes: expected at least one row at each site, got 0"),
        (([1, 2, 3], [1, 2, 3]), {"bounds": (0, INF)}, "sizes: expected None"),
    ],
)
def test_errors(arguments, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        new_site_interval(*arguments, **options)


def test_sizes_are_looked_up_by_the_index_of_the_scores():
    scores = pd.Series([0.9, 0.8, 0.95, 0.6], index=list("abcd"))
    sizes = pd.Series([200, 100, 30, 10], index=list("acbd"))
    expected = new_site_interval(scores.to_numpy(), [200, 30, 100, 10])
    assert new_site_interval(scores, sizes) == pytest.approx(expected)
    assert new_site_interval(scores, sizes[list("dcba")]) == pytest.approx(expected)
    by_position = new_site_interval(scores, sizes.to_numpy())
    assert by_position != expected
    # Of an index that has nothing in common the order is the only thing known.
    unnamed = new_site_interval(scores, sizes.reset_index(drop=True))
    assert unnamed == pytest.approx(by_position)
    with pytest.raises(ValueError, match="^sizes: .* index of scores"):
        new_site_interval(scores, sizes.rename({"d": "e"}))


@pytest.mark.parametrize(("score", "bounds"), [(1.0, (0, 1)), (0.7, (0, 1)), (3.0, (0, INF))])
def test_equal_scores_without_sizes_give_a_warning(score, bounds):
    with pytest.warns(UserWarning, match=f"^scores: .* got {score:g} at all 3 .*no width") as said:
        assert new_site_interval([score] * 3, bounds=bounds) == pytest.approx((score, score))
    assert ("Give the sizes" in str(said[0].message)) == (bounds == (0, 1))


def test_the_bounds_of_errors_of_either_sign_are_named():
    with pytest.raises(ValueError, match=r"bounds=\(-numpy.inf, 0\) for errors.* no sizes"):
        new_site_interval([-3.1, -2.7, -2.9, -3.4], [40, 40, 40, 40])
    with pytest.raises(ValueError, match=r"bounds=\(0, numpy.inf\) for errors"):
        new_site_interval([3.1, 2.7, 2.9, 3.4])
    low, high = new_site_interval([-3.1, -2.7, -2.9, -3.4], bounds=(-np.inf, 0))
    assert low < -3 < high < 0
