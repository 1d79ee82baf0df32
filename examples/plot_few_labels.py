"""
Ten labels at a time from a new scanner
=======================================

Seven models were trained on an old scanner. Somebody labels digits of a new one, which is darker
and noisy, ten at a time. `FewLabels` draws the digits, and says how accurate each model is there.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from pa_select import FewLabels

X, y = load_digits(return_X_y=True)
models = {f"SVC, gamma={gamma:g}": SVC(gamma=gamma) for gamma in (1e-4, 1e-3, 1e-2)}
models["logistic"], models["Bayes"] = LogisticRegression(C=0.01, max_iter=500), GaussianNB()
models["neighbours"] = KNeighborsClassifier()
models["trees"] = ExtraTreesClassifier(random_state=0)
models = {name: model.fit(X[:500], y[:500]) for name, model in models.items()}
X_site = 0.6 * X[500:] + np.random.default_rng(0).normal(0, 3, X[500:].shape)

site, fig = FewLabels(models, X_site, random_state=0), plt.figure(figsize=(8, 3.6))
for place, n in enumerate((10, 10, 30), start=1):
    rows = site.ask(n)
    table = site.tell(rows, y[500 + rows]).summary()
    truth = [model.score(X_site, y[500:]) for model in [*models.values(), site.committee_]]
    ax = fig.add_subplot(1, 3, place, xlim=(0, 1), title=f"{len(site.rows_)} labels")
    ax.hlines(table.index, table["low"], table["high"], "#0072B2", linewidth=3)
    ax.plot(table["expected_score"], table.index, "o", color="#0072B2")
    ax.plot(truth, table.index, "x", color="#D55E00")
    ax.tick_params(labelleft=place == 1)
fig.suptitle("Estimated accuracy at the site with 95 % intervals; crosses: the truth")
fig.tight_layout()
plt.show()
