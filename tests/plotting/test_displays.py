"""What all displays have in common."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax

from pa_select import agreement_matrix, posterior_agreement
from pa_select.plotting import (
    AgreementCurveDisplay,
    AgreementMatrixDisplay,
    CalibrationUnderShiftDisplay,
    ConfidenceDisplay,
    DecompositionDisplay,
    EpochsDisplay,
    ExpectedScoreDisplay,
    PASearchDisplay,
    RankCorrelationDisplay,
    RobustnessCurveDisplay,
)
from pa_select.plotting.axes import legend_above, number

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(100, 4))
NOISY = LOGITS + RNG.normal(size=(100, 4))
RESULT = posterior_agreement(LOGITS, NOISY)
SURE, LESS_SURE = softmax(2 * NOISY, axis=1), softmax(NOISY, axis=1)
MAKERS = {
    "ranks": lambda ax=None: RankCorrelationDisplay(
        tau=[[0.5, -0.2]], measures=["m"], gaps=["a", "b"], p_value=[[0.01, 0.5]]
    ).plot(ax),
    "curve": lambda ax=None: AgreementCurveDisplay.from_result(RESULT, ax=ax, name="a"),
    "matrix": lambda ax=None: AgreementMatrixDisplay.from_matrix(
        agreement_matrix([LOGITS, NOISY], certify=False), ax=ax
    ),
    "parts": lambda ax=None: DecompositionDisplay.from_result(RESULT, LOGITS.argmax(1), ax=ax),
    "confidence": lambda ax=None: ConfidenceDisplay.from_results(
        {"a": RESULT, "b": RESULT}, ax=ax
    ),
    "robustness": lambda ax=None: RobustnessCurveDisplay(
        x=[0.1, 1], values=[[[0.3, np.inf]]], names=["a"], panels=[0.2]
    ).plot(ax),
    "search": lambda ax=None: PASearchDisplay(
        score=[0.8, 0.9], score_error=[0.1, 0.1], agreement=[0.3, 0.4], eligible=[False, True]
    ).plot(ax),
    "expected": lambda ax=None: ExpectedScoreDisplay(
        score=[0.7, 0.8],
        standard_error=[0.1, 0.05],
        low=[0.5, 0.6],
        high=[0.9, 0.9],
        claimed=[0.9, 0.95],
        names=["a classifier with a rather long name, of sixty characters 1", "b"],
        best_index=1,
        adapted=[True, False],
        true_score=[0.6, 0.75],
    ).plot(ax),
    "calibration": lambda ax=None: CalibrationUnderShiftDisplay.from_predictions(
        SURE, LESS_SURE, LOGITS.argmax(1), ax=ax
    ),
    "confidences": lambda ax=None: CalibrationUnderShiftDisplay.from_predictions(
        SURE, LESS_SURE, ax=ax
    ),
    "epochs": lambda ax=None: EpochsDisplay.from_history(
        [{"pa": 0.1, "valid_acc": 0.7}, {"pa": 0.4, "valid_acc": 0.6, "pa_best": True}], ax=ax
    ),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("style", ["default", "dark_background", "grayscale"])
def test_new_figure_and_given_axes(make, style, ax):
    with plt.style.context(style):
        display = make()
        assert display.ax_ in display.figure_.axes
        assert plt.get_fignums() == [display.figure_.number]
        display.figure_.draw_without_rendering()
        first = {name for name in vars(display) if name.endswith("_")}
        # Again, elsewhere, and twice there.
        for _ in range(2):
            assert display.plot(ax) is display
            assert display.ax_ is ax
            assert display.figure_ is ax.figure
        assert display.plot(ax=ax) is display
        assert {name for name in vars(display) if name.endswith("_")} == first
        ax.figure.draw_without_rendering()
        assert len(plt.get_fignums()) == 1
        assert ax.get_title() == ""
        assert ax.get_legend() is not None or display.ax_right_.get_legend() is not None
    assert make(Figure().subplots()).ax_ is not ax


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_only_axes_are_drawn_into(make):
    with pytest.raises(TypeError, match="ax: expected matplotlib Axes or None, got ndarray"):
        make(plt.subplots(1, 2)[1])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_label_is_cut_off(make):
    figure = make().figure_
    figure.draw_without_rendering()
    drawn = figure.get_tightbbox().bounds
    width, height = figure.get_size_inches()
    assert drawn[0] >= -0.01
    assert drawn[1] >= -0.01
    assert drawn[0] + drawn[2] <= width + 0.01
    assert drawn[1] + drawn[3] <= height + 0.01


def test_matplotlib_is_imported_when_something_is_drawn():
    code = (
        "import sys, pa_select.plotting as p\n"
        "assert not {'matplotlib', 'torch', 'skorch'} & set(sys.modules)\n"
        "sys.modules['matplotlib'] = None\n"
        "sys.modules['matplotlib.pyplot'] = None\n"
        "for make in (\n"
        "    lambda: p.AgreementCurveDisplay.from_predictions('nothing', 'at all'),\n"
        "    lambda: p.AgreementCurveDisplay.from_estimator(None, None, None),\n"
        "    lambda: p.AgreementMatrixDisplay.from_matrix(None),\n"
        "    lambda: p.DecompositionDisplay.from_result(None),\n"
        "    lambda: p.DecompositionDisplay.from_decompositions(None),\n"
        "    lambda: p.CalibrationUnderShiftDisplay.from_estimator(None, None),\n"
        "    lambda: p.CalibrationUnderShiftDisplay.from_predictions(None, None),\n"
        "    lambda: p.ConfidenceDisplay.from_result(None),\n"
        "    lambda: p.ConfidenceDisplay.from_results(None),\n"
        "    lambda: p.RobustnessCurveDisplay.from_curve(None),\n"
        "    lambda: p.RobustnessCurveDisplay.from_estimators(None, None, shift=None),\n"
        "    lambda: p.PASearchDisplay.from_search(None),\n"
        "    lambda: p.ExpectedScoreDisplay.from_search(None),\n"
        "    lambda: p.ExpectedScoreDisplay.from_scores(None),\n"
        "    lambda: p.EpochsDisplay.from_history(None),\n"
        "    lambda: p.EpochsDisplay(epochs=[1], agreement=[0.1]).plot(),\n"
        "):\n"
        "    try:\n"
        "        make()\n"
        "    except ImportError as error:\n"
        "        assert 'pip install \"pa-select[plot]\"' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError\n"
        "assert 'torch' not in sys.modules  # before any work\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0049, "1.00"),
        (0.11449, "0.114"),
        (123.4, "123"),
        (0, "0"),
        (2.28e5, r"$2.28 \times 10^{5}$"),
        (np.inf, r"$\infty$"),
    ],
)
def test_numbers_in_labels(value, text):
    assert number(value) == text


def test_a_legend_has_as_many_columns_as_fit(ax):
    lines = [ax.plot([0, 1], label=f"line {i}")[0] for i in range(4)]
    assert legend_above(ax, lines)._ncols == 4
    lines[2].set_label("a line " + 5 * "with a long name ")
    assert legend_above(ax, lines)._ncols == 1
    lines[2].set_label("a line with a name")
    assert legend_above(ax, lines, fontsize=20)._ncols < legend_above(ax, lines)._ncols
