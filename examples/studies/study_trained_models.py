"""
Trained models and unlabelled pairs
===================================

Several classifiers are trained already. Some labelled rows are left, which none of them was fitted
to, and a few dozen objects were measured at both sites and labelled at neither. Which classifier
should be used at the other site, and how accurate will it be there? The problems are those of
``study_unlabelled_pairs.py``. The candidates are fitted to one half of the labelled rows, and the
other half is left. The choice is among all 18 of them, or among three at random. The rules are

- *accuracy* on the labelled rows that are left;
- *expected score*, as `expected_score` computes it: the mean posterior of the most accurate
  classifiers stands in for the labels, and the accuracies are shrunk;
- *own posterior*: the same with ``reference="self"``, so that nothing is shrunk;
- *labels of the pairs*: the accuracy on the pairs at the other site, which shows what labels give.

``--table FILE`` writes the table that docs/measured.md shows.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
from pair_problems import GRID, MODEL, PROBLEMS, rows_of
from pair_rules import error_of, over_problems, with_error
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, train_test_split

from pa_select import expected_score

N_PAIRS = (20, 40, 100)
RULES = {
    "accuracy": "accuracy",
    "expected score (default)": "ensemble",
    "expected score, own posterior": "self",
    "labels of the pairs": "labels",
    "best in hindsight": "truth",
}
ESTIMATES = ["accuracy", "expected score (default)", "expected score, own posterior"]


def judged(models, rows, X_val, y_val):
    """Return what is known of each classifier, and its accuracy at the other site."""
    for n in [n for n in N_PAIRS if n <= len(rows.y_pairs)]:
        a, b = rows.pairs_a[:n], rows.pairs_b[:n]
        unit = pd.DataFrame(index=models)
        for reference in ("ensemble", "self"):
            found = expected_score(models, a, b, X_val, y_val, reference=reference)
            unit["accuracy"] = [one.validation_score for one in found.values()]
            unit[reference] = [one.score for one in found.values()]
            unit[f"{reference} error"] = [one.standard_error for one in found.values()]
        unit["labels"] = [model.score(b, rows.y_pairs[:n]) for model in models.values()]
        unit["truth"] = [model.score(rows.X_test, rows.y_test) for model in models.values()]
        unit["truth error"] = error_of(unit["truth"], len(rows.y_test))
        yield unit.assign(pairs=n, models=len(models))


def measure(name, seed):
    """Return what is known of the classifiers of one problem: of all, and of three of them."""
    rows = rows_of(name, seed)
    X, X_val, y, y_val = train_test_split(
        rows.X, rows.y, test_size=0.5, stratify=rows.y, random_state=seed
    )
    models = {
        str(i): clone(MODEL).set_params(**clone(parameters, safe=False)).fit(X, y)
        for i, parameters in enumerate(ParameterGrid(GRID))
    }
    three = np.random.default_rng([seed, 3]).choice(list(models), 3, replace=False)
    units = [judged(some, rows, X_val, y_val) for some in (models, {m: models[m] for m in three})]
    data = pd.concat([unit for generator in units for unit in generator])
    return data.assign(problem=name, seed=seed)


def chosen(unit):
    """Return the gain of each rule and, of an estimate, its errors and whether it holds."""
    truth, accuracy = 100 * unit["truth"].to_numpy(), unit["accuracy"].to_numpy()
    found, first = {}, truth[accuracy.argmax()]
    for rule, column in RULES.items():
        values = unit[column].to_numpy()
        i = max(range(len(unit)), key=lambda i: (values[i], accuracy[i]))
        found["gain", rule] = truth[i] - first
        if rule in ESTIMATES:
            away = 100 * values - truth
            found["absolute error", rule] = abs(away).mean()
            found["absolute error, choice", rule] = abs(away[i])
            found["mean error, choice", rule] = away[i]
        if rule in ESTIMATES and f"{column} error" in unit:
            # The truth was measured in some rows.
            error = np.hypot(unit[f"{column} error"], unit["truth error"]).to_numpy()
            inside = 100.0 * (abs(away) <= 196 * error)
            found["within 1.96 SE [%]", rule] = inside.mean()
            found["within 1.96 SE [%], choice", rule] = inside[i]
    return pd.Series(found)


def table_of(data):
    """Return the means over the problems with 100 pairs, and their errors."""
    keys = ["models", "pairs", "problem", "seed"]
    units = data.groupby(keys, sort=False).apply(chosen)
    problem = units.index.get_level_values("problem")
    with_most = data.query("pairs == @N_PAIRS[-1]")["problem"].unique()
    print(f"{len(with_most)} problems with {N_PAIRS[-1]} pairs")
    lines = []
    for n_models, some in units[problem.isin(with_most)].groupby("models", sort=False):
        mean, error = over_problems(some)
        numbers = mean.columns.get_level_values(0).unique()
        for n in mean.index:
            for rule in RULES:
                known = [(number, rule) for number in numbers if (number, rule) in mean]
                cells = {key[0]: with_error(mean.at[n, key], error.at[n, key]) for key in known}
                lines.append({"models": n_models, "pairs": n, "rule": rule} | cells)
    return pd.DataFrame(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trained models and unlabelled pairs")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of every problem")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished problems there")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    kept = joblib.Memory(options.memory, verbose=0).cache(measure)
    with warnings.catch_warnings():
        # Some candidates know all labels, and a few pairs say little.
        warnings.simplefilter("ignore")
        data = [kept(name, seed) for name in PROBLEMS for seed in range(options.seeds)]
    table = table_of(pd.concat(data))
    print(table.to_string(index=False))
    if options.table:
        table.to_csv(options.table, index=False)
