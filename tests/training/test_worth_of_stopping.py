"""What docs/training.rst says of its first net: better on the next scanner, in fewer epochs."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from torch import nn

from pa_select import PAEarlyStopping

IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES = (IMAGES / 16).astype("float32")


def train(images, labels, seed, *callbacks):
    torch.manual_seed(seed)
    return NeuralNetClassifier(
        lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.003,
        max_epochs=100,
        callbacks=list(callbacks),
        verbose=0,
    ).fit(images, labels)


@pytest.mark.slow
def test_early_stopping_by_agreement_pays_under_the_shift():
    worth = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        seen, held_out, new = np.split(rng.permutation(len(LABELS)), [1000, 1300])

        def rescan(rows, rng=rng):
            noise = rng.normal(size=IMAGES[rows].shape)
            return (0.5 * IMAGES[rows] + 0.2 * noise).astype("float32")

        tests = IMAGES[new], rescan(new)
        pair = IMAGES[held_out], rescan(held_out)
        for callbacks in ([PAEarlyStopping(pair)], []):
            net = train(IMAGES[seen], LABELS[seen], seed, *callbacks)
            accuracies = [100 * net.score(images, LABELS[new]) for images in tests]
            worth.append((*accuracies, len(net.history)))
    stopped, full = np.mean(np.reshape(worth, (3, 2, 3)), axis=0)
    assert stopped[1] > full[1] + 3  # on the next scanner: 7.2 +- 0.7 of 8 seeds
    assert stopped[0] > full[0] - 4  # today: -2.3 +- 0.5
    assert stopped[2] < 50
    assert full[2] == 100
