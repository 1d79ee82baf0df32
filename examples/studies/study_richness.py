"""
The richness condition as a guard
=================================

A constant classifier agrees perfectly with itself. The theory therefore maximises posterior
agreement under a condition: the divergence of the mean posterior from the prior must not exceed
a limit. The marginal prior, the default of selection, needs no limit. This script measures
which of the two chooses better where nobody has labels:

- *Candidates.* Two models of each candidate are fitted to halves of labelled rows and predict
  unlabelled rows of a shifted target. Some candidates are constant or nearly so. The classes
  of the target are balanced, or one of them has most rows.
- *Epochs.* A small net learns digits with a learning rate that is too high, or from few
  labels and the agreement of unlabelled pairs with the uniform prior, which a collapse maximises.
  Each epoch predicts the same rows in two environments.

``--table FILE`` writes the table that docs/theory.rst links.
"""

import argparse
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from pa_select import class_scores, posterior_agreement
from pa_select.training import PosteriorAgreementLoss

MARGINAL, SOURCE = "marginal prior", "classes of the source as prior"
RANKS = (f"rank sum, {MARGINAL}", f"rank sum, {SOURCE}, divergence up to 0.1")
LIMITS = (0.05, 0.1, 0.2, 0.5)
CANDIDATES = [
    DummyClassifier(strategy="most_frequent"),
    DummyClassifier(strategy="prior"),
    *(LogisticRegression(C=c, max_iter=300) for c in (1e-5, 1e-3, 0.1, 10)),
    LogisticRegression(C=1e-3, class_weight={0: 50}, max_iter=300),
    *(SVC(gamma=g) for g in (1e-3, 0.03, 1.0)),
    *(KNeighborsClassifier(n) for n in (1, 15)),
    *(DecisionTreeClassifier(max_depth=d, random_state=0) for d in (1, 2, 3, None)),
    GaussianNB(var_smoothing=1e-2),
    RandomForestClassifier(20, max_depth=4, random_state=0),
]


class Menu(NamedTuple):
    """What a rule chooses from.

    ``scores`` has the scores of the two samples for each choice, ``right`` the accuracy (in
    points) that each choice has in the end, ``known`` an accuracy that labels of the source say,
    and ``shares`` are those of the classes at the source.
    """

    kind: str
    scores: list
    right: np.ndarray
    known: np.ndarray
    shares: np.ndarray


def menu_of_candidates(load, strength, most, seed):
    """Fit all candidates to halves of the source, and score a drifted target with noise."""
    rng = np.random.default_rng(seed)
    X, y = load(return_X_y=True)
    y = np.unique(y, return_inverse=True)[1]
    X = StandardScaler().fit_transform(X)
    X_source, X_target, y_source, y_target = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=seed
    )
    if most:
        # One class keeps all its rows, the others a fifth of them, at the source and the target.
        first = rng.integers(y.max() + 1)
        X_source, y_source = rarer(X_source, y_source, first, rng)
        X_target, y_target = rarer(X_target, y_target, first, rng)
    X_target, y_target = X_target[:300], y_target[:300]
    X_target = X_target + strength * rng.normal(size=X.shape[1]) / 2
    X_target = X_target + strength * rng.normal(size=X_target.shape)
    halves = train_test_split(
        np.arange(len(y_source)), test_size=0.5, stratify=y_source, random_state=seed
    )
    halves = [rows[:300] for rows in halves]
    scores, right, known = [], [], []
    for candidate in CANDIDATES:
        both = [clone(candidate).fit(X_source[rows], y_source[rows]) for rows in halves]
        scores.append([class_scores(m, X_target)[0] for m in both])
        right.append(100 * np.mean([m.score(X_target, y_target) for m in both]))
        others = zip(both, halves[::-1], strict=True)
        known.append(np.mean([m.score(X_source[rows], y_source[rows]) for m, rows in others]))
    kind = "candidates, one frequent class" if most else "candidates, balanced classes"
    shares = np.bincount(y_source) / len(y_source)
    return Menu(kind, scores, np.array(right), np.array(known), shares)


def rarer(X, y, first, rng):
    """Keep a fifth of the rows of all classes but one, and at least eight of each."""
    kept = []
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        kept.append(rows if k == first else rows[: max(8, len(rows) // 5)])
    rows = np.sort(np.concatenate(kept))
    return X[rows], y[rows]


def menu_of_epochs(rate, weight, seed, epochs=30):
    """Train a net with a learning rate; the agreement of unlabelled pairs has a weight."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype("float32")
    rows = np.split(rng.permutation(len(y)), [600 if weight == 0 else 60, 1000, 1300])
    fit, free, held_out, test = rows

    def shifted(rows):
        return (0.5 * X[rows] + 0.2 * rng.normal(size=X[rows].shape)).astype("float32")

    samples = [torch.from_numpy(v) for v in (X[held_out], shifted(held_out), shifted(test))]
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    loss, uniform = nn.CrossEntropyLoss(), PosteriorAgreementLoss("uniform", beta=1.0)
    labels = torch.from_numpy(y[fit])
    scores, right, known = [], [], []
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(len(fit)), max(2, len(fit) // 32)):
            optimiser.zero_grad()
            value = loss(net(torch.from_numpy(X[fit[part]])), labels[part])
            if weight:
                pairs = rng.choice(free, 64)
                views = (net(torch.from_numpy(v)) for v in (X[pairs], shifted(pairs)))
                value = value + weight * uniform(*views)
            value.backward()
            optimiser.step()
        with torch.no_grad():
            a, b, c = (net(rows).double().numpy() for rows in samples)
        scores.append([a, b])
        right.append(100 * np.mean(c.argmax(1) == y[test]))
        known.append(np.mean(a.argmax(1) == y[held_out]))
    kind = "epochs, agreement as a loss" if weight else "epochs, high learning rate"
    return Menu(kind, scores, np.array(right), np.array(known), np.full(10, 0.1))


def mean_posterior(a, b, beta):
    """Return the mean posterior of both samples; classes that tie share it at infinity."""
    if np.isinf(beta):
        tops = [x == x.max(1, keepdims=True) for x in (a, b)]
        return np.mean([(t / t.sum(1, keepdims=True)).mean(0) for t in tops], axis=0)
    return np.mean([softmax(beta * x, axis=1).mean(0) for x in (a, b)], axis=0)


def divergence(mean, prior):
    """Return the Kullback-Leibler divergence in nats."""
    there = mean > 0
    return float(np.sum(mean[there] * np.log(mean[there] / prior[there])))


def choices(menu):
    """Apply all rules; return what each one chooses."""
    k = len(menu.shares)
    flat = np.full(k, 1 / k)
    # The prior of the agreement, and the distribution that the divergence is measured from.
    kinds = {
        MARGINAL: ("marginal", flat),
        "uniform prior": ("uniform", flat),
        SOURCE: (menu.shares, menu.shares),
    }
    picks = {}
    for name, (prior, far_from) in kinds.items():
        found = [posterior_agreement(a, b, prior=prior, certify=False) for a, b in menu.scores]
        agreement = np.array([result.score for result in found])
        distance = np.array(
            [
                divergence(mean_posterior(a, b, result.beta), far_from)
                for (a, b), result in zip(menu.scores, found, strict=True)
            ]
        )
        by_ranks = rankdata(agreement) + rankdata(menu.known)
        for limit in (np.inf, *LIMITS):
            rich = distance <= limit
            # If no choice is rich enough, the richest ones are eligible.
            rich = rich if rich.any() else distance <= distance.min() + 1e-9
            guard = "" if np.isinf(limit) else f", divergence up to {limit}"
            picks[name + guard] = first_best(agreement, rich)
            picks[f"rank sum, {name}{guard}"] = first_best(by_ranks, rich)
    picks["accuracy at the source"] = int(np.argmax(menu.known))
    picks["best in hindsight"] = int(np.argmax(menu.right))
    return picks


def first_best(values, eligible):
    values = np.where(eligible, values, -np.inf)
    return int(np.argmax(values >= values.max() - 1e-7))


def measure(menu):
    """Return the accuracy of each rule's choice and whether it has collapsed, a line for each."""
    half = menu.right.max() / 2
    return [
        {
            "kind": menu.kind,
            "rule": rule,
            "right": menu.right[i],
            "collapsed": menu.right[i] < half,
        }
        for rule, i in choices(menu).items()
    ]


def with_error(values):
    return f"{values.mean():+.1f} +- {values.sem():.1f}"


def summary(lines):
    """Return the gains over the marginal prior by kind of menu, and the collapsed choices.

    The first line has the accuracy of the choice by the marginal prior.
    """
    lines = pd.DataFrame(lines)
    lines["menu"] = lines.groupby("rule").cumcount()
    right = lines.pivot(index=["kind", "menu"], columns="rule", values="right")
    gains = right.sub(right[MARGINAL], axis=0)
    rules = [rule for rule in lines["rule"].unique() if rule in RANKS or "rank sum" not in rule]
    table = {"choice by": rules}
    for kind, part in gains.groupby("kind"):
        # The rank sum is a rule for candidates alone.
        column = ["" if "epochs" in kind and r in RANKS else with_error(part[r]) for r in rules]
        column[0] = f"{right.loc[kind][MARGINAL].mean():.1f}"
        table[f"{kind} ({len(part)})"] = column
    lost = lines.groupby("rule")["collapsed"].agg(["sum", "size"])
    known = (f"{lost['sum'][rule]} of {lost['size'][rule]}" for rule in rules)
    table["collapsed"] = ["" if r in RANKS else k for r, k in zip(rules, known, strict=True)]
    return pd.DataFrame(table)


def menus(seeds):
    """Make all problems, one after the other."""
    for seed in range(seeds):
        for load in (load_digits, load_wine, load_iris, load_breast_cancer):
            for strength in (0.5, 1.5):
                for most in (False, True):
                    yield menu_of_candidates(load, strength, most, seed)
        for rate in (0.01, 0.05, 0.1, 0.2):
            yield menu_of_epochs(rate, 0, seed)
        for weight in (0.5, 1.0, 2.0):
            yield menu_of_epochs(0.003, weight, seed)


def main():
    parser = argparse.ArgumentParser(description="The richness condition as a guard")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--table", metavar="FILE", help="write the table there, as csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for menu in menus(options.seeds):
        lines += measure(menu)
        print(f"{menu.kind}: done", flush=True)
    found = summary(lines)
    print(found.to_string(index=False))
    if options.table:
        found.to_csv(options.table, index=False)


if __name__ == "__main__":
    main()
