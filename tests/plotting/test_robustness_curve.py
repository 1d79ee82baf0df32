"""Robustness curves as lines."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pa_select import robustness_curve
from pa_select.plotting import RobustnessCurveDisplay
from pa_select.plotting.robustness_curve import LABELS
from pa_select.shifts import GaussianNoise

X, Y = load_digits(return_X_y=True)
X = X / 16
TEST, OTHERS = slice(600, 800), {"estimator", "power", "ratio", "n_pairs"}
MODELS = {
    "linear": LogisticRegression(max_iter=200).fit(X[:600], Y[:600]),
    "naive": GaussianNB().fit(X[:600], Y[:600]),
}
RATIOS, POWERS = [0.0, 1.0, 0.1 + 0.2, 0.6], [0.4, 0.1, 0.2]
DRAW = RobustnessCurveDisplay.from_result
SHARES = ["afr_pred", "afr_true", "clean_accuracy", "shifted_accuracy"]
LABEL = "agreement (nats per pair),\nmarginal prior"


def measure(**options):
    given = {"shift": GaussianNoise(0.3), "powers": POWERS, "ratios": RATIOS} | options
    return robustness_curve(MODELS, X[TEST], Y[TEST], **given)


@pytest.fixture(scope="module")
def curve():
    return measure()


def rows_of(curve, **wanted):
    """The rows of some values, in the order of ratio and power."""
    mask = np.ones(len(curve.table["pa"]), dtype=bool)
    for name, value in wanted.items():
        mask &= curve.table[name] == value
    order = np.lexsort([curve.table[name][mask] for name in ("ratio", "power")])
    return {name: column[mask][order] for name, column in curve.table.items()}


def drawn(container):
    return container.lines[0].get_data()


def half_lengths(container):
    (bars,) = container.lines[2]
    return [np.diff(segment[:, 1])[0] / 2 for segment in bars.get_segments()]


@pytest.mark.parametrize("x", ["ratio", "power"])
def test_agreement_with_its_standard_error(curve, x, ax):
    other, value = {"ratio": ("power", 0.2), "power": ("ratio", 0.6)}[x]
    display = DRAW(curve, at={other: value}, ax=ax)
    assert list(display.errorbars_[0]) == list(MODELS)
    for name, container in display.errorbars_[0].items():
        rows = rows_of(curve, estimator=name, **{other: value})
        assert_array_equal(drawn(container)[0], np.sort(rows[x]))
        known = np.isfinite(rows["pa"])
        assert_array_equal(drawn(container)[1][known], rows["pa"][known])
        assert_allclose(half_lengths(container), rows["standard_error"], atol=1e-12)
    assert ax.get_ylabel() == LABEL


@pytest.mark.parametrize(
    ("prior", "column", "expected"),
    [
        ("marginal", "pa", {r"upper limit ($\log K$)": np.log(10), "constant model (0)": 0}),
        ("marginal", "pa_uniform", {"upper limit, constant model": np.log(10)}),
        ("uniform", "pa", {"upper limit, constant model": np.log(10)}),
        (np.array([0.1] * 9 + [0.05]) / 0.95, "pa", {"upper limit": np.log(19)}),
        ("marginal", "pa_change", {}),
        ("marginal", "beta", {}),
        ("uniform", "shifted_accuracy", {}),
    ],
)
def test_lines_and_labels_of_other_priors_and_columns(prior, column, expected, ax):
    curve = measure(prior=prior, powers=0.2, ratios=1.0)
    (lines,) = DRAW(curve, column=column, ax=ax).references_
    found = {line.get_label(): line.get_ydata()[0] for line in lines}
    assert found == pytest.approx(expected)
    named = prior if isinstance(prior, str) else "given"
    named = {"pa_uniform": "uniform", "shifted_accuracy": None}.get(column, named)
    lines = LABELS[column] if named is None else f"{LABELS[column]},\n{named} prior"
    assert ax.get_ylabel() == lines


@pytest.mark.parametrize(
    ("column", "error"),
    [
        ("accuracy_drop", "accuracy_drop_se"),
        ("pa_uniform", "standard_error_uniform"),
        ("pa_change", "pa_change_se"),
        ("log_loss_gap", "log_loss_gap_se"),
        ("kl", "kl_se"),
        *((share, None) for share in SHARES),
    ],
)
def test_means_over_rows_have_their_errors_and_shares_binomial_ones(curve, column, error, ax):
    display = DRAW(curve, column=column, at={"power": 0.4}, ax=ax)
    for name, container in display.errorbars_[0].items():
        rows = rows_of(curve, estimator=name, power=0.4)
        length = rows[error or column]
        if error is None:
            length = np.sqrt(length * (1 - length) / 199)
        assert_array_equal(drawn(container)[1], rows[column])
        assert_allclose(half_lengths(container), length, atol=1e-12)


def test_every_measure_can_be_drawn(curve):
    errors = {name for name in curve.table if name.endswith("_se")}
    assert set(LABELS) == set(curve.table) - OTHERS - errors
    for column in set(LABELS) - {"success_rate"}:
        display = DRAW(curve, column=column, at={"ratio": 0.6}, ax=Figure().subplots())
        for name, container in display.errorbars_[0].items():
            values = rows_of(curve, estimator=name, ratio=0.6)[column]
            inside = np.isfinite(values) & ((values > 0) | (column != "beta"))
            assert_array_equal(drawn(container)[1][inside], values[inside])


def test_a_panel_for_each_power(curve):
    display = DRAW(curve)
    assert display.panels == sorted(POWERS)
    for panel, power in enumerate(sorted(POWERS)):
        assert display.axes_[panel].get_title() == f"power of the shift: {power}"
        for name in MODELS:
            container = display.errorbars_[panel][name]
            assert container.lines[0].axes is display.axes_[panel]
            rows = rows_of(curve, estimator=name, power=power)
            assert_array_equal(drawn(container), [rows["ratio"], rows["pa"]])


def test_what_varies_is_the_axis(curve, ax):
    def small(**options):
        return robustness_curve(MODELS["linear"], X[600:640], shift=GaussianNoise(0.3), **options)

    assert DRAW(small(ratios=[0.5, 1]), ax=ax).x_name == "ratio"
    assert DRAW(small(powers=[0.1, 0.2]), ax=ax).x_name == "power"
    assert ax.get_xlabel() == "power of the shift"
    assert DRAW(curve, at={"ratio": 1}, ax=ax).x_name == "power"
    assert DRAW(curve).x_name == "ratio"
