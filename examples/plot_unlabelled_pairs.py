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

The tables in :doc:`/paired` come from this script with ``--seeds 5`` and ``--table``.
"""

# %%
# Problems
# --------
# Every problem is a table with a second measurement of every row. The parameters of the second
# measurement are drawn for every seed. Some of the rows have labels and are known from site a
# only, some are the pairs, and the other rows are the test at site b. Several problems share a
# data set, so they are less independent than the standard errors assume.
import argparse
import io
import warnings
from pathlib import Path

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pair_rules import RULES, Rows, choices, error_table, measure, over_problems, with_error
from PIL import Image
from scipy import ndimage
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_sample_image,
    load_wine,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

parser = argparse.ArgumentParser(description="Choosing a model by unlabelled pairs")
parser.add_argument(
    "--seeds", type=int, help="seeds of every problem; without, one seed of a few problems"
)
parser.add_argument("--save", metavar="FILE", help="save the picture there")
parser.add_argument("--memory", metavar="FOLDER", help="keep finished problems there")
parser.add_argument(
    "--table",
    metavar="FILE",
    help="write the gains there, and other tables to FILE with _many and _errors",
)
options = parser.parse_args()


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 4, y


def table(load):
    def scaled():
        X, y = load(return_X_y=True)
        y = y if y.dtype.kind == "i" else (y > np.median(y)).astype(int)
        return StandardScaler().fit_transform(X), y

    return scaled


def again(load, measure):
    """Make a problem whose rows `measure` changes at site b."""

    def make(rng):
        X, y = load()
        return X, measure(X, rng), y

    return make


def of_images(change):
    """Measure digits again, as images of 8 x 8 pixels between 0 and 1."""

    def measure(X, rng):
        images = change(X.reshape(-1, 8, 8) / 4, rng)
        return 4 * np.clip(images, 0, 1).reshape(len(X), -1)

    return measure


def slipped(images, rng):
    where = rng.uniform(-0.7, 0.7, 2) + rng.normal(scale=0.3, size=(len(images), 2))
    return np.stack([ndimage.shift(i, w, order=1) for i, w in zip(images, where, strict=True)])


def blurred(images, rng):
    width = rng.uniform(0.3, 1)
    return ndimage.gaussian_filter(images, (0, width, width))


def dimmed(images, rng):
    return rng.uniform(0.3, 0.9) * images + rng.uniform(0, 0.2)


def grainy(images, rng):
    return images + rng.normal(scale=rng.uniform(0.05, 0.4), size=images.shape)


def thick(images, rng):
    share = rng.uniform(0.2, 0.9)
    return (1 - share) * images + share * ndimage.grey_dilation(images, (1, 2, 2))


def saturated_images(images, rng):
    return np.minimum(rng.uniform(1.5, 3) * images, 1) ** rng.uniform(0.4, 0.8)


def dead_pixels(images, rng):
    return images * (rng.random((8, 8)) > rng.uniform(0.1, 0.3))


def few_levels(images, rng):
    return images > rng.uniform(0.3, 0.6)


def instrument(X, rng):
    """Give every column a gain and an offset."""
    gain, offset = rng.normal(scale=[[0.3], [0.6]], size=(2, X.shape[1]))
    return X * np.exp(gain) + offset


def cross_talk(X, rng):
    """Let every column leak into all others."""
    n = X.shape[1]
    return X @ (np.eye(n) + rng.normal(scale=rng.uniform(0.2, 0.8) / np.sqrt(n), size=(n, n)))


def saturated(X, rng):
    """Bend the response of every column, each with its own limit."""
    limit = rng.uniform(0.4, 1.2, X.shape[1])
    return limit * np.tanh((X + 0.5) / limit)


def dead_sensors(X, rng):
    n_dead = round(rng.uniform(0.2, 0.4) * X.shape[1])
    return X * (rng.permutation(X.shape[1]) >= n_dead)


def drifting(X, rng):
    """Let every column drift over the order of measurement, which is random."""
    when = rng.permutation(len(X)) / len(X)
    return X + when[:, None] * rng.normal(scale=1.5, size=X.shape[1])


def rounded(X, rng):
    step = rng.uniform(1, 2.5, X.shape[1])
    return step * np.floor(X / step)


def with_outliers(X, rng):
    """Replace some values of some rows by values from a distribution with heavy tails."""
    rows, columns = rng.random((len(X), 1)) < 0.4, rng.random(X.shape) < 0.3
    return np.where(rows & columns, X + 3 * rng.standard_t(2, X.shape), X)


def noisy_at_a(rng):
    """Make a problem whose site b is the better one."""
    X, y = digits()
    return X + rng.normal(scale=rng.uniform(0.5, 1.5), size=X.shape), X, y


def two_rulers(rng):
    """Make a problem with errors of measurement at both sites, and an offset at b."""
    X, y = table(load_iris)()
    here, there = rng.normal(scale=0.4, size=(2, *X.shape))
    return X + here, X + there + rng.normal(scale=0.5, size=X.shape[1]), y


def photographs(rng):
    """Make a problem of patches of two photographs, saved again with loss and other colours.

    The class is the photograph and the third of its height.
    """
    sites, labels = ([], []), []
    for k, name in enumerate(("china.jpg", "flower.jpg")):
        photo = load_sample_image(name)
        file = io.BytesIO()
        cast = np.clip(photo * rng.uniform(0.6, 1.2, 3), 0, 255).astype(np.uint8)
        Image.fromarray(cast).save(file, "jpeg", quality=int(rng.integers(3, 12)))
        for site, pixels in zip(sites, (photo, np.asarray(Image.open(file))), strict=True):
            # Means of 4 x 4 pixels, in patches of 16 x 16 pixels.
            cut = pixels[:416] / 64
            patches = cut.reshape(26, 4, 4, 40, 4, 4, 3).mean(axis=(2, 5))
            site.append(patches.swapaxes(1, 2).reshape(26 * 40, -1))
        labels.append(3 * k + np.repeat(np.arange(26) * 3 // 26, 40))
    return np.concatenate(sites[0]), np.concatenate(sites[1]), np.concatenate(labels)


cancer, wine, diabetes = map(table, (load_breast_cancer, load_wine, load_diabetes))
PROBLEMS = {
    "digits, slipped": again(digits, of_images(slipped)),
    "digits, blurred": again(digits, of_images(blurred)),
    "digits, dimmed": again(digits, of_images(dimmed)),
    "digits, grainy": again(digits, of_images(grainy)),
    "digits, thick strokes": again(digits, of_images(thick)),
    "digits, saturated": again(digits, of_images(saturated_images)),
    "digits, dead pixels": again(digits, of_images(dead_pixels)),
    "digits, two levels": again(digits, of_images(few_levels)),
    "digits, cross-talk": again(digits, cross_talk),
    "digits, noisy at a": noisy_at_a,
    "photographs, saved again": photographs,
    "breast cancer, instrument": again(cancer, instrument),
    "breast cancer, outliers": again(cancer, with_outliers),
    "breast cancer, rounded": again(cancer, rounded),
    "diabetes, dead sensors": again(diabetes, dead_sensors),
    "diabetes, saturated": again(diabetes, saturated),
    "wine, drifting": again(wine, drifting),
    "wine, cross-talk": again(wine, cross_talk),
    "iris, two rulers": two_rulers,
}
SHOWN = "digits, thick strokes"  # in the picture


def rows_of(name, seed):
    """Draw a problem: up to 300 labelled rows, 40, 100 or 300 pairs, up to 800 test rows."""
    rng = np.random.default_rng([seed, *name.encode()])
    a, b, y = PROBLEMS[name](rng)
    n = len(y)
    n_labelled, n_pairs = min(300, 2 * n // 5), 300 if n > 1000 else 100 if n > 300 else 40
    every = np.arange(n)
    labelled, rest = train_test_split(every, train_size=n_labelled, stratify=y, random_state=seed)
    pairs, test = rest[:n_pairs], rest[n_pairs : n_pairs + 800]
    return Rows(a[labelled], y[labelled], a[pairs], b[pairs], y[pairs], b[test], y[test])


# %%
# One search for all numbers
# --------------------------
# The search is fitted once for a problem and seed. Its sites are the first 20, 40, 100 and 300
# pairs, and the same pairs after an adapter: a regression of `SiteAdapter` maps each row of b to
# what site a would have measured, learnt on the other pairs only. So the table has the expected
# scores of each candidate with and without the adapter. All candidates are then fitted to all
# labelled rows, to measure their accuracy at b.
model = Pipeline([("scale", StandardScaler()), ("model", GaussianNB())])
SCALES = [StandardScaler(), "passthrough"]
GRID = [
    {"scale": SCALES, "model": [LogisticRegression(max_iter=1000)], "model__C": [1e-2, 1]},
    {"scale": SCALES, "model": [SVC(C=10)], "model__gamma": [0.003, 0.03]},
    {"model": [RandomForestClassifier(20, random_state=0)], "model__max_depth": [4, None]},
    {"model": [ExtraTreesClassifier(20, random_state=0)]},
    {"scale": SCALES[1:], "model": [KNeighborsClassifier()], "model__n_neighbors": [1, 5, 25]},
    {"model": [GaussianNB()], "model__var_smoothing": [1e-9, 0.1]},
    {"model": [LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")]},
    {"model": [DecisionTreeClassifier(max_depth=4, random_state=0)]},
]
names, seeds, n_pairs = list(PROBLEMS), options.seeds, (20, 40, 100, 300)
if seeds is None:  # a quick run
    names, seeds, n_pairs = [SHOWN, "breast cancer, rounded"], 1, (20, 100)


def measure_problem(name, seed, n_pairs):
    """Return what is known of each candidate of a problem, for these numbers of pairs."""
    return measure(rows_of(name, seed), model, GRID, n_pairs).assign(problem=name, seed=seed)


with warnings.catch_warnings():
    # The search warns of pairs that say little, and folds of wine have few rows of a class.
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
errors = error_table(data.query("pairs > 100 or problem in @with_100"))
print(errors.to_string(index=False))
if options.table:
    file = Path(options.table)
    for which, table in gain_tables.items():
        table.to_csv(file.with_name(f"{file.stem}{which}{file.suffix}"))
    errors.to_csv(file.with_name(f"{file.stem}_errors{file.suffix}"), index=False)

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
