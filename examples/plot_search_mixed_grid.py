"""
What five rules choose from a mixed grid
========================================

The grid holds linear models, support vector machines, nearest neighbours, trees and a few
dummies, for scikit-learn's breast cancer data. `PASearchCV` fits every candidate in two
repetitions of five-fold cross-validation. Five rules choose from the same fits: accuracy,
agreement behind its guard, the one-standard-error rule, and agreement alone with either prior.
How accurate are their choices on unseen patients, today and under four drifts that no rule has
seen?

The result: without views of a drift, agreement behind its guard neither gains nor loses accuracy
compared with choosing by accuracy. Without the guard it loses accuracy, and with the papers'
uniform prior it often chooses a constant classifier.
"""

# %%
# Candidates and rules
# --------------------
# The searches of a split differ only in their rule, so they share their fits through ``memory``.
import tempfile
import warnings
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pa_select import PASearchCV, PASearchDisplay
from pa_select.model_selection import within_one_standard_error

model = Pipeline([("scale", StandardScaler()), ("model", GaussianNB())])
tree = DecisionTreeClassifier(random_state=0)
grid = [
    {"model": [DummyClassifier(strategy=s) for s in ("most_frequent", "prior", "stratified")]},
    {"model": [GaussianNB()], "model__var_smoothing": [1e-9, 0.1, 10]},
    {"model": [tree], "model__max_depth": [1, 3, 10]},
    {"model": [LogisticRegression()], "model__C": [1e-3, 1e-2, 0.1, 1, 10]},
    {"model": [KNeighborsClassifier()], "model__n_neighbors": [1, 5, 20, 60]},
    {"model": [SVC()], "model__C": [0.1, 1, 10], "model__gamma": [1e-3, 1e-2, 0.1]},
]
FAMILIES = ["DummyClassifier", "GaussianNB", "DecisionTreeClassifier", "LogisticRegression"]


def complexity(params):
    """Rank candidates from rigid to flexible families; within one, more smoothing is simpler."""
    name = type(params["model"]).__name__
    family = FAMILIES.index(name) if name in FAMILIES else len(FAMILIES)
    size = params.get("model__C", params.get("model__max_depth", 0))
    return 100 * family + size - params.get("model__n_neighbors", 0)


RULES = {
    "accuracy": {"refit": "score"},
    "guarded agreement": {"refit": "guarded"},
    "one standard error": {"refit": within_one_standard_error(complexity)},
    "agreement alone": {"refit": "agreement"},
    "agreement, uniform prior": {"refit": "agreement", "prior": "uniform"},
}


# %%
# The drifts
# ----------
def drifts(X, rng):
    """Return unseen patients as other laboratories might measure them."""
    spread = X.std(axis=0)
    return {
        "today": X,
        "noise": X + 0.5 * spread * rng.normal(size=X.shape),
        "gain": X * np.exp(rng.normal(scale=0.15, size=X.shape[1])),
        "offset": X + rng.normal(scale=0.4, size=X.shape[1]) * spread,
        "lost": np.where(rng.random(X.shape) < 0.2, X.mean(axis=0), X),
    }


# %%
# Four splits, five rules
# -----------------------
X, y = load_breast_cancer(return_X_y=True)
accuracies = {rule: [] for rule in RULES}
agreements = {rule: [] for rule in RULES}
chosen = {rule: [] for rule in RULES}
warned = []
for seed in range(4, 8):  # in the last one the guard does not choose the most accurate candidate
    parts = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    X_train, X_test, y_train, y_test = parts
    shifted = drifts(X_test, np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as memory:
        for rule, options in RULES.items():
            options = {"scoring": "accuracy", "memory": memory, "random_state": seed, **options}
            search = PASearchCV(model, grid, **options)
            with warnings.catch_warnings(record=True) as caught:
                search.fit(X_train, y_train)
            warned += [str(w.message) for w in caught if "no better than chance" in str(w.message)]
            accuracies[rule].append([search.score(X, y_test) for X in shifted.values()])
            chosen[rule].append(search.best_index_)
            if rule == "guarded agreement":
                guarded = search
    table = guarded.cv_results_  # its agreement has the marginal prior
    for rule in RULES:
        agreements[rule].append(table["agreement"][chosen[rule][-1]])

print(f"{'means':26s}{'accuracy':>12s}" + " " * 33 + "agreement")
print(f"{'':26s}" + "".join(f"{name:>9s}" for name in shifted) + f"{'(nats per pair)':>17s}")
for rule, values in accuracies.items():
    numbers = "".join(f"{v:9.3f}" for v in np.mean(values, axis=0))
    print(f"{rule:26s}{numbers}{np.mean(agreements[rule]):17.3f}")
print()
for rule, indices in chosen.items():
    names = Counter(type(table["params"][i]["model"]).__name__ for i in indices)
    print(f"{rule:26s}{', '.join(f'{n} x {name}' for name, n in names.items())}")

# %%
# A search warns if its choice may be no better than predictions that ignore the features. This is
# the number of warnings, and the first of them:
print(len(warned), warned[0])

# %%
# The column ``eligible`` says which candidates are accurate enough for the guard:
score, eligible = table["mean_test_score"], table["eligible"]
for i in range(0, len(score), 4):
    print(f"{type(table['params'][i]['model']).__name__:24s}{score[i]:.3f}  {eligible[i]}")

# %%
# The left panel shows the eligible candidates of the last split and their neighbours, with the
# names of the chosen and of the most accurate candidate. The right panel shows all candidates with
# both priors: a constant classifier has an agreement of 0 with the marginal prior, and one of the
# highest with the uniform prior.
fig, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained", width_ratios=[3, 2])
PASearchDisplay.from_result(guarded, ax=axes[0])
axes[1].plot(score, table["agreement_uniform"], "s", mfc="none", color="0.5")
axes[1].plot(score, table["agreement"], "o", color="#0072B2")
axes[1].legend(["uniform prior", "marginal prior"])
axes[1].set(xlabel="cross-validated accuracy", ylabel="agreement (nats per pair)")
fig.suptitle("Candidates near the choice, and all of them with both priors")

# %%
# The accuracy and the agreement of the choices: means over the four splits, with standard errors.
# The splits share rows, so the errors are only approximate.
fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[3, 1])
colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]


def mean_and_error(values):
    return np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(len(values))


for k, (rule, colour, marker) in enumerate(zip(RULES, colours, "osD^v", strict=True)):
    style = {"color": colour, "fmt": marker, "ms": 7, "capsize": 3, "label": rule}
    both = accuracies[rule], np.array(agreements[rule])[:, None]
    for ax, values in zip(axes, both, strict=True):
        mean, error = mean_and_error(values)
        ax.errorbar(np.arange(len(mean)) + 0.14 * (k - 2), mean, yerr=error, **style)
axes[0].set_xticks(range(len(shifted)), shifted)
axes[0].set_ylabel("accuracy on unseen patients")
axes[0].set_title("the choices on shifted data")
axes[1].set_title("their agreement")
axes[1].set(
    xticks=[],
    xlim=(-0.5, 0.5),
    xlabel="cross-validation",
    ylabel="agreement, marginal prior (nats per pair)",
)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=5)
plt.show()
