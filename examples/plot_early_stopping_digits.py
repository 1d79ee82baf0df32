"""
Which epoch to keep
===================

`PAEarlyStopping` keeps the epoch whose posteriors agree best on the same objects in two
environments. It needs no labels of these environments. Two studies compare the accuracy of this
epoch with that of epochs that other rules keep:

- A scanner is replaced. A small net is trained on digits of the old scanner; the new one has
  half the light, and noise. Training for all epochs makes the net worse on the new scanner.
- Digits in colour. The hue depends on the digit during training, but not later.

The tables print means and standard errors over the seeds. Those on the pages
:doc:`/training` and :doc:`/measured` come from this script with ``--seeds 8`` and
``--table``. The run below is a quick one, with two seeds and fewer settings.
"""

# %%
# A scanner is replaced
# ---------------------
# 1000 digits are for training, 497 for the test. Another 300 were scanned by both scanners: they
# are the two environments, and need no labels. For comparison some rules have their labels. All
# rules but the last two choose from the same training.
import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.colors import hsv_to_rgb
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping, EpochScoring
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import nn

from pa_select import PAEarlyStopping, PAScoring, SiteAdapter, expected_scorer
from pa_select.plotting import EpochsDisplay
from pa_select.training import SharedEnvironment

parser = argparse.ArgumentParser(description="Which epoch to keep")
parser.add_argument("--seeds", type=int, help="without, two seeds and half of the settings")
parser.add_argument("--epochs", type=int, default=25, help="of the nets for colours")
parser.add_argument(
    "--table",
    metavar="FILE",
    help="write scanners there, and beside it the settings to FILE with _settings and colours to "
    "FILE with _colours",
)
options, _ = parser.parse_known_args()

INK = plt.rcParams["text.color"]
SEEDS = range(options.seeds or 2)
EPOCHS = 100
PATIENCE, N_PAIRS = 10, 300
# Patience and number of pairs.
SETTINGS = [(5, 300), (10, 300), (20, 300), (10, 100), (10, 40), (10, 20)]
if options.seeds is None:  # a quick run
    SETTINGS = [(10, 300), (20, 300), (10, 40)]
X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")


def small_net(rows, seed, *callbacks):
    """Train the net of the page on epochs."""
    torch.manual_seed(seed)
    return NeuralNetClassifier(
        lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.003,
        iterator_valid__batch_size=1000,
        max_epochs=EPOCHS,
        callbacks=list(callbacks),
        verbose=0,
    ).fit(*rows)


def stopped(values, patience=PATIENCE):
    """Return the best and the last epoch, from 0, if these values stop the training."""
    for last in range(len(values)):
        best = int(np.argmax(values[: last + 1]))
        if last - best == patience:
            break
    return best, last


def replace_scanner(seed):
    """Return, for each rule, both accuracies, the epochs run and the accuracy that it promises.

    Also the two trainings. A rule that has numbers has that patience and number of pairs.
    """
    rng = np.random.default_rng(seed)
    seen, held_out, test = np.split(rng.permutation(len(y)), [1000, 1000 + N_PAIRS])

    def rescan(rows):
        noise = rng.normal(size=X[rows].shape)
        return (0.5 * X[rows] + 0.2 * noise).astype("float32")

    tests = {"old scanner": X[test], "new scanner": rescan(test)}
    pairs = X[held_out], rescan(held_out)

    def accuracy_on(rows, labels, name):
        def accuracy(net, X=None, y=None):
            # All rows at once: `net.score` collects them one by one.
            with torch.no_grad():
                predicted = net.infer(torch.as_tensor(rows)).argmax(1).numpy()
            return float(np.mean(predicted == labels))

        return EpochScoring(accuracy, name=name, lower_is_better=False, use_caching=False)

    def expected(n_pairs):
        scorer = expected_scorer(*(rows[:n_pairs] for rows in pairs))
        name = f"expected_{n_pairs}"
        return EpochScoring(scorer, name=name, lower_is_better=False)

    def accuracy_by_labels(n_pairs):
        return accuracy_on(pairs[1][:n_pairs], y[held_out[:n_pairs]], f"labels_{n_pairs}")

    def accuracy_of_mapped(n_pairs):
        adapter = SiteAdapter().fit(pairs[1][:n_pairs], pairs[0][:n_pairs])
        mapped = adapter.transform(tests["new scanner"])
        return accuracy_on(mapped, y[test], f"mapped_{n_pairs}")

    sizes = sorted({n for _, n in SETTINGS}, reverse=True)
    on_tests = [accuracy_on(rows, y[test], name) for name, rows in tests.items()]
    with_pairs = (expected, accuracy_by_labels, accuracy_of_mapped)
    recorded = *(record(n) for record in with_pairs for n in sizes), *on_tests
    full = small_net((X[seen], y[seen]), seed, *recorded).history
    course = np.array(full[:, tuple(tests)])

    def stopped_by_agreement(patience, n_pairs):
        given = tuple(rows[:n_pairs] for rows in pairs)
        stopping = PAEarlyStopping(given, patience=patience)
        net = small_net((X[seen], y[seen]), seed, ("pa", stopping))
        return (dict(net.callbacks_)["pa"].best_epoch_ - 1, len(net.history) - 1), net

    by_agreement = {setting: stopped_by_agreement(*setting) for setting in SETTINGS}
    agreed, kept = by_agreement[PATIENCE, N_PAIRS]

    def trained_on(rows, labels):
        given = np.concatenate([X[seen], *rows]), np.append(y[seen], labels)
        # It stops where `stopped` does, so later epochs need not be run.
        stopping = EarlyStopping("valid_acc", PATIENCE, threshold=0, lower_is_better=False)
        history = small_net(given, seed, *on_tests, stopping).history
        best, last = stopped(history[:, "valid_acc"])
        return *history[best, tuple(tests)], last + 1, np.nan

    worth = {"agreement": agreed}
    for setting, (epochs, _) in by_agreement.items():
        values = np.array(full[:, f"expected_{setting[1]}"])
        worth[("agreement", *setting)] = epochs
        worth[("expected score", *setting)] = stopped(values, setting[0])
        worth[("labels", *setting)] = stopped(full[:, f"labels_{setting[1]}"], setting[0])
    for rule, column, sign in (
        ("expected", f"expected_{N_PAIRS}", 1),
        ("labels", f"labels_{N_PAIRS}", 1),
        ("valid_acc", "valid_acc", 1),
        ("valid_loss", "valid_loss", -1),
    ):
        worth[rule] = stopped(sign * np.array(full[:, column]))
    worth["all epochs"] = EPOCHS - 1, EPOCHS - 1
    columns = {
        "expected": f"expected_{N_PAIRS}",
        "labels": f"labels_{N_PAIRS}",
        "valid_acc": "valid_acc",
    }
    promised = {rule: full[worth[rule][0], column] for rule, column in columns.items()}
    worth = {
        rule: (*course[best], last + 1, promised.get(rule, np.nan))
        for rule, (best, last) in worth.items()
    }
    worth["rescans too"] = trained_on([rescan(seen)], y[seen])
    for n_pairs in sizes:
        some = [rows[:n_pairs] for rows in pairs]
        found = trained_on(some, np.tile(y[held_out[:n_pairs]], 2))
        worth["pairs too", PATIENCE, n_pairs] = found
        best, last = stopped(full[:, "valid_acc"])
        mapped = full[best, f"mapped_{n_pairs}"]
        worth["mapped", PATIENCE, n_pairs] = course[best][0], mapped, last + 1, np.nan
    for rule in ("pairs too", "mapped"):
        worth[rule] = worth[rule, PATIENCE, N_PAIRS]
    return worth, kept, course


scanners = [replace_scanner(seed) for seed in SEEDS]

# %%
# The table shows the accuracy (in points) on the test digits of the old and of the new scanner,
# the epochs that were run, the gains of the epoch kept by agreement on both scanners, and by how
# much the rule's own number is higher than the accuracy on the new scanner.
# All rules but the last epoch stop the training early. *Validation* means the net's own validation
# rows. The expected score is the accuracy that these rows and the 300 pairs let expect on the new
# scanner (:doc:`/paired`). *New scans, labelled* are those of the 300 digits. The adapter is a
# regression on the 300 pairs; the net reads what it makes of the new scans. The last two lines are
# of nets that were trained on more rows, and stopped by validation accuracy: the 300 digits with
# their labels, as both scanners show them, or labelled rescans of all training rows.


def with_error(values, form=".1f"):
    error = f" +- {np.std(values, ddof=1) / np.sqrt(len(values)):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{error}"


by_agreement = np.array([worth["agreement"] for worth, _, _ in scanners])
NAMES = {
    "agreement": "best agreement (`PAEarlyStopping`)",
    "expected": "best expected score",
    "labels": "best accuracy on the new scans, labelled",
    "valid_acc": "best validation accuracy",
    "mapped": "the same, with an adapter",
    "valid_loss": "best validation loss",
    "all epochs": "last epoch",
    "pairs too": "trained on the 300 digits too, labelled",
    "rescans too": "trained on labelled rescans too",
}
lines = []
for rule, described in NAMES.items():
    old, new, epochs, promised = np.array([worth[rule] for worth, _, _ in scanners]).T
    line = {
        "weights kept": described,
        "old scanner": with_error(100 * old),
        "new scanner": with_error(100 * new),
        "epochs run": f"{epochs.mean():.0f}",
    }
    for name, own, other in (("old", by_agreement[:, 0], old), ("new", by_agreement[:, 1], new)):
        gain = with_error(100 * (own - other), "+.1f")
        line[f"agreement gains, {name}"] = "" if rule == "agreement" else gain
    too_high = with_error(100 * (promised - new), "+.1f")
    line["promised less true, new"] = "" if np.isnan(promised).any() else too_high
    lines.append(line)
scanner_table = pd.DataFrame(lines)
print(scanner_table.to_string(index=False))

# %%
# With ``--seeds 8`` a longer patience keeps later epochs, which are better on the old scanner. The
# last column is the gain over early stopping by validation accuracy, without an adapter. The last
# rows add the pairs to the training rows, with their labels, and stop early by validation
# accuracy.
lines = []
by_accuracy = np.array([worth["valid_acc"] for worth, _, _ in scanners])
SHOWN = {
    "agreement": "agreement",
    "expected score": "expected score",
    "labels": "accuracy by labels of the pairs",
    "mapped": "validation accuracy, with an adapter",
    "pairs too": "labelled pairs in the training",
}
for rule, patience, n_pairs in filter(lambda key: key[0] in SHOWN, scanners[0][0]):
    chosen = np.array([worth[rule, patience, n_pairs] for worth, _, _ in scanners])
    lines.append(
        {
            "rule": SHOWN[rule],
            "pairs": n_pairs,
            "patience": patience,
            "epochs run": f"{chosen[:, 2].mean():.0f}",
            "old scanner": with_error(100 * chosen[:, 0]),
            "new scanner": with_error(100 * chosen[:, 1]),
            "gain, new": with_error(100 * (chosen[:, 1] - by_accuracy[:, 1]), "+.1f"),
        }
    )
lines.sort(key=lambda line: list(SHOWN.values()).index(line["rule"]))
settings_table = pd.DataFrame(lines)
print(settings_table.to_string(index=False))

# %%
# On the left, the agreement in the first training until `PAEarlyStopping` stopped it. On the
# right, the accuracy on the test digits if the training runs for all epochs.
_, kept, course = scanners[0]
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
display = EpochsDisplay.from_result(kept, ax=left)
fig.suptitle("The training until it was stopped, and if it runs on")
right.plot(1 + np.arange(EPOCHS), course[:, 0], "--", color="#D55E00", label="old scanner")
right.plot(1 + np.arange(EPOCHS), course[:, 1], color="#0072B2", label="new scanner")
right.axvline(display.kept, color="0.5", ls=":", label="kept by agreement")
right.axvline(len(kept.history), color="0.5", ls="-.", label="stopped")
right.set(xlabel="epoch", ylabel="accuracy on the test digits", ylim=(0.5, 1))
right.legend()

# %%
# Digits in colour
# ----------------
# A small convolutional net learns four digits that are drawn in colour, in two environments
# that differ in position and brightness. In the sources the hue depends on the digit, in five
# degrees as in the thesis's Experiment 7. ZGO: each digit has its own hue. 1-, 2- and 3-CGO: one,
# two and three digits also occur in another hue. ZSO: every digit occurs in every hue. Where the
# net will be used, hues are uniform, and position, size and brightness differ.
#
# `PAScoring` records after each epoch the agreement of the net's posteriors on the same
# validation digits in both environments.
CLASSES, SIZE = 4, 14
digits, labels = load_digits(n_class=CLASSES, return_X_y=True)
digits = digits.reshape(-1, 8, 8) / 16
SETTINGS = {"ZGO": 0, "1-CGO": 1, "2-CGO": 2, "3-CGO": 3, "ZSO": None}
# Top, left, size and brightness of the digit.
SOURCES = ((1, 1, 8, 1.0), (4, 3, 8, 0.7))
TARGET = (2, 1, 11, 0.5)


def hues(y, setting, rng):
    """Return a hue for each digit; the first classes also have the hue of the next class."""
    if setting is None:
        return rng.integers(0, CLASSES, len(y))
    other = (y < setting) & (rng.random(len(y)) < 0.5)
    return np.where(other, (y + 1) % CLASSES, y)


def render(images, hue, top, left, size, brightness, rng):
    """Return images of shape (n, 3, SIZE, SIZE)."""
    out = 0.1 * rng.random((len(images), 3, SIZE, SIZE))
    drawn = zoom(images, (1, size / 8, size / 8), order=1).clip(0, 1)
    colour = hsv_to_rgb(np.column_stack([hue / CLASSES, np.full((len(hue), 2), 0.9)]))
    window = (slice(None), slice(None), slice(top, top + size), slice(left, left + size))
    out[window] += brightness * colour[:, :, None, None] * drawn[:, None]
    return out.astype(np.float32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, CLASSES),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


# %%
# One training
# ------------
def train(setting, seed):
    """Return agreement, accuracies and losses of every epoch of a training."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    order = rng.permutation(len(labels))
    fit, valid, test = order[:300], order[300:450], order[450:]

    def view(rows, hue, place):
        return render(digits[rows], hue, *place, rng)

    hue = hues(labels[fit], setting, rng)
    half = len(fit) // 2
    X = np.concatenate(
        [view(fit[:half], hue[:half], SOURCES[0]), view(fit[half:], hue[half:], SOURCES[1])]
    )
    hue = hues(labels[valid], setting, rng)
    first, second = (SharedEnvironment(view(valid, hue, place)) for place in SOURCES)
    X_valid = np.concatenate([first.X, second.X])
    y_valid = np.tile(labels[valid], 2)
    uniform = rng.integers(0, CLASSES, len(test))
    shifted = view(test, uniform, TARGET)

    def shifted_accuracy(net, X=None, y=None):
        with torch.no_grad():
            return float(np.mean(net.predict(shifted) == labels[test]))

    net = NeuralNetClassifier(
        Net,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=3e-3,
        batch_size=32,
        iterator_train__shuffle=True,
        max_epochs=options.epochs,
        train_split=predefined_split(Dataset(X_valid, y_valid)),
        callbacks=[
            PAScoring((first, second), uniform=True),
            EpochScoring(
                shifted_accuracy, name="shifted", lower_is_better=False, use_caching=False
            ),
        ],
        verbose=0,
    )
    history = net.fit(X, labels[fit]).history
    return {
        name: np.array(history[:, name])
        for name in ("pa", "pa_uniform", "valid_acc", "valid_loss", "shifted", "pa_seconds")
    }


runs = {name: [train(setting, seed) for seed in SEEDS] for name, setting in SETTINGS.items()}

# %%
# What each rule keeps
# --------------------
# If epochs tie, the earlier one is kept. "Best in hindsight" uses the labels of the target. The
# table shows the accuracy under the shift in points, the gain over the epoch of the best
# validation accuracy, and how many of the epochs kept had collapsed, to less than half of the best
# validation accuracy.
RULES = {
    "agreement": lambda run: np.argmax(run["pa"] >= run["pa"].max() - 1e-7),
    "agreement, uniform prior": lambda run: np.argmax(run["pa_uniform"]),
    "validation accuracy": lambda run: np.argmax(run["valid_acc"]),
    "validation loss": lambda run: np.argmin(run["valid_loss"]),
    "last epoch": lambda run: len(run["pa"]) - 1,
    "best in hindsight": lambda run: np.argmax(run["shifted"]),
}
worth = {
    rule: np.array([[run["shifted"][choose(run)] for run in runs[name]] for name in runs])
    for rule, choose in RULES.items()
}
all_runs = [run for name in runs for run in runs[name]]
lines = []
for rule, values in worth.items():
    kept_accuracy = [(r["valid_acc"][RULES[rule](r)], r["valid_acc"].max()) for r in all_runs]
    gain = 100 * (values - worth["validation accuracy"]).ravel()
    lines.append(
        {
            "epoch kept": rule,
            **{name: f"{100 * v:.1f}" for name, v in zip(runs, values.mean(1), strict=True)},
            "mean": f"{100 * values.mean():.1f}",
            "gain": "" if rule == "validation accuracy" else with_error(gain, "+.1f"),
            "collapsed": f"{sum(own < 0.5 * best for own, best in kept_accuracy)} of {len(gain)}",
        }
    )
colour_table = pd.DataFrame(lines)
print(colour_table.to_string(index=False))
if options.table:
    file = Path(options.table)
    scanner_table.to_csv(file, index=False)
    settings_table.to_csv(file.with_name(f"{file.stem}_settings{file.suffix}"), index=False)
    colour_table.to_csv(file.with_name(f"{file.stem}_colours{file.suffix}"), index=False)

# %%
# Two trainings, with the epochs that three rules keep.
fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
for ax, name in zip(axes, ("2-CGO", "ZSO"), strict=True):
    run = runs[name][0]
    epochs = 1 + np.arange(len(run["pa"]))
    ax.plot(epochs, run["pa"] / np.log(CLASSES), label="agreement / log 4")
    ax.plot(epochs, run["valid_acc"], label="validation accuracy")
    ax.plot(epochs, run["shifted"], label="shifted accuracy")
    for rule, marker in (("agreement", "*"), ("validation accuracy", "s"), ("last epoch", "x")):
        best = RULES[rule](run)
        style = {"ms": 11, "color": INK, "mfc": "none", "ls": "none", "label": f"kept: {rule}"}
        ax.plot(epochs[best], run["shifted"][best], marker, **style)
    ax.set(title=name, xlabel="epoch", ylim=(0, 1.02))
axes[0].set_ylabel("share of the maximum, or accuracy")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()
