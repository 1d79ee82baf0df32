"""
Spurious features and paired views
==================================

Two extra columns of a table agree with the label in nine and in eight of ten rows where the
data come from, and in one of ten where the model will be used: a scanner's serial number, a
clinic's habit. Every accurate-looking model leans on them.

`PASearchCV` gets *views*: each row with these two columns as another environment would show
them. A model that leans on them disagrees with itself. Two ways to make the views are
compared, and beside agreement stands the honest control, the accuracy on the views' rows
(``mean_test_score_views``), which needs labels and is in the table whenever there are some:

- *another site*: the columns drawn again at the other source site's rate. Even there they
  tell the label eight times in ten, so accuracy on the views still rewards leaning on them;
  agreement does not, since a column that is drawn again is a column that changes.
- *shuffled*: the columns of other rows, which takes no label at all. Now the control does
  as well as agreement.
"""

# %%
# Data and candidates
# -------------------
# Diabetes patients, with progress above the median or not: an honest model is right in three
# of four.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pa_select import GuardedSelection, PASearchCV

model = Pipeline([("scale", StandardScaler()), ("model", GaussianNB())])
forest = RandomForestClassifier(30, random_state=0)
grid = [
    {"model": [DummyClassifier(strategy=s) for s in ("prior", "stratified")]},
    {"model": [GaussianNB()]},
    {"model": [LogisticRegression()], "model__C": [1e-3, 1e-2, 0.1, 1, 10]},
    {"model": [SVC()], "model__C": [0.1, 1, 10], "model__gamma": [1e-3, 1e-2, 0.1]},
    {"model": [KNeighborsClassifier()], "model__n_neighbors": [1, 5, 15, 40]},
    {"model": [forest], "model__max_depth": [3, None], "model__max_features": [1, None]},
]
X_all, progress = load_diabetes(return_X_y=True)
y_all = (progress > np.median(progress)).astype(int)


def with_columns(X, y, rates, rng):
    """Rows with two columns that agree with the label at the given rates."""
    agrees = rng.random((len(y), 2)) < np.asarray(rates).reshape(-1, 1)
    return np.column_stack([X, np.where(agrees, y[:, None], 1 - y[:, None])])


# %%
# One split, both kinds of views, three rules
# -------------------------------------------
# The guard is that of views, 4 standard errors. All rules read the same table.
RULES = {
    "accuracy": lambda table: int(np.argmax(table["mean_test_score"])),
    "accuracy on the views": lambda table: int(np.argmax(table["mean_test_score_views"])),
    "guarded agreement, 1 error": GuardedSelection(n_se=1),
    "guarded agreement": GuardedSelection(n_se=4),
}


def accuracies(seed):
    """Accuracy where the data come from and where the model is used, by views and rule."""
    rng = np.random.default_rng(seed)
    parts = train_test_split(X_all, y_all, test_size=0.4, stratify=y_all, random_state=seed)
    X, X_test, y, y_test = parts
    rates = np.where(rng.random(len(y)) < 0.5, 0.9, 0.8)  # two sites
    rows = with_columns(X, y, rates, rng)
    views = {
        "another site": with_columns(X, y, 1.7 - rates, rng),
        "shuffled": np.column_stack([X, rows[rng.permutation(len(y)), -2:]]),
    }
    same = with_columns(X_test, y_test, [0.85], rng)
    shifted = with_columns(X_test, y_test, [0.1], rng)
    found = {}
    for kind, view in views.items():
        search = PASearchCV(model, grid, refit=False, random_state=seed)
        table = search.fit(rows, y, views=view).cv_results_
        for rule, choose in RULES.items():
            params = clone(table["params"][choose(table)], safe=False)
            fitted = clone(model).set_params(**params).fit(rows, y)
            found[kind, rule] = fitted.score(same, y_test), fitted.score(shifted, y_test)
    return found


units = [accuracies(seed) for seed in range(8)]

# %%
# What the choices are worth
# --------------------------
print(f"{'views':14s}{'rule':28s}{'sources':>9s}{'shifted':>9s}{'gain over accuracy':>22s}")
gains = {}
for kind, rule in units[0]:
    sources, shifted = np.mean([unit[kind, rule] for unit in units], axis=0)
    gain = np.array([unit[kind, rule][1] - unit[kind, "accuracy"][1] for unit in units])
    gains[kind, rule] = gain
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(f"{kind:14s}{rule:28s}{sources:9.3f}{shifted:9.3f}{gain.mean():14.3f} +- {error:.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for ax, kind in zip(axes, ("another site", "shuffled"), strict=True):
    rules = [rule for rule in RULES if rule != "accuracy"]
    for i, rule in enumerate(rules):
        ax.plot(gains[kind, rule], np.full(len(units), i), "o", alpha=0.4)
        ax.plot(gains[kind, rule].mean(), i, "k|", ms=25, mew=2)
    ax.axvline(0, color="0.8", zorder=0)
    ax.set(yticks=range(len(rules)), yticklabels=rules, title=f"views: {kind}")
    ax.set(xlabel="shifted accuracy, gain over selection by accuracy", ylim=(-0.5, 2.5))
plt.show()
