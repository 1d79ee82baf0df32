"""
Planning pairs
==============

Two questions about unlabelled pairs, on the problems of ``study_unlabelled_pairs.py`` that have
more than 250 rows beside the labelled ones. The classifier is a logistic regression.

- `plan_pairs` predicts the standard error of the expected score, and the width of the interval,
  that more pairs will have, and a search predicts its own standard error. How many times the later
  ones are they? The first pairs are among the later ones.
- By how much less does the expected change vary if `draw_objects` draws the objects, and not
  chance alone?

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

from pa_select import PASearchCV, draw_objects, expected_score, plan_pairs

MODEL = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
FIRST, LATER, N_DRAWS = (10, 20), (40, 100), 300


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


def spread(model, X_a, X_b, n, rng):
    """Return the spread of the expected change of drawn objects, as a share of that by chance."""
    posterior, moved = model.predict_proba(X_a), model.predict_proba(X_b).argmax(axis=1)
    change = np.take_along_axis(posterior, moved[:, None], 1)[:, 0] - posterior.max(axis=1)
    by_chance = [change[rng.permutation(len(change))[:n]].mean() for _ in range(N_DRAWS)]
    drawn = [
        change[draw_objects(model, X_a, n, random_state=seed)].mean() for seed in range(N_DRAWS)
    ]
    return np.std(drawn) / np.std(by_chance)


def measure(name, seed):
    """Return what is known of one problem."""
    rng = np.random.default_rng([seed, *name.encode()])
    a, b, y = PROBLEMS[name](rng)
    labelled, rest = train_test_split(
        np.arange(len(y)), train_size=min(300, 2 * len(y) // 5), stratify=y, random_state=seed
    )
    if len(rest) <= 250:
        return [], []
    fitted = clone(MODEL).fit(a[labelled], y[labelled])
    held, pairs = rest[:150], rest[150:]
    plans = planned(fitted, (a[held], y[held]), (a[pairs], b[pairs]), rng)
    shares = {n: spread(fitted, a[rest], b[rest], n, rng) for n in (20, 40)}
    spreads = [{"problem": name, "drawn": n, "spread": share} for n, share in shares.items()]
    plans = [*plans, *planned_by_search((a[labelled], y[labelled]), (a[pairs], b[pairs]), rng)]
    return plans, spreads


def line_of(values):
    values = values.dropna()
    low, middle, high = values.quantile([0.05, 0.5, 0.95])
    return {"mean": values.mean(), "5 %": low, "median": middle, "95 %": high}


def table_of(plans, spreads):
    """Return the means, and the ends of nine tenths of the cases."""
    lines = {}
    for n, some in plans.groupby("first pairs"):
        lines[f"{n} first pairs: predicted by later standard error"] = line_of(some["error"])
        lines[f"{n} first pairs: the same of a search"] = line_of(some["error of search"])
        lines[f"{n} first pairs: predicted less later width [points]"] = line_of(some["width"])
    for n, some in spreads.groupby("drawn"):
        words = f"{n} objects: spread of the expected change, by that of a random draw"
        lines[words] = line_of(some.groupby("problem")["spread"].mean())
    return pd.DataFrame(lines).T.round(2).rename_axis("number")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Planning pairs")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of every problem")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few pairs
        found = [measure(name, seed) for name in PROBLEMS for seed in range(options.seeds)]
    plans, spreads = (pd.DataFrame(sum(parts, [])) for parts in zip(*found, strict=True))
    table = table_of(plans, spreads)
    print(f"{spreads['problem'].nunique()} problems\n{table.to_string()}")
    if options.table:
        table.to_csv(options.table)
