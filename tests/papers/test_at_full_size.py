"""The papers' experiments on the data sets' own files: on small files in the same formats."""

import gzip
import pickle
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from papers.datasets import WILDSData

pytestmark = pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")

X, Y = load_digits(return_X_y=True)
# Digits of 28 x 28 pixels, of which 24 x 24 have ink, as in MNIST.
IMAGES = np.pad(np.kron(X.reshape(-1, 8, 8) * 15.9, np.ones((1, 3, 3))), ((0, 0), (2, 2), (2, 2)))
IMAGES = IMAGES.astype(np.uint8)
RULES = 7  # of selection, and the best epoch in hindsight


@pytest.fixture
def study():
    """The script; it needs pandas, and so does this fixture."""
    pytest.importorskip("pandas")
    return import_module("papers.at_full_size")


@pytest.fixture
def run(study, tmp_path):
    """Run the script with small nets, and read its table."""
    pd = pytest.importorskip("pandas")

    def run(dataset, *options, output="output"):
        given = f"--dataset={dataset} --network=small --batch-size=64"
        study.main([*given.split(), f"--output={tmp_path / output}", *options])
        return pd.read_csv(tmp_path / output / "table.csv")

    yield run
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def data(tmp_path):
    """The option that names the folder with the data."""
    return f"--data-dir={tmp_path}"


def idx(array):
    """Return the content of an IDX file of bytes: a magic number, the shape, the numbers."""
    shape = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist(tmp_path):
    """Write digits as torchvision leaves them, some compressed."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, rows in (("train", slice(600)), ("t10k", slice(600, 900))):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(IMAGES[rows]))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(Y[rows])))


@pytest.fixture
def cifar(tmp_path):
    """Write the pickles of CIFAR-10, with squares at places that depend on the class."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        labels = rng.permutation(np.arange(30) % 10)
        images = rng.integers(0, 60, (30, 3, 32, 32), dtype=np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[label % 3, 6 * (label // 3) : 6 * (label // 3) + 8] += 190
        content = {"data": images.reshape(30, -1), "labels": labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(content))


def test_files_are_read_as_they_were_written(study, mnist, cifar, tmp_path):
    assert_array_equal(study.idx(tmp_path, "train-images-idx3"), IMAGES[:600])
    assert_array_equal(study.idx(tmp_path, "t10k-labels-idx1"), Y[600:900])
    images, labels = study.cifar(tmp_path, "data_batch_*")
    assert images.shape == (150, 3, 32, 32)
    assert images.dtype == np.float32
    for image, label in zip(images, labels, strict=True):
        bright = np.argwhere(image.mean(2) > 0.6)
        assert (bright[:, 0] == label % 3).all()
        assert bright[0, 1] == 6 * (label // 3)


MNIST = "--size=16 --epochs=2 --factors hue --learners ERM LISA".split()


def test_epochs_of_digits_are_selected(run, mnist, data):
    table = run("mnist", data, *MNIST)
    of_6, of_7 = (part for _, part in table.groupby("experiment"))
    # LISA has no shortcuts to learn from. Each pair of samples is of other or of the same digits.
    assert of_6.groupby("learner").size().to_dict() == {"ERM": 10 * RULES, "LISA": 10 * RULES}
    assert of_7.groupby(["learner", "training"]).size().tolist() == 5 * [2 * RULES]
    assert set(table["epoch"]) == {1, 2}
    tests = [f"test {j}" for j in range(6)]
    assert table[tests].stack().between(0, 100).all()
    assert (table["beta"] >= 0).all()
    best = table.set_index(["experiment", "training", "learner", "pairs", "rule"])
    assert_allclose(best.loc[6, "target"], best.loc[6, tests[1:]].mean(axis=1))
    assert_allclose(best.loc[7, "target"], best.loc[7, "test 1"])
    best = best["target"].unstack("rule")
    assert (best["best epoch"] >= best["accuracy"] - 1e-9).all()


def test_rules_choose_from_the_files_alone(run, study, mnist, data, monkeypatch, tmp_path):
    pd = pytest.importorskip("pandas")
    few = ["--size=16", "--epochs=2", "--factors=hue", "--learners=ERM"]
    whole = run("mnist", data, *few)
    assert run("mnist").equals(whole)
    # The scores in the files are what the study of the miniature finds with the same net.
    images, shares = np.float32(IMAGES[:900] / np.float32(255)), np.array([15, 15, 7.5, 7.5]) / 48
    digits = study.selection.Digits(images, Y[:900], 16, tuple(shares))
    problem = study.selection.experiment_7("hue", "ZSO", 0, digits)
    adam = {"optimizer": torch.optim.Adam, "lr": 1e-3}
    trained = study.selection.train(problem, "ERM", 0, 2, adam, batch_size=64)
    found, tests = study.selection.study(7, problem, trained)
    folder = next((tmp_path / "output").glob("*training ZSO*"))
    lines = pd.read_csv(folder / "epochs.csv")
    assert lines["epoch"].tolist() == [1, 2]
    assert_array_equal(lines[[f"test {j}" for j in range(6)]].to_numpy().T, tests)
    rows, logits = np.load(folder / "rows.npz"), np.load(folder / "logits.npy", mmap_mode="r")
    for (setting, pairing), (a, b, _) in found.items():
        assert_array_equal(logits[:, rows[f"{setting}, {pairing}"][0]], a)
        assert_array_equal(logits[:, rows[f"{setting}, {pairing}"][1]], b)
        kept = whole[(whole["training"] == "ZSO") & (whole["pairs"] == f"{setting}, {pairing}")]
        chosen = study.selection.choices(found[setting, pairing][2])
        assert dict(zip(kept["rule"], kept["epoch"] - 1, strict=True)) == chosen
    # A new rule needs no training.
    choices = study.selection.choices
    monkeypatch.setattr(study.selection, "choices", lambda f: choices(f) | {"second epoch": 1})
    table = run("mnist")
    assert (table.loc[table["rule"] == "second epoch", "epoch"] == 2).all()
    assert len(table) == len(whole) // RULES * (RULES + 1)


class ResNet(torch.nn.Sequential):
    """The first and the last layers of torchvision's ResNet18."""

    def __init__(self, n_classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(64)
        self.maxpool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        self.avgpool = torch.nn.AdaptiveAvgPool2d(1)
        self.flatten = torch.nn.Flatten()
        self.fc = torch.nn.Linear(64, n_classes)


@pytest.fixture
def resnets(monkeypatch):
    """Let the script make ResNets where torchvision cannot be imported."""
    try:
        import torchvision.models  # noqa: F401
    except (ImportError, RuntimeError):  # there is none, or it is for another build of torch
        models = SimpleNamespace(get_model=lambda name, num_classes: ResNet(num_classes))
        monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.mark.filterwarnings("ignore:estimators:UserWarning")  # nets that learnt little
def test_nets_are_attacked(run, cifar, data):
    table = run("cifar10", data, "--epochs=2", "--steps=2")
    assert table.groupby("defence").size().to_dict() == {"adversarial": 44, "undefended": 44}
    for (_, attack, _), curve in table.groupby(["defence", "attack", "power"]):
        assert curve["ratio"].tolist() == pytest.approx(np.linspace(0, 1, 11))
        # As in the papers' figures the sum is at most 0, and falls with the share.
        assert (curve["log_kernel"] <= 1e-9).all()
        assert curve["log_kernel"].iloc[0] >= curve["log_kernel"].iloc[-1]
        assert attack in ("PGD", "FMN")
    assert table["n_pairs"].eq(30).all()
    # The thesis's contributions are numbers of pairs by rates, and at most 0.
    zeta = table[[name for name in table if name.endswith(": zeta")]]
    assert zeta.shape[1] == 3
    assert (zeta <= 1e-9).all(axis=None)
    right = table["clean_accuracy"] * table["afr_pred"] * 30
    assert_allclose(table["agree_right: pairs"], right, atol=1e-6)
    assert table.groupby("attack")["power"].nunique()["PGD"] == 3


class Domains(torch.utils.data.Dataset):
    """Pictures of two classes in two domains, in the form of a data set of WILDS."""

    metadata_fields = ("place", "y")

    def __init__(self, n, seed):
        from PIL.Image import fromarray

        rng = np.random.default_rng(seed)
        y, place = rng.permutation([np.arange(n) % 2, np.arange(n) // 2 % 2], axis=1)
        pixels = rng.integers(0, 90, (n, 16, 20, 3), dtype=np.uint8)
        pixels[y == 1, :8] += 150
        pixels[place == 1, :, :, 2] += 10
        self.images = [fromarray(image) for image in pixels]
        self.y_array = torch.tensor(y)
        self.metadata_array = torch.tensor(np.column_stack([place, y]))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        return self.images[row], self.y_array[row], self.metadata_array[row]


SIZES = {"train": 160, "val": 60, "test": 80}


@pytest.fixture
def asked(study, monkeypatch):
    """Load domains in place of a data set, and keep what was asked for."""
    pytest.importorskip("PIL")
    asked = []

    def load(name, root, split, transform):
        asked.append((name, root, split))
        return WILDSData(Domains(SIZES[split], len(split)), "place", transform=transform)

    monkeypatch.setattr(study, "WILDSData", SimpleNamespace(load=load))
    return asked


@pytest.mark.parametrize("size", [32, 33])
def test_resnets_pair_domains_by_their_features(size, asked, resnets, tmp_path, run, data):
    few = ["--epochs=1", "--learners=IRM", f"--size={size}"]
    table = run("waterbirds", data, "--network=resnet18", *few)
    assert asked == [("waterbirds", str(tmp_path), split) for split in SIZES]
    assert len(table) == RULES
    worst = table[["average", "worst environment", "worst group"]]
    assert (worst.diff(axis=1).iloc[:, 1:] <= 1e-9).all(axis=None)
    checkpoint = next((tmp_path / "output").glob("*network resnet18*/checkpoint.pt"))
    first = torch.load(checkpoint, weights_only=False)["module"]["conv1.weight"]
    assert first.shape == ((64, 3, 3, 3) if size == 32 else (64, 3, 7, 7))
    rows = np.load(checkpoint.with_name("rows.npz"))
    a, b = rows["nearest neighbours"]
    assert_array_equal(rows["y"][a], rows["y"][b])


def test_weights_of_a_file_are_where_training_begins(study, tmp_path, monkeypatch):
    file = tmp_path / "weights.pt"
    given = study.new_module(7, "small", 32, None).state_dict()
    # An older file counts no batches; it says that all was on a GPU.
    given = {name: v + 1 for name, v in given.items() if not name.endswith("tracked")}
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    torch.save(given, file)
    module = study.new_module(3, "small", 32, file)
    assert module[-1].out_features == 3
    found = module.state_dict()
    for name in list(given)[:-2]:  # those of the last layer are new
        assert torch.equal(found[name], given[name])
