"""The heat map of rank correlations."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pa_select.assessment import rank_correlation
from pa_select.plotting import RankCorrelationDisplay

RNG = np.random.default_rng(0)
GAPS = {"lost accuracy": RNG.normal(size=40), "gained log-loss": RNG.normal(size=40)}
MEASURES = {
    "entropy": RNG.normal(size=40) - 3 * GAPS["lost accuracy"],
    "margin": RNG.normal(size=40),
    "constant": np.ones(40),
}


@pytest.fixture(scope="module")
def found():
    return rank_correlation(MEASURES, GAPS, n_bootstrap=0)


def test_cells(found):
    display = RankCorrelationDisplay.from_correlation(found)
    drawn = display.image_.get_array()
    assert_array_equal(np.ma.getmaskarray(drawn), np.isnan(found.tau))
    assert_array_equal(drawn[:2], found.tau[:2])
    assert display.image_.get_clim() == (-1, 1)
    written = [[text.get_text() for text in row] for row in display.texts_]
    assert written[0][0] == f"{found.tau[0, 0]:.2f}*"
    assert written[0][1] == f"{found.tau[0, 1]:.2f}"
    assert written[2] == ["", ""]
    assert display.texts_[0, 0].get_fontweight() == "bold"
    assert display.texts_[1, 0].get_fontweight() == "normal"
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == list(GAPS)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(MEASURES)
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == "adjusted p < 0.05"


def test_the_level_decides_what_is_marked(found):
    for level in (1e-30, 1.1):
        display = RankCorrelationDisplay.from_correlation(found, level=level)
        marked = [t.get_text().endswith("*") for t in display.texts_[:2].ravel()]
        assert marked == [level > 1] * 4


@pytest.mark.parametrize("shape", [(1, 1), (3, 12), (30, 4)])
def test_values_fit_their_cells(shape):
    display = RankCorrelationDisplay(
        tau=RNG.uniform(-1, 1, shape),
        measures=[f"product of norms {i}" for i in range(shape[0])],
        gaps=range(shape[1]),
        p_value=np.zeros(shape),
    ).plot()
    display.figure_.canvas.draw()
    cell = np.abs(np.diff(display.ax_.transData.transform([[0, 0], [1, 1]]), axis=0)[0])
    for text in display.texts_.ravel():
        extent = text.get_window_extent()
        assert extent.width < cell[0]
        assert extent.height < 1.1 * cell[1]


def test_options(found, ax):
    display = RankCorrelationDisplay.from_correlation(found, ax=ax, include_values=False)
    assert display.ax_ is ax
    assert display.texts_ is None
    display.plot(
        ax,
        values_format=".1f",
        cmap="gray",
        colorbar=False,
        im_kw={"vmin": -0.5, "vmax": 0.5},
        text_kw={"fontsize": 5},
    )
    assert display.colorbar_ is None
    assert display.image_.cmap.name == "gray"
    assert display.image_.get_clim() == (-0.5, 0.5)
    assert display.texts_[1, 0].get_fontsize() == 5
    assert display.texts_[1, 0].get_text() == f"{found.tau[1, 0]:.1f}"


def test_without_p_values_nothing_is_marked(ax):
    display = RankCorrelationDisplay(tau=[[0.5]], measures=["m"], gaps=["g"]).plot(ax)
    assert display.texts_[0, 0].get_text() == "0.50"
    assert ax.get_legend() is None


def test_errors(ax):
    with pytest.raises(TypeError, match="correlation: expected a RankCorrelation, got dict"):
        RankCorrelationDisplay.from_correlation({}, ax=ax)
    with pytest.raises(ValueError, match=r"tau: expected shape \(2, 1\) by the names"):
        RankCorrelationDisplay(tau=[[0.5]], measures=["m", "n"], gaps=["g"]).plot(ax)
    with pytest.raises(ValueError, match=r"p_value: expected shape \(1, 1\), got \(1,\)"):
        RankCorrelationDisplay(tau=[[0.5]], measures=["m"], gaps=["g"], p_value=[1]).plot(ax)
    assert not ax.images


def test_axes_are_labelled_and_no_zero_is_negative(ax):
    display = RankCorrelationDisplay(
        tau=[[-0.001, -0.2]], measures=["m"], gaps=["a", "b"], p_value=[[0.5, 0.01]]
    ).plot(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("gap", "measure")
    assert [text.get_text() for text in display.texts_[0]] == ["0.00", "-0.20*"]
