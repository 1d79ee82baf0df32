"""The papers' experiments on the data sets' own files: on small files in the same formats."""

import gzip
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.wilds_folders import WRITERS, without_torchvision, write
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from pa_select.datasets import WILDSData

pytestmark = pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")

X, Y = load_digits(return_X_y=True)
# Digits of 28 x 28 pixels, of which 24 x 24 have ink, as in MNIST.
IMAGES = np.pad(np.kron(X.reshape(-1, 8, 8) * 15.9, np.ones((1, 3, 3))), ((0, 0), (2, 2), (2, 2)))
IMAGES = IMAGES.astype(np.uint8)
RULES = 7  # of selection, and the best epoch in hindsight


@pytest.fixture
def script():
    """The module of the script."""
    import at_full_size

    return at_full_size


@pytest.fixture
def run(script, tmp_path):
    """Run the script with small nets, and read its table."""
    pd = pytest.importorskip("pandas")

    def run(dataset, *options):
        given = f"--dataset={dataset} --data-dir={tmp_path} --network=small --batch-size=64"
        script.main([*given.split(), f"--output={tmp_path / 'table.csv'}", *options])
        return pd.read_csv(tmp_path / "table.csv")

    return run


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


def test_files_are_read_as_they_were_written(script, mnist, cifar, tmp_path):
    assert_array_equal(script.idx(tmp_path, "train-images-idx3"), IMAGES[:600])
    assert_array_equal(script.idx(tmp_path, "t10k-labels-idx1"), Y[600:900])
    images, labels = script.cifar(tmp_path, "data_batch_*")
    assert images.shape == (150, 3, 32, 32)
    assert images.dtype == np.float32
    for image, label in zip(images, labels, strict=True):
        bright = np.argwhere(image.mean(2) > 0.6)
        assert (bright[:, 0] == label % 3).all()
        assert bright[0, 1] == 6 * (label // 3)
    with pytest.raises(SystemExit, match="--data-dir: expected files other-ubyte\\* in .*, got"):
        script.idx(tmp_path, "other")


MNIST = "--size=16 --epochs=2 --factors hue --learners ERM LISA".split()


def test_epochs_of_digits_are_selected(run, mnist):
    table = run("mnist", *MNIST)
    of_6, of_7 = (part for _, part in table.groupby("experiment"))
    # LISA has no shortcuts to learn from. Each pair of samples is of other or of the same digits.
    assert of_6.groupby("learner").size().to_dict() == {"ERM": 10 * RULES, "LISA": 10 * RULES}
    assert of_7.groupby(["learner", "setting"]).size().tolist() == 5 * [2 * RULES]
    assert set(table["epoch"]) == {1, 2}
    tests = [f"test {j}" for j in range(6)]
    assert table[tests].stack().between(0, 100).all()
    assert (table["beta"] >= 0).all()
    best = table.set_index(["model", "setting", "pairs", "rule"])[tests[1:]].mean(axis=1)
    best = best[best.index.get_level_values(0).str.contains("experiment 6")].unstack("rule")
    assert (best["best epoch"] >= best["accuracy"] - 1e-9).all()


def test_an_interrupted_run_goes_on(run, script, mnist, monkeypatch, tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    few = [*MNIST, "--epochs=1", "--size=16", "--learners=ERM"]
    whole = run("mnist", *few)
    printed = capsys.readouterr().out.split("lr")[-1]
    file, trained = tmp_path / "table.csv", []
    train = script.selection.train

    def counted(problem, learner, *given):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(learner)
        return train(problem, learner, *given)

    monkeypatch.setattr(script.selection, "train", counted)
    # A line is missing: its model is trained again.
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    capsys.readouterr()
    pd.testing.assert_frame_equal(run("mnist", *few, "--resume"), whole)
    assert capsys.readouterr().out.split("lr")[-1] == printed
    assert len(trained) == 1
    # Interrupted in the fourth model: three are in the file, and are not trained again.
    file.unlink()
    trained.clear()
    with pytest.raises(KeyboardInterrupt):
        run("mnist", *few)
    assert pd.read_csv(file)["model"].nunique() == 3
    trained.clear()
    pd.testing.assert_frame_equal(run("mnist", *few, "--resume"), whole)
    assert len(trained) == 3


def test_a_table_is_not_overwritten(run, tmp_path, capsys):
    (tmp_path / "table.csv").write_text("model,lines\n")
    with pytest.raises(SystemExit):
        run("mnist")
    assert "is there; --resume goes on with it" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:estimators:UserWarning")  # nets that learnt little
def test_nets_are_attacked(run, cifar):
    table = run("cifar10", "--epochs=2", "--steps=2")
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


def test_epochs_of_domains_are_selected(script, monkeypatch, tmp_path, run):
    pytest.importorskip("PIL")
    sizes = {"train": 160, "val": 60, "test": 80}
    asked = []

    def load(name, root, split, transform):
        asked.append((name, root, split))
        return WILDSData(Domains(sizes[split], len(split)), "place", transform=transform)

    monkeypatch.setattr(script, "WILDSData", SimpleNamespace(load=load))
    table = run("waterbirds", "--size=16", "--epochs=6", "--lr=0.01", "--learners", "ERM", "IRM")
    assert asked == [("waterbirds", str(tmp_path), split) for split in sizes]
    assert table.groupby("learner").size().to_dict() == {"ERM": RULES, "IRM": RULES}
    worst = table[["average", "worst environment", "worst group"]]
    assert (worst.diff(axis=1).iloc[:, 1:] <= 1e-9).all(axis=None)
    by_rule = table[table["learner"] == "ERM"].set_index("rule")["average"]
    assert by_rule["best epoch"] == by_rule.max() > 90


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
@pytest.mark.parametrize("name", WRITERS)
def test_folders_of_wilds_are_read(name, run, tmp_path, monkeypatch):
    pytest.importorskip("wilds")
    without_torchvision(monkeypatch)
    environments, split, codes = write(name, tmp_path)
    table = run(name, "--size=16", "--epochs=2", "--learners=LISA")
    assert table["rule"].nunique() == len(table) == RULES
    # The accuracy is that of a whole number of the rows of the test.
    right = table["average"] / 100 * np.sum(split == codes["test"])
    assert_allclose(right, right.round(), atol=1e-6)
    if len(set(environments[split == codes["test"]])) == 1:
        assert table["average"].equals(table["worst environment"])


def test_weights_of_a_file_are_where_training_begins(script, tmp_path):
    file = tmp_path / "weights.pt"
    torch.manual_seed(0)
    begun = script.selection.Net(7)
    torch.save(begun.state_dict(), file)
    module = script.new_module(3, "small", file)
    assert module[-1].out_features == 3
    pairs = list(zip(begun, module, strict=True))[:-1]
    for before, after in pairs:
        for name, value in before.state_dict().items():
            assert torch.equal(after.state_dict()[name], value)
    torch.save({"other": torch.ones(3)}, file)
    with pytest.raises(SystemExit, match=r"--weights: expected 0\.weight of small, got none"):
        script.new_module(3, "small", file)
