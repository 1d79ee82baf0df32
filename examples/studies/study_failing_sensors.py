"""
Sensors that fail, and nobody knows which
=========================================

A third of the columns fail in all rows, as their sensors would: they become the mean of the
labelled rows, as an imputer fills them in. Which columns will fail is not known. This script makes
one such failure or ten, as views of the labelled rows of four data sets of scikit-learn, and asks
how accurate the chosen model is under twenty other failures. The candidates are the 28 classifiers
of ``label_free_problems.py``, trained on the rows, or on the rows and their views. Then one is
chosen

- by *accuracy* in cross-validation: if the candidates are trained on views, too, the folds keep a
  row and its views together, and the accuracy is over all of them;
- by `PASearchCV`'s default with *views*, or by the *accuracy on the views*, of candidates that are
  trained on the rows.

``--table FILE`` writes the table that docs/views.rst shows: points of accuracy over the choice by
accuracy among the candidates that are trained on the rows. "The same failure" is that of the one
view, "other failures" are those of the test.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
import pandas as pd
from label_free_problems import CANDIDATES, digits, parts, table
from label_free_rules import search
from pair_rules import with_error
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from pa_select.shifts import FeatureFailure

DATA = {
    "wine": table(load_wine),
    "breast cancer": table(load_breast_cancer),
    "diabetes": table(load_diabetes),
    "digits": digits,
}
N_VIEWS = 1, 10
N_TESTS = 20
REFERENCE = "trained on rows: accuracy"
COLUMNS = (
    (1, "the same failure"),
    (1, "other failures"),
    (10, "other failures"),
    (10, "no failure"),
)


class Rows:
    """Labelled rows and test rows of one data set, whose columns have mean 0 over the former."""

    def __init__(self, load, seed):
        (X, self.y), _, (X_test, self.y_test) = parts(*load(seed), seed)
        scaler = StandardScaler().fit(X)
        self.X, self.X_test = scaler.transform(X), scaler.transform(X_test)
        self.n_failing = X.shape[1] // 3

    def failures(self, seeds):
        """Return shifts that replace other columns by 0, their mean."""
        return [FeatureFailure(self.n_failing, random_state=seed) for seed in seeds]


def measure(rows, seed):
    """Return each choice's accuracy under other failures, the first view's and none."""
    first = 1000 * seed
    tests = rows.failures(range(first + 100, first + 100 + N_TESTS))
    plain = search(CANDIDATES, rows, seed)[0].cv_results_["mean_test_score"]
    by_accuracy = int(plain.argmax())
    chosen = {("trained on rows", "accuracy", n): ([], by_accuracy) for n in N_VIEWS}
    for n in N_VIEWS:
        views = rows.failures(range(first, first + n))
        found = search(CANDIDATES, rows, seed, views=views)[0]
        on_views = found.cv_results_["mean_test_score_views"]
        X, y = stacked(rows, views)
        folds = StratifiedGroupKFold(3, shuffle=True, random_state=seed)
        objects = np.tile(np.arange(len(rows.y)), 1 + n)
        folds = list(folds.split(X, y, objects))
        of_all = [cross_val_score(model, X, y, cv=folds).mean() for model in CANDIDATES]
        chosen["trained on rows", "views (PASearchCV's default)", n] = [], found.best_index_
        chosen["trained on rows", "accuracy on views", n] = [], int(on_views.argmax())
        chosen["trained on rows and views", "accuracy's choice", n] = views, by_accuracy
        chosen["trained on rows and views", "accuracy on all", n] = views, int(np.argmax(of_all))
    numbers = {}
    for (training, rule, n), (views, i) in chosen.items():
        model = clone(CANDIDATES[i]).fit(*stacked(rows, views))
        (seen,) = rows.failures([first])
        judged = {
            "other failures": [shift(rows.X_test).X for shift in tests],
            "the same failure": [seen(rows.X_test).X],
            "no failure": [rows.X_test],
        }
        for where, samples in judged.items():
            accuracy = np.mean([model.score(X, rows.y_test) for X in samples])
            numbers[n, where, f"{training}: {rule}"] = 100 * accuracy
    return numbers


def stacked(rows, views):
    """Return the rows with their views below them, and the labels of all."""
    X = np.vstack([rows.X, *(view(rows.X).X for view in views)])
    return X, np.tile(rows.y, 1 + len(views))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Sensors that fail, and nobody knows which")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each data set")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network stops at its iteration limit
        units = {
            (name, seed): measure(Rows(load, seed), seed)
            for name, load in DATA.items()
            for seed in range(options.seeds)
        }
    data = pd.DataFrame(units).T.groupby(level=0, sort=False).mean()
    data.columns.names = ["views", "where", "rule"]
    print(data.round(1).T.to_string())
    lines = []
    for rule in data.columns.unique(level="rule"):
        line = {"rule": rule}
        for n, where in COLUMNS:
            gain = data[n, where, rule] - data[n, where, REFERENCE]
            shown = "one view" if n == 1 else f"{n} views"
            line[f"{shown}: {where}"] = with_error(gain.mean(), gain.sem())
        lines.append(line)
    lines = pd.DataFrame(lines)
    print(lines.to_string(index=False))
    if options.table:
        lines.to_csv(options.table, index=False)
