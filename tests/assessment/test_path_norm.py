"""The path norm and the PAC-Bayes bound against sums that are done by hand."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from pa_select.assessment import pac_bayes_bound, path_norm, sharpness


def test_every_path_of_a_small_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    first, second = (network[i].weight.detach().numpy() for i in (0, 2))
    squares = [
        (second[k, j] * first[j, i]) ** 2 for i, j, k in product(range(3), range(4), range(2))
    ]
    assert path_norm(network, 3) == pytest.approx(np.sqrt(sum(squares)), rel=1e-6)


def test_a_convolution_and_a_batch_norm():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv1d(1, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
    ).eval()
    network[1].running_var.copy_(torch.tensor([0.25, 4.0]))
    # As a matrix: the network's outputs for each input alone, without biases.
    with torch.no_grad():
        convolution = copy.deepcopy(network[0])
        convolution.bias.zero_()
        scale = network[1].weight / (network[1].running_var + network[1].eps).sqrt()
        columns = torch.stack([convolution(row.view(1, 1, 4))[0] for row in torch.eye(4)])
        first = (columns * scale[:, None]).flatten(1)
        expected = (first.square() @ network[4].weight.T.square()).sum().sqrt()
    assert path_norm(network, (1, 4)) == pytest.approx(float(expected), rel=1e-6)


def test_rescaling_a_hidden_unit_changes_nothing():
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    before = path_norm(network, 5)
    with torch.no_grad():
        network[0].weight[2] *= 7
        network[2].weight[:, 2] /= 7
    assert path_norm(network, 5) == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize(
    ("module", "shape", "error", "message"),
    [
        ("net", 3, TypeError, "module: expected a torch module, got str"),
        (nn.Linear(3, 2), 4, ValueError, r"input_shape: .* got \(4,\)"),
        (nn.Sequential(nn.PReLU()), 3, TypeError, "module: .* 'weight' in PReLU"),
    ],
)
def test_what_has_no_path_norm(module, shape, error, message):
    with pytest.raises(error, match=message):
        path_norm(module, shape)


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
