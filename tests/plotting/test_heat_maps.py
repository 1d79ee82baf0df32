"""The heat maps of agreement matrices and of rank correlations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pa_select import agreement_matrix
from pa_select.plotting import AgreementMatrixDisplay, RankCorrelationDisplay
from papers.measures import rank_correlation

RNG = np.random.default_rng(0)
SIGNAL = 3 * RNG.normal(size=(80, 3))


def matrix_of(n):
    noises = np.linspace(0.2, 3, n)
    return agreement_matrix(
        [SIGNAL + s * RNG.normal(size=SIGNAL.shape) for s in noises], certify=False
    )


@pytest.mark.parametrize("n", [2, 3])
def test_cells(n):
    matrix = matrix_of(n)
    names = [f"environment {i}" for i in range(n)]
    display = AgreementMatrixDisplay.from_result(matrix, names=names)
    drawn = display.image_.get_array()
    assert_array_equal(np.ma.getmaskarray(drawn), np.eye(n, dtype=bool))
    between = ~np.eye(n, dtype=bool)
    assert_allclose(drawn[between], matrix.scores[between])
    assert_array_equal(
        [[text.get_text() for text in row] for row in display.texts_],
        [[f"{value:.2f}" for value in row] for row in matrix.scores],
    )
    for axis in (display.ax_.xaxis, display.ax_.yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == names
    i, j = matrix.worst_pair
    corners = {(round(f.get_x() + 0.46), round(f.get_y() + 0.46)) for f in display.worst_}
    assert corners == {(i, j), (j, i)}
    assert display.ax_.get_xlabel() == display.ax_.get_ylabel() == "sample"
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == f"worst pair: {matrix.worst:.2f}"
    assert display.colorbar_.ax.get_ylabel() == "agreement (nats per pair)"
    assert display.image_.norm.vmin < display.image_.norm.vmax


@pytest.mark.parametrize("n", [2, 12])
def test_values_fit_their_cells_and_are_readable(n):
    display = AgreementMatrixDisplay.from_result(matrix_of(n))
    display.figure_.canvas.draw()
    cell = display.ax_.transData.transform([[0, 0], [1, 1]])
    width = abs(cell[1, 0] - cell[0, 0])
    for (i, j), text in np.ndenumerate(display.texts_):
        assert text.get_window_extent().width < width
        if i != j:
            ground = display.image_.to_rgba(display.scores[i, j])[:3]
            linear = [c / 12.92 if c < 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in ground]
            luminance = np.dot([0.2126, 0.7152, 0.0722], linear)
            high, low = (luminance, 0) if text.get_color() == "black" else (1, luminance)
            assert (high + 0.05) / (low + 0.05) > 3.9


def test_options(ax):
    display = AgreementMatrixDisplay.from_result(matrix_of(3), ax=ax, include_values=False)
    assert display.texts_ is None
    look = {"cmap": "gray", "vmin": 0, "vmax": 2, "text_kw": {"fontsize": 5}}
    display.plot(ax, values_format=".1f", colorbar=False, **look)
    assert display.colorbar_ is None
    assert display.image_.cmap.name == "gray"
    assert display.image_.get_clim() == (0, 2)
    assert display.texts_[0, 1].get_fontsize() == 5
    assert display.texts_[0, 1].get_text() == f"{display.scores[0, 1]:.1f}"
    assert AgreementMatrixDisplay(scores=np.eye(3)).plot(ax).worst_ == []


def test_short_names_lie_flat_and_long_ones_do_not_collide():
    matrix, names = matrix_of(6), [f"environment {i}" for i in range(6)]
    for given, rotation in ((None, 0), (names, 45)):
        display = AgreementMatrixDisplay.from_result(matrix, names=given)
        assert display.ax_.get_xticklabels()[0].get_rotation() == rotation


GAPS = {"lost accuracy": RNG.normal(size=40), "gained log-loss": RNG.normal(size=40)}
MEASURES = {
    "entropy": RNG.normal(size=40) - 3 * GAPS["lost accuracy"],
    "margin": RNG.normal(size=40),
    "constant": np.ones(40),
}


@pytest.fixture(scope="module")
def correlation():
    return rank_correlation(MEASURES, GAPS, n_bootstrap=0)


def test_cells_of_correlations(correlation):
    display = RankCorrelationDisplay.from_result(correlation)
    drawn = display.image_.get_array()
    assert_array_equal(np.ma.getmaskarray(drawn), np.isnan(correlation.tau))
    assert_array_equal(drawn[:2], correlation.tau[:2])
    assert display.image_.get_clim() == (-1, 1)
    written = [[text.get_text() for text in row] for row in display.texts_]
    assert written[0][0] == f"{correlation.tau[0, 0]:.2f}*"
    assert written[0][1] == f"{correlation.tau[0, 1]:.2f}"
    assert written[2] == ["", ""]
    assert display.texts_[0, 0].get_fontweight() == "bold"
    assert display.texts_[1, 0].get_fontweight() == "normal"
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == list(GAPS)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(MEASURES)
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == "adjusted p < 0.05"


@pytest.mark.parametrize(
    ("p_value", "written"), [(None, ["0.00", "-0.20"]), ([[0.06, 0.04]], ["0.00", "-0.20*"])]
)
def test_small_p_values_are_marked_and_no_zero_is_negative(p_value, written, ax):
    display = RankCorrelationDisplay(
        tau=[[-0.001, -0.2]], measures=["m"], gaps=["a", "b"], p_value=p_value
    ).plot(ax)
    assert [text.get_text() for text in display.texts_[0]] == written
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("gap", "measure")
    assert (ax.get_legend() is None) == (p_value is None)
