"""
The papers' experiments at their size
=====================================

The examples repeat the papers' experiments in miniature. This script runs them on the data sets
that the papers used, which have to be on the disk; nothing is downloaded:

- *mnist*: Experiments 6 and 7, epoch selection on coloured digits. ``DIR`` has the IDX files, at
  any depth, as torchvision leaves them. 128 pixels need about 20 GB of memory, 64 a quarter.
- *cifar10*: Experiment 4, an undefended and an adversarially trained net under PGD and FMN.
  ``DIR`` has the pickles ``data_batch_1`` to ``test_batch``. A pickle can run code, so take them
  from a source that you trust. The thesis has published models instead.
- *waterbirds*, *celebA*, *camelyon17*: Experiments 8 to 10, epoch selection with nearest
  neighbours as pairs. ``DIR`` has the folder of the package wilds, such as ``waterbirds_v1.0``.

``--output FILE`` gets the lines of each model when it is finished. ``--resume`` goes on with such
a file: models whose lines are all there are not trained again. The ResNets are torchvision's.
"""

import argparse
import gzip
import os
import pickle
from functools import partial
from itertools import product
from pathlib import Path

import attacked_digits
import epoch_selection as selection
import numpy as np
import pandas as pd
import torch
from skorch import NeuralNetClassifier

from pa_select import robustness_curve
from pa_select.datasets import WILDSData
from pa_select.scores import LayerFeatures
from pa_select.shifts import FMN, PGD
from pa_select.training import AdversarialNet

DEFAULTS = {
    "mnist": {"network": "resnet18", "size": 128, "epochs": 100},
    "cifar10": {"network": "resnet18", "size": 32, "epochs": 100},
    "waterbirds": {"network": "resnet50", "size": 224, "epochs": 100},
    "celebA": {"network": "resnet50", "size": 224, "epochs": 50},
    "camelyon17": {"network": "resnet50", "size": 96, "epochs": 10},
}
# Networks, and the layer of their features.
FEATURES = {"small": "10", "resnet18": "avgpool", "resnet50": "avgpool"}


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


class ToTensor:
    """Resize an image, and scale its colours as is usual for ImageNet."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        pixels = np.asarray(image.convert("RGB").resize((self.size, self.size)), np.float32) / 255
        pixels = (pixels - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def new_module(n_classes, network, weights):
    """Return a module that begins with random weights, or with those of a file."""
    if network == "small":
        module = selection.Net(n_classes)
    else:
        from torchvision.models import get_model

        module = get_model(network, num_classes=n_classes)
    if weights:
        given, own = torch.load(weights, weights_only=True), module.state_dict()
        kept = {name: v for name, v in given.items() if name in own and v.shape == own[name].shape}
        if len(own) - len(kept) > 2:  # the last layer may have had other classes
            lacking = next(name for name in own if name not in kept)
            raise SystemExit(f"--weights: expected {lacking} of {network}, got none that fits.")
        module.load_state_dict(kept, strict=False)
    return module


def settings_of(options, lr):
    """Return how a net is made and trained, as arguments of skorch."""
    return {
        "module": partial(new_module, network=options.network, weights=options.weights),
        "optimizer": torch.optim.Adam,
        "lr": lr,
        "batch_size": options.batch_size,
        "device": options.device,
        "iterator_train__num_workers": options.workers,
        "iterator_valid__num_workers": options.workers,
    }


def mnist(options):
    """Yield the key of each model, and a function that trains it and returns its lines."""
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
        yield key, partial(epochs_of_digits, key, digits, options)


def epochs_of_digits(key, digits, options):
    """Return the epoch that each rule keeps for each pair of validation samples."""
    experiment, factor, training, learner, lr, seed = key.values()
    if experiment == 6:
        problem = selection.experiment_6(factor, seed, digits)
    else:
        problem = selection.experiment_7(factor, training, seed, digits)
    logits = selection.train(problem, learner, seed, options.epochs, settings_of(options, lr))
    found, tests = selection.study(experiment, problem, logits)
    return [
        {"setting": setting, "pairs": pairing, "rule": rule, "epoch": k + 1}
        | {f"test {j}": test[k] for j, test in enumerate(tests)}
        | {"beta": selection.resolution(logits[1], k)[0]}
        for (setting, pairing), (_, _, values) in found.items()
        for rule, k in selection.choices(values).items()
    ]


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
        yield key, partial(epochs_of_domains, key, samples, options)


def epochs_of_domains(key, samples, options):
    """Return the epoch that each rule keeps, and its accuracies in the test."""
    train, valid, test = samples
    settings = settings_of(options, key["lr"])
    net = selection.net_of(key["learner"], key["seed"], len(np.unique(train.y)), **settings)
    logits, tests = [], []
    for epoch in range(options.epochs):
        net.partial_fit(train, train.y, environments=train.environments)
        if epoch == 0:  # as in the thesis: by the features after the first epoch
            layer = LayerFeatures(net, FEATURES[options.network])
            pairs = valid.pairs(valid.features(layer, num_workers=options.workers))
        logits.append(net.forward(valid).numpy())
        right = pd.Series(100.0 * (net.forward(test).numpy().argmax(1) == test.y))
        domains, groups = [test.environments], [test.environments, test.y]
        worst = [right.groupby(parts).mean().min() for parts in (domains, groups)]
        tests.append((right.mean(), *worst))
    logits, tests = np.stack(logits), np.array(tests)
    right = (logits.argmax(2) == valid.y).mean(1)
    found = selection.criteria(logits[:, pairs.a], logits[:, pairs.b], right)
    found |= {"error": np.sqrt(right * (1 - right) / len(valid)), "best epoch": tests[:, 0]}
    names = ("average", "worst environment", "worst group")
    return [
        {"rule": rule, "epoch": k + 1} | dict(zip(names, tests[k], strict=True))
        for rule, k in selection.choices(found).items()
    ]


def cifar10(options):
    """Do the same for nets under attack."""
    samples = *cifar(options.data_dir, "data_batch_*"), *cifar(options.data_dir, "test_batch")
    for seed, lr, defence in product(
        range(options.seeds), options.lr, ("undefended", "adversarial")
    ):
        key = {"defence": defence, "lr": lr, "seed": seed}
        yield key, partial(attacked, key, samples, options)


def attacked(key, samples, options):
    """Return a line for each attack, its power and the share of images that it reaches."""
    X, y, X_test, y_test = samples
    settings = settings_of(options, key["lr"]) | {"module__n_classes": 10}
    kind = NeuralNetClassifier
    if key["defence"] == "adversarial":
        kind = AdversarialNet
        settings["attack"] = PGD(8 / 255, steps=10, bounds=(0, 1))
    net = attacked_digits.train(X, y, kind, options.epochs, key["seed"], **settings)
    steps, lines = {"steps": options.steps, "bounds": (0, 1)}, []
    for name, attack in {
        "PGD": {"shift": PGD(**steps), "powers": np.array([8, 16, 32]) / 255},
        "FMN": {"shift": FMN(np.inf, **steps), "order": "norm"},
    }.items():
        attack |= {"ratios": np.linspace(0, 1, 11), "prior": "uniform"}
        curve = robustness_curve(net, X_test, y_test, **attack)
        table = curve.to_frame().drop(columns="estimator").assign(attack=name)
        table["log_kernel"] = table["n_pairs"] * (table["pa"] - np.log(10))
        for line in table.to_dict("records"):
            result = curve.agreement(power=line["power"], ratio=line["ratio"])
            line["entropy_change"] = result.entropy_change(y_test).of_rows
            for group, part in result.decompose(y_test).items():
                zeta = part.n_pairs and part.approximate - part.n_by_rates * np.log(10)
                line |= {f"{group}: pairs": part.n_by_rates, f"{group}: delta": part.doubt}
                line[f"{group}: zeta"] = zeta
            lines.append(line)
    return lines


PROTOCOLS = {"mnist": mnist, "cifar10": cifar10} | dict.fromkeys(list(DEFAULTS)[2:], wilds)


def finished(file):
    """Return the lines of each model that has all its lines in the file."""
    models = pd.read_csv(file).groupby("model", sort=False)
    return {model: part for model, part in models if len(part) == part["lines"].iloc[0]}


def save(models, file):
    """Write the lines of all models, so that the file is never left half written."""
    new = file.with_name(f"{file.name}.new")
    pd.concat(models.values()).to_csv(new, index=False)
    os.replace(new, file)


def as_in_the_papers(table, dataset):
    """Return the means over the seeds, arranged as in the papers."""
    keys, columns = ["experiment", "factor", "pairs", "setting", "learner", "lr"], "rule"
    values = ["average", "worst environment", "worst group", *(f"test {j}" for j in range(6))]
    if dataset == "cifar10":
        keys, columns = ["attack", "power", "ratio", "lr"], "defence"
        values = ["log_kernel", "afr_true", "afr_pred", "beta"]
    else:
        table = table[table["rule"].isin(["accuracy", "AFR_P", "PA, uniform", "PA, guarded"])]
    keys, values = ([name for name in names if name in table] for names in (keys, values))
    return table.pivot_table(values, keys, columns, sort=False).round(2)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--dataset", required=True, choices=DEFAULTS)
    parser.add_argument("--data-dir", required=True, metavar="DIR")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="a CSV file")
    parser.add_argument("--resume", action="store_true", help="go on with the file")
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
    if options.output.exists() and not options.resume:
        parser.error(f"--output: {options.output} is there; --resume goes on with it")
    models = finished(options.output) if options.output.exists() else {}
    for key, lines_of in PROTOCOLS[options.dataset](options):
        chosen = {name: getattr(options, name) for name in DEFAULTS[options.dataset]}
        model = ", ".join(f"{name} {value}" for name, value in (chosen | key).items())
        if model not in models:
            print(model, flush=True)
            lines = lines_of()
            head = {"model": model, "lines": len(lines)} | chosen | key
            models[model] = pd.DataFrame([head | line for line in lines])
            save(models, options.output)
    print(as_in_the_papers(pd.concat(models.values()), options.dataset).to_string())


if __name__ == "__main__":
    main()
