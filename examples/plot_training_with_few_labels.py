"""
Training with few labels
========================

Fifty digits have labels, a thousand have none. Where the net will be used, the images are noisy or
have slipped, and this nuisance is known: it can be shown to the net in training. How should the
net use the thousand? Every training sees the same rows and views and differs from the others only
in the term that it adds to the cross entropy of the labels:

- *augmentation*: no term. The labels are those of the rows and of their views;
- *consistency*: the predictions for a row and for its view should be close;
- *FixMatch* (simplified): the predicted class of a row is the label of its view if the net is
  certain of it (0.95);
- *IIC*: the mutual information of the predicted classes of row and view;
- *three terms*: consistency, certain predictions, and classes that are equally frequent;
- *agreement*: the posterior agreement of row and view (`AgreementNet`).

The tables of the page :doc:`/epochs_measured` come from this script with ``--seeds 8`` and
``--table``.
"""

# %%
# Rows
# ----
# Of scikit-learn's 1797 digits 50 have labels (five of each class), 1000 have none, and 747 are
# the test. Means and standard errors are over the seeds: each has its own split, initial weights,
# views and test nuisance. The data set is always the same, so that the errors do not say how
# other data would differ.
import argparse
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits, load_sample_images
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from torch.nn import functional

from pa_select import SiteAdapter
from pa_select.shifts import GaussianNoise, Translate
from pa_select.training import AgreementNet

parser = argparse.ArgumentParser(description="Training with few labels")
parser.add_argument("--seeds", type=int, help="without, one seed and half of the steps")
parser.add_argument("--save", metavar="FILE", help="save the picture there")
parser.add_argument(
    "--table", metavar="FILE", help="write the table there, and the limits to FILE with _limits"
)
options = parser.parse_args()

X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
NUISANCES = {
    "noise": lambda seed=0: GaussianNoise(0.4, random_state=seed),
    "slips": lambda seed=0: Translate(1.0, shape=(8, 8), random_state=seed),
}
STEPS = 200 if options.seeds else 100
SEEDS = range(options.seeds or 1)


def split(seed, labels=y):
    """Return the numbers of the labelled rows, of the unlabelled ones and of the test."""
    labelled, rest = train_test_split(
        np.arange(len(labels)), train_size=50, stratify=labels, random_state=seed
    )
    return labelled, rest[:1000], rest[1000:]


# %%
# What is added to the cross entropy
# ----------------------------------
# Each loss takes the logits of 64 rows and of their views. All have the weight 1, which rises in
# the first fifth of the steps. The weights, FixMatch's threshold, the number of steps and the
# strengths of the nuisances were fixed beforehand, and none was tuned, neither for agreement nor
# for the others. With a weight of its own each of them may do better.
def symmetric_kl(a, b):
    log_p, log_q = a.log_softmax(1), b.log_softmax(1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1).mean() / 2


def squared_difference(a, b):
    return (a.softmax(1) - b.softmax(1)).square().sum(1).mean()


def entropy(p):
    return -torch.xlogy(p, p).sum(-1)


def jensen_shannon(a, b):
    p, q = a.softmax(1), b.softmax(1)
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).mean()


def fixmatch(a, b):
    certain, label = a.detach().softmax(1).max(1)
    return (functional.cross_entropy(b, label, reduction="none") * (certain > 0.95)).mean()


def mutual_information(a, b):
    joint = a.softmax(1).T @ b.softmax(1) / len(a)
    joint = (joint + joint.T) / 2
    return entropy(joint.flatten()) - 2 * entropy(joint.sum(0))


def three_terms(a, b):
    both = torch.cat([a, b]).softmax(1)
    return symmetric_kl(a, b) + entropy(both).mean() - entropy(both.mean(0))


class PairLoss(torch.nn.Module):
    """A loss of pairs, in the place of the agreement."""

    beta = 1.0

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Control(AgreementNet):
    """The same training with another loss of the pairs."""

    def __init__(self, *args, pair_loss, **kwargs):
        super().__init__(*args, **kwargs)
        self.pair_loss = pair_loss

    def initialize_criterion(self):
        super().initialize_criterion()
        self.agreement_loss_ = PairLoss(self.pair_loss)
        return self


AUGMENTATION, AGREEMENT = "augmentation", "agreement"
TRAININGS = {
    "cross entropy": {"weight": 0.0, "augment": False},
    AUGMENTATION: {"weight": 0.0},
    "consistency: symmetric KL": {"pair_loss": symmetric_kl},
    "consistency: squared difference": {"pair_loss": squared_difference},
    "consistency: Jensen-Shannon": {"pair_loss": jensen_shannon},
    "FixMatch (simplified)": {"pair_loss": fixmatch},
    "IIC": {"pair_loss": mutual_information},
    "three terms": {"pair_loss": three_terms},
    AGREEMENT: {},
    "agreement, inverse temperature 1": {"beta": 1.0},
    "agreement, uniform prior": {"prior": "uniform"},
}


def trained(seed, rows, labels, pairs, **settings):
    """Train a small net."""
    torch.manual_seed(seed)
    kind = Control if "pair_loss" in settings else AgreementNet
    net = kind(
        lambda: torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        ),
        pairs=pairs,
        optimizer=torch.optim.Adam,
        lr=0.003,
        batch_size=-1,
        train_split=None,
        callbacks__print_log=None,
        random_state=seed,
        verbose=0,
        **{"max_epochs": STEPS, **settings},
    )
    return net.fit(rows, labels)


def measure(nuisance, seed):
    """Return a line of numbers for each training."""
    labelled, unlabelled, test = split(seed)
    shifted = NUISANCES[nuisance](1000 + seed)(X[test]).X.astype("float32")
    for training, settings in TRAININGS.items():
        net = trained(
            seed, X[labelled], y[labelled], (X[unlabelled], NUISANCES[nuisance]()), **settings
        )
        probabilities = net.predict_proba(shifted).astype(float)
        yield {
            "training": training,
            "nuisance": nuisance,
            "seed": seed,
            "shifted": 100 * np.mean(probabilities.argmax(1) == y[test]),
            "log-loss": log_loss(y[test], probabilities / probabilities.sum(1, keepdims=True)),
            "unshifted": 100 * net.score(X[test], y[test]),
        }


with warnings.catch_warnings():
    # The uniform prior has a warning, and so have nets that collapse with it.
    warnings.simplefilter("ignore")
    data = pd.DataFrame(
        line for nuisance in NUISANCES for seed in SEEDS for line in measure(nuisance, seed)
    )


# %%
# What a step costs
# -----------------
# We time bare steps, without the bookkeeping of skorch: forward, backward and optimiser, and the
# view of the rows. Augmentation needs the labelled rows and their views only. The other trainings
# read 64 pairs besides. The blocks of all trainings are interleaved, and the fastest one counts.
def step_of(settings):
    """Return a function that takes a step of a training."""
    rows, labels, unlabelled = map(torch.as_tensor, (X[:50], y[:50], X[50:114]))
    view = NUISANCES["noise"]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = trained(0, X[:50], y[:50], (X[:64], view), **settings, max_epochs=1)
    module, pair_loss = net.module_, net.agreement_loss_
    optimizer = torch.optim.Adam([*module.parameters(), *pair_loss.parameters()])

    def shown(batch):
        return torch.as_tensor(view(batch.numpy()).X, dtype=torch.float32)

    def step():
        optimizer.zero_grad()
        seen = torch.cat([rows, shown(rows)]) if net.augment else rows
        loss = functional.cross_entropy(module(seen), labels.repeat(len(seen) // 50))
        if net.weight:
            loss = loss + pair_loss(module(unlabelled), module(shown(unlabelled)))
        loss.backward()
        optimizer.step()

    return step


def seconds(step, n=10):
    start = time.perf_counter()
    for _ in range(n):
        step()
    return time.perf_counter() - start


steps = {training: step_of(settings) for training, settings in TRAININGS.items()}
blocks = pd.DataFrame(
    [
        {training: seconds(step) for training, step in steps.items()}
        for _ in range(40 if options.seeds else 8)
    ]
)
cost = blocks.min() / blocks.min()[AUGMENTATION]


# %%
# What was measured
# -----------------
# Accuracies are percentages. "shifted accuracy" and log-loss are means over both nuisances, "no
# shift" is the accuracy on the test digits as they are. "agreement gains" is the difference of
# shifted accuracy between agreement and the line's training, with the standard error of this
# difference: all trainings of a seed have the same rows and initial weights.
def with_error(values, form=".1f"):
    """Return mean and standard error over the seeds."""
    if len(values) == 1:
        return f"{values.mean():{form}}"
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{form}} +- {error:{form.lstrip('+')}}"


by_seed = data.groupby(["training", "seed"], sort=False)[["shifted", "log-loss", "unshifted"]]
by_seed = by_seed.mean().unstack()
by_nuisance = data.pivot_table("shifted", "seed", ["nuisance", "training"], sort=False)
table = pd.DataFrame(
    {
        "training": training,
        "shifted accuracy": with_error(by_seed.loc[training, "shifted"]),
        **{f"{n}": with_error(by_nuisance[n, training]) for n in NUISANCES},
        "agreement gains": with_error(
            by_seed.loc[AGREEMENT, "shifted"] - by_seed.loc[training, "shifted"], "+.1f"
        ),
        "log-loss": with_error(by_seed.loc[training, "log-loss"], ".2f"),
        "no shift": with_error(by_seed.loc[training, "unshifted"]),
        "cost of a step": f"{cost[training]:.1f}",
    }
    for training in TRAININGS
)
table.loc[table.training == AGREEMENT, "agreement gains"] = ""
print(table.to_string(index=False))


# %%
# Where it helps less
# -------------------
# *Another class mix.* The labels are of all digits, but where the net will be used there are only
# the digits 0 to 4, and the unlabelled rows come from there. The marginal prior rewards a net that
# finds more classes among them than there are. This also hides the other class mix from the
# warning of `AgreementNet`, which compares the predicted classes with the labels.
#
# *Two sites.* 100 or 1000 unlabelled digits were measured at both sites. At the second one every
# pixel leaks into all others. `SiteAdapter` learns from the same pairs to map the rows of this
# site to the first one, and the net of the labels alone reads them there.
#
# *Photographs.* The rows are patches of 8 x 8 pixels of two photographs. The net is to name the
# photograph and the fifth of its height that a patch is from. These classes overlap: no shift
# is needed to confuse them.
def another_class_mix(seed):
    """Return the accuracies there, and whether the net of agreement gave the warning."""
    labelled, unlabelled, test = split(seed)
    unlabelled, test = unlabelled[y[unlabelled] < 5], test[y[test] < 5]
    for nuisance, view in NUISANCES.items():
        shifted = view(1000 + seed)(X[test]).X.astype("float32")
        for training in (AUGMENTATION, AGREEMENT):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                net = trained(
                    seed,
                    X[labelled],
                    y[labelled],
                    (X[unlabelled], view()),
                    **TRAININGS[training],
                )
            yield {
                "where": "another class mix",
                "training": training,
                "nuisance": nuisance,
                "seed": seed,
                "accuracy": 100 * net.score(shifted, y[test]),
                "warned": any("another class mix" in str(w.message) for w in caught),
            }


def two_sites(seed):
    """Return the accuracies at the second site."""
    labelled, unlabelled, test = split(seed)
    leaks = np.random.default_rng(seed).normal(scale=1 / 8, size=(64, 64))
    site_b = (X @ (np.eye(64) + leaks)).astype("float32")
    here, there = X[unlabelled], site_b[unlabelled]
    plain = trained(seed, X[labelled], y[labelled], (here, there), weight=0.0)
    for n in (100, 1000):
        net = trained(seed, X[labelled], y[labelled], (here[:n], there[:n]))
        mapped = SiteAdapter().fit(there[:n], here[:n]).transform(site_b[test])
        for training, reader, rows in (
            ("cross entropy", plain, site_b[test]),
            (AGREEMENT, net, site_b[test]),
            ("cross entropy, rows mapped by SiteAdapter", plain, mapped.astype("float32")),
        ):
            yield {
                "where": f"two sites, {n} pairs",
                "training": training,
                "seed": seed,
                "accuracy": 100 * reader.score(rows, y[test]),
            }


def photographs(seed):
    """Return the shifted accuracies on patches of photographs."""
    rng = np.random.default_rng(seed)
    images = [image.mean(2) / 255 for image in load_sample_images().images]
    fifths = [fifth for image in images for fifth in np.array_split(image, 5)]
    names = np.repeat(np.arange(10), 180)
    corners = [rng.integers(0, np.subtract(fifths[name].shape, 7)) for name in names]
    patches = np.array(
        [
            fifths[name][top : top + 8, left : left + 8].ravel()
            for name, (top, left) in zip(names, corners, strict=True)
        ],
        dtype="float32",
    )
    labelled, unlabelled, test = split(seed, names)
    for nuisance, view in NUISANCES.items():
        shifted = view(1000 + seed)(patches[test]).X.astype("float32")
        for training in (AUGMENTATION, AGREEMENT):
            net = trained(
                seed,
                patches[labelled],
                names[labelled],
                (patches[unlabelled], view()),
                **TRAININGS[training],
            )
            yield {
                "where": f"photographs, {nuisance}",
                "training": training,
                "seed": seed,
                "accuracy": 100 * net.score(shifted, names[test]),
            }


STUDIES = (another_class_mix, two_sites, photographs)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    limits = pd.DataFrame(line for study in STUDIES for seed in SEEDS for line in study(seed))
warned = limits.dropna().groupby("training")["warned"]
means = limits.pivot_table("accuracy", "seed", ["where", "training"], sort=False)
limit_table = pd.DataFrame(
    {
        "where": where,
        "training": training,
        "accuracy there": with_error(values),
        "trainings with a warning": f"{warned.sum()[training]} of {warned.size()[training]}"
        if where == "another class mix"
        else "",
    }
    for (where, training), values in means.items()
)
print(limit_table.to_string(index=False))
if options.table:
    file = Path(options.table)
    table.to_csv(file, index=False)
    limit_table.to_csv(file.with_name(f"{file.stem}_limits{file.suffix}"), index=False)

# %%
# The picture
# -----------
# Shifted accuracy under both nuisances; the lines are standard errors over the seeds.
figure, ax = plt.subplots(figsize=(9, 5), layout="constrained")
for k, nuisance in enumerate(NUISANCES):
    of_seeds = by_nuisance[nuisance]
    error = of_seeds.std(ddof=1) / np.sqrt(len(of_seeds)) if len(of_seeds) > 1 else None
    at = np.arange(len(TRAININGS)) + 0.4 * (k - 0.5)
    ax.barh(at, of_seeds.mean()[list(TRAININGS)], 0.38, xerr=error, color=f"C{k}", label=nuisance)
ax.set_yticks(range(len(TRAININGS)), TRAININGS)
ax.invert_yaxis()
ax.set(xlabel="accuracy under the nuisance [%]", xlim=(0, 100))
ax.set_title("Training with few labels")
ax.legend()
if options.save:
    figure.savefig(options.save, dpi=120)
plt.show()
