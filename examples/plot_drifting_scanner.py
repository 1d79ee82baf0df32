"""
Which classifier survives a drifting scanner?
=============================================

A scanner reads handwritten digits (scikit-learn's 1797 images of 8 x 8 pixels). It will
drift: pages slip, the lens blurs, the lamp dims, the sensor gets noisier. We know *how*
a scanner drifts, so we can show every digit as a drifted scanner would, but nobody will
label digits from the drifted machine.

One `GridSearchCV` over a mixed grid of scikit-learn classifiers records the accuracy and the
posterior agreement with paired views: do a classifier's posteriors for a digit and for its
drifted view agree? Then several rules choose from the same results. Their choices are tested
on digits that no rule has seen, under drifts that no rule used for its choice.
"""

# %%
# The drift, and what it does to a digit
# --------------------------------------
import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy import ndimage
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from pa_select import PAScorer
from pa_select.model_selection import GuardedSelection

parser = argparse.ArgumentParser(description="Which classifier survives a drifting scanner?")
parser.add_argument("--seed", type=int, default=0, help="of the split and the drifts")
parser.add_argument("--n-jobs", type=int, default=2)
options = parser.parse_args()


class Drift:
    """Digits as a scanner with a drift of some strength shows them."""

    def __init__(self, strength, seed):
        self.strength = strength
        self.seed = seed

    def __call__(self, X):
        rng = np.random.default_rng(self.seed)
        images = np.asarray(X).reshape(-1, 8, 8)
        slips = rng.normal(scale=0.4 * self.strength, size=(len(images), 2))
        slipped = np.stack(
            [ndimage.shift(i, s, order=1) for i, s in zip(images, slips, strict=True)]
        )
        blurred = ndimage.gaussian_filter(slipped, (0, 0.4 * self.strength, 0.4 * self.strength))
        dimmed = blurred / (1 + 0.3 * self.strength)
        noisy = dimmed + rng.normal(scale=1.0 * self.strength, size=images.shape)
        return noisy.clip(0, 16).reshape(len(images), -1)


X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=options.seed
)
seen_drift = Drift(1.0, seed=options.seed + 100)  # what the views show
unseen_strengths = (0.0, 0.5, 1.5, 2.0)  # what the choices are tested on, with other noise

# %%
# One search, several rules
# -------------------------
# The agreement itself needs no labels. The rules differ in their guard: agreement decides among
# all candidates, among those within four standard errors of the best accuracy, or among those
# within two standard errors of the best accuracy on the views (the default of `PASearchCV`). The
# last two rules, and the accuracy on the views by itself, use the labels of the rows.
model = Pipeline([("scale", MinMaxScaler()), ("classifier", DummyClassifier())])
grid = [
    {"classifier": [DummyClassifier()], "classifier__strategy": ["most_frequent", "prior"]},
    {"classifier": [LogisticRegression(max_iter=2000)], "classifier__C": [1e-3, 1e-2, 0.1, 1, 10]},
    {"classifier": [SVC()], "classifier__C": [0.1, 1, 10], "classifier__gamma": [0.01, 0.1, 1]},
    {"classifier": [KNeighborsClassifier()], "classifier__n_neighbors": [1, 5, 15, 50]},
    {
        "classifier": [RandomForestClassifier(100, random_state=0)],
        "classifier__max_depth": [2, 5, None],
    },
    {
        "classifier": [ExtraTreesClassifier(100, random_state=0)],
        "classifier__max_depth": [2, 5, None],
    },
    {"classifier": [GaussianNB()], "classifier__var_smoothing": [1e-3, 1e-1]},
    {
        "classifier": [MLPClassifier((64,), max_iter=150, random_state=0)],
        "classifier__alpha": [1e-3, 1.0],
    },
]
scorer = PAScorer(views=seen_drift)


def scoring(estimator, X, y):
    agreement = scorer.agreement(estimator, X)
    return {
        "agreement": agreement.score,
        # A search averages its metrics, and an infinite value would spoil the mean.
        "beta": min(agreement.beta, 99.0),
        "agreement_rate": agreement.agreement_rate,
        "accuracy": accuracy_score(y, estimator.predict(X)),
        "accuracy_on_views": accuracy_score(y, estimator.predict(seen_drift(X))),
        "majority_rate": np.bincount(y).max() / len(y),
    }


search = GridSearchCV(
    model,
    grid,
    scoring=scoring,
    refit=GuardedSelection("agreement", "accuracy_on_views", n_se=2),
    cv=StratifiedKFold(5, shuffle=True, random_state=options.seed),
    n_jobs=options.n_jobs,
)
with warnings.catch_warnings():
    # The small network is meant to stop at its limit of iterations.
    warnings.filterwarnings("ignore", message="Stochastic Optimizer")
    search.fit(X_train, y_train)
results = search.cv_results_


def best(metric):
    return int(np.argmax(results[f"mean_test_{metric}"]))


chosen = {
    "accuracy": best("accuracy"),
    "agreement alone": best("agreement"),
    "guarded by accuracy": GuardedSelection("agreement", "accuracy", n_se=4)(results),
    "guarded agreement": search.best_index_,
    "accuracy on views": best("accuracy_on_views"),
}

# %%
# What each rule chose
# --------------------


def name(params):
    settings = ", ".join(
        f"{key.split('__')[1]}={value}" for key, value in params.items() if "__" in key
    )
    return f"{type(params['classifier']).__name__}({settings})"


print(f"{'candidate':46s} accuracy  agreement    beta  agree.rate  chosen by")
for i in np.argsort(-results["mean_test_agreement"]):
    rules = ", ".join(rule for rule, index in chosen.items() if index == i)
    print(
        f"{name(results['params'][i]):46s} {results['mean_test_accuracy'][i]:8.3f}  "
        f"{results['mean_test_agreement'][i]:9.3f}  {results['mean_test_beta'][i]:6.2f}  "
        f"{results['mean_test_agreement_rate'][i]:10.3f}  {rules}"
    )

# %%
# The choices on unseen digits and drifts
# ---------------------------------------
fitted, accuracy = {}, {}
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Stochastic Optimizer")
    for i in set(chosen.values()):
        params = clone(results["params"][i], safe=False)
        fitted[i] = clone(model).set_params(**params).fit(X_train, y_train)
for rule, i in chosen.items():
    accuracy[rule] = [
        np.mean([fitted[i].score(Drift(s, seed)(X_test), y_test) for seed in range(5)])
        for s in unseen_strengths
    ]
columns = "".join(f"  drift {s:3.1f}" for s in unseen_strengths)
print(f"\n{'accuracy on unseen digits: rule':34s}{columns}  chosen")
for rule, i in chosen.items():
    values = "".join(f"  {value:9.3f}" for value in accuracy[rule])
    print(f"{rule:34s}{values}  {name(results['params'][i])}")
print("\nThe views had a drift of strength 1.0; 0.0 is the scanner as it is.")

# %%
# The picture
# -----------
# Under the digits are all candidates: the best agreement is not always the best accuracy. The
# last panel has the choices under drifts that were not used for selection.
figure, (upper, middle, lower) = plt.subplots(
    3, 1, figsize=(6, 9.5), height_ratios=(0.45, 1, 1), layout="constrained"
)
rows = [
    np.hstack([np.pad(image, 1) for image in digits[:8].reshape(-1, 8, 8)])
    for digits in (X_test, seen_drift(X_test))
]
upper.imshow(np.vstack(rows), cmap="gray_r", vmax=16)
upper.set_xticks([])
upper.set_yticks([4.5, 14.5], ["today", "drifted"])
families = np.array([type(p["classifier"]).__name__ for p in results["params"]])
for family in dict.fromkeys(families):
    mine = families == family
    middle.scatter(
        results["mean_test_agreement"][mine],
        results["mean_test_accuracy"][mine],
        label=family.replace("Classifier", ""),
        alpha=0.8,
    )
markers = {"accuracy": "s", "agreement alone": "^", "guarded agreement": "o"}
for rule, marker in markers.items():
    middle.plot(
        results["mean_test_agreement"][chosen[rule]],
        results["mean_test_accuracy"][chosen[rule]],
        marker,
        markersize=11,
        markerfacecolor="none",
        markeredgecolor="black",
        label=f"chosen: {rule}",
    )
middle.set(
    xlabel="agreement with the drifted view (nats)",
    ylabel="accuracy (cross-validated)",
    title="candidates",
)
middle.legend(fontsize="x-small", loc="center right", labelspacing=0.7)
# Lines of rules with the same choice coincide, so later lines are thinner.
widths = {
    "accuracy": 2,
    "agreement alone": 9,
    "guarded agreement": 5,
    "accuracy on views": 1.5,
}
for rule, width in widths.items():
    lower.plot(unseen_strengths, accuracy[rule], marker=".", linewidth=width, label=rule)
lower.axvline(1.0, color="grey", linewidth=0.8, zorder=0)
lower.text(0.98, 0.15, "strength of the views", color="grey", fontsize="small", ha="right")
lower.set(
    xlabel="strength of the drift",
    ylabel="accuracy on unseen digits",
    title="choices under drifts nobody selected on",
)
lower.legend(fontsize="small")
