"""The PAC-Bayes bound against a sum that is done by hand."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from pa_select.assessment import pac_bayes_bound, sharpness


def test_the_bound_of_a_trained_network():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    torch.manual_seed(0)
    network = nn.Linear(4, 2)
    initial = copy.deepcopy(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=1.0)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimiser.step()
    sigma = sharpness(network, X, y).sigma
    trained, before = (nn.utils.parameters_to_vector(x.parameters()) for x in (network, initial))
    moved = (trained - before).detach()
    expected = float(moved.double().square().sum()) / sigma**2 + np.log(80 / sigma) + 10
    assert pac_bayes_bound(network, initial, sigma, 80) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("initial", "sigma", "n_rows", "error", "message"),
    [
        (nn.Linear(3, 2), 0.0, 9, ValueError, "sigma: expected a positive number, got 0.0"),
        (nn.Linear(3, 2), float("inf"), 9, ValueError, "sigma: .* got inf"),
        (nn.Linear(3, 2), 1.0, 0, ValueError, "n_rows: expected a positive number, got 0"),
        (nn.Linear(2, 2), 1.0, 9, ValueError, "initial: expected parameters .*3.*, got .*2"),
        (None, 1.0, 9, TypeError, "initial: expected a torch module, got NoneType"),
    ],
)
def test_what_has_no_bound(initial, sigma, n_rows, error, message):
    with pytest.raises(error, match=message):
        pac_bayes_bound(nn.Linear(3, 2), initial, sigma, n_rows)
