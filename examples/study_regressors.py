"""
Regressors on two real spectrometers
====================================

A laboratory predicts a content from near-infrared spectra. A second spectrometer comes, and some
objects were measured by both and assayed by nobody. Which regressor, and which way to prepare a
spectrum, should be used at the second instrument, and how large will the error be there? The
collections are those of ``spectrometers.py``. The rules are

- *cross-validation* at the first instrument;
- *expected score*: ``GridSearchCV`` with ``scoring=expected_scorer(X_a, X_b, ...)``;
- *expected score, ensemble*: `expected_score` for all candidates, fitted to half of the labelled
  objects, with the other half as labelled rows; the choice is then fitted to all of them;
- *with adapter*: cross-validation's choice, always adapted by direct standardisation, and the best
  expected score with or without adapted rows;
- *labels of the pairs*: the error at the second instrument on the pairs.

``--table FILE`` writes the table that docs/paired.rst shows.
"""

import argparse
import warnings

import joblib
import numpy as np
import pandas as pd
from pair_rules import cross_adapted, with_error
from scipy.signal import savgol_filter
from scipy.stats import zscore
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid, train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from spectrometers import COLLECTIONS, read

from pa_select import SiteAdapter, expected_score, expected_scorer

RMSE = "neg_root_mean_squared_error"
variate = FunctionTransformer(zscore, kw_args={"axis": 1})
slope = FunctionTransformer(
    savgol_filter, kw_args={"window_length": 15, "polyorder": 2, "deriv": 1}
)
MODEL = Pipeline([("prepare", "passthrough"), ("scale", StandardScaler()), ("model", Ridge())])
GRID = {
    "prepare": ["passthrough", variate, slope, make_pipeline(slope, variate)],
    "model": [
        *(PLSRegression(n) for n in (2, 4, 7, 10, 14)),
        *(Ridge(alpha) for alpha in (1, 100, 10_000)),
        KNeighborsRegressor(5),
        RandomForestRegressor(30, max_features=0.1, random_state=0),
    ],
}
N_PAIRS = (20, 40, 100)


def measure(name, a, b, seed):
    """Return what is known of each candidate on one split; the unit is the standard deviation."""
    X, _, _, y = read(name)
    y = (y - y.mean()) / y.std()
    collection = COLLECTIONS[name]
    labelled, rest = train_test_split(
        np.arange(len(y)), train_size=collection.n_labelled, random_state=seed
    )
    pairs, test = rest[: collection.n_pairs], rest[collection.n_pairs :]
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
    models = [clone(MODEL).set_params(**clone(p, safe=False)) for p in ParameterGrid(GRID)]
    fit, val = labelled[::2], labelled[1::2]
    halves = {str(i): clone(m).fit(X[a, fit], y[fit]) for i, m in enumerate(models)}
    for model in models:
        model.fit(X[a, labelled], y[labelled])
    for n in sizes:
        of_pairs = X[a, pairs[:n]], X[b, pairs[:n]]
        found = expected_score(halves, *of_pairs, X[a, val], y[val], scoring=RMSE)
        table[f"ensemble {n}"] = [one.score for one in found.values()]
        adapter = SiteAdapter().fit(*of_pairs[::-1])
        mapped = adapter.transform(X[b, test])
        for words, rows in (("", X[b, test]), (f" adapted {n}", mapped)):
            table[f"truth{words}"] = [
                -root_mean_squared_error(y[test], model.predict(rows)) for model in models
            ]
        table[f"labels {n}"] = [
            -root_mean_squared_error(y[pairs[:n]], model.predict(of_pairs[1])) for model in models
        ]
    return table.assign(data=name, way=f"{a} to {b}", seed=seed)


def chosen(unit):
    """Return the error of each rule's choice, and by how much the rule's own number is off."""
    truth = -unit["truth"].to_numpy()
    claimed = -unit["cross-validation"].to_numpy()
    found = {("cross-validation", 0): truth[claimed.argmin()]}
    off = {("cross-validation", 0): claimed.min() - truth[claimed.argmin()]}
    for n in [n for n in N_PAIRS if f"labels {n}" in unit and unit[f"labels {n}"].notna().all()]:
        rules = {"expected score": "expected", "expected score, ensemble": "ensemble"}
        for rule, key in (rules | {"labels of the pairs": "labels"}).items():
            values = -unit[f"{key} {n}"].to_numpy()
            found[rule, n] = truth[values.argmin()]
            off[rule, n] = values.min() - truth[values.argmin()]
        adapted = -unit[f"truth adapted {n}"].to_numpy()
        found["with adapter: cross-validation, always adapted", n] = adapted[claimed.argmin()]
        values = -np.concatenate([unit[f"expected {n}"], unit[f"expected {n} adapted"]])
        either = np.concatenate([truth, adapted])
        found["with adapter: expected score", n] = either[values.argmin()]
        off["with adapter: expected score", n] = values.min() - either[values.argmin()]
    found["best in hindsight", 0] = truth.min()
    numbers = {("error", *rule): value for rule, value in found.items()}
    return pd.Series(numbers | {("off", *rule): abs(value) for rule, value in off.items()})


def table_of(data):
    """Return the means over splits and directions of all numbers, with errors over the splits."""
    units = data.groupby(["data", "way", "seed"], sort=False)
    found = pd.DataFrame({key: chosen(unit) for key, unit in units}).T
    splits = found.groupby(level=[0, 2], sort=False).mean().groupby(level=0, sort=False)
    mean, error = splits.mean(), splits.sem()
    lines = []
    for _, rule, n in [column for column in mean if column[0] == "error"]:
        line = {"rule": rule, "pairs": n or ""}
        for name in mean.index:
            for number, words in (("error", name), ("off", f"{name}: off by")):
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
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    kept = joblib.Memory(options.memory, verbose=0).cache(measure)
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
    table = table_of(pd.concat(data))
    print(table.to_string(index=False))
    if options.table:
        table.to_csv(options.table, index=False)
