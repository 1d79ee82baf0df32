"""
The examples of the first page, in twenty draws
===============================================

README shows searches on scikit-learn's digits, each with a single draw. This script makes twenty
draws, and leaves each writer out once, so that a reader knows what another draw would have shown:

- *A table*: a hundred labelled digits, seven classifiers; the committee against the winner of its
  own search, and seven equal votes against it.
- *Two instruments*: sixty digits on two scanners, without labels; the choice by the expected score
  against GridSearchCV's, on the new scanner, what either promised, and whether the interval holds
  the accuracy. The same with an adapter, which both choices get.
- *A few labels*: four trained models, thirty labels of the new scanner; the committee of
  `FewLabels` against the model that is right for most of these labels.
- *Sites*: the digits of each of thirteen writers, against the interval for a new one that the
  other twelve give.

``--table FILE`` writes the table that README quotes.
"""

import argparse

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import VotingClassifier
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

from pa_select import FewLabels, PACommittee, PASearchCV, SiteAdapter

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
TRAINED = [
    *(SVC(gamma=1e-4), LogisticRegression(C=0.01, max_iter=500)),
    *(KNeighborsClassifier(), GaussianNB()),
]


def a_table(seed):
    """Return the accuracy of a committee of a hundred digits, and of the winner."""
    digits, labels = shuffle(X, y, random_state=seed)
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc": MODELS})
    committee = PACommittee(search).fit(digits[:100], labels[:100])
    others = digits[100:], labels[100:]
    winner = committee.search_.score(*others)
    return (committee.score(*others), winner), (equal_votes(digits, labels), winner)


def equal_votes(digits, labels):
    """Return the accuracy of all seven classifiers with one vote each."""
    models = [(str(i), make_pipeline(StandardScaler(), one)) for i, one in enumerate(MODELS)]
    voting = VotingClassifier(models).fit(digits[:100], labels[:100])
    return voting.score(digits[100:], labels[100:])


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
    promised = search.expected_score_, usual.best_score_
    if adapter is not None:
        usual = make_pipeline(SiteAdapter(adapter).fit(new, old), usual)
    accuracies = (model.score(others, of_others) for model in (search.best_adapted_, usual))
    return *accuracies, search.expected_interval_, *promised


def few_labels(seed):
    """Return the accuracy of a committee of trained models, and of the one most often right."""
    digits, labels = shuffle(X, y, random_state=seed)
    models = [clone(model).fit(digits[:500], labels[:500]) for model in TRAINED]
    there, of_there = 0.4 * digits[500:], labels[500:]
    site = FewLabels(models, there, random_state=seed)
    for _ in range(3):
        rows = site.ask(10)
        site.tell(rows, of_there[rows])
    right = [np.mean(model.predict(there[site.rows_]) == of_there[site.rows_]) for model in models]
    chosen = models[int(np.argmax(right))]
    truth = site.committee_.score(there, of_there), chosen.score(there, of_there)
    return *truth, site.expected_interval_, site.expected_score_, max(right)


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
    """Summarise the draws of an example.

    Each has the accuracy, that of the usual choice, perhaps the interval and what was promised.
    """
    found = [(*one, *[None] * (5 - len(one))) for one in found]
    accuracy, usual, intervals, expected, promised = map(list, zip(*found, strict=True))
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
    if expected[0] is not None:
        line |= {"expected": f"{np.mean(expected):.3f}", "promised": f"{np.mean(promised):.3f}"}
    return line


draws = range(options.draws)
tables, votes = zip(*(a_table(seed) for seed in tqdm(draws, desc="a table")), strict=True)
scanners = [two_instruments(seed) for seed in tqdm(draws, desc="two instruments")]
adapted = [two_instruments(seed, "ridge") for seed in tqdm(draws, desc="the same, adapted")]
labelled = [few_labels(seed) for seed in tqdm(draws, desc="a few labels")]
sites = [a_site(writer) for writer in tqdm(range(options.writers), desc="sites")]
table = pd.DataFrame(
    [
        row("a table: committee over the winner", tables),
        row("a table: equal votes over the winner", votes),
        row("two instruments: over GridSearchCV's choice", scanners),
        row("two instruments, rows adapted: over GridSearchCV's choice", adapted),
        row("sites: the writer who is left out", sites),
        row("a few labels: committee over the most right", labelled),
    ]
).astype(dict.fromkeys(["better", "equal", "worse", "inside the interval"], "Int64"))
print(table.to_string(index=False))
if options.table:
    table.to_csv(options.table, index=False)
