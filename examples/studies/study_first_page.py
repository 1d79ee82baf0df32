"""
The examples of the first page, in twenty draws
===============================================

README shows three searches on scikit-learn's digits, each with a single draw. This script makes
twenty draws of the first two and leaves each writer out of the third, so that a reader knows what
another draw would have shown:

- *A table*: a hundred labelled digits, seven classifiers; the committee against the winner of its
  own search.
- *Two instruments*: sixty digits on two scanners, without labels; the choice by the expected score
  against GridSearchCV's, on the new scanner, and whether the interval holds the accuracy. The same
  with an adapter, which both choices get.
- *Sites*: the digits of each of thirteen writers, against the interval for a new one that the
  other twelve give.

``--table FILE`` writes the table that README quotes.
"""

import argparse

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle
from tqdm import tqdm

from pa_select import PACommittee, PASearchCV, SiteAdapter

parser = argparse.ArgumentParser(description="What would other draws have shown?")
parser.add_argument("--draws", type=int, default=20)
parser.add_argument("--writers", type=int, default=13, help="how many are left out in turn")
parser.add_argument("--table", metavar="FILE", help="write the table there")
options = parser.parse_args()

X, y = load_digits(return_X_y=True)
GRID = {"gamma": [1e-4, 1e-3, 1e-2]}
MODELS = [
    *(SVC(), SVC(C=10), LogisticRegression(max_iter=1000)),
    *(KNeighborsClassifier(1), KNeighborsClassifier(5), GaussianNB()),
    DecisionTreeClassifier(random_state=0),
]


def a_table(seed):
    """Return the accuracy of a committee of a hundred digits, and of the winner."""
    digits, labels = shuffle(X, y, random_state=seed)
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc": MODELS})
    committee = PACommittee(search).fit(digits[:100], labels[:100])
    others = digits[100:], labels[100:]
    return committee.score(*others), committee.search_.score(*others)


def two_instruments(seed, adapter=None):
    """Return the accuracy of the choice by expected score, of the usual one, and the interval.

    With an adapter GridSearchCV's choice gets adapted rows, too.
    """
    digits, labels = shuffle(X, y, random_state=seed)
    old, new, known = digits[:60], 0.4 * digits[:60], slice(60, 1000)
    others, of_others = 0.4 * digits[1000:], labels[1000:]
    search = PASearchCV(SVC(), GRID, adapter=adapter)
    search.fit(digits[known], labels[known], paired=(old, new))
    usual = GridSearchCV(SVC(), GRID).fit(digits[known], labels[known])
    if adapter is not None:
        usual = make_pipeline(SiteAdapter(adapter).fit(new, old), usual)
    accuracies = (model.score(others, of_others) for model in (search.best_adapted_, usual))
    return *accuracies, search.expected_interval_


def a_site(left_out):
    """Return the accuracy for the writer who is left out, and the interval for a new one."""
    writer = np.arange(len(X)) * 13 // len(X)
    known = writer != left_out
    search = PASearchCV(SVC(), GRID, cv=LeaveOneGroupOut())
    search.fit(X[known], y[known], environments=writer[known])
    chosen = search.best_index_
    interval = [search.cv_results_[f"new_site_{end}"][chosen] for end in ("low", "high")]
    return search.score(X[~known], y[~known]), None, interval


def row(example, found):
    """Summarise the draws of an example: (accuracy, that of the usual choice, interval) each."""
    accuracy, usual, intervals = (list(values) for values in zip(*found, strict=True))
    line = {"example": example, "draws": len(found), "accuracy": f"{np.mean(accuracy):.3f}"}
    if usual[0] is not None:
        gains = 100 * (np.array(accuracy) - usual)
        line |= {
            "usual choice": f"{np.mean(usual):.3f}",
            "points gained": f"{gains.mean():.1f} +- {gains.std(ddof=1) / len(gains) ** 0.5:.1f}",
            "better": np.sum(gains > 0),
            "equal": np.sum(gains == 0),
            "worse": np.sum(gains < 0),
        }
    if intervals[0] is not None:
        low, high = np.transpose(intervals)
        line["inside the interval"] = np.sum((low <= accuracy) & (accuracy <= high))
        line["width in points"] = f"{100 * np.mean(high - low):.0f}"
    return line


draws = range(options.draws)
tables = [(*a_table(seed), None) for seed in tqdm(draws, desc="a table")]
scanners = [two_instruments(seed) for seed in tqdm(draws, desc="two instruments")]
adapted = [two_instruments(seed, "ridge") for seed in tqdm(draws, desc="the same, adapted")]
sites = [a_site(writer) for writer in tqdm(range(options.writers), desc="sites")]
table = pd.DataFrame(
    [
        row("a table: committee over the winner", tables),
        row("two instruments: over GridSearchCV's choice", scanners),
        row("two instruments, rows adapted: over GridSearchCV's choice", adapted),
        row("sites: the writer who is left out", sites),
    ]
).astype(dict.fromkeys(["better", "equal", "worse", "inside the interval"], "Int64"))
print(table.to_string(index=False))
if options.table:
    table.to_csv(options.table, index=False)
