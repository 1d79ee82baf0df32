"""
Perfect, constant and random classifiers
========================================

The first experiment of the papers: a robustness score should not depend on how well a
classifier does its task. A constant classifier is as robust as a perfect one, for no shift
of the data changes what it says; one that guesses is not robust at all. Accuracy cannot say
so, posterior agreement does. Here are the papers' table and figure with the exact optimum,
and what follows from it: for predictions without scores the agreement is a function of the
agreement rate alone, and with the marginal prior a constant classifier is worth nothing.

Labels are Bernoulli(p), 1000 of them; each classifier gives one of two classes a score that
is higher by 1, twice. The perfect classifier gives the labels both times, the constant one
always the same class, the random one two permutations of the labels.
"""

# %%
# Table 4.1 of the thesis
# -----------------------
# The papers report the kernel summed over the pairs, which is 0 at best and -1000 log 2 at
# worst; ``log_kernel`` is that sum. An optimiser that stops early reports something below
# the supremum at infinity.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from pa_select import posterior_agreement
from pa_select.plotting import AgreementCurveDisplay

# The library warns that a constant classifier scores best; here that is the subject.
warnings.filterwarnings("ignore", message=".*of the predictions are of one class")
N = 1000


def experiment(p, seed=0):
    """Predictions for two samples, and the labels."""
    rng = np.random.default_rng(seed)
    y = (rng.random(N) < p).astype(int)
    constant = np.zeros(N, dtype=int)
    shuffled = rng.permutation(y), rng.permutation(y)
    return {"perfect": (y, y), "constant": (constant, constant), "random": shuffled}, y


def agreement(first, second, **kwargs):
    return posterior_agreement(np.eye(2)[first], np.eye(2)[second], **kwargs)


printed = {"perfect": (12.33, -0.0082), "constant": (12.33, -0.0082), "random": (0.0, -693.14)}
classifiers, labels = experiment(0.5)
print("classifier    papers: beta   log kernel    exact: beta   log kernel   accuracy")
for name, (first, second) in classifiers.items():
    result, accuracy = agreement(first, second), np.mean(second == labels)
    beta, log_kernel = printed[name]
    print(
        f"{name:12s} {beta:13.2f} {log_kernel:12.4f} {result.beta:14.2f} "
        f"{result.log_kernel:12.4f} {accuracy:10.3f}"
    )

# %%
# Over p, Figure 4.1 of the thesis and Figure 1 of the paper
# ----------------------------------------------------------
# The random classifier reaches the lower bound as soon as half of its predictions
# disagree. Two permutations agree in a share p^2 + (1 - p)^2 of the rows, which is one half
# at p = 1/2 only: the exact optimum touches the bound there and nowhere else, but for
# the chance of a sample. The papers' curve lies on it for all p between 0.3 and 0.7, where
# the agreement is small (0.0008 nats for each pair at p = 0.4), but not zero.
grid = np.linspace(0.02, 0.98, 49)
curves = {name: [] for name in classifiers}
accuracies = {name: [] for name in classifiers}
rates = []
for i, p in enumerate(grid):
    outputs, y = experiment(p, seed=i)
    for name, (first, second) in outputs.items():
        curves[name].append(agreement(first, second).log_kernel)
        accuracies[name].append(np.mean(second == y))
    rates.append(np.mean(outputs["random"][0] == outputs["random"][1]))

# The log kernel is 0 for the perfect and for the constant classifier at every p. So that both
# lines are seen, that of the perfect one is wide and lies below the dashed one.
styles = {
    "perfect": {"color": "#56B4E9", "linewidth": 7, "label": "perfect (wide line)"},
    "constant": {"color": "#D55E00", "lw": 2, "ls": "--", "label": "constant (on the wide line)"},
    "random": {"color": "#009E73", "linewidth": 2, "linestyle": ":", "label": "random"},
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for name, style in styles.items():
    left.plot(grid, accuracies[name], **style)
    right.plot(grid, curves[name], **style)
right.axhline(-N * np.log(2), color="0.5", linewidth=1, label="lower bound, $-1000$ log 2")
left.set(xlabel="p", ylabel="accuracy", title="accuracy")
left.legend([line.get_label().split(" (")[0] for line in left.lines])
right.set(xlabel="p", ylabel="log kernel of 1000 pairs (nats)", title="posterior agreement")
right.legend(loc="upper center", bbox_to_anchor=(0.5, 0.9))

# %%
# A function of the agreement rate
# --------------------------------
# All scores of a pair are 0 or 1 here: predictions without confidence. The maximum then has
# a closed form, the capacity of a binary symmetric channel: log 2 less the entropy of the
# agreement rate, and nothing where the rate is below one half. What agreement adds to the
# agreement rate comes from the scores.
rates = np.array(rates)
found = np.array(curves["random"]) / N + np.log(2)
q = np.clip(rates, 0.5, None)
capacity = np.log(2) + q * np.log(q) + (1 - q) * np.log1p(-q)
print(f"largest difference from the closed form: {np.abs(found - capacity).max():.1e} nats")

# %%
# A constant classifier is robust, and worthless. With the marginal prior, the default of
# every selection in this library, its agreement is 0, and that of the perfect classifier is
# the entropy of the labels.
print(f"{'':10s}{'marginal prior (nats)':>24s}{'accuracy':>10s}")
for name, (first, second) in classifiers.items():
    result, accuracy = agreement(first, second, prior="marginal"), np.mean(second == labels)
    print(f"{name:10s}{result.score:24.4f}{accuracy:10.3f}")

# %%
# This is the kernel of a classifier whose two predictions agree in 70 % of the rows. It is not
# concave and starts with slope 0. The more rows agree, the higher is its maximum.
first = classifiers["perfect"][0]
second = np.where(np.arange(N) < 0.7 * N, first, 1 - first)
AgreementCurveDisplay.from_predictions(np.eye(2)[first], np.eye(2)[second])
plt.show()
