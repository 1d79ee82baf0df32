"""
Many environments: Experiments 8 to 10
======================================

A model learns from several environments and will work in new ones. Which candidate should it be?
The thesis asks this for three data sets of WILDS, with the mean and the worst accuracy over the
environments of the test. This example asks it for three small collections in the form of WILDS,
made of what installed packages ship. Nothing is downloaded:

- *cameras*: digits under six cameras, and under six new ones. Each camera has its own colours,
  position, scale, blur, noise and frequencies of the digits;
- *regions*: digits of five regions in two years, and of the same regions years later. Sensors
  drift and get dimmer, and some regions have few rows;
- *modules*: does a docstring describe a class, a function or a method? Ten modules of numpy,
  scipy, scikit-learn, torch, pandas and matplotlib have labels, and ten others are the test.

The study of DomainBed [1]_ compares three protocols of selection: accuracy on held-out rows of the
training domains, accuracy on domains that are left out, and accuracy on labelled rows of the test
domains (the oracle). Agreement between environments is compared with them here.

The thesis selects epochs of nets. Here the candidates are 16, 12 and 16 classifiers of
scikit-learn, so that a draw takes seconds. ``many_environments.py`` has the collections and the
candidates, ``many_environments_rules.py`` the rules.

.. [1] I. Gulrajani and D. Lopez-Paz, "In search of lost domain generalization", ICLR 2021.
"""

# %%
# One draw of cameras
# -------------------
# `WILDSData` reads the environments from the metadata. Each row of pictures is a camera.
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline

from pa_select import PASearchCV
from papers.datasets import WILDSData
from papers.many_environments import COLLECTIONS, SIZE, camera_candidates, cameras
from papers.many_environments_rules import (
    ACCURACY,
    BEST,
    GUARDED,
    LEFT_OUT,
    ORACLE,
    RULES,
    one_draw,
)

parser = argparse.ArgumentParser(description="Selection with many environments")
parser.add_argument("--seeds", type=int, default=1, help="draws of each collection")
parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS), choices=COLLECTIONS)
parser.add_argument("--table", metavar="FILE", help="write what the rules gain there")
parser.add_argument("--memory", metavar="FOLDER", help="keep finished draws there")
options, _ = parser.parse_known_args()

source = WILDSData(cameras(0).get_subset("train"), "camera")
print(source)
figure, axes = plt.subplots(len(source.names), 10, figsize=(9, 5.6), layout="constrained")
for row, camera in zip(axes, source.by_environment(), strict=True):
    for ax, (image, label) in zip(row, camera, strict=False):
        ax.imshow(image.reshape(3, SIZE, SIZE).transpose(1, 2, 0))
        ax.set_title(int(label), fontsize=8)
        ax.axis("off")

# %%
# A search by environments
# ------------------------
# `PASearchCV` pairs rows of the same digit under different cameras. The four candidates are
# support vector classifiers of different features. Here is the accuracy of the chosen one under
# each camera, on rows that it was not fitted to.
model = Pipeline([("model", DummyClassifier())])
search = PASearchCV(model, {"model": camera_candidates()[2::4]}, cv=3, refit=False)
search.fit(source.X, source.y, environments=source.environments)
for column, values in search.cv_results_.items():
    if column.startswith("mean_test_score_environment_"):
        print(f"{column}: {values[search.best_index_]:.2f}")

# %%
# What each rule chooses
# ----------------------
# Each rule chooses a candidate with rows of the source only, except the oracle. Agreement is that
# of rows of equal label in two environments, drawn at random, with the marginal prior. (The thesis
# pairs nearest neighbours.) The guard keeps the candidates within one standard error of the best
# accuracy. AFR_P is the share of pairs with equal predictions.
draw = joblib.Memory(options.memory, verbose=0).cache(one_draw) if options.memory else one_draw
lines, first = [], {}
for seed in range(options.seeds):
    for name in options.collections:
        picks, found = draw(name, seed)
        first.setdefault(name, (picks, found))
        for rule, i in picks.items():
            validated, mean, worst = found[i]
            keys = {"collection": name, "seed": seed, "rule": rule}
            lines.append(keys | {"validated": validated, "mean": mean, "worst": worst})
        print(
            f"{name}, draw {seed + 1} of {options.seeds}: the rules chose "
            f"{len(set(picks.values()))} of {len(found)} candidates",
            flush=True,
        )
lines = pd.DataFrame(lines)

# %%
# What each rule gains
# --------------------
# The first line has the accuracies of the choice by accuracy in the training domains: the mean and
# the worst over the environments of the test. The other lines have the points that a rule gains
# over it, with standard errors over the draws.
kept = lines.set_index(["collection", "seed", "rule"])[["mean", "worst"]].unstack("rule")


def with_error(values):
    """Write a mean, and its standard error if there are several values."""
    mean = round(values.mean(), 1) + 0.0  # no minus zero
    return f"{mean:.1f} +- {values.sem():.1f}" if len(values) > 1 else f"{mean:.1f}"


def columns(values, name):
    """Return what each rule gains in the draws, in the mean and in the worst environment."""
    found = {}
    for what in ("mean", "worst"):
        gains = values[what].sub(values[what][ACCURACY], axis=0)
        gains[ACCURACY] = values[what][ACCURACY]
        found[f"{name}, {what}"] = [with_error(gains[rule]) for rule in RULES]
    return found


found = columns(kept, "all draws")
for name in options.collections:
    found |= columns(kept.loc[name], name)
table = pd.DataFrame(found, index=pd.Index(RULES, name="rule"))
print(table.to_string())
if options.table:
    table.to_csv(options.table)

# %%
# The first draw of each collection. A point is a candidate, with its accuracy on held-out rows of
# the training domains and its mean accuracy in the test domains. The bar goes down to the worst.
marks = {ACCURACY: "s", LEFT_OUT: "^", GUARDED: "o", ORACLE: "D", BEST: "*"}
size = {"figsize": (6, 1 + 3.3 * len(first)), "layout": "constrained"}
figure, axes = plt.subplots(len(first), squeeze=False, **size)
for ax, (name, (picks, found)) in zip(axes[:, 0], first.items(), strict=True):
    validated, mean, worst = found.T
    ax.vlines(validated, worst, mean, color="0.8")
    ax.plot(validated, mean, ".", color="0.5")
    for k, (rule, mark) in enumerate(marks.items()):
        i = picks[rule]
        style = {"ms": 16 - 2 * k, "mfc": "none", "color": f"C{k}", "ls": "none", "label": rule}
        ax.plot(validated[i], mean[i], mark, **style)
    ax.set(title=name, ylabel="test domains: mean, worst (%)")
axes[-1, 0].set_xlabel("accuracy, training domains (%)")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center")
plt.show()
