"""
Where the members disagree
==========================

The members of a committee are about equally good, but they do not predict the same classes
everywhere. `PACommittee.dissent` is the weight of those against the committee. Where it is large,
the single winner of the search is wrong much more often than elsewhere.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from pa_select import PACommittee

X, y = load_digits(return_X_y=True)
parts = train_test_split(X, y, train_size=100, stratify=y, random_state=0)
X_train, X_test, y_train, y_test = parts
grid = {"C": [0.1, 1, 10], "gamma": [1e-4, 3e-4, 1e-3, 3e-3]}
committee = PACommittee(GridSearchCV(SVC(), grid)).fit(X_train, y_train)
dissent = committee.dissent(X_test)
wrong = committee.search_.predict(X_test) != y_test
print(f"{np.mean(dissent > 0.2):.0%} of the digits have a dissent above 0.2")
for name, rows in {"there": dissent > 0.2, "elsewhere": dissent <= 0.2}.items():
    print(f"{name} the winner is wrong for {wrong[rows].mean():.0%}")

fig, axes = plt.subplots(2, 8, figsize=(9, 2.8), layout="constrained")
most = np.argsort(-dissent, kind="stable")[: axes.size]
for ax, row in zip(axes.flat, most, strict=True):
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{y_test[row]}, {dissent[row]:.2f}", color="C3" if wrong[row] else "k")
    ax.set_axis_off()
fig.suptitle("The digits with the most dissent: label, dissent; red: the winner is wrong")
plt.show()
