"""
Planning pairs
==============

A question about unlabelled pairs, on the problems of ``study_unlabelled_pairs.py`` that have
more than 250 rows beside the labelled ones. The classifier is a logistic regression.

`plan_pairs` predicts the standard error of the expected score, and the width of the interval, that
more pairs will have, and a search predicts its own standard error. How many times the later ones
are they? The first pairs are among the later ones.

``--table FILE`` writes the table.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
import pandas as pd
from pair_problems import PROBLEMS
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PASearchCV, expected_score, plan_pairs

MODEL = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
FIRST, LATER = (10, 20), (40, 100)


def planned(model, held, pairs, rng):
    """Return how many times the later error and width the predicted ones are."""
    order = rng.permutation(len(pairs[0]))
    X_a, X_b = (side[order] for side in pairs)
    later = {n: expected_score(model, X_a[:n], X_b[:n], *held) for n in LATER}
    for n in FIRST:
        for one in plan_pairs(model, X_a[:n], X_b[:n], *held, n_pairs=LATER):
            known = later[one.n_pairs]
            yield {
                "first pairs": n,
                "error": one.standard_error / known.standard_error,
                "width": 100 * ((one.high - one.low) - (known.high - known.low)),
            }


def planned_by_search(labelled, pairs, rng):
    """Return how many times the later error of a search the predicted one is."""
    order = rng.permutation(len(pairs[0]))
    X_a, X_b = (side[order] for side in pairs)
    searches = {
        n: PASearchCV(MODEL, {}, refit=False).fit(*labelled, paired=(X_a[:n], X_b[:n]))
        for n in (*FIRST, *LATER)
    }
    for n in FIRST:
        for later, error in searches[n].plan_pairs(LATER).items():
            yield {
                "first pairs": n,
                "error of search": error / searches[later].expected_score_se_,
            }


def measure(name, seed):
    """Return the plans for one problem, with its name."""
    rng = np.random.default_rng([seed, *name.encode()])
    a, b, y = PROBLEMS[name](rng)
    labelled, rest = train_test_split(
        np.arange(len(y)), train_size=min(300, 2 * len(y) // 5), stratify=y, random_state=seed
    )
    if len(rest) <= 250:
        return []
    fitted = clone(MODEL).fit(a[labelled], y[labelled])
    held, pairs = rest[:150], rest[150:]
    plans = planned(fitted, (a[held], y[held]), (a[pairs], b[pairs]), rng)
    plans = [*plans, *planned_by_search((a[labelled], y[labelled]), (a[pairs], b[pairs]), rng)]
    return [{"problem": name, **plan} for plan in plans]


def line_of(values):
    values = values.dropna()
    low, middle, high = values.quantile([0.05, 0.5, 0.95])
    return {"mean": values.mean(), "5 %": low, "median": middle, "95 %": high}


def table_of(plans):
    """Return the means, and the ends of nine tenths of the cases."""
    lines = {}
    for n, some in plans.groupby("first pairs"):
        lines[f"{n} first pairs: predicted by later standard error"] = line_of(some["error"])
        lines[f"{n} first pairs: the same of a search"] = line_of(some["error of search"])
        lines[f"{n} first pairs: predicted less later width [points]"] = line_of(some["width"])
    return pd.DataFrame(lines).T.round(2).rename_axis("number")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Planning pairs")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of every problem")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few pairs
        found = [measure(name, seed) for name in PROBLEMS for seed in range(options.seeds)]
    plans = pd.DataFrame(sum(found, []))
    table = table_of(plans)
    print(f"{plans['problem'].nunique()} problems\n{table.to_string()}")
    if options.table:
        table.to_csv(options.table)
