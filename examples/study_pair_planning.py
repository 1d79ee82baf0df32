"""
Planning pairs
==============

Two questions about unlabelled pairs, on the problems of ``plot_unlabelled_pairs.py`` that have
more than 250 rows beside the labelled ones. The classifier is a logistic regression or a forest.

- `plan_pairs` predicts the standard error of the expected score, and the width of the interval,
  that more pairs will have. How many times the later ones are they? The first pairs are among the
  later ones.
- By how much less does the expected change vary if `draw_objects` draws the objects, and not
  chance alone?

``--table FILE`` writes the table.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from pair_problems import PROBLEMS
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import draw_objects, expected_score, plan_pairs

MODELS = [LogisticRegression(C=0.1, max_iter=500), RandomForestClassifier(30, random_state=0)]
FIRST, LATER, N_DRAWS = (10, 20), (40, 100), 300


def planned(model, held, pairs, rng):
    """Return how many times the later error and width the predicted ones are."""
    order = rng.permutation(len(pairs[0]))
    X_a, X_b = (side[order] for side in pairs)
    for n in FIRST:
        for one in plan_pairs(model, X_a[:n], X_b[:n], *held, n_pairs=LATER):
            later = expected_score(model, X_a[: one.n_pairs], X_b[: one.n_pairs], *held)
            yield {
                "first pairs": n,
                "error": one.standard_error / later.standard_error,
                "width": 100 * ((one.high - one.low) - (later.high - later.low)),
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
    plans, spreads = [], []
    if len(rest) <= 250:
        return plans, spreads
    for model in MODELS:
        fitted = make_pipeline(StandardScaler(), model).fit(a[labelled], y[labelled])
        held, pairs = rest[:150], rest[150:]
        plans += planned(fitted, (a[held], y[held]), (a[pairs], b[pairs]), rng)
        for n in (20, 40):
            share = spread(fitted, a[rest], b[rest], n, rng)
            spreads.append({"problem": name, "drawn": n, "spread": share})
    return plans, spreads


def table_of(plans, spreads):
    """Return the ratios in the middle and at the ends of nine tenths of the cases."""
    lines = {}
    for n, some in plans.groupby("first pairs"):
        for number, words in (
            ("error", "predicted by later standard error"),
            ("width", "predicted less later width [points]"),
        ):
            lines[f"{n} first pairs: {words}"] = some[number].quantile([0.05, 0.5, 0.95])
    for n, some in spreads.groupby("drawn"):
        of_problems = some.groupby("problem")["spread"].mean()
        words = f"{n} objects: spread of the expected change, by that of a random draw"
        lines[words] = of_problems.quantile([0.05, 0.5, 0.95])
        lines[words] = pd.concat([lines[words], pd.Series({"mean": of_problems.mean()})])
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
