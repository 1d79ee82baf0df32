"""
Two questions on the choice of an epoch
=======================================

**Why do rules keep collapsed nets?** Agreement with the uniform prior, and the share of equal
predictions, are highest for a net that predicts one class. The same training of Experiment 6
(``epoch_selection.py``) is repeated with one thing changed at a time: the number of batches in an
epoch, and what batch normalisation uses at evaluation. As usual that is a running mean of the
statistics of the last batches. "recomputed" means that of all training images, with the weights as
they are; the training itself is the same. Group normalisation has no such statistics.
``--collapse FILE`` writes how many choices had less than half of the best validation accuracy.

**Which epoch withstands attacks?** A small convolutional net learns scikit-learn's digits as they
are. After each epoch its validation and test images are attacked (PGD). The validation pairs are
the images and their attacked versions; the rules choose by the labels of the images as they are,
by those of the attacked images, or by agreement. A net that trains on loses robustness, so the
first epoch within the guard, which knows no attack, stands beside them. ``--attacks FILE`` writes
the accuracies of the tests, attacked and as they are.

Errors are over the seeds. ``--memory FOLDER`` keeps each training, so that an interrupted run goes
on.
"""

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
import torch
from skorch.callbacks import Callback
from torch import nn
from torch.optim.swa_utils import update_bn

from pa_select.shifts import PGD
from papers import attacked_digits
from papers.epoch_selection import (
    ADAM,
    PAIRINGS,
    SMALL,
    Net,
    choices,
    criteria,
    experiment_6,
    guard,
    study,
    train,
)

GAINS = ("AFR_P", "PA, uniform", "PA", "PA, guarded", "best epoch")
COLLAPSES = ("AFR_P", "PA, uniform", "PA")


class FastNet(Net):
    """The net with running statistics that forget sooner."""

    def __init__(self, n_classes):
        super().__init__(n_classes)
        for layer in self:
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = 0.5


class GroupNet(Net):
    """The net with group normalisation."""

    def __init__(self, n_classes):
        super().__init__(n_classes)
        for k, layer in enumerate(self):
            if isinstance(layer, nn.BatchNorm2d):
                self[k] = nn.GroupNorm(4, layer.num_features)


class Recomputed(Callback):
    """Sets the statistics of batch normalisation to those of all training images."""

    def __init__(self, images):
        self.images = images

    def on_epoch_end(self, net, **kwargs):
        update_bn([torch.as_tensor(self.images)], net.module_)


# Net, how often an epoch shows each digit, and whether the statistics are recomputed. If it shows
# each digit once, an epoch has 9 batches.
CAUSES = {
    "batch, momentum 0.1": (Net, 1, False),
    "batch, momentum 0.5": (FastNet, 1, False),
    "batch, recomputed": (Net, 1, True),
    "group": (GroupNet, 1, False),
    "batch, momentum 0.1, 8 times the batches": (Net, 8, False),
    "batch, recomputed, 8 times the batches": (Net, 8, True),
    "group, 8 times the batches": (GroupNet, 8, False),
}


def collapse_of(cause, seed, n_epochs):
    """Return a line for each setting: which choices collapsed, and what the rules gain.

    A training whose epochs have eight times the batches has a third of the epochs.
    """
    module, draws, recomputes = CAUSES[cause]
    n_epochs = n_epochs if draws == 1 else n_epochs // 3
    problem = experiment_6("hue", seed, SMALL._replace(draws=draws))
    pairs = {kind: keys for kind, keys in problem.pairs.items() if kind[1] == PAIRINGS[0]}
    kept = {key: problem.validation[key] for keys in pairs.values() for key in keys}
    problem = problem._replace(pairs=pairs, validation=kept)
    images = np.concatenate([images for images, _ in problem.sources])
    callbacks = [("statistics", Recomputed(images))] if recomputes else []
    training = train(problem, "ERM", seed, n_epochs, ADAM, module=module, callbacks=callbacks)
    lines = []
    for (setting, _), (_, _, values) in study(6, problem, training)[0].items():
        epochs, right, target = choices(values), values["accuracy"], values["best epoch"]
        line = {"cause": cause, "seed": seed, "setting": setting}
        line |= {f"collapsed: {rule}": right[epochs[rule]] < right.max() / 2 for rule in COLLAPSES}
        line |= {rule: target[epochs[rule]] - target[epochs["accuracy"]] for rule in GAINS}
        lines.append(line)
    return lines


def with_error(values):
    """Write the mean over the seeds and its standard error."""
    seeds = values.groupby("seed").mean()
    return f"{seeds.mean():+.1f} +- {seeds.sem():.1f}"


def collapse_table(lines):
    """Return a row for each cause."""
    rows = []
    for cause, some in pd.DataFrame(lines).groupby("cause", sort=False):
        lost = {name: f"{some[name].sum()} of {len(some)}" for name in some if ":" in name}
        some = some.set_index("seed")
        rows.append({"normalisation": cause, **lost, **{r: with_error(some[r]) for r in GAINS}})
    return pd.DataFrame(rows)


BUDGETS = (0.1,)  # the largest change of a pixel, which is between 0 and 1
LABELS, FIRST = "accuracy under attack", "first epoch within the guard"
ATTACK_RULES = (*GAINS[:-1], FIRST, "last epoch", LABELS, f"{LABELS}, guarded", "best epoch")


def attacked(budget, seed, n_epochs):
    """Return a line for each rule: the accuracy of its epoch, attacked and not, in percent."""
    X, X_other, y, y_other = attacked_digits.digits(seed)
    valid, test = np.array_split(np.random.default_rng(seed).permutation(len(y_other)), 2)
    pgd = PGD(budget, steps=10, bounds=(0, 1), random_state=seed)
    net = attacked_digits.train(X, y, n_epochs=1, seed=seed)
    logits = []
    for epoch in range(n_epochs):
        if epoch:
            net.partial_fit(X, y)
        moved = pgd(X_other, y_other, estimator=net).X
        logits.append([net.forward(images).numpy() for images in (X_other, moved)])
    clean, hit = np.stack(logits, axis=1)
    right, right_hit = 100 * (clean.argmax(2) == y_other), 100 * (hit.argmax(2) == y_other)
    share = right[:, valid].mean(1) / 100
    found = criteria(clean[:, valid], hit[:, valid], share)
    found["error"] = np.sqrt(share * (1 - share) / len(valid))
    epochs = choices(found | {"best epoch": right_hit[:, test].mean(1)})
    labels, eligible = right_hit[:, valid].mean(1), guard(found)
    guarded = np.where(eligible, labels, -1).argmax()
    epochs |= {LABELS: labels.argmax(), f"{LABELS}, guarded": guarded, FIRST: eligible.argmax()}
    return [
        {
            "budget": budget,
            "seed": seed,
            "rule": rule,
            "attacked": right_hit[epoch, test].mean(),
            "clean": right[epoch, test].mean(),
        }
        for rule, epoch in epochs.items()
    ]


def attack_table(lines):
    """Return a row for each budget and rule: gains over accuracy's choice, in points."""
    lines = pd.DataFrame(lines).set_index(["budget", "rule", "seed"])
    rows = []
    for budget in lines.index.unique("budget"):
        base = lines.loc[budget, "accuracy"]
        row = {"budget": budget, "rule": "accuracy (percent)"}
        rows.append(row | {name: f"{x:.1f}" for name, x in base.mean().items()})
        for rule in ATTACK_RULES:
            gains = lines.loc[budget, rule] - base
            row = {"budget": budget, "rule": rule}
            rows.append(row | {name: with_error(gains[name]) for name in gains})
    return pd.DataFrame(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--seeds", type=int, nargs=2, default=[3, 24], help="of each question")
    parser.add_argument("--epochs", type=int, nargs=2, default=[18, 24], help="of each question")
    parser.add_argument("--memory", help="keep the trainings in this folder, to go on from there")
    parser.add_argument("--collapse", metavar="FILE", help="write the table of collapses there")
    parser.add_argument("--attacks", metavar="FILE", help="write the table of attacks there")
    options = parser.parse_args()
    memory = joblib.Memory(options.memory, verbose=0)
    for measure, cases, table, file, seeds, epochs in zip(
        (collapse_of, attacked),
        (CAUSES, BUDGETS),
        (collapse_table, attack_table),
        (options.collapse, options.attacks),
        options.seeds,
        options.epochs,
        strict=True,
    ):
        if not file:
            continue
        lines = []
        for seed, case in itertools.product(range(seeds), cases):
            lines += memory.cache(measure)(case, seed, epochs)
            print(f"seed {seed}: {case}", flush=True)
        found = table(lines)
        print(found.to_string(index=False))
        found.to_csv(file, index=False)


if __name__ == "__main__":
    main()
