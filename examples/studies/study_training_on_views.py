"""
Choosing by views, or training on them
======================================

Whoever can make views of labelled rows can also train on them. This script compares both, on the
eleven problems of ``label_free_problems.py`` that have views. The candidates are trained on the
rows, or on the rows and their views. Then one of them is chosen

- by *accuracy* in cross-validation: if the candidates are trained on views, too, the folds keep a
  row and its view together, and the accuracy is over both;
- by `PASearchCV`'s default with *views*, or by the *accuracy on the views*, of candidates that are
  trained on the rows.

``--table FILE`` writes the table that docs/views.rst shows: points of accuracy over the choice by
accuracy among the candidates that are trained on the rows, where the shift comes and where not.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
import pandas as pd
from label_free_problems import CANDIDATES, PROBLEMS
from label_free_rules import choices, search
from pair_rules import with_error
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score

WITH_VIEWS = ("drifted", "spurious", "rotated")


def measure(problem, seed):
    """Return the accuracies of the choices on the target, and on rows without the shift."""
    n = len(problem.y)
    both, labels = np.vstack([problem.X, problem.views]), np.tile(problem.y, 2)
    objects = np.tile(np.arange(n), 2)
    folds = [
        split
        for repetition in range(2)
        for split in StratifiedGroupKFold(
            3, shuffle=True, random_state=2 * seed + repetition
        ).split(both, labels, objects)
    ]
    of_both = [cross_val_score(model, both, labels, cv=folds).mean() for model in CANDIDATES]
    without, *_ = search(CANDIDATES, problem, seed)
    accuracy = without.cv_results_["mean_test_score"]
    by_accuracy = choices(accuracy, accuracy, np.isfinite(accuracy))["alone"]
    found, *_ = search(CANDIDATES, problem, seed, views=problem.views)
    table = found.cv_results_
    chosen = {
        "trained on rows: accuracy": (by_accuracy, False),
        "trained on rows: views (PASearchCV's default)": (found.best_index_, False),
        "trained on rows: accuracy on views": (table["mean_test_score_views"].argmax(), False),
        "trained on rows and views: accuracy's choice": (by_accuracy, True),
        "trained on rows and views: the choice by views": (found.best_index_, True),
        "trained on rows and views: accuracy on both": (np.argmax(of_both), True),
    }
    numbers = {}
    for rule, (i, on_views) in chosen.items():
        rows = (both, labels) if on_views else (problem.X, problem.y)
        model = clone(CANDIDATES[i]).fit(*rows)
        numbers["with the shift", rule] = 100 * model.score(problem.X_test, problem.y_test)
        numbers["without it", rule] = 100 * model.score(problem.X_unshifted, problem.y_test)
    return numbers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Choosing by views, or training on them")
    parser.add_argument("--seeds", type=int, default=1, help="units of each data set")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network stops at its iteration limit
        units = {
            (name, seed): measure(make(seed), seed)
            for shift in WITH_VIEWS
            for name, make in ((f"{shift} {n}", m) for n, m in PROBLEMS[shift].items())
            for seed in range(options.seeds)
        }
    problems = pd.DataFrame(units).T.groupby(level=0, sort=False).mean()
    print(problems["with the shift"].round(1).T.to_string())
    lines = []
    for rule in problems["with the shift"]:
        line = {"rule": rule}
        for where in ("with the shift", "without it"):
            gain = problems[where, rule] - problems[where].iloc[:, 0]
            line[where] = with_error(gain.mean(), gain.sem())
            line[f"worst problem {where}"] = f"{gain.min():.1f}"
        lines.append(line)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False))
    if options.table:
        table.to_csv(options.table, index=False)
