"""
Regressors on two real spectrometers
====================================

A laboratory predicts a content from near-infrared spectra. A second spectrometer comes, and some
objects were measured by both and assayed by nobody. Which regressor, and which way to prepare a
spectrum, should be used at the second instrument, and how large will the error be there? The
collections and candidates are those of ``spectrometers.py``. The rules are

- *cross-validation* at the first instrument;
- *expected score*: ``GridSearchCV`` with ``scoring=expected_scorer(X_a, X_b, ...)``;
- *with adapter*: cross-validation's choice, always adapted by direct standardisation, and the best
  expected score with or without adapted rows;
- *labels of the pairs*: the error at the second instrument on the pairs.

The second table is of trained models and `expected_score`: the candidates are fitted to half of
the labelled objects, and the other half is left to judge them. By default the most accurate ones
stand in for the labels, with ``reference="self"`` each candidate itself.

``--table FILE`` and ``--trained FILE`` write the tables that docs/paired.rst quotes.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
from pair_rules import cross_adapted, with_error
from sklearn.base import clone
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid, train_test_split
from spectrometers import COLLECTIONS, GRID, MODEL, RMSE, read

from pa_select import SiteAdapter, expected_score, expected_scorer

N_PAIRS = (20, 40, 100)


def draw(name, seed):
    """Return spectra, standardised contents, and the labelled, paired and test objects."""
    X, _, _, y = read(name)
    collection = COLLECTIONS[name]
    labelled, rest = train_test_split(
        np.arange(len(y)), train_size=collection.n_labelled, random_state=seed
    )
    pairs, test = rest[: collection.n_pairs], rest[collection.n_pairs :]
    return X, (y - y.mean()) / y.std(), labelled, pairs, test


def candidates():
    return [clone(MODEL).set_params(**clone(p, safe=False)) for p in ParameterGrid(GRID)]


def errors_of(models, X, y):
    return [-root_mean_squared_error(y, model.predict(X)) for model in models]


def errors_of_truth(models, X, y):
    """Return the standard errors of root mean squared errors, from so few test objects."""
    squares = np.array([np.square(y - model.predict(X)) for model in models])
    return squares.std(axis=1, ddof=1) / np.sqrt(len(y)) / (2 * np.sqrt(squares.mean(axis=1)))


def measure(name, a, b, seed):
    """Return what a search knows of each candidate; the unit is the standard deviation."""
    X, y, labelled, pairs, test = draw(name, seed)
    sizes = [n for n in N_PAIRS if n <= len(pairs)]
    scorers = {"cross-validation": RMSE}
    for n in sizes:
        here, there = X[a, pairs[:n]], X[b, pairs[:n]]
        for words, rows in (("", there), (" adapted", cross_adapted(there, here))):
            scorers[f"expected {n}{words}"] = expected_scorer(here, rows, scoring=RMSE)
    search = GridSearchCV(
        MODEL, GRID, scoring=scorers, refit=False, cv=KFold(5, shuffle=True, random_state=0)
    ).fit(X[a, labelled], y[labelled])
    table = pd.DataFrame({key: search.cv_results_[f"mean_test_{key}"] for key in scorers})
    models = [model.fit(X[a, labelled], y[labelled]) for model in candidates()]
    table["truth"] = errors_of(models, X[b, test], y[test])
    for n in sizes:
        adapter = SiteAdapter().fit(X[b, pairs[:n]], X[a, pairs[:n]])
        mapped = adapter.transform(X[b, test])
        table[f"truth adapted {n}"] = errors_of(models, mapped, y[test])
        table[f"labels {n}"] = errors_of(models, X[b, pairs[:n]], y[pairs[:n]])
    return table.assign(data=name, way=f"{a} to {b}", seed=seed)


def measure_trained(name, a, b, seed):
    """Return what is known of candidates that were fitted to half of the labelled objects."""
    X, y, labelled, pairs, test = draw(name, seed)
    fit, val = labelled[::2], labelled[1::2]
    models = {str(i): m.fit(X[a, fit], y[fit]) for i, m in enumerate(candidates())}
    table = pd.DataFrame({"validation": errors_of(models.values(), X[a, val], y[val])})
    table["truth"] = errors_of(models.values(), X[b, test], y[test])
    table["truth error"] = errors_of_truth(models.values(), X[b, test], y[test])
    for n in [n for n in N_PAIRS if n <= len(pairs)]:
        rows = X[a, pairs[:n]], X[b, pairs[:n]], X[a, val], y[val]
        for reference in ("ensemble", "self"):
            found = expected_score(models, *rows, scoring=RMSE, reference=reference)
            table[f"{reference} {n}"] = [one.score for one in found.values()]
            table[f"{reference} {n} error"] = [one.standard_error for one in found.values()]
        table[f"labels {n}"] = errors_of(models.values(), X[b, pairs[:n]], y[pairs[:n]])
    return table.assign(data=name, way=f"{a} to {b}", seed=seed)


def known_sizes(unit):
    return [n for n in N_PAIRS if f"labels {n}" in unit and unit[f"labels {n}"].notna().all()]


def chosen(unit):
    """Return the error of each rule's choice, and by how much the rule's own number is off."""
    truth, claimed = -unit["truth"].to_numpy(), -unit["cross-validation"].to_numpy()
    found = Choices(truth)
    found.add("cross-validation", 0, claimed)
    for n in known_sizes(unit):
        found.add("expected score", n, -unit[f"expected {n}"].to_numpy())
        found.add("labels of the pairs", n, -unit[f"labels {n}"].to_numpy())
        adapted = -unit[f"truth adapted {n}"].to_numpy()
        always = "with adapter: cross-validation, always adapted"
        found.numbers["error", always, n] = adapted[claimed.argmin()]
        values = -np.concatenate([unit[f"expected {n}"], unit[f"expected {n} adapted"]])
        found.add("with adapter: expected score", n, values, np.concatenate([truth, adapted]))
    found.numbers["error", "best in hindsight", 0] = truth.min()
    return pd.Series(found.numbers)


def chosen_of_trained(unit):
    """Return the same for candidates that were trained before."""
    found = Choices(-unit["truth"].to_numpy())
    found.add("by validation error", 0, -unit["validation"].to_numpy())
    rules = {"expected score": "ensemble", 'expected score, reference="self"': "self"}
    for n in known_sizes(unit):
        for rule, reference in rules.items():
            values, error = unit[f"{reference} {n}"], unit[f"{reference} {n} error"]
            found.add(rule, n, -values.to_numpy())
            inside = abs(values - unit["truth"]) <= 1.96 * np.hypot(error, unit["truth error"])
            found.numbers["inside", rule, n] = inside.mean()
        found.add("labels of the pairs", n, -unit[f"labels {n}"].to_numpy())
    found.numbers["error", "best in hindsight", 0] = found.truth.min()
    return pd.Series(found.numbers)


class Choices:
    """The errors of choices, and how far the numbers that they were made by are off."""

    def __init__(self, truth):
        self.truth, self.numbers = truth, {}

    def add(self, rule, n, values, truth=None):
        """Choose the candidate of the smallest value."""
        i, truth = values.argmin(), self.truth if truth is None else truth
        self.numbers["error", rule, n] = truth[i]
        self.numbers["off", rule, n] = abs(values[i] - truth[i])


def table_of(data, numbers_of):
    """Return the means over splits and directions of all numbers, with errors over the splits."""
    units = data.groupby(["data", "way", "seed"], sort=False)
    found = pd.DataFrame({key: numbers_of(unit) for key, unit in units}).T
    splits = found.groupby(level=[0, 2], sort=False).mean().groupby(level=0, sort=False)
    mean, error = splits.mean(), splits.sem()
    lines = []
    for _, rule, n in [column for column in mean if column[0] == "error"]:
        line = {"rule": rule, "pairs": n or ""}
        for name in mean.index:
            numbers = {
                "error": name,
                "off": f"{name}: off by",
                "inside": f"{name}: in 1.96 SE",
            }
            for number, words in numbers.items():
                if number not in mean:
                    continue
                known = (number, rule, n) in mean and np.isfinite(mean.at[name, (number, rule, n)])
                line[words] = ""
                if known:
                    cell = mean.at[name, (number, rule, n)], error.at[name, (number, rule, n)]
                    line[words] = with_error(*(100 * value for value in cell))
        lines.append(line)
    return pd.DataFrame(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Regressors on two real spectrometers")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each collection")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished splits there")
    parser.add_argument("--table", metavar="FILE", help="write that of the searches there")
    parser.add_argument("--trained", metavar="FILE", help="write that of trained models there")
    options = parser.parse_args()
    memory = joblib.Memory(options.memory, verbose=0)
    for measured, numbers_of, file in (
        (measure, chosen, options.table),
        (measure_trained, chosen_of_trained, options.trained),
    ):
        kept = memory.cache(measured)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pairs that say little
            data = [
                kept(name, a, b, seed)
                for name, collection in COLLECTIONS.items()
                for a in range(collection.n_instruments)
                for b in range(collection.n_instruments)
                for seed in range(options.seeds)
                if a != b
            ]
        table = table_of(pd.concat(data), numbers_of)
        print(table.to_string(index=False))
        if file:
            table.to_csv(file, index=False)
