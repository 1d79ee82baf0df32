"""The kernel as a curve."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pa_select import pa_kernel, posterior_agreement
from pa_select.plotting import AgreementCurveDisplay

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(300, 4))
NOISY = LOGITS + RNG.normal(size=(300, 4))


def draw(a, b, prior="uniform", sample_weight=None, **options):
    result = posterior_agreement(a, b, prior=prior, sample_weight=sample_weight)
    return AgreementCurveDisplay.from_result(result, **options)


@pytest.mark.parametrize("prior", ["uniform", "marginal", [0.1, 0.2, 0.3, 0.4]])
def test_the_curve_is_the_kernel(prior, ax):
    weight = RNG.integers(0, 3, 300).astype(float)
    display = draw(LOGITS, NOISY, prior=prior, sample_weight=weight, ax=ax, name="this")
    result = posterior_agreement(LOGITS, NOISY, prior=prior, sample_weight=weight)
    betas, values = display.line_.get_data()
    assert_allclose(values, pa_kernel(LOGITS, NOISY, betas, prior=prior, sample_weight=weight))
    assert ax.get_xscale() == "log"
    # Rise and fall, with the maximum on the curve.
    at_zero = pa_kernel(LOGITS, NOISY, 0, prior=prior)
    rise = result.score - at_zero
    assert abs(values[0] - at_zero) < 0.03 * rise
    assert values[-1] < at_zero
    assert values[-1] > at_zero - 0.5 * rise
    assert_allclose(betas[values.argmax()], result.beta)
    assert_array_equal(display.optimum_.get_data(), ([result.beta], [result.score]))
    assert_array_equal(display.bound_.get_ydata(), 2 * [result.upper_bound])
    assert_array_equal(display.trained_.get_xdata(), [1, 1])


@pytest.mark.parametrize("scale", [1e-9, 1e-2, 1, 30, 1e9])
@pytest.mark.parametrize("case", ["interior", "infinite", "zero"])
def test_any_scale_of_the_scores(scale, case, ax):
    other = {"interior": NOISY, "infinite": LOGITS, "zero": -LOGITS}[case]
    display = draw(scale * LOGITS, scale * other, ax=ax)
    betas, values = display.line_.get_data()
    rise = {"interior": display.score, "infinite": np.log(4), "zero": np.log(4) / 2}[case]
    assert abs(values[0]) < 0.03 * rise
    if case == "infinite":
        assert values[-1] > 0.97 * rise
    else:
        assert -1.5 * rise < values[-1] < 0
    assert np.ptp(values) > 0.9 * rise
    shown = betas[0] / 101 < 1 < betas[-1] * 101
    assert (display.trained_ is not None) == shown


def test_an_optimum_at_an_edge_is_marked_there(ax):
    infinite = draw(LOGITS, LOGITS, ax=ax)
    assert infinite.beta == np.inf
    zero = draw(LOGITS, -LOGITS, ax=ax)
    assert zero.beta == 0
    for display, marker, symbol in ((infinite, ">", r"$\infty$"), (zero, "<", "0")):
        assert display.optimum_.get_marker() == marker
        assert display.optimum_.get_label().endswith(f"= {symbol}")


@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")  # nearly one class
def test_both_modes_are_shown(ax):
    number, margin_a, margin_b = (292, 863, 15), (44.0475, 0.10787, 1.10364), (1, 1, -1)
    a = np.column_stack([np.repeat(margin_a, number), np.zeros(sum(number))])
    b = a * np.repeat(margin_b, number)[:, None]
    betas, values = draw(a, b, ax=ax).line_.get_data()
    peaks = betas[1:-1][(values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])]
    assert_allclose(peaks, [0.2336, 20.214], rtol=0.05)


@pytest.mark.filterwarnings("ignore:.*expected pairs of which both rows")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros((5, 3)), np.zeros((5, 3))),
        ([[0, -np.inf]], [[-np.inf, 0]]),
        ([[0, -np.inf], [1, 2]], [[1, 2], [0, 3]]),
        ([[1e-200, 0]], [[1e-200, 0]]),
        ([[1e12, 0], [0, 1e-12]], [[1e12, 0], [0, -1e-12]]),
    ],
    ids=["constant", "disjoint", "impossible class", "tiny", "two scales"],
)
def test_degenerate_scores(a, b, ax):
    display = draw(a, b, ax=ax)
    ax.figure.canvas.draw()
    assert len(display.betas) >= 2
    assert_array_equal(display.line_.get_ydata(), pa_kernel(a, b, display.betas))


def test_what_is_added_to_a_row_does_not_change_the_curve(ax):
    moved = LOGITS + 2.0**30 * np.arange(300)[:, None]
    plain, display = (draw(scores, scores, ax=ax) for scores in (LOGITS, moved))
    assert_allclose(display.betas, plain.betas, rtol=1e-5)


def test_betas_of_ones_own_and_no_upper_bound(ax):
    display = draw(LOGITS, NOISY, betas=[10, 1, 0.1], ax=ax)
    betas, values = display.line_.get_data()
    assert_array_equal(betas, [0.1, 1, 10])
    assert_allclose(values, pa_kernel(LOGITS, NOISY, [0.1, 1, 10]))
    known = {"betas": betas, "kernel": values, "beta": 1.0, "score": 0.3}
    assert AgreementCurveDisplay(**known).plot(ax).bound_ is None
