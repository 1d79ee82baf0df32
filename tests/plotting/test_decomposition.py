"""Contributions as bars."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pa_select import posterior_agreement
from pa_select.plotting import DecompositionDisplay

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 200)
LOGITS = 2 * np.eye(3)[Y] + RNG.normal(size=(200, 3))
WEIGHT = RNG.integers(0, 3, 200).astype(float)


def result_of(noise, **options):
    other = LOGITS + noise * np.random.default_rng(1).normal(size=(200, 3))
    return posterior_agreement(LOGITS, other, **options)


def heights(bars):
    return [bar.get_height() for bar in bars]


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_bars_add_up_to_the_agreement(weight, ax):
    result = result_of(1.0, sample_weight=weight)
    display = DecompositionDisplay.from_result(result, Y, ax=ax)
    parts = result.decompose(Y)
    size = 200 if weight is None else weight.sum()
    (bars,) = display.bars_
    drawn = heights(bars)
    assert_allclose(drawn[:3], [part.total / size for part in parts.values()])
    assert_allclose(drawn[3], result.score)
    approximate = [part.approximate / size for part in parts.values()]
    x, y = display.approximations_.get_data()
    assert_allclose(y, [*approximate, sum(approximate)])
    assert_allclose(x, [bar.get_x() + bar.get_width() / 2 for bar in bars])
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks[0] == f"agree, right\n{parts['agree_right'].n_pairs} pairs"
    assert ticks[3] == f"sum\n{result.n_pairs} pairs"


def test_without_labels_nothing_is_approximate(ax):
    result = result_of(1.0)
    display = DecompositionDisplay.from_result(result, ax=ax)
    assert len(display.bars_[0]) == 3
    assert display.approximations_ is None
    assert ax.get_legend() is None
    assert (
        DecompositionDisplay.from_result(result_of(1, prior="marginal"), Y).approximations_ is None
    )


def test_a_sum_that_lacks_a_part_is_not_drawn(ax):
    display = DecompositionDisplay(
        groups=["a", "b"], contributions=[[1, 2]], approximations=[[1, np.nan]]
    ).plot(ax)
    assert_allclose(display.approximations_.get_ydata(), [1, np.nan, np.nan])


def test_several_models_side_by_side(ax):
    results = {f"noise {noise}": result_of(noise, sample_weight=WEIGHT) for noise in (0.5, 1, 2)}
    display = DecompositionDisplay.from_result(results, Y, ax=ax)
    assert_allclose(
        [heights(bars)[3] for bars in display.bars_], [r.score for r in results.values()]
    )
    assert len(display.approximations_.get_xdata()) == 12
    spans = sorted((b.get_x(), b.get_x() + b.get_width()) for bars in display.bars_ for b in bars)
    assert all(left[1] <= right[0] + 1e-9 for left, right in zip(spans, spans[1:], strict=False))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [*results, "approximation of the thesis"]
    assert len({bars[0].get_hatch() for bars in display.bars_}) == 3
    assert len({bars[0].get_facecolor() for bars in display.bars_}) == 3
