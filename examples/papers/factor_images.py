"""
Images whose factors are set one by one
=======================================

The papers' experiments with images vary six factors (DiagViB-6): the shape, which is the
class, and hue, lightness, position, scale and texture. `factor_images` draws scikit-learn's
digits with these factors, one call for each environment. What do the levels, the environments
and the settings with a shortcut look like? And how much do a classifier's posteriors agree as
more factors shift, on the same digits and on other digits of the same class?
"""

# %%
# The factors
# -----------
# Each row changes one factor and keeps the others. The first row changes the shape, which is that
# of the image; the other rows show the same digit.
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pa_select import class_scores, posterior_agreement
from pa_select.pairing import IdentityPairing, LabelPairing
from papers.datasets import (
    FACTOR_LADDERS,
    FACTOR_LEVELS,
    SHORTCUT_LEVELS,
    co_occurrence,
    factor_combinations,
    factor_images,
)

X, y = load_digits(return_X_y=True)
digits = X.reshape(-1, 8, 8) / 16
PICTURE = 96  # pixels of a side


def show(ax, image=None, title=""):
    """Show one image of shape (3, side, side), or an empty panel."""
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize="small", pad=3)
    if image is None:
        ax.set_frame_on(False)
    else:
        ax.imshow(np.moveaxis(image, 0, -1), interpolation="nearest")


base = {"hue": "red", "scale": "large"}
columns = max(len(levels) for levels in FACTOR_LEVELS.values())
fig, axes = plt.subplots(6, columns, figsize=(7, 6), layout="constrained")
for ax, k in zip(axes[0], range(columns), strict=True):
    show(ax, factor_images(digits[y == k][:1], base, size=PICTURE)[0], str(k))
axes[0, 0].set_ylabel("shape")
for row, (factor, levels) in zip(axes[1:], FACTOR_LEVELS.items(), strict=True):
    row[0].set_ylabel(factor)
    base = {"position": "CC", "scale": "large", "lightness": "brighter"}
    for ax, level in zip(row, levels, strict=False):
        image = factor_images(digits[y == 4][:1], {**base, factor: level}, size=PICTURE)[0]
        show(ax, image, level)
    for ax in row[len(levels) :]:
        show(ax)

# %%
# A ladder of environments
# ------------------------
# In Table 2 of the paper one more factor shifts from each environment to the next. The papers
# train in the first two environments and test in all of them. Each row shows the same digit, with
# the same draws within the levels.
ladder = FACTOR_LADDERS["discriminability"]
some = np.concatenate([np.flatnonzero(y == k)[:2] for k in (4, 9)])
fig, axes = plt.subplots(len(some), len(ladder), figsize=(7, 5.2), layout="constrained")
for j, environment in enumerate(ladder):
    before = ladder[max(j - 1, 0)]
    new = [level for factor, level in environment.items() if level != before[factor]]
    title = f"{j}: {new[0]}" if new else "0: red,\ndark, CC,\nnormal, blank"
    images = factor_images(digits[some], environment, size=PICTURE)
    for ax, image in zip(axes[:, j], images, strict=True):
        show(ax, image)
    axes[0, j].set_title(title, fontsize="small")
for ax, digit in zip(axes[:, 0], y[some], strict=True):
    ax.set_ylabel(f"digit {digit}")


# %%
# A shortcut, and ways out of it
# ------------------------------
# This is Figure 12 of the paper, with the hues and positions of appendix C.2.2 of the thesis. With
# zero generalization opportunities (ZGO) the hue, or the position, determines the digit. In 1-, 2-
# and 3-CGO one, two and three digits also occur with another level. With zero shortcut
# opportunities (ZSO) all combinations occur. White cells are combinations that do not occur;
# `unseen=True` gives these, for test data on which a shortcut fails. Both sources use the same
# rows.
def panel(factor, source, setting):
    """Return a square of one digit per combination, of shape (3, 3 * side, 3 * side)."""
    own = SHORTCUT_LEVELS[factor][source]
    rows = np.flatnonzero(np.isin(y, list(own)))
    levels = co_occurrence(y[rows], setting, own)
    environment = {**FACTOR_LADDERS[f"{factor} shortcut"][0], "texture": "blank"}
    square = np.ones((3, 3 * 48, 3 * 48))
    for i, digit in enumerate(own):
        for j, level in enumerate(own.values()):
            found = rows[(y[rows] == digit) & (levels == level)][:1]
            for image in factor_images(digits[found], {**environment, factor: level}, size=48):
                square[:, 48 * i + 1 : 48 * (i + 1), 48 * j + 1 : 48 * (j + 1)] = image[:, 1:, 1:]
    return square


settings = ["ZGO", "1-CGO", "2-CGO", "3-CGO", "ZSO"]
sources = [(factor, source) for factor in SHORTCUT_LEVELS for source in (0, 1)]
fig, axes = plt.subplots(5, len(sources), figsize=(6, 7.8), layout="constrained")
for column, (factor, source) in zip(axes.T, sources, strict=True):
    own = SHORTCUT_LEVELS[factor][source]
    for ax, setting in zip(column, settings, strict=True):
        show(ax, panel(factor, source, setting))
        middles = 48 * np.arange(3) + 24
        ax.set_xticks(middles, list(own.values()), fontsize="x-small")
        ax.set_yticks(middles, list(own), fontsize="small")
        ax.tick_params(length=0)
    column[0].set_title(f"{factor}, source {source + 1}", fontsize="medium")
for ax, setting in zip(axes[:, 0], settings, strict=True):
    ax.set_ylabel(setting)


# %%
# Agreement along the ladder
# --------------------------
# Two classifiers learn fours and nines in environments 0 and 1. The first gets the pixels as they
# are, the second the distance of each pixel from the grey of the canvas, whatever its colour.
# Their posteriors in environment 0 are compared with those in environment j: for the same digits
# (`IdentityPairing`), and for other digits of the same class (`LabelPairing`), where sampling
# adds to the shift.
def flat(images):
    return images.reshape(len(images), -1)


def contrast(images):
    return flat(np.abs(images - 0.5).max(1))


nines = np.isin(y, (4, 9))
shapes, truth = digits[nines], y[nines]
part = np.arange(len(truth)) % 4
train, test, others = part < 2, part == 2, part == 3
X_train = np.concatenate([factor_images(shapes[train], ladder[j]) for j in (0, 1)])


def agreement(model, pairing, partners, j):
    """Return the agreement of digits in environments 0 and j, in nats per pair."""
    a = factor_images(shapes[test], ladder[0])
    b = factor_images(shapes[partners], ladder[j])
    pairs = pairing(a, b, truth[test], truth[partners])
    scores = (class_scores(model, images)[0] for images in (a[pairs.a], b[pairs.b]))
    return posterior_agreement(*scores, prior="marginal").score


fig, axes = plt.subplots(2, 2, figsize=(7, 6), layout="constrained", sharex=True, sharey="row")
print(" " * 38 + "".join(f"{j:7d}" for j in range(6)))
inputs = {"pixels as they are": flat, "distance from the grey of the canvas": contrast}
for column, (title, features) in zip(axes.T, inputs.items(), strict=True):
    model = make_pipeline(
        FunctionTransformer(features),
        PCA(30, random_state=0),
        StandardScaler(),
        LogisticRegression(),
    ).fit(X_train, np.tile(truth[train], 2))
    accuracy = [model.score(factor_images(shapes[test], e), truth[test]) for e in ladder]
    curves = {
        "same digits": [agreement(model, IdentityPairing(), test, j) for j in range(6)],
        "other digits": [agreement(model, LabelPairing(), others, j) for j in range(6)],
    }
    print(f"{features.__name__:12s}{'accuracy':26s}" + "".join(f"{v:7.3f}" for v in accuracy))
    for name, values in curves.items():
        print(f"{'':12s}agreement, {name:15s}" + "".join(f"{v:7.3f}" for v in values))
    column[0].plot(accuracy, "D-", color="#009E73")
    # One line is wide, so that both are seen where they coincide.
    column[1].plot(curves["same digits"], "o-", color="#56B4E9", lw=5, ms=11, label="same digits")
    column[1].plot(curves["other digits"], "s--", color="#D55E00", ms=5, label="other digits")
    column[0].set_title(title)
    column[1].set_xlabel("number of factors shifted")
axes[0, 0].set_ylabel("accuracy")
axes[1, 0].set_ylabel("agreement (nats per pair)")
axes[1, 1].legend()

# %%
# The hue changes neither classifier's predictions. Bright digits are lighter than the canvas and
# dark ones darker, so the decisions of the first classifier are reversed in environment 2, while
# the agreement of the second one does not change. Both fail when the digits move. Agreement with
# other digits of the class is lower throughout, because the digits themselves differ. With views
# of the same digits, no label was needed to see which classifier is robust against the change of
# lightness.

# %%
# All combinations of factors
# ---------------------------
# On a ladder the order of the factors matters: whatever comes after the position shifts a
# classifier that has failed already. The paper proposes to test on all combinations, which
# `factor_combinations` lists: 32 between the first and the last environment. The table has the
# second classifier's mean agreement and accuracy over the combinations with and without each
# factor.
rows = []
for shifted, environment in factor_combinations(ladder[0], ladder[-1]).items():
    same = [factor_images(shapes[test], e) for e in (ladder[0], environment)]
    result = posterior_agreement(*(class_scores(model, x)[0] for x in same), prior="marginal")
    rows.append((set(shifted), result.score, model.score(same[1], truth[test])))
print(f"{'factor':12s}{'agreement':>20s}{'accuracy':>20s}")
print(f"{'':12s}{'same':>10s}{'shifted':>10s}{'same':>10s}{'shifted':>10s}")
for factor in FACTOR_LEVELS:
    line = f"{factor:12s}"
    for value in (1, 2):
        for is_shifted in (False, True):
            values = [row[value] for row in rows if (factor in row[0]) == is_shifted]
            line += f"{np.mean(values):10.3f}"
    print(line)

# %%
# This classifier withstands neither another position nor another scale, whichever other factors
# shift, too. Along the ladder the scale came after the position, and seemed to do no more harm.
plt.show()
