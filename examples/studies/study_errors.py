"""
Errors of scores and of differences
===================================

How often does the range of plus and minus 1.96 standard errors hold the truth? In simulations the
truth is known: 2000 objects of the other site are labelled. Small data sets are drawn many times,
five models are searched with 300 unlabelled pairs, and each expected score is compared with what
the model, fitted to all labelled rows, scores at the other site.

The part of the error that comes from the labelled rows may be computed from the scores of the
folds, as usual, or from the rows that the folds held out, as `PASearchCV` does. The first table
has the shares of truths that each range holds, of all models and of the chosen one, and by how
much the part varies from data set to data set, relative to its mean.

The second table has differences of two expected scores: the error that `PASearchCV.compare` gives,
and the root of the sum of both squared errors. How often is a true difference held, how often are
models called different whose true scores differ by less than a point, and how often those whose
scores differ by more than five points?

``--table FILE`` writes the first table, and ``--differences FILE`` the second one.
"""

import argparse
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer, r2_score
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tqdm.auto import tqdm

from pa_select import PASearchCV

N_TEST = 2000
CLASSIFIERS = [
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.05),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.9),
    KNeighborsClassifier(3),
    KNeighborsClassifier(15),
    GaussianNB(),
]
REGRESSORS = [
    Ridge(1.0),
    Ridge(100.0),
    KNeighborsRegressor(3),
    KNeighborsRegressor(10),
    make_pipeline(FunctionTransformer(lambda X: X[:, :2]), Ridge(1.0)),
]
OF_CLASSES = ["accuracy", "balanced_accuracy", "neg_log_loss"]
OF_NUMBERS = ["neg_root_mean_squared_error", "neg_mean_absolute_error", "r2"]
# Kind, errors of the targets, labelled rows, and folds.
REGIMES = [
    ("classes", "", 60, 5),
    ("classes", "", 200, 5),
    ("numbers", "normal", 60, 3),
    ("numbers", "normal", 60, 5),
    ("numbers", "normal", 60, 10),
    ("numbers", "heavy tails", 60, 5),
]
# Kind, labelled rows, and pairs; and from where on a true difference is large.
DIFFERENCES = [("classes", 100, 40), ("classes", 300, 100), ("numbers", 100, 40)]
NEAR, FAR = {"classes": 0.01, "numbers": 0.03}, {"classes": 0.05, "numbers": 0.3}


def draw(kind, tails, n, rng):
    """Return rows of the labelled site, the same objects at the other site, and targets."""
    if kind == "classes":
        means = np.zeros((3, 8))
        means[1, :3], means[2, 2:5] = 1.1, -1.1
        y = rng.integers(3, size=n)
        X = means[y] + rng.normal(size=(n, 8))
    else:
        X = rng.normal(size=(n, 8))
        error = rng.normal(size=n) if tails == "normal" else rng.standard_t(3, size=n)
        y = X @ [2, -1, 1, 0.5, 0, 0, 0, 0] + np.maximum(X[:, 0] * X[:, 1], 0) + error
    there = X * [1, 0.8, 1.2, 1, 0.7, 1, 1, 1] + [0.4, -0.2, 0, 0.3, 0, 0, 0.2, 0]
    return X, there + 0.5 * rng.normal(size=(n, 8)), y


def searched(kind, tails, n, n_pairs, n_folds, seed):
    """Return a search, what each model scores at the other site, and the labelled rows."""
    rng = np.random.default_rng(seed)
    here, there, y = draw(kind, tails, n + n_pairs + N_TEST, rng)
    X, y_X, paired = here[:n], y[:n], (here[n:][:n_pairs], there[n:][:n_pairs])
    models, metrics = CLASSIFIERS, OF_CLASSES
    if kind == "numbers":
        models, metrics = REGRESSORS, OF_NUMBERS
    options = {"scoring": metrics, "refit": False, "cv": n_folds}
    search = PASearchCV(Pipeline([("model", models[0])]), {"model": models}, **options)
    search.fit(X, y_X, paired=paired)
    fitted = [clone(model).fit(X, y_X) for model in models]
    rows = there[n + n_pairs :], y[n + n_pairs :]
    truth = {name: [get_scorer(name)(model, *rows) for model in fitted] for name in metrics}
    return search, truth, (X, y_X)


def pooled_r2(X, y, n_folds):
    """Return R2 of the rows of all folds together, for each regressor."""
    return np.array([r2_score(y, cross_val_predict(one, X, y, cv=n_folds)) for one in REGRESSORS])


def ranges_of(search, truth, rows, n_folds):
    """Yield which ranges hold the truth, by metric and candidate."""
    table = search.cv_results_
    for metric, true in truth.items():
        expected, error = table[f"expected_{metric}"], table[f"expected_{metric}_se"]
        of_rows = table[f"se_test_{metric}"]
        splits = np.array([table[f"split{k}_test_{metric}"] for k in range(n_folds)])
        of_folds = splits.std(axis=0, ddof=1) / np.sqrt(n_folds)
        others = np.sqrt(np.maximum(error**2 - of_rows**2, 0))  # of the pairs and stand-ins
        with_t = t.ppf(0.975, n_folds - 1) / 1.96 * of_folds
        from_folds = expected
        if metric == "r2":  # the mean of the folds' R2, as usual
            from_folds = expected - pooled_r2(*rows, n_folds) + splits.mean(axis=0)
        for candidate in range(len(expected)):
            found = {"metric": metric, "chosen": candidate == expected.argmax()}
            for name, value, part in (
                ("folds", from_folds, of_folds),
                ("folds, t", from_folds, with_t),
                ("rows", expected, of_rows),
            ):
                reach = 1.96 * np.hypot(others, part)[candidate]
                found[f"held by {name}"] = abs(value[candidate] - true[candidate]) <= reach
                found[f"error of {name}"] = part[candidate]
            yield found | {"candidate": candidate}


def table_of(found):
    """Return the shares of truths that are held, and by how much the errors vary."""
    lines = {}
    keys = ["targets", "labelled rows", "folds", "metric"]
    for regime, some in found.groupby(keys, sort=False):
        line, chosen = {}, some[some["chosen"]]
        for name in ("folds", "folds, t", "rows"):
            line[f"held by {name}"] = some[f"held by {name}"].mean().round(3)
            line[f"chosen, held by {name}"] = chosen[f"held by {name}"].mean().round(3)
        for name in ("folds", "rows"):
            by_candidate = some.groupby("candidate")[f"error of {name}"]
            line[f"error of {name} varies by"] = (by_candidate.std() / by_candidate.mean()).mean()
        line["errors of folds of 0"] = (some["error of folds"] == 0).mean()
        lines[regime] = line
    return pd.DataFrame(lines).T.round(3).rename_axis(keys)


def differences_of(search, truth, kind):
    """Yield what is said of each difference, by the error of the difference and by both errors."""
    metric = next(iter(truth))
    table, true = search.cv_results_, truth[metric]
    error = table[f"expected_{metric}_se"]
    for i, j in combinations(range(len(true)), 2):
        found, in_truth = search.compare(i, j), true[i] - true[j]
        errors = {"difference": found.standard_error, "both": np.hypot(error[i], error[j])}
        for name, one in errors.items():
            clear = abs(found.difference) > 1.96 * one
            yield {
                "error": name,
                "held": abs(found.difference - in_truth) <= 1.96 * one,
                "of equal ones": clear if abs(in_truth) < NEAR[kind] else np.nan,
                "of different ones": (
                    clear and found.difference * in_truth > 0
                    if abs(in_truth) > FAR[kind]
                    else np.nan
                ),
                "reach": 1.96 * one,
            }


def difference_table(found):
    """Return the shares of differences that are held, and that are called clear."""
    grouped = found.groupby(["targets", "labelled rows", "pairs", "error"], sort=False)
    means = grouped[["reach", "held", "of equal ones", "of different ones"]].agg(
        lambda values: values.astype(float).mean()
    )
    words = {
        "of equal ones": "clear, of equal ones",
        "of different ones": "clear, of unequal ones",
    }
    return means.round(3).rename(columns=words)


def measure(repeats):
    """Return what is found in all regimes, and of differences."""
    ranges, differences = [], []
    for kind, tails, n, n_folds in REGIMES:
        regime = {"targets": tails or kind, "labelled rows": n, "folds": n_folds}
        for seed in tqdm(range(repeats), desc=f"{regime}"):
            search, truth, rows = searched(kind, tails, n, 300, n_folds, seed)
            ranges += [regime | one for one in ranges_of(search, truth, rows, n_folds)]
    for kind, n, n_pairs in DIFFERENCES:
        regime = {"targets": kind, "labelled rows": n, "pairs": n_pairs}
        for seed in tqdm(range(10_000, 10_000 + repeats // 2), desc=f"{regime}"):
            search, truth, _ = searched(kind, "normal", n, n_pairs, 5, seed)
            differences += [regime | one for one in differences_of(search, truth, kind)]
    return pd.DataFrame(ranges), pd.DataFrame(differences)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Errors of scores and of differences")
    parser.add_argument("--repeats", type=int, default=2, help="data sets of every regime")
    parser.add_argument("--table", metavar="FILE", help="write the first table there")
    parser.add_argument("--differences", metavar="FILE", help="write the second table there")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows, and models that learn little
        found, of_pairs = measure(options.repeats)
    table, differences = table_of(found), difference_table(of_pairs)
    print(table.to_string(), differences.to_string(), sep="\n\n")
    if options.table:
        table.to_csv(options.table)
    if options.differences:
        differences.to_csv(options.differences)
