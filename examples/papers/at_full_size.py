"""
The papers' experiments at their size
=====================================

The examples repeat the papers' experiments in miniature. This script runs them on the data sets
that the papers used, which have to be on the disk; nothing is downloaded:

- *mnist*: Experiments 6 and 7, epoch selection on coloured digits. ``DIR`` has the IDX files, at
  any depth, as torchvision leaves them. The coloured digits of a training lie in a file without a
  name beside the output (15 GB for Experiment 6 at 128 pixels) and are read when needed.
- *cifar10*: Experiment 4, an undefended and an adversarially trained net under PGD and FMN.
  ``DIR`` has the pickles ``data_batch_1`` to ``test_batch``. A pickle can run code, so take them
  from a source that you trust. The thesis has published models instead. Images for training are
  shifted by up to four pixels and mirrored at random.
- *waterbirds*, *celebA*, *camelyon17*: Experiments 8 to 10, epoch selection with nearest
  neighbours as pairs. ``DIR`` has the folder of the package wilds, such as ``waterbirds_v1.0``.

The ResNets are torchvision's. For images of at most 32 pixels the first convolution is 3 x 3, and
there is no max pooling, as is usual for CIFAR-10. ``--weights`` may come from other classes, but
not from a net with another first convolution. CUDA is told to be deterministic.

Each training has a folder in ``--output``: ``epochs.csv`` has a line for every epoch,
``logits.npy`` the scores of all validation rows in every epoch, ``rows.npz`` their classes and
pairs, and ``checkpoint.pt`` what goes on after a stop. Then ``--resume`` repeats at most the epoch
that was not finished, and ends with the same numbers. Without ``--data-dir`` nothing is trained:
the rules of ``epoch_selection.py``, with one that you add, choose from the files alone. Rules that
do not name the uniform prior have the marginal one.
"""

import argparse
import gzip
import json
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
import pandas as pd
import torch
from skorch import NeuralNetClassifier
from torch.utils.data import ConcatDataset, Dataset

from pa_select import robustness_curve
from pa_select.shifts import PGD
from pa_select.training import SharedEnvironment
from papers import epoch_selection as selection
from papers.datasets import WILDSData, factor_images
from papers.layer_features import LayerFeatures
from papers.learners import AdversarialNet
from papers.posteriors import decompose, entropy_change
from papers.shifts import FMN

DEFAULTS = {
    "mnist": {"network": "resnet18", "size": 128, "epochs": 100},
    "cifar10": {"network": "resnet18", "size": 32, "epochs": 100},
    "waterbirds": {"network": "resnet50", "size": 224, "epochs": 100},
    "celebA": {"network": "resnet50", "size": 224, "epochs": 50},
    "camelyon17": {"network": "resnet50", "size": 96, "epochs": 10},
}
# Networks, and the layer of their features.
FEATURES = {"small": "10", "resnet18": "avgpool", "resnet50": "avgpool"}


class Training(NamedTuple):
    """A net, what it learns, and what is looked at after every epoch."""

    net: Any
    rows: Any  # a Dataset of images and classes
    fit: dict  # further arguments of partial_fit
    samples: list  # of validation images, whose logits are kept
    y: np.ndarray  # the classes of all of them
    pairs: Callable  # net after the first epoch -> {name: array (2, n) of rows of the samples}
    measure: Callable  # net -> a line of numbers; rules are judged by its "target"


def files(folder, pattern):
    found = sorted(Path(folder).rglob(pattern))
    if not found:
        raise SystemExit(f"--data-dir: expected files {pattern} in {folder} or below, got none.")
    return found


def idx(folder, name):
    """Read an array from an IDX file, compressed or not."""
    file = files(folder, f"{name}-ubyte*")[0]
    content = file.read_bytes()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    n_axes = content[3]
    shape = np.frombuffer(content, ">i4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def cifar(folder, pattern):
    """Read images (n, 3, 32, 32) in [0, 1] and labels from the pickles of CIFAR-10."""
    parts = [pickle.loads(f.read_bytes(), encoding="latin1") for f in files(folder, pattern)]
    images = np.concatenate([part["data"] for part in parts]).reshape(-1, 3, 32, 32)
    return images.astype(np.float32) / 255, np.concatenate([part["labels"] for part in parts])


class Augmented(Dataset):
    """Images that are shifted by up to four pixels and mirrored, anew each time."""

    def __init__(self, images, y):
        self.images, self.y = images, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        down, right, mirrored = (int(torch.randint(n, ())) for n in (9, 9, 2))
        image = np.pad(self.images[row], ((0, 0), (4, 4), (4, 4)))
        image = image[:, down : down + 32, right : right + 32]
        return (image[:, :, ::-1] if mirrored else image).copy(), self.y[row]


class ToTensor:
    """Resize an image, and scale its colours as is usual for ImageNet."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        pixels = np.asarray(image.convert("RGB").resize((self.size, self.size)), np.float32) / 255
        pixels = (pixels - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def drawn_on_disk(folder, images, factors, *, size, random_state):
    """Draw the same images as `factor_images`, into a file without a name."""
    with TemporaryFile(dir=folder) as file:
        drawn = np.memmap(file, np.float32, "w+", shape=(len(images), 3, size, size))
    # One random state for all parts: the draws of a row depend on its number alone.
    random_state = np.random.RandomState(random_state)
    for start in range(0, len(images), 1024):
        part = slice(start, start + 1024)
        of_part = {f: v if isinstance(v, str) else v[part] for f, v in factors.items()}
        drawn[part] = factor_images(images[part], of_part, size=size, random_state=random_state)
    return drawn


def new_module(n_classes, network, size, weights):
    """Return a module that begins with random weights, or with those of a file."""
    if network == "small":
        module = selection.Net(n_classes)
    else:
        try:
            from torchvision.models import get_model
        except (ImportError, RuntimeError) as error:  # there is none, or one for another torch
            wanted = f"torchvision for {network} and torch {torch.__version__}"
            raise SystemExit(f"--network: expected {wanted}, got: {error}") from None
        module = get_model(network, num_classes=n_classes)
        if size <= 32:  # the usual first layers would leave 8 x 8 places
            module.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
            torch.nn.init.kaiming_normal_(module.conv1.weight, mode="fan_out")
            module.maxpool = torch.nn.Identity()
    if weights:
        given = torch.load(weights, map_location="cpu", weights_only=True)
        own = module.state_dict()
        kept = {name: v for name, v in given.items() if name in own and v.shape == own[name].shape}
        for name in list(own)[:-2]:  # the last layer may have had other classes
            # Older files, as torchvision publishes them, do not count batches.
            if name not in kept and not name.endswith("num_batches_tracked"):
                wanted = f"{name} of {network} with shape {tuple(own[name].shape)}"
                found = f"shape {tuple(given[name].shape)}" if name in given else "none"
                raise SystemExit(f"--weights: expected {wanted}, got {found}.")
        module.load_state_dict(kept, strict=False)
    return module


def module_of(options):
    how = {name: getattr(options, name) for name in ("network", "size", "weights")}
    return partial(new_module, **how)


def settings_of(options, lr):
    """Return how a net is made and trained, as arguments of skorch."""
    return {
        "module": module_of(options),
        "optimizer": torch.optim.Adam,
        "lr": lr,
        "batch_size": options.batch_size,
        "device": options.device,
        "iterator_train__num_workers": options.workers,
        "iterator_valid__num_workers": options.workers,
    }


def mnist(options):
    """Yield the key of each training, and a function that prepares it."""
    images, y = (
        np.concatenate([idx(options.data_dir, f"{part}-{kind}") for part in ("train", "t10k")])
        for kind in ("images-idx3", "labels-idx1")
    )
    # The thesis has 30 000, 15 000 and 3 000 digits for training, validation and tests.
    shares = tuple(np.array([15, 15, 7.5, 7.5]) / 48)
    digits = selection.Digits(images / np.float32(255), y.astype(int), options.size, shares)
    trainings = [(6, "two sources"), *((7, setting) for setting in selection.SETTINGS[7])]
    each = product(range(options.seeds), options.factors, options.learners, options.lr, trainings)
    for seed, factor, learner, lr, (experiment, training) in each:
        if (experiment, learner) == (7, "LISA"):  # it would undo the shortcuts
            continue
        key = {"experiment": experiment, "factor": factor, "training": training}
        key |= {"learner": learner, "lr": lr, "seed": seed}
        yield key, partial(coloured_digits, key, digits, options)


def coloured_digits(key, digits, options):
    experiment, factor, training, learner, lr, seed = key.values()
    # The memory may be too small for what the miniature holds there.
    with mock.patch.object(selection, "factor_images", partial(drawn_on_disk, options.output)):
        if experiment == 6:
            problem = selection.experiment_6(factor, seed, digits)
        else:
            problem = selection.experiment_7(factor, training, seed, digits)
    classes, sources = np.unique(problem.sources[0][1]), []
    for images, labels in problem.sources:
        sources.append(SharedEnvironment(images, np.searchsorted(classes, labels)))
    samples, labels = zip(*problem.validation.values(), strict=True)
    ends = np.cumsum([len(sample) for sample in samples])
    rows = dict(zip(problem.validation, np.split(np.arange(ends[-1]), ends), strict=False))
    pairs = {", ".join(name): [rows[k] for k in keys] for name, keys in problem.pairs.items()}

    def measure(net):
        logits = [net.forward(images).numpy()[None] for images, _ in problem.tests]
        right = [
            100 * selection.accuracy(of_test, y).item()
            for of_test, (_, y) in zip(logits, problem.tests, strict=True)
        ]
        line = {"target": np.mean(right[selection.TARGET[experiment]])}
        line |= {f"test {j}": value for j, value in enumerate(right)}
        return line | {"beta": selection.resolution(logits, 0)[0]}

    return Training(
        selection.net_of(learner, seed, len(classes), **settings_of(options, lr)),
        ConcatDataset(sources),
        {"environments": np.repeat([0, 1], [len(source) for source in sources])},
        samples,
        np.searchsorted(classes, np.concatenate(labels)),
        lambda net: pairs,
        measure,
    )


def wilds(options):
    """Do the same for a data set of WILDS."""
    name, transform = options.dataset, ToTensor(options.size)
    validation = "id_val" if name == "camelyon17" else "val"
    samples = [
        WILDSData.load(name, options.data_dir, split=split, transform=transform)
        for split in ("train", validation, "test")
    ]
    for seed, learner, lr in product(range(options.seeds), options.learners, options.lr):
        key = {"learner": learner, "lr": lr, "seed": seed}
        yield key, partial(domains, key, samples, options)


def domains(key, samples, options):
    train, valid, test = samples

    def pairs(net):  # as in the thesis: by the features after the first epoch
        layer = LayerFeatures(net, FEATURES[options.network])
        found = valid.pairs(valid.features(layer, num_workers=options.workers))
        return {"nearest neighbours": [found.a, found.b]}

    def measure(net):
        right = pd.Series(100.0 * (net.forward(test).numpy().argmax(1) == test.y))
        parts = {"worst environment": [test.environments]}
        parts["worst group"] = [test.environments, test.y]
        worst = {name: right.groupby(part).mean().min() for name, part in parts.items()}
        mean = right.mean()
        return {"target": mean, "average": mean} | worst

    settings = settings_of(options, key["lr"])
    net = selection.net_of(key["learner"], key["seed"], len(np.unique(train.y)), **settings)
    environments = {"environments": train.environments}
    return Training(net, train, environments, [valid], valid.y, pairs, measure)


def cifar10(options):
    """Do the same for nets that are attacked after their training."""
    samples = *cifar(options.data_dir, "data_batch_*"), *cifar(options.data_dir, "test_batch")
    for seed, lr, defence in product(
        range(options.seeds), options.lr, ("undefended", "adversarial")
    ):
        key = {"defence": defence, "lr": lr, "seed": seed}
        yield key, partial(defended, key, samples, options)


def defended(key, samples, options):
    X, y, X_test, y_test = samples
    settings = {
        "train_split": None,
        "verbose": 0,
        "max_epochs": 1,
        "iterator_train__shuffle": True,
    }
    settings |= {"classes": range(10), "criterion": torch.nn.CrossEntropyLoss}
    settings |= settings_of(options, key["lr"]) | {"module__n_classes": 10}
    torch.manual_seed(key["seed"])
    if key["defence"] == "adversarial":
        net = AdversarialNet(attack=PGD(8 / 255, steps=10, bounds=(0, 1)), **settings)
    else:
        net = NeuralNetClassifier(**settings)

    def measure(net):
        return {"target": 100 * np.mean(net.forward(X_test).numpy().argmax(1) == y_test)}

    return Training(net, Augmented(X, y), {}, [X_test], y_test, lambda net: {}, measure)


def attack(net, X, y, n_steps, folder):
    """Write a line for each attack, its power and the share of images that it reaches."""
    steps = {"steps": n_steps, "bounds": (0, 1)}
    for name, how in {
        "PGD": {"shift": PGD(**steps), "powers": np.array([8, 16, 32]) / 255},
        "FMN": {"shift": FMN(np.inf, **steps), "order": "norm"},
    }.items():
        if (folder / f"attacks {name}.csv").exists():
            continue
        curve = robustness_curve(net, X, y, ratios=np.linspace(0, 1, 11), prior="uniform", **how)
        table = curve.to_frame().drop(columns="estimator").assign(attack=name)
        table["log_kernel"] = table["n_pairs"] * (table["pa"] - np.log(10))
        lines = table.to_dict("records")
        for line in lines:
            result = curve.agreement(power=line["power"], ratio=line["ratio"])
            line["entropy_change"] = entropy_change(result, y).of_rows
            for group, part in decompose(result, y).items():
                zeta = part.n_pairs and part.approximate - part.n_by_rates * np.log(10)
                line |= {f"{group}: pairs": part.n_by_rates, f"{group}: delta": part.doubt}
                line[f"{group}: zeta"] = zeta
        with replaced(folder / f"attacks {name}.csv") as file:
            pd.DataFrame(lines).to_csv(file, index=False)


PROTOCOLS = {"mnist": mnist, "cifar10": cifar10} | dict.fromkeys(list(DEFAULTS)[2:], wilds)


@contextmanager
def replaced(file):
    """Give a name to write to; a stop at any time leaves the old file or the new one."""
    new = file.with_name(f"{file.name}.new")
    yield new
    with open(new, "rb+") as written:
        os.fsync(written.fileno())
    os.replace(new, file)


def train(training, folder, n_epochs):
    """Train to the last epoch, and write after every one what rules and a new start need."""
    net, checkpoint, lines = training.net.initialize(), folder / "checkpoint.pt", []
    parts = {"module": net.module_, "optimizer": net.optimizer_}
    own = getattr(net, "random_", np.random)  # orders rows and mixes them
    if checkpoint.exists():
        found = torch.load(checkpoint, map_location="cpu", weights_only=False)
        for name, part in parts.items():
            part.load_state_dict(found[name])
        torch.set_rng_state(found["torch"])
        torch.cuda.set_rng_state_all(found["cuda"])
        own.set_state(found["own"])
        lines = found["lines"]
    for epoch in range(len(lines), n_epochs):
        net.partial_fit(training.rows, **training.fit)
        if "train_loss" not in net.history[-1]:  # skorch ends an epoch quietly at Ctrl-C
            raise KeyboardInterrupt
        logits = np.concatenate([net.forward(sample).numpy() for sample in training.samples])
        if epoch == 0:
            of_sample = np.repeat(range(len(training.samples)), list(map(len, training.samples)))
            rows = {"y": training.y, "sample": of_sample, **training.pairs(net)}
            np.savez(folder / "rows.npz", **rows)
        how = {"mode": "r+"} if epoch else {"mode": "w+", "shape": (n_epochs, *logits.shape)}
        kept = np.lib.format.open_memmap(folder / "logits.npy", dtype=logits.dtype, **how)
        kept[epoch] = logits
        kept.flush()
        line = {"epoch": epoch + 1, "train_loss": net.history[-1, "train_loss"]}
        lines.append(line | training.measure(net))
        with replaced(folder / "epochs.csv") as file:
            pd.DataFrame(lines).to_csv(file, index=False)
        random = {"torch": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
        state = {name: part.state_dict() for name, part in parts.items()} | random
        with replaced(checkpoint) as file:  # the last one: without it the epoch is repeated
            torch.save(state | {"own": own.get_state(), "lines": lines}, file)
    return net


def rules(folder):
    """Return the epoch that each rule chooses for each kind of pairs, from the files alone."""
    epochs, rows = pd.read_csv(folder / "epochs.csv"), np.load(folder / "rows.npz")
    logits = np.load(folder / "logits.npy", mmap_mode="r")[: len(epochs)]
    right = logits.argmax(2) == rows["y"]
    lines = []
    for name in rows.files[2:]:  # after y and sample
        a, b = rows[name]
        labelled = np.isin(rows["sample"], rows["sample"][rows[name]])
        accuracy = right[:, labelled].mean(1)
        found = selection.criteria(logits[:, a], logits[:, b], accuracy)
        found["error"] = np.sqrt(accuracy * (1 - accuracy) / labelled.sum())
        found["best epoch"] = epochs["target"].to_numpy()
        for rule, epoch in selection.choices(found).items():
            lines.append({"pairs": name, "rule": rule, **epochs.loc[epoch]})
    return pd.DataFrame(lines)


def results(output):
    """Return a line for each training, kind of pairs and rule, or for each attack."""
    parts = []
    for file in sorted(output.glob("*/epochs.csv")):
        attacks = sorted(file.parent.glob("attacks *.csv"))
        table = pd.concat(map(pd.read_csv, attacks)) if attacks else rules(file.parent)
        settings = json.loads((file.parent / "settings.json").read_text())
        parts.append(pd.DataFrame([settings | line for line in table.to_dict("records")]))
    return pd.concat(parts or [pd.DataFrame()], ignore_index=True)


def as_in_the_papers(table):
    """Return means over the seeds."""
    keys = ["experiment", "factor", "training", "defence", "pairs", "learner", "lr", "rule"]
    keys += ["attack", "power", "ratio"]
    values = ["average", "worst environment", "worst group", *(f"test {j}" for j in range(6))]
    values += ["log_kernel", "afr_true", "afr_pred", "beta"]
    keys, values = ([name for name in names if name in table] for names in (keys, values))
    return table.groupby(keys, sort=False, dropna=False)[values].mean().round(2)


def is_finished(folder, options):
    epochs, attacks = folder / "epochs.csv", list(folder.glob("attacks *.csv"))
    trained = epochs.exists() and len(pd.read_csv(epochs)) == options.epochs
    return trained and (options.dataset != "cifar10" or len(attacks) == 2)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--dataset", required=True, choices=DEFAULTS)
    parser.add_argument("--data-dir", metavar="DIR", help="without it nothing is trained")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="go on with the output")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--factors", nargs="+", default=["hue", "position"], help="of mnist")
    parser.add_argument("--learners", nargs="+", default=list(selection.LEARNERS))
    parser.add_argument("--lr", nargs="+", type=float, default=[1e-3], help="of Adam")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1000, help="of the attacks on cifar10")
    parser.add_argument("--weights", metavar="FILE", help="a state dict to begin with")
    parser.add_argument("--network", choices=FEATURES)
    parser.add_argument("--size", type=int, help="side of an image in pixels, not of cifar10")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args(arguments)
    for name, value in DEFAULTS[options.dataset].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.data_dir and options.output.exists() and not options.resume:
        parser.error(f"--output: {options.output} is there; --resume goes on with it")
    if options.dataset == "cifar10" and options.size != 32:
        parser.error(f"--size: expected 32 for cifar10, got {options.size}")
    if options.data_dir:
        module_of(options)(2)  # refuses what is not there before the data are read
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or CUDA is not deterministic
    torch.use_deterministic_algorithms(True, warn_only=True)
    named = [*DEFAULTS[options.dataset], "batch_size"]
    for key, prepared in PROTOCOLS[options.dataset](options) if options.data_dir else ():
        settings = {name: getattr(options, name) for name in named} | key
        folder = options.output / ", ".join(f"{name} {value}" for name, value in settings.items())
        if not is_finished(folder, options):
            print(folder.name, flush=True)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "settings.json").write_text(json.dumps(settings))
            training = prepared()
            net = train(training, folder, options.epochs)
            if options.dataset == "cifar10":
                attack(net, *training.samples, training.y, options.steps, folder)
    table = results(options.output)
    if table.empty:
        parser.error(f"--output: expected a folder with results, got none in {options.output}")
    table.to_csv(options.output / "table.csv", index=False)
    print(as_in_the_papers(table).to_string())


if __name__ == "__main__":
    main()
