"""
What five rules choose from a mixed grid
========================================

A grid as people make it, with linear models, support vector machines, neighbours, trees
and a few dummies, on scikit-learn's breast cancer data. `PASearchCV` fits every candidate in
two repetitions of five-fold cross-validation. What do agreement alone, agreement behind its
guard, accuracy, and the one-standard-error rule choose, and how accurate is it on unseen
patients, today and under drifts that nobody selected on?

The honest answer, where no view of the drift is at hand: behind its guard agreement costs
nothing and gains nothing. Without the guard it gives accuracy away, and with the papers'
uniform prior it chooses a constant.
"""

# %%
# Candidates and rules
# --------------------
# The searches of a split differ in the rule only, so they share their fits by a memory.
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

from pa_select import PASearchCV, within_one_standard_error

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
    """Families from rigid to flexible; within one, more smoothing is simpler."""
    name = type(params["model"]).__name__
    family = FAMILIES.index(name) if name in FAMILIES else len(FAMILIES)
    size = params.get("model__C", params.get("model__max_depth", 0))
    return 100 * family + size - params.get("model__n_neighbors", 0)


RULES = {
    "accuracy": {"selection": "score"},
    "guarded agreement": {"selection": "guarded"},
    "one standard error": {"selection": within_one_standard_error(complexity)},
    "agreement alone": {"selection": "agreement"},
    "agreement, uniform prior": {"selection": "agreement", "prior": "uniform"},
}


# %%
# The drifts
# ----------
def drifts(X, rng):
    """Unseen patients as other laboratories might measure them."""
    spread = X.std(axis=0)
    return {
        "today": X,
        "noise": X + 0.5 * spread * rng.normal(size=X.shape),
        "gain": X * np.exp(rng.normal(scale=0.15, size=X.shape[1])),
        "offset": X + rng.normal(scale=0.4, size=X.shape[1]) * spread,
        "lost": np.where(rng.random(X.shape) < 0.2, X.mean(axis=0), X),
    }


# %%
# Eight splits, five rules
# ------------------------
X, y = load_breast_cancer(return_X_y=True)
accuracies = {rule: [] for rule in RULES}
chosen = {rule: [] for rule in RULES}
warned = []
for seed in range(8):
    parts = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    X_train, X_test, y_train, y_test = parts
    shifted = drifts(X_test, np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as memory:
        for rule, options in RULES.items():
            search = PASearchCV(model, grid, memory=memory, random_state=seed, **options)
            with warnings.catch_warnings(record=True) as caught:
                search.fit(X_train, y_train)
            warned += [str(w.message) for w in caught if "near-constant" in str(w.message)]
            accuracies[rule].append([search.score(X, y_test) for X in shifted.values()])
            chosen[rule].append(type(search.best_estimator_["model"]).__name__)
            if rule == "guarded agreement":
                table, guarded = search.cv_results_, search.best_index_

print(f"{'mean accuracy':26s}" + "".join(f"{name:>9s}" for name in shifted))
for rule, values in accuracies.items():
    print(f"{rule:26s}" + "".join(f"{v:9.3f}" for v in np.mean(values, axis=0)))
print()
for rule, names in chosen.items():
    print(f"{rule:26s}{', '.join(f'{n} x {name}' for name, n in Counter(names).items())}")

# %%
# A search that takes a constant says so, here in as many splits:
print(len(warned), warned[0])

# %%
# Why a candidate was or was not eligible stands in the table, in words:
for params, reason in list(zip(table["params"], table["reason"], strict=True))[::4]:
    print(f"{type(params['model']).__name__:24s}{reason}")

# %%
# Left: the last split's candidates. The dummies have no agreement under the marginal
# prior; under the uniform one (open circles) a constant is at the very top. Right: what the
# choices are worth.
fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
score = table["mean_test_score"]
axes[0].plot(
    score, table["agreement_uniform"], "o", mfc="none", color="0.6", label="uniform prior"
)
axes[0].plot(score, table["agreement"], "o", label="marginal prior")
axes[0].plot(score[guarded], table["agreement"][guarded], "*", ms=16, label="guarded choice")
axes[0].set(xlabel="accuracy in cross-validation", ylabel="agreement [nats]")
axes[0].legend(loc="center left")
for rule, values in accuracies.items():
    axes[1].plot(list(shifted), np.mean(values, axis=0), "o-", label=rule)
axes[1].set(ylabel="accuracy on unseen patients", ylim=(0.55, 1))
axes[1].legend(fontsize="small", loc="lower left")
plt.show()
