"""
Double descent seen by agreement
================================

A model with more and more parameters first learns better, then worse, until it has just enough of
them to fit every training row, and then better again. This is double descent. The thesis [1]_
proposes to look at it by posterior agreement: do models on the two sides of the threshold agree
differently, if they are equally accurate? Here a linear classifier learns digits from random
features, and a fifth of the training labels is random. The number of features is the width.

Agreement needs two samples. This example has two kinds of pairs, which need no test labels:

- *Two halves*: two classifiers with the same random features, each trained on one half of the
  training rows, predict the same test images.
- *Two measurements*: one classifier predicts two noisy measurements of each test image.

.. [1] V. Jiménez Rodríguez, "Improved robustness of deep learning models through posterior
   agreement based model selection", Master's thesis, ETH Zurich, 2024, section 6.
"""

# %%
# Random features of digits
# -------------------------
# Each classifier is the solution of least squares, and of all solutions the smallest: the penalty
# is only there for the arithmetic. It can fit every label of its 300 training rows as soon as it
# has 300 features.
import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pa_select import class_scores, posterior_agreement

parser = argparse.ArgumentParser(description="Double descent seen by agreement")
parser.add_argument("--seeds", type=int, default=3, help="number of splits of the rows")
parser.add_argument("--random", type=float, default=0.2, help="share of random training labels")
parser.add_argument("--table", metavar="FILE", help="write the means by width there, as csv")
options, _ = parser.parse_known_args()

N_TRAIN = 300  # rows of each half
WIDTHS = (10, 20, 40, 70, 110, 170, 230, 270, 300, 340, 400, 500, 700, 1200, 4000)
KINDS = ("halves", "measurements")
X, y = load_digits(return_X_y=True)
X = X / 16


def describe(seed):
    """Return a row for each width: errors, agreements and inverse temperatures."""
    rng = np.random.default_rng(seed)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=2 * N_TRAIN, test_size=600, stratify=y, random_state=seed
    )
    is_random = rng.random(len(y_train)) < options.random
    y_train = np.where(is_random, rng.integers(0, 10, len(y_train)), y_train)
    halves = [(X_train[:N_TRAIN], y_train[:N_TRAIN]), (X_train[N_TRAIN:], y_train[N_TRAIN:])]
    measured = [X_test + rng.normal(scale=0.15, size=X_test.shape) for _ in range(2)]
    rows = []
    for width in WIDTHS:
        models = [
            make_pipeline(
                RBFSampler(gamma=0.1, n_components=width, random_state=seed),
                RidgeClassifier(alpha=1e-8, solver="svd"),
            ).fit(*half)
            for half in halves
        ]
        of_halves = [class_scores(model, X_test)[0] for model in models]
        of_measurements = [class_scores(models[0], sample)[0] for sample in measured]
        row = {
            "width": width,
            "training error": 1 - models[0].score(*halves[0]),
            "test error": np.mean([scores.argmax(1) != y_test for scores in of_halves]),
        }
        for kind, pair in zip(KINDS, (of_halves, of_measurements), strict=True):
            result = posterior_agreement(*pair, prior="marginal")
            row |= {f"agreement, {kind}": result.score, f"beta, {kind}": result.beta}
        rows.append(row)
    return pd.DataFrame(rows)


runs = pd.concat([describe(seed) for seed in range(options.seeds)])
means = runs.groupby("width").mean()
print(means.round(3).to_string())
if options.table:
    header = means.columns.str.replace("agreement", "agreement, marginal prior")
    means.round(3).set_axis(header, axis=1).to_csv(options.table)

# %%
# Error, agreement and inverse temperature
# ----------------------------------------
figure, axes = plt.subplots(3, 1, figsize=(6, 10.5), layout="constrained")
errors = runs.groupby("width").sem()
LOOKS = {
    "training error": {"color": "0.5", "marker": "^"},
    "test error": {"color": "#D55E00", "marker": "o"},
    "halves": {"color": "#0072B2", "marker": "o", "label": "two halves"},
    "measurements": {"color": "#E69F00", "marker": "s", "label": "two measurements"},
}
LABELS = {
    "error": "share of wrong predictions",
    "agreement": "agreement (nats per pair)",
    "beta": r"inverse temperature $\beta$ of the maximum",
}
for axis, (what, label) in zip(axes, LABELS.items(), strict=True):
    for name in (name for name in means if what in name):
        style = {"label": name, "ms": 4} | LOOKS[name.removeprefix(f"{what}, ")]
        axis.errorbar(means.index, means[name], errors[name], **style)
    axis.axvline(N_TRAIN, color="0.6", ls=":", zorder=0, label="as many features as rows")
    axis.set(xscale="log", xlabel="width (random features)", ylabel=label, ylim=(0, None))
shown = {}
for axis in axes[:2]:
    shown |= {name: line for line, name in zip(*axis.get_legend_handles_labels(), strict=True)}
figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=2)
plt.show()

# %%
# The same test error at three widths
# -----------------------------------
# Three widths have the same error: the error falls, rises up to the threshold, and falls again.
# They are found by interpolation between the means.
log_width = np.log(means.index)
best, threshold = means["test error"].loc[:N_TRAIN].argmin(), means.index.get_loc(N_TRAIN)
BRANCHES = {
    "too narrow": slice(best, None, -1),
    "below the threshold": slice(best, threshold + 1),
    "beyond": slice(None, threshold - 1, -1),
}
lines = []
for error in (0.22, 0.3, 0.4):
    for branch, part in BRANCHES.items():
        on_branch = means["test error"].iloc[part].to_numpy()
        width = np.exp(np.interp(error, on_branch, log_width[part]))
        line = {"test error": error, "branch": branch, "width": round(width)}
        for name in means.columns[2:]:
            line[name] = np.interp(error, on_branch, means[name].iloc[part])
        lines.append(line)
print(pd.DataFrame(lines).round(2).to_string(index=False))

# %%
# Does agreement choose the width? These are the widths of the highest agreement with their test
# errors, and the rank correlation (Kendall's tau) of the agreement with the test error.
print(f"lowest test error: {means['test error'].min():.3f} at {means['test error'].idxmin()}")
for kind in KINDS:
    agreement = means[f"agreement, {kind}"]
    chosen, tau = agreement.idxmax(), agreement.corr(means["test error"], "kendall")
    print(f"{kind}: {means['test error'][chosen]:.3f} at {chosen}, tau {tau:+.2f}")

# %%
# What it shows
# -------------
# The numbers are from ten splits (``--seeds 10``); ``docs/figures/double_descent.csv`` has them.
#
# - Agreement shows the threshold without any test label. At 300 features the test error is 0.85,
#   and both agreements and their inverse temperatures are about 0: the classifiers fit every
#   label, and have huge scores that no second sample supports.
# - Agreement is not accuracy. At a test error of 0.22 the halves agree by 1.67 nats with 31
#   features, by 1.26 with 139 and by 1.12 with 1323. Two classifiers that are too narrow make the
#   same errors, and agree on them. Two wide ones that fit random labels make different errors.
# - Are the two sides of the threshold different? On the way up to it and on the way down equally
#   accurate classifiers of two halves agree about equally: by 0.48 nats each at an error of 0.4,
#   and at smaller errors a little less on the way down. Two measurements agree more there: by
#   1.09 instead of 0.75 nats at an error of 0.22. So the wide classifiers depend as much on their
#   training rows as the narrower ones, but less on noise in the image.
# - The highest agreement avoids the threshold, but does not choose the best width. The lowest
#   error is 0.160, with 70 features. Two halves choose 40 features (0.186), and two measurements
#   the widest classifier (0.188). Which of the two sides agreement prefers depends on the pairs.
# - The inverse temperature falls from 14 to 0 and rises to 4 to 5. It does not return, because
#   narrow classifiers have small scores.
#
# This is one data set and one kind of model. Without random labels (``--random 0``) the second
# descent ends far below the first minimum: the widest classifier has an error of 0.031, and both
# kinds of pairs choose it. The wide halves then also agree more than equally accurate ones below
# the threshold.
