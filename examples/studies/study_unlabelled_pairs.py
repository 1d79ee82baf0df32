"""
Choosing a model by unlabelled pairs
====================================

A few dozen objects were measured at the site with labels (a) and at the site where the model will
be used (b), and nobody labelled them. Which rule then chooses the best of 18 classifiers for
site b, and how well does each number predict the accuracy there? The rules use

- *accuracy*: the accuracy in cross-validation at site a;
- *agreement*: the posterior agreement of both rows of the pairs, guarded by accuracy;
- *expected score*: the accuracy and the change to expect, as `PASearchCV` computes it. The mean
  posterior of the most accurate candidates stands in for the labels of the pairs, or the
  candidate's own posterior;
- *mean posterior*: the mean posterior, on the row of a, of the class predicted for the row of b;
- *low end of the interval*: the lower limit that does not assume calibrated posteriors;
- *accuracy x agreement rate*: the accuracy times the share of pairs with two equal predictions;
- *pseudo-labels*: the share of rows of b that are predicted as the most accurate candidate
  predicts the rows of a;
- *labels of the pairs*: the accuracy on the rows of b, which shows what labels would give.

The tables of the page docs/measured.md come from this script with ``--seeds 5`` and
``--table``.
"""

# %%
# Problems
# --------
# Every problem is a table with a second measurement of every row. The parameters of the second
# measurement are drawn for every seed. Some of the rows have labels and are known from site a
# only, some are the pairs, and the other rows are the test at site b. Several problems share a
# data set, so they are less independent than the standard errors assume.
import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pair_problems import GRID, MODEL, PROBLEMS, rows_of
from pair_rules import (
    RULES,
    choices,
    difference_table,
    error_table,
    measure,
    over_problems,
    with_error,
)

parser = argparse.ArgumentParser(description="Choosing a model by unlabelled pairs")
parser.add_argument(
    "--seeds", type=int, help="seeds of every problem; without, one seed of a few problems"
)
parser.add_argument("--save", metavar="FILE", help="save the picture there")
parser.add_argument("--memory", metavar="FOLDER", help="keep finished problems there")
parser.add_argument(
    "--table",
    metavar="FILE",
    help="write the gains there, and other tables to FILE with _many, _errors and _differences",
)
options = parser.parse_args()


# %%
# One search for all numbers
# --------------------------
# The search is fitted once for a problem and seed. Its sites are the first 20, 40, 100 and 300
# pairs, and the same pairs after an adapter: a regression of `SiteAdapter` maps each row of b to
# what site a would have measured, learnt on the other pairs only. So the table has the expected
# scores of each candidate with and without the adapter. All candidates are then fitted to all
# labelled rows, to measure their accuracy at b.
SHOWN = "digits, thick strokes"  # in the picture
names, seeds, n_pairs = list(PROBLEMS), options.seeds, (20, 40, 100, 300)
if seeds is None:  # a quick run
    names, seeds, n_pairs = [SHOWN, "breast cancer, rounded"], 1, (20, 100)


def measure_problem(name, seed, n_pairs):
    """Return what is known of each candidate of a problem, for these numbers of pairs."""
    return measure(rows_of(name, seed), MODEL, GRID, n_pairs).assign(problem=name, seed=seed)


with warnings.catch_warnings():
    # Folds of wine have few rows of a class.
    warnings.simplefilter("ignore")
    kept = joblib.Memory(options.memory, verbose=0).cache(measure_problem)
    data = pd.concat([kept(name, seed, n_pairs) for name in names for seed in range(seeds)])
print(f"{len(names)} problems, {seeds} seeds of each, {data.candidate.nunique()} candidates")

# %%
# Rules
# -----
# All rules choose among the same candidates, and cross-validated accuracy decides ties. A guarded
# rule chooses among the candidates that are within some standard errors (SE) of the best accuracy.
# The labels of the pairs are used by one rule, which shows what labelling the pairs would give.
# ``pair_rules.py`` has the rules, and the search that they read.
keys = ["pairs", "problem", "seed"]
levels = data.groupby(keys, sort=False).apply(choices)
gains = levels.sub(levels["accuracy"], axis=0)


# %%
# Gains
# -----
# The tables show the points of accuracy at b above the choice by cross-validated accuracy: the
# mean over the problems, and its standard error, which counts each problem once. The first table
# has the problems that have 100 pairs, and the second one those that have 300.
def having(values, n):
    """Return the values of the problems that have n pairs."""
    problem = values.index.get_level_values("problem")
    return values[problem.isin(problem[values.index.get_level_values("pairs") == n])]


by_problem = gains.groupby(["pairs", "problem"], sort=False).mean()
counts = by_problem.groupby("pairs").size()


def gain_table(most, numbers):
    """Return the gains with these numbers of pairs, of the problems that have `most` pairs."""
    mean, error = over_problems(having(gains, most))
    columns = {
        f"{n} pairs": [with_error(mean.at[n, r], error.at[n, r]) for r in levels] for n in numbers
    }
    columns[f"worst problem, {most} pairs"] = by_problem.loc[most].min().round(1).tolist()
    table = pd.DataFrame(columns, index=pd.Index(levels.columns, name="rule"))
    print(f"\n{counts[most]} problems\n{table.to_string()}")
    return table


gain_tables = {"": gain_table(100, [n for n in n_pairs if n <= 100])}
if 300 in counts:
    gain_tables["_many"] = gain_table(300, [100, 300])

# %%
# How well each number predicts the accuracy at b
# -----------------------------------------------
# The errors are means over all candidates and problems, in points. The last column is the share of
# candidates whose accuracy at b lies in the interval; that accuracy is itself measured in 50 to
# 800 test rows. Rows "of the choice" count only the candidate with the largest expected score.
# With 20 to 100 pairs the problems are those that have 100.
with_100 = by_problem.loc[100].index.tolist()
counted = data.query("pairs > 100 or problem in @with_100")
errors = error_table(counted)
print(errors.to_string(index=False))

# %%
# How sure a difference is
# ------------------------
# A candidate is clearly behind the choice if its expected score is lower by more than 1.96
# standard errors of the difference, as ``PASearchCV.compare`` has it. The table shows this reach
# in points, how often the true difference is within it of the expected one, the share of the other
# candidates that are clearly behind, and how many of these are worse at b.
distances = difference_table(counted)
print(distances.to_string())
if options.table:
    file = Path(options.table)
    for which, table in gain_tables.items():
        table.to_csv(file.with_name(f"{file.stem}{which}{file.suffix}"))
    errors.to_csv(file.with_name(f"{file.stem}_errors{file.suffix}"), index=False)
    distances.to_csv(file.with_name(f"{file.stem}_differences{file.suffix}"))

# %%
# Where it fails
# --------------
# The gains of some rules by problem, and the accuracy at b of the choice by accuracy. On digits
# noisier at a than at b the row of b says more about the label than the row of a, against the
# assumption of the expected score.
DEFAULT = next(iter(RULES))
SOME = [DEFAULT, "expected score, own posterior", "accuracy x agreement rate"]
SOME += ["labels of the pairs", "best in hindsight"]
level = levels["accuracy"].groupby(["pairs", "problem"], sort=False).mean()
for n in counts.index:
    by_rule = by_problem.loc[n, SOME].round(1)
    by_rule.insert(0, "accuracy", level.loc[n].round(1))
    print(f"\n{n} pairs\n{by_rule.to_string()}")

# %%
# The picture
# -----------
# Left: each candidate of one problem, with 100 pairs. The bars are intervals that do not assume
# calibrated posteriors. Right: the means of the gains, with their standard errors.
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained")
unit = data.query("pairs == 100 and problem == @SHOWN and seed == 0")
bars = 100 * np.abs(unit[["low", "high"]].to_numpy().T - unit["expected"].to_numpy())
x = 100 * unit["truth"]
left.plot(x, 100 * unit["accuracy"], "x", color="0.6", label="cross-validated accuracy")
left.errorbar(
    x, 100 * unit["expected"], bars, fmt="o", color="C0", elinewidth=0.7, label="expected score"
)
left.axline((50, 50), slope=1, color="0.6", lw=0.8)
left.set(xlabel="accuracy at b [%]", ylabel="predicted [%]", title=SHOWN)
left.legend()
DRAWN = {
    "agreement, 4 SE": "0.6",
    DEFAULT: "C0",
    "accuracy x agreement rate": "C1",
    "labels of the pairs": "C2",
    f"with adapter: {DEFAULT}": "C3",
    "with adapter: labels of the pairs": "C4",
}
mean, error = over_problems(gains)
for k, (rule, color) in enumerate(DRAWN.items()):
    at = np.arange(len(counts)) + 0.08 * (k - (len(DRAWN) - 1) / 2)
    right.errorbar(at, mean[rule], error[rule], fmt="o", color=color, label=rule)
right.axhline(0, color="0.6", lw=0.8)
right.set_xticks(range(len(counts)), [f"{n} pairs\n{c} problems" for n, c in counts.items()])
right.set(ylabel="accuracy at b gained over accuracy's choice [points]")
figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2)
if options.save:
    figure.savefig(options.save, dpi=120)
plt.show()
