"""The heat map of an agreement matrix."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from pa_select import agreement_matrix
from pa_select.plotting import AgreementMatrixDisplay

RNG = np.random.default_rng(0)
SIGNAL = 3 * RNG.normal(size=(80, 3))


def matrix_of(n):
    noises = np.linspace(0.2, 3, n)
    return agreement_matrix(
        [SIGNAL + s * RNG.normal(size=SIGNAL.shape) for s in noises], certify=False
    )


@pytest.mark.parametrize("n", [2, 3, 12])
def test_cells(n):
    matrix = matrix_of(n)
    names = [f"environment {i}" for i in range(n)]
    display = AgreementMatrixDisplay.from_matrix(matrix, names=names)
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
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == f"worst pair: {matrix.worst:.2f}"
    assert display.colorbar_.ax.get_ylabel() == "agreement (nats per pair)"
    assert display.image_.norm.vmin < display.image_.norm.vmax


@pytest.mark.parametrize("n", [2, 6, 12])
def test_values_fit_their_cells_and_are_readable(n):
    display = AgreementMatrixDisplay.from_matrix(matrix_of(n))
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
    display = AgreementMatrixDisplay.from_matrix(matrix_of(3), ax=ax, include_values=False)
    assert display.texts_ is None
    display.plot(
        ax,
        values_format=".1f",
        cmap="gray",
        colorbar=False,
        im_kw={"vmin": 0, "vmax": 2},
        text_kw={"fontsize": 5},
    )
    assert display.colorbar_ is None
    assert display.image_.cmap.name == "gray"
    assert display.image_.get_clim() == (0, 2)
    assert display.texts_[0, 1].get_fontsize() == 5
    assert display.texts_[0, 1].get_text() == f"{display.scores[0, 1]:.1f}"
    assert AgreementMatrixDisplay(scores=np.eye(3)).plot(ax).worst_ == []


def test_axes_say_what_rows_and_columns_are(ax):
    matrix = matrix_of(3)
    display = AgreementMatrixDisplay.from_matrix(matrix, kind="environment", ax=ax)
    assert ax.get_xlabel() == ax.get_ylabel() == "environment"
    display.plot(other := Figure().subplots())
    assert other.get_xlabel() == other.get_ylabel() == "environment"
    AgreementMatrixDisplay.from_matrix(matrix, ax=ax)
    assert ax.get_xlabel() == ax.get_ylabel() == "sample"


def test_short_names_lie_flat_and_long_ones_do_not_collide():
    matrix = matrix_of(12)
    flat = AgreementMatrixDisplay.from_matrix(matrix)
    steep = AgreementMatrixDisplay.from_matrix(
        matrix, names=[f"environment {i}" for i in range(12)]
    )
    assert flat.ax_.get_xticklabels()[0].get_rotation() == 0
    assert steep.ax_.get_xticklabels()[0].get_rotation() == 45


def test_errors(ax):
    with pytest.raises(ValueError, match="names: expected one for each of 3 samples, got 2"):
        AgreementMatrixDisplay.from_matrix(matrix_of(3), names=["a", "b"], ax=ax)
    with pytest.raises(TypeError, match="matrix: expected an AgreementMatrix, got ndarray"):
        AgreementMatrixDisplay.from_matrix(np.eye(3), ax=ax)
    assert not ax.images
