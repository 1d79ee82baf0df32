"""
Other tools at another site
===========================

Three classifiers are trained, and labelled rows of the first site are left. How accurate are they
at the other site, and do sets of classes with a guaranteed coverage keep it there? The problems
are those of ``study_unlabelled_pairs.py``, whose shifts we made, and the tablets of
``plot_two_spectrometers.py``, from each spectrometer to the other, with all wavelengths and
without the ends. What is estimated of each classifier:

- *accuracy at the first site*, on the labelled rows that are left;
- *nannyml, CBPE*, from these rows and all unlabelled rows of the other site;
- *evidently*, the share of columns that have drifted, which is the same for all classifiers and
  has no unit of accuracy;
- *expected_score*, from the same labelled rows and 40 objects that were measured at both sites;
- *labels of these objects*, the accuracy on them at the other site.

MAPIE conformalises each classifier on the labelled rows that are left, for sets of classes that
have the label of 90 % of the rows. Three regressors predict the content of the tablets, and
*nannyml, DLE* estimates their errors at the other spectrometer.

``--table``, ``--coverage`` and ``--regressors`` write the tables that docs/comparison.rst shows.
``make figures`` installs the packages and writes all three.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
from other_tools import (
    covered,
    estimated_by_cbpe,
    estimated_by_dle,
    prediction_sets,
    share_of_drifted_columns,
)
from pair_problems import PROBLEMS, rows_of
from pair_rules import with_error
from scipy.stats import spearmanr
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from spectrometers import RMSE
from spectrometers import rows_of as spectra_of
from study_regressors import draw, errors_of

from pa_select import SiteAdapter, expected_score

N_PAIRS = 40
TABLETS = {
    f"{name}, {a + 1} to {b + 1}": (name, a, b)
    for name in ("tablets", "tablets without the ends")
    for a, b in ((0, 1), (1, 0))
}
NAMES = [*PROBLEMS, *TABLETS]
MADE, REAL = "shifts that we made", "tablets, two spectrometers"
MODELS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "forest": RandomForestClassifier(100, random_state=0),
    "neighbours": KNeighborsClassifier(15),
}
REGRESSORS = {
    "PLS, 3 components": PLSRegression(3),
    "PLS, 10 components": PLSRegression(10),
    "ridge": make_pipeline(StandardScaler(), Ridge(100)),
}
ESTIMATES = {
    "accuracy at the first site": "validation",
    "nannyml, CBPE": "cbpe",
    "evidently, share of drifted columns": "drifted",
    "expected_score": "expected",
    "labels of these objects": "labels",
}
SITES = {
    "first site": "first",
    "other site": "other",
    "other site, rows mapped by SiteAdapter": "mapped",
}


def measure(name, seed):
    """Return what the tools say of the classifiers of one problem, and the truth."""
    real = name in TABLETS
    rows = spectra_of(*TABLETS[name], seed) if real else rows_of(name, seed)
    X, X_left, y, y_left = train_test_split(
        rows.X, rows.y, test_size=0.5, stratify=rows.y, random_state=seed
    )
    models = {key: model.fit(X, y) for key, model in MODELS.items()}
    a, b = rows.pairs_a[:N_PAIRS], rows.pairs_b[:N_PAIRS]
    expected = expected_score(models, a, b, X_left, y_left)
    mapped = SiteAdapter("ridge").fit(b, a).transform(rows.X_test)
    # Rows of the first site with labels that nothing else uses.
    sites = [(rows.pairs_a, rows.y_pairs), (rows.X_test, rows.y_test), (mapped, rows.y_test)]
    # Neighbouring wavelengths have nearly the same values: every tenth one says the same.
    columns = slice(None, None, 10 if real else 1)
    drifted = share_of_drifted_columns(rows.X[:, columns], rows.X_test[:, columns])
    lines = []
    for key, model in models.items():
        sets = prediction_sets(model, X_left, y_left, *[of_site for of_site, _ in sites])
        line = {
            "truth": model.score(rows.X_test, rows.y_test),
            "validation": expected[key].validation_score,
            "cbpe": estimated_by_cbpe(model, X_left, y_left, rows.X_test),
            "drifted": drifted,
            "expected": expected[key].score,
            "labels": model.score(b, rows.y_pairs[:N_PAIRS]),
        }
        for site, of_site, (_, labels) in zip(SITES.values(), sets, sites, strict=True):
            line[f"coverage {site}"] = covered(of_site, labels, model.classes_).mean()
            line[f"size {site}"] = of_site.sum(axis=1).mean()
        lines.append(line)
    of = {"problems": REAL if real else MADE, "problem": name, "seed": seed}
    return pd.DataFrame(lines).assign(model=list(models), **of)


def measure_regressors(name, seed):
    """Return the same of regressors; the unit is the standard deviation of the content."""
    collection, a, b = TABLETS[name]
    X, y, labelled, pairs, test = draw(collection, seed)
    fit, left, pairs = labelled[::2], labelled[1::2], pairs[:N_PAIRS]
    models = {key: model.fit(X[a, fit], y[fit]) for key, model in REGRESSORS.items()}
    expected = expected_score(models, X[a, pairs], X[b, pairs], X[a, left], y[left], scoring=RMSE)
    data = pd.DataFrame({"truth": errors_of(models.values(), X[b, test], y[test])})
    data["validation"] = errors_of(models.values(), X[a, left], y[left])
    data["cbpe"] = [
        -estimated_by_dle(model, X[a, left], y[left], X[b, test]) for model in models.values()
    ]
    data["expected"] = [one.score for one in expected.values()]
    data["labels"] = errors_of(models.values(), X[b, pairs], y[pairs])
    return data.assign(problems=REAL, problem=name, seed=seed)


def mean_and_error(values, data):
    """Return the mean and its standard error: over the problems, or over splits of the tablets."""
    means = values.groupby(data["seed" if REAL in set(data["problems"]) else "problem"]).mean()
    return means.mean(), means.sem()


def rank_correlation(lost, known, problems, n_replicates=500):
    """Return Spearman's correlation, and its error by a bootstrap over the problems."""
    rng, names = np.random.default_rng(0), problems.unique()
    rows = {name: np.flatnonzero(problems == name) for name in names}

    def correlation(drawn):
        at = np.concatenate([rows[name] for name in drawn])
        return spearmanr(known[at], lost[at]).statistic

    replicates = [correlation(rng.choice(names, len(names))) for _ in range(n_replicates)]
    return f"{correlation(names):.2f} +- {np.std(replicates, ddof=1):.2f}"


def table_of_estimates(data):
    """Return how far each estimate is off, and whether it finds where most accuracy is lost."""
    lines = []
    for problems, some in data.groupby("problems", sort=False):
        lost = (some["validation"] - some["truth"]).to_numpy()
        for name, column in ESTIMATES.items():
            if column == "drifted" and problems == REAL:
                continue  # four problems have no ranks to speak of
            line = {"problems": problems, "estimate": name}
            line |= dict.fromkeys(["off by", "mean error", "rank correlation"], "")
            if column != "drifted":
                away = 100 * (some[column] - some["truth"])
                line["off by"] = with_error(*mean_and_error(away.abs(), some))
                line["mean error"] = with_error(*mean_and_error(away, some))
            if column != "validation" and problems == MADE:
                known = some[column] if column == "drifted" else some["validation"] - some[column]
                line["rank correlation"] = rank_correlation(
                    lost, known.to_numpy(), some["problem"]
                )
            lines.append(line)
    return pd.DataFrame(lines)


def table_of_regressors(data):
    """Return how far each estimate of the error is off, in % of the standard deviation."""
    lines = []
    for name, column in ESTIMATES.items():
        if column in data:
            away = 100 * (data["truth"] - data[column])  # of errors; both are minus the error
            off, mean = (mean_and_error(values, data) for values in (away.abs(), away))
            name = name.replace("accuracy", "error").replace("CBPE", "DLE")
            lines.append((name, with_error(*off), with_error(*mean)))
    return pd.DataFrame(lines, columns=["estimate", "off by", "mean error"])


def table_of_coverage(data):
    """Return how many labels are in MAPIE's sets, and how large the sets are."""
    lines = []
    for problems, some in data.groupby("problems", sort=False):
        for name, site in SITES.items():
            inside = with_error(*mean_and_error(100 * some[f"coverage {site}"], some))
            size, error = mean_and_error(some[f"size {site}"], some)
            lines.append((problems, name, inside, f"{size:.2f} +- {error:.2f}"))
    header = ["problems", "rows", "labels in the set [%]", "classes in a set"]
    return pd.DataFrame(lines, columns=header)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Other tools at another site")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of every problem")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished problems there")
    parser.add_argument("--table", metavar="FILE", help="write the table of estimates there")
    parser.add_argument("--coverage", metavar="FILE", help="write that of MAPIE's sets there")
    parser.add_argument("--regressors", metavar="FILE", help="write that of regressors there")
    options = parser.parse_args()
    memory = joblib.Memory(options.memory, verbose=0)
    kept, kept_regressors = memory.cache(measure), memory.cache(measure_regressors)
    with warnings.catch_warnings():
        # Few rows of a class, and pairs that say little.
        warnings.simplefilter("ignore")
        # Each problem has seeds of its own: those of one data set are then split differently.
        seeds = np.arange(options.seeds * len(NAMES)).reshape(len(NAMES), -1).tolist()
        units = [(name, s) for name, own in zip(NAMES, seeds, strict=True) for s in own]
        data = pd.concat([kept(*unit) for unit in units], ignore_index=True)
        of_content = [kept_regressors(name, s) for name, s in units if name in TABLETS]
    for table, file in (
        (table_of_estimates(data), options.table),
        (table_of_coverage(data), options.coverage),
        (table_of_regressors(pd.concat(of_content, ignore_index=True)), options.regressors),
    ):
        print(table.to_string(index=False))
        if file:
            table.to_csv(file, index=False)
