"""
An ensemble without one more fit
================================

GridSearchCV fits every candidate to every split, scores the models, and throws them away.
`PACommittee` with ``members="folds"`` keeps those of the candidates that the folds cannot tell
apart. They are an ensemble of fold models, and no model is fitted for it. By default each
candidate that remains is fitted to all rows instead, once. Unstable models such as these trees
gain most from a vote; :doc:`/committee` says what usual pipelines gain.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier

from pa_select import PACommittee

X, y = load_digits(return_X_y=True)
tree = DecisionTreeClassifier(random_state=0)
grid = {"max_depth": [4, 6, 8, None], "max_features": [0.2, 0.5, None]}
scores, fits = [], []
for seed in range(10):
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=100, random_state=seed)
    committees = [PACommittee(GridSearchCV(tree, grid), members=x) for x in ("refit", "folds")]
    committees = [one.fit(X_train, y_train) for one in committees]
    winner = committees[0].search_.score(X_test, y_test)
    scores.append([100 * (one.score(X_test, y_test) - winner) for one in committees])
    fits.append([one.n_fits_ for one in committees])
names = ['"refit": {:.0f} fits', '"folds": {:.0f} fits']
names = [name.format(n) for name, n in zip(names, np.mean(fits, axis=0), strict=True)]

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(scores, range(10), "o", label=names)
ax.axvline(0, color="0.7")
ax.set(xlabel="points of accuracy over GridSearchCV's winner", ylabel="draw of 100 digits")
ax.legend(title="beside the 61 fits of the search")
plt.show()
