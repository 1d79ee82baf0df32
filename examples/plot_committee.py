"""
Keep what the data cannot tell apart
====================================

A search over a grid ends with one winner, but a few labelled rows can seldom say which of the
good candidates is the best one. This example takes a hundred rows, and shows what two test folds
say of a grid of support vector machines, how much the folds agree, and which candidates keep a
weight. `PACommittee` lets these candidates vote. It and the winner of the same search then predict
the rows that were left out, in twenty draws from each of three data sets, so that no lucky draw
speaks.

The result: in the mean over the draws the committee is the more accurate one on all three data
sets, by less than a point. In single draws it gains or loses more, and often both predict equally
well.
"""

# %%
# A hundred rows and sixteen candidates
# -------------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pa_select import PACommittee, pa_kernel

Cs, gammas = [0.1, 1, 10, 100], [1e-3, 1e-2, 0.1, 1]
model, grid = make_pipeline(StandardScaler(), SVC()), {"svc__C": Cs, "svc__gamma": gammas}


def draw(X, y, seed):
    """Return the committee of a hundred rows, and its accuracy and the winner's on all others."""
    parts = train_test_split(X, y, train_size=100, stratify=y, random_state=seed)
    X_train, X_test, y_train, y_test = parts
    cv = StratifiedKFold(shuffle=True, random_state=seed)
    committee = PACommittee(GridSearchCV(model, grid, cv=cv)).fit(X_train, y_train)
    return committee, committee.score(X_test, y_test), committee.search_.score(X_test, y_test)


committee, of_committee, of_winner = draw(*load_digits(return_X_y=True), seed=0)
posterior = committee.posterior_
print(posterior.in_words())
print(f"right on the test rows: committee {of_committee:.3f}, winner {of_winner:.3f}")

# %%
# Two folds, and what all pairs of folds agree on
# -----------------------------------------------
# The parts of the data are the pairs of test folds, of twenty rows each. A fold names several
# winners if they are right for as many of its rows. Do two folds have a winner in common?
a, b = posterior.scores_a, posterior.scores_b  # right rows, (10 pairs of folds, 16 candidates)
best_a, best_b = (side == side.max(axis=1, keepdims=True) for side in (a, b))
common = (best_a & best_b).sum(axis=1)
pair = np.argmin(common)
print(f"{np.sum(common == 0)} of {len(a)} pairs of folds have no common winner")

# %%
# The upper panels show how many rows of two such folds each candidate predicts correctly; rings
# mark the winners. At a low inverse temperature all candidates have about the same posterior, and
# two folds cannot agree on much. At a high one each fold insists on its own winners, and they
# contradict each other. The agreement is highest in between (lower left). There the candidates
# have the weights on the lower right. Stars mark those that vote, with at least a tenth of the
# largest weight, and the square marks the winner of the search.
fig, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
betas = np.geomspace(0.01, 10, 200)
axes[1, 0].plot(betas, pa_kernel(a, b, betas, prior="uniform"), color="#0072B2")
axes[1, 0].plot(posterior.beta, posterior.score, "o", color="#D55E00")
axes[1, 0].axhline(0, color="0.7", linewidth=0.8)
axes[1, 0].set(xscale="log", xlabel="inverse temperature (per right row)", ylim=(-0.5, None))
axes[1, 0].set(ylabel="agreement (nats)", title=posterior.in_words())
panels = {
    "one fold: right rows of 20": (axes[0, 0], a[pair], best_a[pair], "o"),
    "another fold: right rows of 20": (axes[0, 1], b[pair], best_b[pair], "o"),
    "weights": (
        axes[1, 1],
        posterior.weights,
        np.isin(range(len(a[0])), committee.candidates_),
        "*",
    ),
}
for title, (ax, values, marked, marker) in panels.items():
    image = ax.imshow(values.reshape(len(Cs), -1), cmap="Blues", aspect="auto")
    fig.colorbar(image, ax=ax)
    rows, columns = np.divmod(np.flatnonzero(marked), len(gammas))
    style = {"color": "#D55E00", "markerfacecolor": "none", "markersize": 12}
    ax.plot(columns, rows, marker, **style)
    ax.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    ax.set_yticks(range(len(Cs)), [f"{C:g}" for C in Cs])
    ax.set(title=title, xlabel="gamma", ylabel="C")
row, column = divmod(committee.search_.best_index_, len(gammas))
axes[1, 1].plot(column, row, "s", color="#D55E00", markerfacecolor="none", markersize=22)

# %%
# Twenty draws
# ------------
# The draws of a data set share rows, so the standard errors are only approximate.
gains = {}
for load in (load_digits, load_breast_cancer, load_wine):
    scores = np.array([draw(*load(return_X_y=True), seed)[1:] for seed in range(20)])
    name = load.__name__.removeprefix("load_").replace("_", " ")
    gain = gains[name] = 100 * (scores[:, 0] - scores[:, 1])
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    counts = f"better in {np.sum(gain > 0)}, equal in {np.sum(gain == 0)} of {len(gain)} draws"
    print(f"{name:14s}{gain.mean():+.1f} +- {error:.1f} points, {counts}")

# %%
# Each point is a draw: what the committee gains over the winner of its own search.
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
rng = np.random.default_rng(0)
for place, gain in enumerate(gains.values()):
    ax.plot(gain, place + rng.uniform(-0.15, 0.15, len(gain)), "o", color="#0072B2", alpha=0.6)
    ax.plot(gain.mean(), place, "|", color="#D55E00", markersize=30, markeredgewidth=3)
ax.axvline(0, color="0.7", linewidth=0.8)
ax.set_yticks(range(len(gains)), gains)
ax.set(xlabel="points of accuracy over the winner (bar: mean)", ylim=(2.5, -0.5))
plt.show()
