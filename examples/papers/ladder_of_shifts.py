"""
Three learners on a ladder of shifts
====================================

These are the thesis's Experiments 5a, 5b and 5c in miniature (section 4.2 and appendix D of the
paper). ERM, IRM and LISA learn fours and nines in two environments that differ in hue, and are
tested on a ladder: from each environment to the next one more factor shifts. Does posterior
agreement (PA) rank the three in the order of their accuracy? Does it distinguish them better than
the share of kept predictions (AFR_P) and the accuracy under the shift (AFR_T)? And what do the
inverse temperature and the principal components show? PA has the uniform prior here, as in the
thesis, so that its values can be compared with the printed ones.
"""

# %%
# Digits, nets and learners
# -------------------------
# Environments 0 and 1 are the sources, 2 to 5 the targets; ``factor_images.py`` shows
# them. As in the papers the two sources, validation and the test have different digits,
# each drawn several times, with other values within the levels of its factors. This study is
# smaller: 361 digits of scikit-learn replace MNIST's, and three convolutions replace a ResNet (18
# in the thesis, 50 in the paper).
#
# The nets get the distance of each channel from the grey canvas, without its sign. Bright digits
# are lighter than the canvas and dark ones darker, so with the images as they are
# (``--signed --seeds 3``) all three learners are at chance in all targets, with an accuracy of
# 0.49 to 0.50 and a PA of 0.00.
#
# IRM's penalty has the weight 1. With ``--penalty-weight 100 --seeds 3`` its nets are less
# accurate even in the sources (0.92 and 0.90 in environment 1).
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from scipy.stats import f as f_distribution
from scipy.stats import kendalltau
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from skorch.callbacks import Callback
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import nn

from pa_select import class_scores, robustness_curve
from pa_select.pairing import LabelPairing
from pa_select.shifts import TransformShift
from papers.datasets import FACTOR_LADDERS, factor_images
from papers.layer_features import LayerFeatures
from papers.learners import ERMNet, IRMNet, LISANet
from papers.measures import feature_columns, invariance

parser = argparse.ArgumentParser(description="Three learners on a ladder of shifts")
parser.add_argument("--seeds", type=int, default=3, help="splits and trainings, at least 2")
parser.add_argument("--epochs", type=int, default=24)
parser.add_argument("--size", type=int, default=32, help="side of the images in pixels")
parser.add_argument("--draws", type=int, default=3, help="images of each digit")
parser.add_argument("--penalty-weight", type=float, default=1.0, help="of IRM")
parser.add_argument("--table", metavar="FILE", help="write where the nets fail there")
parser.add_argument("--signed", action="store_true", help="show the nets the images as they are")
options, _ = parser.parse_known_args()
if options.seeds < 2 or options.epochs < 8:
    parser.error("expected at least 2 seeds and 8 epochs")

LADDER = FACTOR_LADDERS["discriminability"]
RUNGS = np.arange(1, 6)
RATIOS = [0.2, 0.4, 0.6, 0.8, 1.0]
STAGES = [1, options.epochs // 4, options.epochs]
LEARNERS = {
    "ERM": (ERMNet, {}),
    "IRM": (IRMNet, {"penalty_weight": options.penalty_weight}),
    "LISA": (LISANet, {"p_select": 0.5}),
}
X, y = load_digits(return_X_y=True)
digits = X[np.isin(y, (4, 9))].reshape(-1, 8, 8) / 16
labels = (y[np.isin(y, (4, 9))] == 9).astype(np.int64)


def draw(rows, environment, seed):
    """Return images of some digits as the distance of each channel from the canvas."""
    images = factor_images(digits[rows], LADDER[environment], size=options.size, random_state=seed)
    return 2 * (images - 0.5) if options.signed else 2 * np.abs(images - 0.5)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.classes = nn.Linear(32, 2)

    def forward(self, x):
        return self.classes(self.features(x))


class BestEpoch(Callback):
    """Keep the epoch with the best validation accuracy; record the features' invariance."""

    def __init__(self, sources, labels):
        self.sources, self.labels = sources, labels

    def on_train_begin(self, net, **kwargs):
        self.best, self.stages = (-1.0, 0.0), []

    def on_epoch_end(self, net, **kwargs):
        epoch = net.history[-1]
        # With so few digits many epochs tie in accuracy, so the loss breaks ties.
        quality = epoch["valid_acc"], -epoch["valid_loss"]
        if quality > self.best:
            self.best = quality
            self.state = {name: value.clone() for name, value in net.module_.state_dict().items()}
        if epoch["epoch"] in STAGES:
            features = [LayerFeatures(net, "features")(images) for images in self.sources]
            self.stages.append(invariance(*features, self.labels))

    def on_train_end(self, net, **kwargs):
        net.module_.load_state_dict(self.state)


def train(kind, settings, rows, sources, y_valid, seed):
    """Fit a learner to rows of both sources; keep its best epoch on the validation rows."""
    torch.manual_seed(seed)
    valid = Dataset(np.concatenate(sources), np.tile(y_valid, 2))
    net = kind(
        Net,
        optimizer=torch.optim.Adam,
        lr=3e-3,
        batch_size=64,
        max_epochs=options.epochs,
        train_split=predefined_split(valid),
        callbacks=[("best", BestEpoch(sources, y_valid))],
        random_state=seed,
        verbose=0,
        **settings,
    )
    X_train, y_train, environments = rows
    return net.fit(X_train, y_train, environments=environments)


# %%
# One split
# ---------
# In 5a the pairs are the same digits in environment 0 and in environment j. In 5b they are
# different digits of the same class, so that sampling adds to the shift. Both use the same nets.
def unit(seed):
    """Return robustness curves by experiment, and confidences and callbacks of the nets."""
    splits = StratifiedKFold(7, shuffle=True, random_state=seed).split(digits, labels)
    folds = [rows for _, rows in splits]
    first, second = (np.tile(np.concatenate(folds[k : k + 2]), options.draws) for k in (0, 2))
    valid, test, other = (np.tile(fold, options.draws) for fold in folds[4:])
    draws = 5 * seed + np.arange(5)
    rows = (
        np.concatenate([draw(first, 0, draws[0]), draw(second, 1, draws[1])]),
        labels[np.concatenate([first, second])],
        np.repeat([0, 1], [len(first), len(second)]),
    )
    sources = [draw(valid, j, draws[2]) for j in (0, 1)]
    nets = {
        name: train(kind, settings, rows, sources, labels[valid], seed)
        for name, (kind, settings) in LEARNERS.items()
    }
    same = [draw(test, j, draws[3]) for j in range(6)]
    different = [draw(other, j, draws[4]) for j in range(6)]
    pairs = LabelPairing(seed)(same[0], different[0], labels[test], labels[other])
    everything = np.arange(len(test))
    features = {name: LayerFeatures(net, "features") for name, net in nets.items()}
    curves = {}
    for experiment, views, a, b in (
        ("5a", same, everything, everything),
        ("5b", different, pairs.a, pairs.b),
    ):
        rows, y = same[0][a], labels[test][a]
        shift = TransformShift(lambda X, power, views=views, b=b: views[int(power)][b])
        curve = robustness_curve(
            nets,
            rows,
            y,
            shift=shift,
            powers=RUNGS,
            ratios=RATIOS,
            prior="uniform",
            random_state=seed,
        )
        of_features = feature_columns(curve, nets, rows, y, shift=shift, features=features)
        curves[experiment] = curve.table | of_features
    confidence = [
        [softmax(class_scores(net, same[j])[0].numpy(), axis=1).max(1).mean() for j in range(6)]
        for net in nets.values()
    ]
    kept = {name: dict(net.callbacks_)["best"] for name, net in nets.items()}
    return curves, np.array(confidence), kept


units = [unit(seed) for seed in range(options.seeds)]
confidence = np.array([found for _, found, _ in units])
validation = np.array([[best.best[0] for best in kept.values()] for *_, kept in units])
# Arrays of shape (seeds, learners, rungs, ratios).
measured = {
    experiment: {
        measure: np.array([curves[experiment][measure] for curves, *_ in units]).reshape(
            len(units), len(LEARNERS), len(RUNGS), len(RATIOS)
        )
        for measure in ("pa", "afr_pred", "afr_true", "beta", "cosine_similarity")
    }
    for experiment in ("5a", "5b")
}


def with_error(values):
    """Return the mean over the seeds and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))


# %%
# The measures, rung by rung
# --------------------------
# All rows are shifted. The table shows means and standard errors over the seeds, and in brackets
# the thesis's values (Tables 4.7 and 4.8). Its PA is the sum over 10 000 pairs without the
# constant, between -6931 and 0; here it is converted to nats per pair, log 2 + PA / 10 000. The
# thesis prints one value (ERM, 5a, three factors) without its minus sign.
MEASURES = {"pa": "PA, uniform prior, nats", "afr_pred": "AFR_P", "afr_true": "AFR_T"}
PAIRS = {"5a": "the same digits", "5b": "other digits of the class"}
nan = np.nan
printed = np.array([
    [[[-3.583, -195.4, -291.8, -400.9, nan],
      [-4.463, -66.54, -194.2, -277.1, nan],
      [-2.219, -207.2, -200.9, -282.9, nan]],
     [[0.999, 0.979, 0.968, 0.957, nan],
      [0.999, 0.994, 0.982, 0.974, nan],
      [0.999, 0.980, 0.983, 0.976, nan]],
     [[0.992, 0.973, 0.963, 0.953, nan],
      [0.989, 0.987, 0.978, 0.972, nan],
      [0.993, 0.975, 0.979, 0.970, nan]]],
    [[[-24.91, nan, -625.6, nan, -579.4],
      [-76.76, nan, -514.2, nan, -464.2],
      [-26.21, nan, -201.2, nan, -324.4]],
     [[0.999, nan, 0.979, nan, 0.976],
      [0.998, nan, 0.976, nan, 0.976],
      [0.999, nan, 0.985, nan, 0.988]],
     [[0.993, nan, 0.975, nan, 0.873],
      [0.993, nan, 0.978, nan, 0.911],
      [0.994, nan, 0.980, nan, 0.945]]],
])  # fmt: skip
printed[:, 0] = np.log(2) + printed[:, 0] / 10_000
THESIS = {
    experiment: dict(zip(MEASURES, table, strict=True))
    for experiment, table in zip(PAIRS, printed, strict=True)
}
rungs = "".join(f"{f'{j} shifted':>23s}" for j in RUNGS)
for experiment, pairs in PAIRS.items():
    print(f"{f'{experiment}, {pairs}':26s}{rungs}")
    for measure, title in MEASURES.items():
        means, errors = with_error(measured[experiment][measure][..., -1])
        for k, name in enumerate(LEARNERS):
            cells = zip(means[k], errors[k], THESIS[experiment][measure][k], strict=True)
            row = "".join(
                f"{m:9.3f} +- {e:.3f} " + (f"{'':7s}" if np.isnan(t) else f"[{t:.3f}]")
                for m, e, t in cells
            )
            print(f"{title:24s}{name:6s}{row}")

# %%
# PA as a function of the share of shifted rows (the thesis's Figures 4.14 and 4.15, the paper's
# Figure 7):
COLOURS = dict(zip(LEARNERS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
STYLES = dict(zip(LEARNERS, ("o-", "s--", "^-."), strict=True))
fig, axes = plt.subplots(5, 2, figsize=(6, 11), layout="constrained", sharex=True, sharey=True)
for panels, (experiment, pairs) in zip(axes.T, PAIRS.items(), strict=True):
    means, errors = with_error(measured[experiment]["pa"])
    for j, ax in enumerate(panels):
        for k, (name, colour) in enumerate(COLOURS.items()):
            ax.errorbar(
                RATIOS, means[k, j], errors[k, j], fmt=STYLES[name], color=colour, label=name
            )
    panels[0].set_title(f"{experiment}: {pairs}")
    panels[-1].set(xlabel="share of shifted rows", xticks=[0.2, 0.6, 1.0])
for j, ax in zip(RUNGS, axes[:, 0], strict=True):
    ((_, level),) = LADDER[j].items() - LADDER[j - 1].items()
    ax.set_ylabel(f"{j} shifted (now {level})\nPA (nats per pair)")
axes[0, 0].legend(fontsize="small")

# %%
# All three measures if all rows are shifted, with the thesis's values as hollow marks:
fig, axes = plt.subplots(3, 2, figsize=(6, 8.5), layout="constrained", sharex=True, sharey="row")
for panels, experiment in zip(axes.T, PAIRS, strict=True):
    for ax, (measure, title) in zip(panels, MEASURES.items(), strict=True):
        means, errors = with_error(measured[experiment][measure][..., -1])
        for k, (name, colour) in enumerate(COLOURS.items()):
            place = RUNGS + 0.12 * (k - 1)
            ax.errorbar(place, means[k], errors[k], fmt=STYLES[name], color=colour, label=name)
            marks = THESIS[experiment][measure][k]
            ax.plot(place, marks, STYLES[name][0], color=colour, mfc="none", ms=9)
        ax.set(title=f"{experiment}: {title}", xticks=RUNGS)
for ax in axes[-1]:
    ax.set_xlabel("factors shifted")
axes[0, 0].plot([], [], "o", color="0.5", mfc="none", ms=9, label="the thesis's")
axes[0, 0].legend(fontsize="small")

# %%
# Discrimination and ranking
# --------------------------
# A measure discriminates if the learners differ by more than the seeds do: F is the ratio of the
# two variances, with seeds as blocks. A measure ranks well if it puts two learners in the order
# of their accuracy in that environment, on digits that the measure has not used (those of 5b for
# 5a, and the reverse). The table shows the share of such pairs of learners; 0.5 is chance.


def discrimination(values):
    """Return F of the learners for values of shape (seeds, learners)."""
    seeds, learners = values.shape
    effect = values.mean(0) - values.mean()
    residual = values - values.mean(1, keepdims=True) - effect
    noise = (residual**2).sum() / (learners - 1) / (seeds - 1)
    return seeds * (effect**2).sum() / (learners - 1) / noise if noise else np.nan


def order_kept(measure, accuracy):
    """Return each seed's share of learner pairs in the accuracy's order; ties count half."""
    i, j = np.triu_indices(len(LEARNERS), 1)
    by_measure, by_accuracy = (np.sign(v[..., i] - v[..., j]) for v in (measure, accuracy))
    kept = np.ma.masked_where(by_accuracy == 0, (1 + by_measure * by_accuracy) / 2)
    return kept.mean(-1)


def share(measure, accuracy):
    """Return the mean over the seeds that have an order and its standard error, as text."""
    shares = order_kept(measure, accuracy).compressed()
    if len(shares) < 2:
        return "too few"
    mean, error = with_error(shares)
    return f"{mean:.2f} +- {error:.2f}"


degrees = len(LEARNERS) - 1, (len(LEARNERS) - 1) * (len(units) - 1)
print(f"F; by chance above {f_distribution.ppf(0.95, *degrees):.2f} in one of 20 cases")
for experiment, found in measured.items():
    for measure, title in MEASURES.items():
        values = [discrimination(found[measure][:, :, j, -1]) for j in range(5)]
        print(f"{experiment}  {title:24s}" + "".join(f"{v:15.2f}" for v in values))
print("\nshare of pairs of learners in the order of their accuracy")
gains = []
for experiment, other in (("5a", "5b"), ("5b", "5a")):
    accuracy = measured[other]["afr_true"][..., -1]
    values = {measure: measured[experiment][measure][..., -1] for measure in ("pa", "afr_pred")}
    for measure, found in values.items():
        row = [f"{share(found[..., j], accuracy[..., j]):>15s}" for j in range(5)]
        print(f"{experiment}  {MEASURES[measure]:24s}" + "".join(row))
    for j in range(5):
        by_pa, by_afr = (order_kept(found[..., j], accuracy[..., j]) for found in values.values())
        gains.append(by_pa - by_afr)
mean, error = with_error(np.ma.stack(gains).mean(0))
print(f"PA less AFR_P, mean of the ten: {mean:+.3f} +- {error:.3f}")
print("\nthe thesis's tables, with their AFR_T for the accuracy")
for experiment, table in THESIS.items():
    for measure in ("pa", "afr_pred"):
        kept = [order_kept(table[measure][:, j], table["afr_true"][:, j]) for j in range(5)]
        kept = [np.nan if np.isnan(table["pa"][0, j]) else kept[j] for j in range(5)]
        print(f"{experiment}  {MEASURES[measure]:24s}" + "".join(f"{v:15.2f}" for v in kept))
target = measured["5b"]["afr_true"][:, :, 1:, -1].mean(-1)
print("\nthe order of the mean accuracy in the four targets, on other digits, from the sources by")
for title, values in {
    "PA, same digits": measured["5a"]["pa"][:, :, 0, -1],
    "PA, other digits": measured["5b"]["pa"][:, :, 0, -1],
    "AFR_P, same digits": measured["5a"]["afr_pred"][:, :, 0, -1],
    "validation accuracy": validation,
}.items():
    print(f"    {title:24s} {share(values, target)}")

# %%
# Features
# --------
# Table 4.9 of the thesis shows, for 5b, the mean cosine similarity of the features of a pair: of
# the original image and the shifted one. Its values are in brackets. They fall where the texture
# becomes tiles, with five factors. Does the similarity tell which shift makes a net fail, and does
# PA? For each net the second table compares the factor at which a measure falls the most with the
# one at which the accuracy on the other digits does, and the order of the five environments by
# both (Kendall's tau). A chance choice of the factor is right in 0.25 of the cases.
THESIS_SIMILARITY = np.array([
    [0.9978, 0.9303, 0.9562, 0.9561, 0.6661],
    [0.9967, 0.9018, 0.9296, 0.9374, 0.5585],
    [0.9980, 0.9431, 0.9431, 0.9641, 0.7130],
])  # fmt: skip
print(f"{'cosine similarity':26s}{rungs}")
for experiment, found in measured.items():
    means, errors = with_error(found["cosine_similarity"][..., -1])
    for k, name in enumerate(LEARNERS):
        cells = zip(means[k], errors[k], THESIS_SIMILARITY[k], strict=True)
        row = "".join(
            f"{m:9.3f} +- {e:.3f} " + (f"[{t:.3f}]" if experiment == "5b" else f"{'':7s}")
            for m, e, t in cells
        )
        print(f"{experiment:20s}{name:6s}{row}")
print("\nwhere the net fails: the same factor as by accuracy, and Kendall's tau")
where_nets_fail = []
for experiment, other in (("5a", "5b"), ("5b", "5a")):
    accuracy = measured[other]["afr_true"][..., -1]
    for measure in ("pa", "afr_pred", "cosine_similarity"):
        values = measured[experiment][measure][..., -1]
        # The factors of the largest falls, for each seed and learner.
        falls, of_accuracy = (np.diff(v).argmin(-1) for v in (values, accuracy))
        taus = [
            np.mean([kendalltau(*pair).statistic for pair in zip(*of_seed, strict=True)])
            for of_seed in zip(values, accuracy, strict=True)
        ]
        row = [with_error(v) for v in ((falls == of_accuracy).mean(1), np.array(taus))]
        row = [f"{mean:.2f} +- {error:.2f}" for mean, error in row]
        title = MEASURES.get(measure, "cosine similarity")
        print(f"{experiment}  {title:24s}" + "".join(f"{cell:>17s}" for cell in row))
        where_nets_fail.append([experiment, title, *row])
if options.table:
    columns = ["experiment", "measure", "same factor as by accuracy", "Kendall's tau"]
    pd.DataFrame(where_nets_fail, columns=columns).to_csv(options.table, index=False)

# %%
# The inverse temperature
# -----------------------
# The values in the thesis's Table 4.10 are those where Adam stopped after 1000 steps; the table
# does not say for how many shifted factors they are. Ours are certified maxima, which are infinite
# if no pair disagrees (hollow marks at the upper edge). The first panel shows the confidence,
# which is the mean posterior of the predicted class at beta = 1. In the thesis's Figure 4.16 and
# the paper's Figure 8 the more confident model has the higher inverse temperature.
THESIS_BETA = {"5a": [2.303, 4.927, 5.687], "5b": [3.022, 3.138, 1.837]}
print(f"median beta{'':6s}" + "".join(f"{f'{j} shifted':>12s}" for j in RUNGS) + "   thesis")
for experiment, found in measured.items():
    for k, name in enumerate(LEARNERS):
        medians = np.median(found["beta"][:, k, :, -1], axis=0)
        row = "".join(f"{m:12.2f}" for m in medians)
        print(f"{experiment}  {name:12s}{row}{THESIS_BETA[experiment][k]:9.3f}")
# Two infinite values must tie.
beta = np.minimum(measured["5a"]["beta"][..., -1], 1e9)
row = "".join(f"{share(beta[..., j - 1], confidence[..., j]):>15s}" for j in RUNGS)
print(f"5a, share of pairs in which the more confident learner has the higher beta\n    {row}")

fig, axes = plt.subplots(3, 1, figsize=(6, 9.5), layout="constrained")
means, errors = with_error(confidence)
for k, (name, colour) in enumerate(COLOURS.items()):
    axes[0].errorbar(range(6), means[k], errors[k], fmt=STYLES[name], color=colour, label=name)
axes[0].set(xlabel="factors shifted", ylabel="mean posterior of the predicted class")
axes[0].set_title("confidence at beta = 1, test digits")
axes[0].legend(fontsize="small", loc="lower left")
axes[2].sharey(axes[1])
for ax, (experiment, found) in zip(axes[1:], measured.items(), strict=True):
    at_edge = {"transform": ax.get_xaxis_transform(), "clip_on": False, "in_layout": False}
    for k, (name, colour) in enumerate(COLOURS.items()):
        medians = np.median(found["beta"][:, k, :, -1], axis=0)
        ax.plot(RUNGS, medians, STYLES[name], color=colour)
        infinite = RUNGS[np.isinf(medians)] + 0.2 * (k - 1)
        edge = np.ones(len(infinite))
        ax.plot(infinite, edge, STYLES[name][0], color=colour, mfc="none", **at_edge)
    ax.axhline(1, color="0.5", linewidth=0.8)
    ax.set_yscale("log", nonpositive="clip")
    ax.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
    ax.minorticks_off()
    ax.set(xticks=RUNGS, xlabel="factors shifted", ylabel="median beta")
    ax.set_title(f"{experiment}: {PAIRS[experiment]}")

# %%
# Principal components (Experiment 5c)
# ------------------------------------
# The representations of the validation digits in the red and in the blue environment are each
# projected on their own first principal component and standardised. The error is the mean squared
# difference of a digit's two projections and measures the influence of the shift. The variance
# within the classes is the part of the component that does not depend on the class. The thesis
# and the paper show only ERM and IRM, at a learning rate of 0.01 (Figures 4.17 and 11), without
# numbers.
print("epoch " + "".join(f"{stage:>34d}" for stage in STAGES))
print(f"{'':6s}" + len(STAGES) * f"{'error':>17s}{'within class':>17s}")
for name in LEARNERS:
    row = ""
    for stage in range(len(STAGES)):
        found = [kept[name].stages[stage] for *_, kept in units]
        for values in ([f.error for f in found], [f.class_variance for f in found]):
            mean, error = with_error(np.array(values))
            row += f"{mean:8.3f} +- {error:.3f}"
    print(f"{name:6s}{row}")

kept = units[0][-1]
fig, axes = plt.subplots(3, 3, figsize=(7, 7.8), layout="constrained", sharex=True, sharey=True)
for row, name in zip(axes, LEARNERS, strict=True):
    for ax, found, stage in zip(row, kept[name].stages, STAGES, strict=True):
        for label, digit, colour, marker in ((0, 4, "#0072B2", "o"), (1, 9, "#D55E00", "^")):
            mine = kept[name].labels == label
            z = found.projection_a[mine], found.projection_b[mine]
            ax.plot(*z, marker, color=colour, alpha=0.5, ms=4, label=f"digit {digit}")
        ax.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=0.8)
        ax.set_title(f"{name}, epoch {stage}\nerror {found.error:.3f}", fontsize="medium")
fig.supylabel("z in environment 1 (blue)", fontsize="medium")
fig.supxlabel("z in environment 0 (red)", fontsize="medium")
axes[0, 0].legend(fontsize="small")

# %%
# What holds and what does not
# ----------------------------
# The figures are from ``python examples/papers/ladder_of_shifts.py --seeds 16`` (140 seconds of
# CPU time); the tables above, with three seeds, have wider errors. The splits share digits, so all
# errors are somewhat too small. On another processor the nets differ, and the figures vary within
# their errors.
#
# - *PA follows the shift.* It falls with the share of shifted rows, and from 0.69 nats with one
#   factor to 0.33 with four (ERM, 5a). The larger digit causes most of the loss. With the tiles
#   PA rises a little, as in the thesis's 5b, but here the accuracy rises with it.
#   With other digits PA is lower in the sources too: 0.64, 0.63 and 0.61 instead of 0.69.
# - *PA ranks the learners in the order of their accuracy in that environment*, best if the
#   differences are large: with four and five factors in about 0.95 of the pairs, with one to
#   three in 0.6 to 0.9. With four factors LISA is the most robust (accuracy 0.83 against ERM's
#   0.77 in 5a), as in the thesis's 5b and the paper; with one to three, in 5b, it is the least
#   robust. IRM cannot be distinguished from ERM. At a weight of 10 (``--penalty-weight 10
#   --seeds 3``) IRM's accuracy, 0.82, is between 0.72 and 0.85 of the other two, and it loses
#   accuracy in the sources (0.97 against 1.00).
# - *PA ranks a little better than AFR_P*, which often ties: by about 0.04 +- 0.015 of the pairs in
#   the mean of the ten rows above. It does not discriminate better: the F of PA is the largest of
#   the three in one of ten cases. In 5b PA distinguishes the learners in the sources, with ERM
#   first. In the thesis, and here with ``--seeds 6``, only PA does; with 16 seeds AFR_P and AFR_T
#   do too. In the thesis's own tables PA and AFR_P each keep the order of AFR_T in 0.50 to 1.00 of
#   the pairs.
# - *The sources alone are not enough.* Agreement between the two source environments puts the
#   learners in the order of their accuracy in the targets in 0.45 to 0.49 of the pairs, also with
#   other digits; validation accuracy does in about 0.33. PA needs rows of the target, but no
#   labels.
# - *The similarity of features does not show where the nets fail; PA and AFR_P do.* They fall the
#   most at the same factor as the accuracy on other digits for about 0.9 of the nets, the
#   similarity for about 0.55 +- 0.10. It falls a little with each factor up to the fourth, and is
#   still 0.96 where the accuracy is 0.8. In the order of the environments the three hardly differ:
#   tau is about 0.73 +- 0.05 for PA and AFR_P, and 0.68 +- 0.04. The thesis has the opposite case:
#   from three to five factors in 5b the AFR_T of ERM and IRM falls and so does the similarity, but
#   PA rises and AFR_P hardly changes. The clear fall of the similarity with the tiles does not
#   come back.
# - *The inverse temperature corrects the confidence.* LISA, which mixes labels, is the least
#   confident and has the highest beta. With four or five factors the more confident of two
#   learners has the higher beta in only 0.15 of the pairs, contrary to the paper. There ERM and
#   IRM have a beta below 1: they are too confident for how often their predictions agree.
# - *The principal components do not distinguish ERM from IRM.* Both errors fall from 0.2 to 0.002:
#   at a learning rate of 0.003 ERM also finds a component that shows the class and not the hue.
#   LISA's error is 0.006.
plt.show()
