"""
A new instrument measures the same thirty features
==================================================

A program measures thirty features of cell nuclei in an image, and a classifier says whether the
tumour is malignant (the breast cancer data of scikit-learn). A new version of the program
measures with other gains and offsets, some of one feature leaks into others, and its noise is
higher. Fifty tumours were measured with both versions, and nobody knows yet what became of them.

Which classifier should be used with the new version, should its measurements be mapped to those
of the old version first, and how accurate will the result be? One search answers.
"""

# %%
# The new instrument
# ------------------
# The gains, offsets and leaks are fixed; only the noise differs from one measurement to the next.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import shuffle

from pa_select import PASearchCV, SiteAdapter
from pa_select.plotting import ExpectedScoreDisplay

X, y = shuffle(*load_breast_cancer(return_X_y=True), random_state=0)
centre, spread = X.mean(0), X.std(0)
rng = np.random.default_rng(0)
gain = rng.uniform(0.6, 1.2, X.shape[1])
offset = rng.normal(scale=0.4, size=X.shape[1])
leak = np.eye(X.shape[1]) + 0.1 * rng.normal(size=(X.shape[1], X.shape[1]))


def new_instrument(X, seed):
    """The features as the new version measures them."""
    noise = 0.2 * np.random.default_rng(seed).normal(size=X.shape)
    return centre + spread * (((X - centre) / spread @ leak) * gain + offset + noise)


labelled, pairs, unseen = slice(0, 250), slice(250, 300), slice(300, None)
old, new = X[pairs], new_instrument(X[pairs], seed=1)

# %%
# The search
# ----------
# Each candidate is judged with the new measurements as they are, and after an adapter
# (learnt on the fifty pairs) has mapped them to old ones.
model = Pipeline([("scale", StandardScaler()), ("classifier", SVC())])
grid = [
    {"classifier": [LogisticRegression(max_iter=2000)], "classifier__C": [1e-3, 1e-2, 0.1, 1]},
    {"classifier": [SVC()], "classifier__C": [0.1, 1, 10], "classifier__gamma": [0.003, 0.03]},
    {"classifier": [KNeighborsClassifier()], "classifier__n_neighbors": [5, 15]},
    {"classifier": [RandomForestClassifier(100, random_state=0)], "classifier__max_depth": [3, 9]},
    {"classifier": [GaussianNB()]},
]
search = PASearchCV(model, grid, adapter="ridge")
search.fit(X[labelled], y[labelled], paired=(old, new))
results = search.cv_results_
error, (low, _) = search.expected_score_se_, search.expected_interval_
print(search.best_params_, "adapted:", results["adapted"][search.best_index_])
print(f"expected accuracy {search.expected_score_:.3f} +- {error:.3f}, at least {low:.3f}")

# %%
# A notebook shows a fitted search with its candidates, the chosen one first:
search

# %%
# Was it right?
# -------------
# The truth comes from 269 other tumours, measured by the new version.
there = new_instrument(X[unseen], seed=2)
mapped = SiteAdapter().fit(new, old).transform(there)
accuracy = results["mean_test_score"]
fitted = [
    clone(model).set_params(**clone(params, safe=False)).fit(X[labelled], y[labelled])
    for params in results["params"]
]
plain, adapted = ([m.score(rows, y[unseen]) for m in fitted] for rows in (there, mapped))
truth = np.where(results["adapted"], adapted, plain)
found = {
    "the choice, as expected to be best": search.best_adapted_.score(there, y[unseen]),
    "the same without the adapter": search.best_estimator_.score(there, y[unseen]),
    "the choice by accuracy": plain[accuracy.argmax()],
    "the choice by accuracy, with the adapter": adapted[accuracy.argmax()],
    "the best candidate in hindsight": max(*plain, *adapted),
}
print("\naccuracy with the new version")
for what, value in found.items():
    print(f"{what:42s} {value:.3f}")

# %%
# The picture
# -----------
# The grey marks say what cross-validation promises.
display = ExpectedScoreDisplay.from_result(search, true_scores=truth)
display.figure_.suptitle("Accuracy with the new version: expected, and true")
plt.show()
