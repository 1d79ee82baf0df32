"""WILDS data: fake ones in the form of the package wilds."""

import sys
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from skorch import NeuralNetClassifier
from torch import nn

from pa_select import PAScoring, PASearchCV, class_scores, posterior_agreement
from pa_select.pairing import NearestPairing
from papers.datasets import WILDSData

N = 60
RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=N)
HOSPITAL = np.tile([0, 1, 4], N // 3)
IMAGES = (RNG.normal(size=(N, 3, 4, 4)) + Y[:, None, None, None]).astype(np.float32)
FLAT = IMAGES.reshape(N, -1)


class Fake:
    """A dataset of wilds: items (x, y, metadata), tensors, images that are read one by one."""

    split_dict = {"train": 0, "id_val": 1, "val": 2}

    def __init__(self, name="camelyon17", values=HOSPITAL, field="hospital", **maps):
        self.dataset_name = name
        self.y_array = torch.from_numpy(Y)
        self.metadata_fields = [field, "slide", "y"]
        self.metadata_array = torch.from_numpy(np.stack([values, np.arange(N) // 5, Y], axis=1))
        self.metadata_map = maps or None
        self.split_array = np.arange(N) % 2
        self.read = []

    def __len__(self):
        return N

    def __getitem__(self, index):
        self.read.append(index)
        return Image(index), self.y_array[index], self.metadata_array[index]

    def get_subset(self, split, frac=1.0, transform=None):
        return Subset(self, np.flatnonzero(self.split_array == self.split_dict[split]), transform)


class Subset:
    """As of wilds: rows of a dataset, with a transform."""

    def __init__(self, dataset, indices, transform):
        self.dataset, self.indices, self.transform = dataset, indices, transform
        self.dataset_name = dataset.dataset_name
        self.metadata_fields = dataset.metadata_fields
        self.metadata_map = dataset.metadata_map
        self.y_array = dataset.y_array[indices]
        self.metadata_array = dataset.metadata_array[indices]

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        x, y, metadata = self.dataset[self.indices[index]]
        return x if self.transform is None else self.transform(x), y, metadata


class Image:
    """What torch cannot stack."""

    def __init__(self, index):
        self.index = index


def to_tensor(image):
    return torch.from_numpy(IMAGES[image.index])


class Net(nn.Sequential):
    """A net with everything that training mode changes."""

    def __init__(self):
        super().__init__(
            nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)
        )


def fitted(**params):
    torch.manual_seed(0)
    defaults = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "lr": 0.1, "verbose": 0}
    return NeuralNetClassifier(Net, **defaults | params)


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture
def data(fake):
    return WILDSData(fake, transform=to_tensor)


# -- environments ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "names"),
    [
        (Fake(), [0, 1, 4]),
        (Fake("celebA", Y, "male"), [0, 1]),
        (Fake("waterbirds", 1 - Y, "background", background=[" a", "b"]), ["a", "b"]),
    ],
    ids=lambda value: getattr(value, "dataset_name", None),
)
def test_the_environments_of_a_data_set_that_is_known(dataset, names):
    data = WILDSData(dataset)
    assert data.names == names
    codes = np.unique(dataset.metadata_array[:, 0], return_inverse=True)[1]
    assert_array_equal(data.environments, np.array(names)[codes])
    assert_array_equal(data.y, Y)
    assert isinstance(data.y, np.ndarray)


def test_other_fields_alone_and_combined():
    dataset = Fake("mine", HOSPITAL, hospital=["north", "south"])
    assert WILDSData(dataset, "slide").names == list(range(N // 5))
    # The map has no name for hospital 4.
    assert WILDSData(dataset, ["hospital"]).names == ["4", "north", "south"]
    both = WILDSData(dataset, ["hospital", "y"])
    assert both.names[:2] == ["hospital 4, y 0", "hospital 4, y 1"]
    assert_array_equal(both.environments == "hospital south, y 1", (HOSPITAL == 1) & (Y == 1))


def test_nothing_is_read_before_it_is_needed(fake, data):
    for part in data.by_environment():
        assert len(part) == N // 3
        assert (part.environments == part.names[0]).all()
    fewer = data.take(HOSPITAL > 0).take(slice(None, None, 3))
    assert_array_equal(fewer.y, Y[HOSPITAL > 0][::3])
    assert clone(fewer) is deepcopy(fewer) is fewer
    assert "14 rows, environments 1, 4" in repr(fewer)
    assert not fake.read
    image, label = fewer[-1]
    last = np.flatnonzero(HOSPITAL > 0)[::3][-1]
    assert fake.read == [last]
    assert torch.equal(image, torch.from_numpy(IMAGES[last]))
    assert label == Y[last]


def test_a_subset_keeps_its_transform(fake):
    data = WILDSData(fake.get_subset("id_val", transform=to_tensor))
    assert_allclose(data.features(nn.Flatten()), FLAT[1::2])
    assert_array_equal(data.y, Y[1::2])
    assert_array_equal(data.environments, HOSPITAL[1::2])


# -- features ----------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, N, 256])
def test_features_of_a_module(fake, data, batch_size):
    torch.manual_seed(0)
    net = Net()
    net[3].eval()  # a mode of its own
    modes = [part.training for part in net.modules()]
    before = deepcopy(net.state_dict())
    state = torch.get_rng_state()
    points = data.features(net, batch_size=batch_size, device="cpu")
    assert torch.equal(torch.get_rng_state(), state)
    assert fake.read == list(range(N))
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert points.dtype == np.float32
    expected = class_scores(net, torch.from_numpy(IMAGES))[0]
    assert_allclose(points, expected, rtol=1e-5, atol=1e-6)


def test_features_of_a_part_are_in_its_order(data):
    rows = [5, 2, 2, 40]
    assert_allclose(data.take(rows).features(nn.Flatten(), batch_size=3), FLAT[rows])


def test_texts_and_sparse_features():
    texts = ["good film", "dull film", "good book", "dull book"]
    vectors = TfidfVectorizer().fit(texts)
    dataset = [(text, None) for text in texts]
    data = WILDSData(dataset, "kind", y=[1, 0, 1, 0], metadata={"kind": [0, 0, 1, 1]})
    points = data.features(vectors, batch_size=3)
    assert_allclose(points, vectors.transform(texts).toarray())
    assert data.pairs(points).b.tolist() == [2, 3]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_features_on_a_gpu(data):
    net = Net()
    expected = data.features(net)
    assert_allclose(data.features(net, device="cuda"), expected, rtol=1e-4, atol=1e-5)
    assert next(net.parameters()).device.type == "cpu"
    devices = []
    data.features(lambda batch: devices.append(batch.device.type) or batch, device="cuda")
    assert devices == ["cuda"]


# -- pairs -------------------------------------------------------------------------------


def test_pairs_by_brute_force(data):
    points = data.features(nn.Flatten())
    pairs = data.pairs(points)
    distances = cdist(points, points)
    distances[Y[:, None] != Y] = np.inf
    expected = []
    for one, other in ((0, 1), (0, 4), (1, 4)):
        columns = np.flatnonzero(HOSPITAL == other)
        for row in np.flatnonzero(HOSPITAL == one):
            expected.append((row, columns[distances[row, columns].argmin()]))
    assert list(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True)) == expected
    some = data.pairs(points, reference=4)
    assert set(HOSPITAL[some.a]) == {4}


def test_callbacks_look_features_up(fake, data):
    points = data.features(nn.Flatten())
    parts = data.by_environment()
    known = data.nearest_pairing(points)
    assert clone(known).features is deepcopy(known).features is known.features
    pairs = data.pairs(points)
    net = fitted(callbacks=[("pa", PAScoring(parts, pairing=known))], train_split=None)
    fake.read.clear()
    net.fit(data, data.y)
    # Of each epoch: all rows to train on, all rows of pairs to compare; two rows to try.
    used = len(np.union1d(pairs.a, pairs.b))
    assert len(fake.read) == 2 * (N + used) + 3 * 2
    scores = class_scores(net, data)[0]
    expected = posterior_agreement(scores[pairs.a], scores[pairs.b], prior="marginal")
    assert net.history[-1, "pa"] == pytest.approx(expected.score, abs=1e-5)


def test_searches(data):
    points = data.features(nn.Flatten())
    net = fitted(train_split=None, max_epochs=8, batch_size=10)
    options = {"param_grid": {"lr": [0.05, 0.2]}, "cv": 2}
    search = PASearchCV(net, pairing=data.nearest_pairing(points), **options)
    torch.manual_seed(0)
    search.fit(data.X, data.y, environments=data.environments)
    by_rows = NearestPairing(True, features=lambda rows: rows.reshape(len(rows), -1))
    in_memory = PASearchCV(net, pairing=by_rows, **options)
    torch.manual_seed(0)
    in_memory.fit(IMAGES, data.y, environments=data.environments)
    assert_allclose(search.agreement_terms_, in_memory.agreement_terms_, atol=1e-6)


# -- loading -----------------------------------------------------------------------------


def test_load_by_name(monkeypatch, tmp_path, fake):
    asked = []

    def get_dataset(dataset, **options):
        asked.append((dataset, options))
        return fake

    monkeypatch.setitem(sys.modules, "wilds", SimpleNamespace(get_dataset=get_dataset))
    data = WILDSData.load("camelyon17", tmp_path, split="id_val", transform=to_tensor)
    assert asked == [("camelyon17", {"root_dir": str(tmp_path), "download": False})]
    assert_array_equal(data.environments, HOSPITAL[1::2])
    assert_allclose(data.features(nn.Flatten()), FLAT[1::2])
    assert len(WILDSData.load("camelyon17", tmp_path, fields="slide")) == N
