"""
What agreement of folds sees
============================

Without pairs, views or environments, `PASearchCV` compares models of parts of one labelled sample:
those of two repetitions of cross-validation, which share most training rows, or with
``pairing="split-half"`` those of the two halves of each split's training rows, which share none
but have half as many. Either should say how stable a candidate is: how much its models of
*disjoint* samples, each as large as the labelled one, agree on new rows. Here the truth is known,
since each data set has enough rows for eight such samples. For thirteen classifiers of seven
kinds this script compares the truth with what each pairing finds in one sample:

- the rank correlation over the candidates, of the disagreement (the share of rows with two
  different predicted classes) and of the posterior agreement;
- the slope of what is found against the truth, through the origin: 1 is right on average;
- the accuracy of the candidate that the search chooses, minus that of the choice by accuracy.

``--table FILE`` writes the table that docs/measured.md quotes, means and standard errors over the
data sets, each of which is the mean of its samples.
"""

import argparse
import time
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import (
    load_digits,
    make_classification,
    make_gaussian_quantiles,
    make_moons,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pa_select import PASearchCV, class_scores, posterior_agreement

N, N_SAMPLES, N_TEST = 100, 8, 500
MADE = N * N_SAMPLES + N_TEST
MODEL = Pipeline([("scale", StandardScaler()), ("model", GaussianNB())])
CANDIDATES = [
    *(LogisticRegression(C=C, max_iter=300) for C in (0.01, 1, 100)),
    *(SVC(gamma=gamma) for gamma in (0.003, 0.03, 0.3)),
    *(KNeighborsClassifier(k) for k in (1, 5, 15)),
    *(DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (2, None)),
    RandomForestClassifier(20, random_state=0),
    GaussianNB(),
]
PROBLEMS = {
    "digits": lambda seed: load_digits(return_X_y=True),
    "clusters": lambda seed: make_classification(
        MADE, 10, n_informative=5, n_classes=3, flip_y=0.1, random_state=seed
    ),
    "many columns": lambda seed: make_classification(
        MADE, 60, n_informative=8, n_classes=3, random_state=seed
    ),
    "quantiles": lambda seed: make_gaussian_quantiles(
        n_samples=MADE, n_features=6, n_classes=3, random_state=seed
    ),
    "moons": lambda seed: make_moons(MADE, noise=0.3, random_state=seed),
}
# What a pairing compares, and the splits that it makes fits for.
WAYS = {
    "repeated": RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0),
    "split-half": StratifiedKFold(5, shuffle=True, random_state=0),
    "split-half, twice": RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0),
}


def disjoint_samples(name, seed):
    """Return samples without a common row, (N_SAMPLES, N) rows each, and the test rows."""
    X, y = PROBLEMS[name](seed)
    X, X_test, y, y_test = train_test_split(X, y, test_size=N_TEST, stratify=y, random_state=seed)
    folds = StratifiedKFold(len(y) // N, shuffle=True, random_state=seed).split(X, y)
    samples = [(X[rows], y[rows]) for _, rows in folds]
    return samples[:N_SAMPLES], (X_test, y_test)


def scores_by(candidate, X, y, X_test):
    model = clone(MODEL).set_params(model=clone(candidate)).fit(X, y)
    return np.asarray(class_scores(model, X_test)[0], dtype=float)


def compared(candidate, way, X, y):
    """Return the scores of the models that a pairing compares, of the same rows."""
    splits = list(WAYS[way].split(X, y))
    if way == "repeated":
        of_rows = np.empty((2, len(y), len(np.unique(y))))
        for i, (train, test) in enumerate(splits):
            of_rows[i // 5, test] = scores_by(candidate, X[train], y[train], X[test])
        return of_rows
    found = []
    for train, test in splits:
        parts = StratifiedKFold(2, shuffle=True, random_state=0).split(train, y[train])
        halves = [train[half] for half, _ in parts]
        found.append([scores_by(candidate, X[half], y[half], X[test]) for half in halves])
    return np.concatenate(found, axis=1)


def measures(a, b):
    """Return the disagreement of two models, and their posterior agreement."""
    disagreement = np.mean(a.argmax(axis=1) != b.argmax(axis=1))
    return disagreement, posterior_agreement(a, b, prior="marginal").score


def truth_of(candidate, samples, X_test):
    """Return the mean measures of all two models of disjoint samples."""
    scores = [scores_by(candidate, X, y, X_test) for X, y in samples]
    return np.mean([measures(a, b) for a, b in combinations(scores, 2)], axis=0)


def slope(found, truth):
    return found @ truth / (truth @ truth)


def accuracy_of_choice(way, sample, test, **options):
    pairing = way.split(",")[0]
    search = PASearchCV(MODEL, {"model": CANDIDATES}, pairing=pairing, cv=WAYS[way], **options)
    return 100 * search.fit(*sample).score(*test)


def of_data_set(name, n_drawn, seed):
    """Return the lines of one data set: one for each sample and way."""
    samples, test = disjoint_samples(name, seed)
    truth = np.array([truth_of(one, samples, test[0]) for one in CANDIDATES])
    lines = []
    for number, sample in enumerate(samples[:n_drawn]):
        by_accuracy = accuracy_of_choice("repeated", sample, test, refit="score")
        for way in WAYS:
            found = np.array([measures(*compared(one, way, *sample)) for one in CANDIDATES])
            line = {"data": name, "sample": number, "pairing": way}
            line["fits of a candidate"] = WAYS[way].get_n_splits() * (1 + (way != "repeated"))
            for i, what in enumerate(("disagreement", "agreement")):
                line[f"rank correlation, {what}"] = spearmanr(found[:, i], truth[:, i])[0]
                line[f"slope, {what}"] = slope(found[:, i], truth[:, i])
            line["gain"] = accuracy_of_choice(way, sample, test) - by_accuracy
            lines.append(line)
    return lines


def summary(lines):
    """Return the means and standard errors over data sets, one line for each way."""
    table = pd.DataFrame(lines).drop(columns="sample")
    by_data = table.groupby(["pairing", "fits of a candidate", "data"], sort=False).mean()
    rows = []
    for (way, fits), values in by_data.groupby(level=[0, 1], sort=False):
        known = {"pairing": way, "fits of a candidate": fits}
        for column in values:
            known[column] = f"{values[column].mean():.2f} +- {values[column].sem():.2f}"
        rows.append(known | {"data sets": len(values)})
    return pd.DataFrame(rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="What agreement of folds sees")
    parser.add_argument("--samples", type=int, default=3, help="samples of each data set, to 8")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args(arguments)
    lines, start = [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where no candidate is clearly better than chance
        for name in PROBLEMS:
            lines += of_data_set(name, options.samples, seed=0)
            print(f"{name} {time.perf_counter() - start:.0f} s", flush=True)
    table = summary(lines)
    print(table.to_string(index=False))
    if options.table:
        table.to_csv(options.table, index=False)


if __name__ == "__main__":
    main()
