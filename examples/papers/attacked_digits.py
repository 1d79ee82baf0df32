"""
Nets that learn scikit-learn's digits, with and without defences
================================================================

A small convolutional net, and a training on noise that may defend it against attacks. Training on
attacked digits is `papers.learners.AdversarialNet`.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn


def digits(seed=0):
    """Return images for training and for the test, (n, 1, 8, 8) in [0, 1], and their labels."""
    X, y = load_digits(return_X_y=True)
    images = (X / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return train_test_split(
        images, y.astype(np.int64), test_size=0.4, stratify=y, random_state=seed
    )


class Digits(nn.Module):
    """Two convolutions, a layer of 64 features and the classes."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(512, 64),
            nn.ReLU(),
        )
        self.classes = nn.Linear(64, 10)

    def forward(self, x):
        return self.classes(self.features(x))


class NoisyNet(NeuralNetClassifier):
    """Trains on batches with normal noise, drawn anew each time.

    Parameters
    ----------
    deviation : float, default=0.1
        Standard deviation of the noise of a pixel.
    """

    def __init__(self, *args, deviation=0.1, **kwargs):
        self.deviation = deviation
        super().__init__(*args, **kwargs)

    def train_step(self, batch, **fit_params):
        rows, labels = batch
        noisy = (rows + self.deviation * torch.randn_like(rows)).clamp(0, 1)
        return super().train_step((noisy, labels), **fit_params)


def train(X, y, kind=NeuralNetClassifier, n_epochs=30, seed=0, **settings):
    """Fit a net of some kind; the settings may replace the module and how it learns."""
    torch.manual_seed(seed)
    defaults = {"module": Digits, "optimizer": torch.optim.Adam, "lr": 2e-3, "batch_size": 64}
    net = kind(
        criterion=nn.CrossEntropyLoss,
        max_epochs=n_epochs,
        train_split=None,
        verbose=0,
        **(defaults | settings),
    )
    return net.fit(X, y)
