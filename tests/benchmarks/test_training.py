"""What scoring an epoch costs, beside the training and the forward passes that it needs."""

from time import process_time

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from pa_select import PAEarlyStopping


class Images(nn.Sequential):
    """A small convolutional net on images of 3 x 28 x 28."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 10),
        )  # fmt: skip


def images(n):
    """Images of two environments, and their labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n)
    patterns = 0.3 * rng.normal(size=(10, 3, 28, 28))
    a = (patterns[labels] + rng.normal(size=(n, 3, 28, 28))).astype(np.float32)
    return a, a + 0.5 * rng.normal(size=a.shape).astype(np.float32), labels


# What differs from the default, and what the table says of it.
CALLBACKS = {
    "default": {},
    "uniform=True": {"uniform": True},
    "tol=1e-5": {"tol": 1e-5},
    "uniform=True, tol=1e-5": {"uniform": True, "tol": 1e-5},
}


@pytest.mark.usefixtures("one_thread")
def test_share_of_an_epoch(benchmark, figures):
    n_rows, n_pairs = (1_000, 300) if benchmark.enabled else (100, 30)
    a, b, labels = images(n_rows + n_pairs)
    callbacks = {
        name: PAEarlyStopping((a[n_rows:], b[n_rows:]), name=f"pa{i}", **params)
        for i, (name, params) in enumerate(CALLBACKS.items())
    }
    torch.manual_seed(0)
    net = NeuralNetClassifier(
        Images,
        criterion=nn.CrossEntropyLoss,
        callbacks=list(callbacks.values()),
        lr=0.05,
        max_epochs=3,
        train_split=None,
        verbose=0,
    )
    benchmark.pedantic(net.fit, (a[:n_rows], labels[:n_rows]), rounds=1)
    assert all(callback.best_score_ > 0 for callback in callbacks.values())
    if not benchmark.enabled:
        return

    def seconds(work):
        start = process_time()
        work()
        return process_time() - start

    kept = {"epoch": lambda: net.run_single_epoch(loader, training=True, prefix="train",
                                                  step_fn=net.train_step),
            "forward": lambda: [net.forward(x[n_rows:]) for x in (a, b)]}  # fmt: skip
    kept |= {name: lambda c=c: c.on_epoch_end(net) for name, c in callbacks.items()}
    loader = net.get_iterator(net.get_dataset(a[:n_rows], labels[:n_rows]), training=True)
    # In turn, the best of each: what is left is the work, not the machine.
    best = dict.fromkeys(kept, np.inf)
    for _ in range(10):
        for name, work in kept.items():
            best[name] = min(best[name], seconds(work))
    for name in callbacks:
        row = {
            "PAEarlyStopping": name,
            "the agreement": f"{(best[name] - best['forward']) / best['epoch']:.0%}",
            "two forward passes": f"{best['forward'] / best['epoch']:.0%}",
        }
        figures("epoch_share", row)
        print(row)
