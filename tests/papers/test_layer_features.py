"""Features that are outputs of a layer of a net."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from pa_select.pairing import NearestPairing
from papers.layer_features import LayerFeatures

A, B = np.split(load_digits().data[:200], 2)


def test_features_of_a_layer():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Dropout(), torch.nn.Linear(8, 3))
    net.train()
    features = LayerFeatures(net, "0", batch_size=64)
    expected = net[0](torch.tensor(A, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(features(A), expected, rtol=1e-5)
    assert all(part.training for part in net.modules())
    assert not net[0]._forward_hooks
    pairs = NearestPairing(features=features)(A, B)
    second = net[0](torch.tensor(B, dtype=torch.float32)).detach().numpy()
    assert_array_equal(pairs.b, cdist(expected, second).argmin(1))
    with pytest.raises(ValueError, match=r"layer: expected one of \['0', '1', '2'\], got 'x'"):
        LayerFeatures(net, "x")(A)
