"""Norms of weights: against numpy, by hand, and what folding a batch norm leaves the same."""

import copy
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from papers.measures import norm_measures, path_norm
from papers.measures.norm_measures import folded


def network(seed=0, fold=False):
    """Convolutions and linear layers, two with a batch normalisation that has seen rows."""
    generator = torch.Generator().manual_seed(seed)
    conv, deep, hidden = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 3, groups=2), nn.Linear(6, 8)
    of_conv, of_hidden, last = nn.BatchNorm2d(4), nn.BatchNorm1d(8), nn.Linear(8, 5, bias=False)
    for part in (conv, of_conv, deep, hidden, of_hidden, last):
        part.eval()
        for tensor in (*part.parameters(), *part.buffers()):
            if tensor.is_floating_point():
                tensor.data.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    first, middle = [conv, of_conv], [hidden, of_hidden]
    if fold:
        first, middle = [fuse_conv_bn_eval(*first)], [fuse_linear_bn_eval(*middle)]
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(6))
    features = nn.Sequential(*first, nn.ReLU(), deep)
    return nn.Sequential(features, pool, *middle, nn.ReLU(), last).eval()


def matrices(module):
    layers = [p for p in module.modules() if isinstance(p, nn.Conv2d | nn.Linear)]
    return [p.weight.detach().double().flatten(1).numpy() for p in layers]


def test_against_numpy():
    module, start, margin = network(0, fold=True), network(1, fold=True), -0.7
    found = norm_measures(module, margin, initial=start)
    weights, first = matrices(module), matrices(start)
    assert [w.shape for w in weights] == [(4, 27), (6, 18), (8, 6), (5, 8)]
    spectral = [np.linalg.norm(w, 2) for w in weights]
    frobenius = [np.linalg.norm(w) for w in weights]
    of_layers = {
        "spectral": spectral,
        "frobenius": frobenius,
        "trace": [np.linalg.norm(w, "nuc") for w in weights],
        "l1_inf": [np.linalg.norm(w, np.inf) for w in weights],
    }
    moved = [np.linalg.norm(w - w0) for w, w0 in zip(weights, first, strict=True)]
    expected = {
        "fro_over_spec": np.divide(frobenius, spectral).sum(),
        "sum_of_fro": 4 * np.prod(frobenius) ** (1 / 4),
        "sum_of_fro_over_margin": 4 * (np.prod(frobenius) / margin**2) ** (1 / 4),
        "frobenius_distance": np.sum(moved),
    }
    main = np.log(np.prod(spectral) / margin**2)
    expected["log_spec_orig_main"] = main + np.log(expected["fro_over_spec"])
    expected["log_spec_init_main"] = main + np.log(np.divide(moved, spectral).sum())
    for name, values in of_layers.items():
        product = np.prod(values)
        expected[f"log_{name}"] = np.log(product)
        expected[f"{name}_over_margin"] = product / margin
        expected[f"log_{name}_over_squared_margin"] = np.log(product / margin**2)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-10, err_msg=name)


def test_batch_normalisation_is_folded():
    plain, fused = network(), network(fold=True)
    rows = torch.rand(7, 3, 9, 9)
    # The one to compare with is the same function.
    torch.testing.assert_close(plain(rows), fused(rows))
    copied = folded(plain, "module")
    assert not any("BatchNorm" in type(part).__name__ for part in copied.modules())
    torch.testing.assert_close(copied(rows.double()), plain(rows).double(), rtol=1e-5, atol=1e-6)
    before = copy.deepcopy(plain.state_dict())
    plain.train()
    found, expected = norm_measures(plain, 0.3), norm_measures(fused, 0.3)
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    assert plain.training
    torch.testing.assert_close(plain.state_dict(), before, rtol=0, atol=0)


def test_a_batch_normalisation_without_weights_is_folded():
    linear = nn.Sequential(nn.Linear(3, 2, bias=False), nn.BatchNorm1d(2, affine=False)).eval()
    linear[1].running_var.copy_(torch.tensor([4.0, 9.0]))
    rows = torch.rand(5, 3)
    torch.testing.assert_close(folded(linear, "module")(rows.double()).float(), linear(rows))


def test_without_a_margin_there_is_no_measure_of_it():
    found = norm_measures(network(), initial=network())
    assert found["frobenius_distance"] == 0
    assert not any("margin" in name or "main" in name for name in found)


def test_products_overflow_only_where_said():
    deep = nn.Sequential(*[nn.Linear(4, 4) for _ in range(400)])
    for layer in deep:
        nn.init.constant_(layer.weight, 10.0)
    found = norm_measures(deep, -2.0)
    assert_allclose(found["log_spectral"], 400 * math.log(40))
    assert found["spectral_over_margin"] == -math.inf
    assert_allclose(found["sum_of_fro"], 400 * 40)
    nn.init.zeros_(deep[0].weight)
    assert norm_measures(deep)["log_spectral"] == -math.inf


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
