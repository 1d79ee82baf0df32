"""
Perfect, constant and random classifiers
========================================

In the first experiment of the papers, a robustness score should not depend on how accurate a
classifier is. A constant classifier is as robust as a perfect one, because no shift of the data
changes its predictions; a random one is not robust at all. Accuracy does not show this, but
posterior agreement does. This example repeats the papers' table and figure with the exact optimum.
Two results follow: for predictions without scores the agreement depends only on the agreement
rate, and with the marginal prior a constant classifier has agreement 0.

There are 1000 labels with distribution Bernoulli(p). Each classifier predicts twice, and gives the
predicted one of two classes a score that is higher by 1. The perfect classifier predicts the
labels both times, the constant one always the same class, and the random one two permutations of
the labels.
"""

# %%
# Table 4.1 of the thesis
# -----------------------
# The papers report the kernel summed over the pairs, which is 0 at best and -1000 log 2 at
# worst; ``log_kernel`` is that sum. An optimiser that stops early reports a value below the
# supremum at infinity.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from pa_select import posterior_agreement
from pa_select.plotting import AgreementCurveDisplay

# The library warns that a constant classifier scores best, which is intended here.
warnings.filterwarnings("ignore", message=".*of the predictions are of one class")
N = 1000


def experiment(p, seed=0):
    """Return predictions for two samples, and the labels."""
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
# All p: Figure 4.1 of the thesis and Figure 1 of the paper
# ---------------------------------------------------------
# The random classifier reaches the lower bound if half of its predictions disagree. Two
# permutations agree in a share p^2 + (1 - p)^2 of the rows, which is one half only at p = 1/2.
# Apart from sampling error the exact optimum reaches the bound only there. The papers' curve lies
# on the bound for all p between 0.3 and 0.7, where the agreement is small (0.0008 nats per pair at
# p = 0.4), but not zero.
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

# The log kernel is 0 for the perfect and for the constant classifier at every p. The line of the
# perfect one is wide, so that both are seen.
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
# Here all scores are 0 or 1, so the predictions have no confidence. The maximum then has a closed
# form, the capacity of a binary symmetric channel: log 2 minus the entropy of the agreement rate,
# or 0 if the rate is below one half. Only scores can make the agreement differ from a function of
# the agreement rate.
rates = np.array(rates)
found = np.array(curves["random"]) / N + np.log(2)
q = np.clip(rates, 0.5, None)
capacity = np.log(2) + q * np.log(q) + (1 - q) * np.log1p(-q)
print(f"largest difference from the closed form: {np.abs(found - capacity).max():.1e} nats")

# %%
# A constant classifier is robust, but useless. With the marginal prior, the default of every
# selection in this library, its agreement is 0, and that of the perfect classifier is the entropy
# of the labels.
print(f"{'':10s}{'marginal prior (nats)':>24s}{'accuracy':>10s}")
for name, (first, second) in classifiers.items():
    result, accuracy = agreement(first, second, prior="marginal"), np.mean(second == labels)
    print(f"{name:10s}{result.score:24.4f}{accuracy:10.3f}")

# %%
# This is the kernel of a classifier whose two predictions agree in 70 % of the rows. It is not
# concave, and its slope at 0 is 0. The more rows agree, the higher is the maximum.
first = classifiers["perfect"][0]
second = np.where(np.arange(N) < 0.7 * N, first, 1 - first)
result = posterior_agreement(np.eye(2)[first], np.eye(2)[second])
display = AgreementCurveDisplay.from_result(result)
display.figure_.suptitle("The kernel if 70 % of the predictions agree")
plt.show()
