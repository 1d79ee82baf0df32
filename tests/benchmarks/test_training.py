"""What scoring an epoch costs beyond the forward passes it needs, as a ratio."""

from time import perf_counter

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from pa_select import PAScoring


class Images(nn.Sequential):
    """A small convolutional net on images of 3 x 28 x 28."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 10),
        )  # fmt: skip


@pytest.mark.parametrize("n", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_scoring_an_epoch(benchmark, n):
    if not benchmark.enabled:
        n //= 10  # enough to show that it runs
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n)
    patterns = 0.3 * rng.normal(size=(10, 3, 28, 28))
    a = (patterns[labels] + rng.normal(size=(n, 3, 28, 28))).astype(np.float32)
    b = a + 0.5 * rng.normal(size=a.shape).astype(np.float32)
    torch.manual_seed(0)
    net = NeuralNetClassifier(
        Images,
        criterion=nn.CrossEntropyLoss,
        callbacks=[("pa", PAScoring((a, b)))],
        lr=0.05,
        max_epochs=1,
        train_split=None,
        verbose=0,
    )
    # One short epoch: a net that has begun to learn.
    net.fit(a[:1000], labels[:1000])
    scoring = dict(net.callbacks_)["pa"]
    benchmark.pedantic(scoring.on_epoch_end, (net,), rounds=2)
    if not benchmark.enabled:
        return
    # In turn, the best of each: what is left is the work, not the machine.
    scored, forward = {True: np.inf, False: np.inf}, np.inf
    for _ in range(10):
        start = perf_counter()
        for rows in (a, b):
            net.forward(rows)
        forward = min(forward, perf_counter() - start)
        for uniform in scored:
            scoring.uniform = uniform
            start = perf_counter()
            scoring.on_epoch_end(net)
            scored[uniform] = min(scored[uniform], perf_counter() - start)
    # The callback makes the two forward passes, too.
    both, one = (scored[uniform] / forward - 1 for uniform in (True, False))
    print(f"\nN={n}: beyond the two forward passes {both:.2f} of their time, ", end="")
    print(f"{one:.2f} with uniform=False")
