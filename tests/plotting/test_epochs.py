"""The course of a training."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from skorch import NeuralNetClassifier

from pa_select import PAEarlyStopping, PAScoring
from pa_select.plotting import EpochsDisplay

X, Y = load_iris(return_X_y=True)
X = X.astype("float32")
OTHER = X + np.random.default_rng(0).normal(scale=0.5, size=X.shape).astype("float32")
HISTORY = [
    {"epoch": e, "pa": pa, "pa_kept": kept, "valid_acc": acc, "shifted": acc - 0.1}
    for e, pa, kept, acc in zip(
        range(1, 6),
        (0.1, np.nan, 0.5, 0.4, 0.3),
        (1, 1, 3, 3, 3),
        np.linspace(0.4, 0.8, 5),
        strict=True,
    )
]
DRAW = EpochsDisplay.from_result


def train(callback, **options):
    torch.manual_seed(0)
    return NeuralNetClassifier(
        lambda: torch.nn.Linear(4, 3),
        criterion=torch.nn.CrossEntropyLoss,
        callbacks=[("agreement", callback)],
        max_epochs=6,
        lr=0.05,
        verbose=0,
        **options,
    ).fit(X, Y)


@pytest.mark.parametrize("callback", [PAScoring, PAEarlyStopping])
def test_a_net(callback, ax):
    net = train(callback((X, OTHER), every=2))
    display = DRAW(net, ax=ax)
    scored = np.arange(2, len(net.history) + 1, 2)
    assert_array_equal(display.line_.get_xdata(), scored)
    assert_array_equal(display.line_.get_ydata(), np.array(net.history[:, "pa"])[scored - 1])
    (line,) = display.lines_.values()
    assert line.axes is display.ax_right_
    assert_array_equal(line.get_ydata(), net.history[:, "valid_acc"])
    kept = dict(net.callbacks_)["agreement"].selector_.best_epoch
    assert_array_equal(np.ravel(display.kept_.get_data()), [kept, net.history[kept - 1, "pa"]])


def test_the_kept_epoch_is_the_last_one_recorded(ax):
    """The guard may go back from the last epoch that was the best when it ended."""
    kept = [None, 2, 3, 3, 2]
    history = [row | {"pa_kept": k} for row, k in zip(HISTORY, kept, strict=True)]
    assert DRAW(history, ax=ax).kept == 2
    assert DRAW(history[:3], ax=ax).kept == 3
    assert DRAW(history[:1], ax=ax).kept is None
    assert DRAW([*history, {"epoch": 6}], ax=ax).kept == 2  # interrupted in the sixth


def test_a_list_of_dicts(ax):
    display = DRAW(HISTORY, ax=ax)
    assert_array_equal(display.line_.get_xdata(), [1, 3, 4, 5])
    assert display.kept == 3
    plain = DRAW([{"agreement": 0.1}, {"agreement": 0.2}], columns=["agreement"])
    assert_array_equal(plain.line_.get_xdata(), [1, 2])
    assert plain.kept is plain.kept_ is plain.ax_right_ is None
