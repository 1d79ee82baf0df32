"""
The examples of the first page, in twenty draws
===============================================

README shows three searches on scikit-learn's digits, each with a single draw. This script makes
twenty draws of the first two and leaves each writer out of the third, so that a reader knows what
another draw would have shown:

- *A table*: a hundred labelled digits, seven classifiers; the committee against the winner of its
  own search.
- *Two instruments*: sixty digits on two scanners, without labels; the choice by the expected score
  against GridSearchCV's, on the new scanner, and whether the interval holds the accuracy.
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

from pa_select import PACommittee, PASearchCV

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
    """Points of accuracy that a committee of a hundred digits gains over the winner."""
    digits, labels = shuffle(X, y, random_state=seed)
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc": MODELS})
    committee = PACommittee(search).fit(digits[:100], labels[:100])
    others = digits[100:], labels[100:]
    return committee.score(*others) - committee.search_.score(*others)


def two_instruments(seed):
    """Points that the choice by expected score gains, and whether the interval holds."""
    digits, labels = shuffle(X, y, random_state=seed)
    known, new, of_new = slice(60, 1000), 0.4 * digits[1000:], labels[1000:]
    search = PASearchCV(SVC(), GRID)
    search.fit(digits[known], labels[known], paired=(digits[:60], 0.4 * digits[:60]))
    usual = GridSearchCV(SVC(), GRID).fit(digits[known], labels[known])
    low, high = search.expected_interval_
    truth = search.score(new, of_new)
    return truth - usual.score(new, of_new), low <= truth <= high


def a_site(left_out):
    """Whether the interval for a new writer holds the accuracy on the one that is left out."""
    writer = np.arange(len(X)) * 13 // len(X)
    known = writer != left_out
    search = PASearchCV(SVC(), GRID, cv=LeaveOneGroupOut())
    search.fit(X[known], y[known], environments=writer[known])
    chosen = search.best_index_
    low, high = (search.cv_results_[f"new_site_{end}"][chosen] for end in ("low", "high"))
    return low <= search.score(X[~known], y[~known]) <= high


def row(example, gains, inside):
    """Summarise the draws of an example."""
    found = {"example": example, "draws": len(gains if len(gains) else inside)}
    if len(gains):
        gains = 100 * np.asarray(gains)
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        found |= {
            "points gained": f"{gains.mean():.1f} +- {error:.1f}",
            "better": np.sum(gains > 0),
            "equal": np.sum(gains == 0),
            "worse": np.sum(gains < 0),
        }
    return found | ({"inside the interval": int(np.sum(inside))} if len(inside) else {})


draws = range(options.draws)
tables = [a_table(seed) for seed in tqdm(draws, desc="a table")]
scanners = [two_instruments(seed) for seed in tqdm(draws, desc="two instruments")]
sites = [a_site(writer) for writer in tqdm(range(options.writers), desc="sites")]
table = pd.DataFrame(
    [
        row("a table: committee over the winner", tables, []),
        row("two instruments: over GridSearchCV's choice", *zip(*scanners, strict=True)),
        row("sites: the writer who is left out", [], sites),
    ]
).astype({"better": "Int64", "equal": "Int64", "worse": "Int64", "inside the interval": "Int64"})
print(table.to_string(index=False))
if options.table:
    table.to_csv(options.table, index=False)
