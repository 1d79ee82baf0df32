"""Sharpness where it is known from a formula, and the PAC-Bayes bound by hand."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.datasets import load_digits
from torch import nn

from papers.measures import pac_bayes_bound, sharpness
from papers.measures.norm_measures import folded

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS, LABELS = torch.tensor(DIGITS[:300] / 16, dtype=torch.float32), LABELS[:300]
ONE = torch.ones(1, 1)


def linear(*rows):
    """A linear network with these weights for each class."""
    weight = torch.tensor(rows, dtype=torch.float32)
    layer = nn.Linear(weight.shape[1], len(weight), bias=False)
    layer.weight.data.copy_(weight)
    return layer


BINARY = linear([1.0], [0.0])


@pytest.fixture(scope="module")
def trained():
    """A network with batch normalisation, trained on digits."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 10)
        )
        optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
        for _ in range(60):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(DIGITS), torch.tensor(LABELS)).backward()
            optimiser.step()
    return network


@pytest.mark.slow
@pytest.mark.parametrize("aware", [False, True])
def test_noise_where_the_accuracy_is_known(aware):
    """Each row has weights 3 and -1 of its own: right with probability Phi(4 / spread)."""
    n = 2000
    network = linear(n * [3.0], n * [-1.0])
    found = sharpness(network, torch.eye(n), n * [0], magnitude_aware=aware, deviation=0.2)
    expected = 4 / norm.ppf(0.8) / math.sqrt(10 if aware else 2)
    assert_allclose(found.sigma, expected, rtol=0.03)
    assert found.accuracy == 1


def test_the_mean_over_the_draws_of_noise_counts():
    """The weights 1 and 0 keep their order with probability Phi(1 / spread)."""
    found = sharpness(BINARY, ONE, [0], deviation=0.3, n_draws=200)
    assert_allclose(found.sigma, 1 / norm.ppf(0.7) / math.sqrt(2), rtol=0.3)


@pytest.mark.parametrize(("aware", "expected"), [(False, 2.0), (True, 1.0)])
def test_worst_disturbance_where_it_is_known(aware, expected):
    """Weights 3 and -1 meet at 1 when both move by 2, or by their magnitude at 0."""
    how = {"kind": "worst", "tol": 0.001, "n_draws": 2}
    found = sharpness(linear([3.0], [-1.0]), ONE, [0], magnitude_aware=aware, **how)
    assert_allclose(found.sigma, expected, rtol=0.002)


def test_worst_disturbance_is_that_of_the_deviation():
    """Rows of margins 0.2, 0.4 ... 2: at sigma those up to 2 * sigma are lost."""
    margins = torch.arange(1, 11) / 5.0
    rows = torch.cat([torch.ones(10, 1), margins[:, None]], 1)
    network = nn.Sequential(linear([0.0, 1.0], [0.0, 0.0]))
    found = sharpness(network, rows, [0] * 10, kind="worst", deviation=0.3, tol=1e-3, n_draws=2)
    # Row k is lost where m (1 - 2 s) - 2 s < 0; of ten the fourth must stay.
    assert_allclose(found.sigma, 0.8 / (2 * 0.8 + 2), rtol=2e-3)


def test_the_worst_of_several_starts_counts(trained):
    one, several = (
        sharpness(trained, DIGITS, LABELS, kind="worst", n_steps=1, n_draws=n).sigma
        for n in (1, 6)
    )
    assert several < 0.98 * one


def test_nothing_but_the_function_and_its_layers_counts(trained):
    how = {"n_draws": 3, "n_steps": 3}
    for kind in ("pac_bayes", "worst"):
        found = sharpness(trained, DIGITS, LABELS, kind=kind, **how)
        without = sharpness(folded(trained, "module"), DIGITS, LABELS, kind=kind, **how)
        assert found == without
        batches = sharpness(trained, DIGITS.numpy(), LABELS, kind=kind, batch_size=64, **how)
        assert_allclose(batches, found, rtol=1e-6)


def test_magnitude_aware_noise_does_not_see_the_scale():
    weight = np.random.default_rng(0).normal(size=(3, 4))
    rows = np.random.default_rng(1).normal(size=(100, 4))
    y = (rows @ weight.T).argmax(1)
    for aware, factor in ((False, 8), (True, 1)):
        one, other = (
            sharpness(linear(*(scale * weight).tolist()), rows, y, magnitude_aware=aware).sigma
            for scale in (1, 8)
        )
        assert_allclose(other, factor * one, rtol=0.03)


def test_ends():
    blind = sharpness(linear([1.0], [1.0]), 0 * ONE, [0])
    assert blind.sigma == math.inf
    # The least disturbance decides a tie.
    tied = sharpness(linear([0.0], [0.0]), ONE, [0], kind="worst", n_draws=2, n_steps=5)
    assert tied == (0, 1)


def test_seeds_and_what_is_left_alone(trained):
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    state = torch.random.get_rng_state()
    trained.train()
    found = sharpness(trained, DIGITS, LABELS)
    assert trained.training
    assert torch.equal(state, torch.random.get_rng_state())
    torch.testing.assert_close(trained.state_dict(), before, rtol=0, atol=0)
    assert found == sharpness(trained, DIGITS, LABELS)
    assert found != sharpness(trained, DIGITS, LABELS, random_state=1)


def test_the_bound_by_hand():
    torch.manual_seed(0)
    network, initial = nn.Linear(4, 2), nn.Linear(4, 2)
    moved = [
        (a - b).detach().double().square().sum()
        for a, b in zip(network.parameters(), initial.parameters(), strict=True)
    ]
    expected = float(sum(moved)) / 0.3**2 + np.log(80 / 0.3) + 10
    assert pac_bayes_bound(network, initial, 0.3, 80) == pytest.approx(expected)
