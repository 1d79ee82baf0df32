"""
Committees: rules
=================

What ``study_committee.py`` compares: each candidate is fitted once to every split and once to all
labelled rows, and all rules are computed from what these models predict. A rule is a share of the
vote for each candidate, and a choice has one share.
"""

from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metaestimators import available_if

from pa_select import PASearchCV, candidate_posterior, class_scores, pa_scorer
from pa_select.model_selection import GuardedSelection
from pa_select.scores.calibration import doubting_calibration

CHOICE = "choice by accuracy"
COMMITTEE = "committee"
BEST = "best in hindsight"
MIN_WEIGHT = 0.1  # the default of PACommittee
N_ROUNDS = 50  # of greedy selection
LEAST = 1e-6  # the smallest probability whose logarithm is taken


class Rows(NamedTuple):
    """Labelled rows, and test rows in several states, all with the same labels."""

    X: np.ndarray
    y: np.ndarray  # the classes 0, 1, ...
    tests: dict[str, np.ndarray]
    y_test: np.ndarray


class Shelf(dict):
    """Fitted models by candidate and training rows; clones and copies of an estimator share it."""

    every = WeakValueDictionary()

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        self.every[id(self)] = self
        return self.every.__getitem__, (id(self),)

    def fitted(self, candidate, estimator, X, y):
        """Fit a clone of a candidate to some rows, and keep it."""
        self[candidate, key_of(X)] = clone(estimator).fit(X, y)
        return self[candidate, key_of(X)]


def key_of(X):
    """Return what tells rows from others: the index of a DataFrame, or the numbers."""
    return np.asarray(getattr(X, "index", X)).tobytes()


def _has(name):
    return available_if(lambda self: hasattr(self.model_, name))


class Known(ClassifierMixin, BaseEstimator):
    """A candidate whose models were fitted before: a search fits nothing anew."""

    def __init__(self, shelf=None, candidate=0):
        self.shelf = shelf
        self.candidate = candidate

    def fit(self, X, y):
        self.model_ = self.shelf[self.candidate, key_of(X)]
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    @_has("predict_proba")
    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    @_has("decision_function")
    def decision_function(self, X):
        return self.model_.decision_function(X)


def scores_of(model, X, n_classes):
    """Return class scores; a class that the model does not know has the row's lowest one."""
    scores, classes = class_scores(model, X)
    scores = np.asarray(scores, dtype=float)
    of_all = np.repeat(scores.min(axis=1, keepdims=True), n_classes, axis=1)
    of_all[:, classes] = scores
    return of_all


class Record:
    """What the models of all candidates predict; M candidates, n rows, R repetitions, K classes.

    Attributes
    ----------
    out_of_fold : ndarray of shape (M, R * n, K)
        Probabilities of the labelled rows, with the temperature and biases that fit them best.
    y : ndarray of shape (R * n,)
        Their labels.
    by_fold : dict of ndarray of shape (n_splits, M)
        The scores of the test folds, by metric.
    refitted, of_folds : dict of ndarray of shape (M, n_test, K)
        Probabilities of the test rows: of the models of all rows, and the mean of those of the
        splits.
    """

    def __init__(self, rows, candidates, splits, agreement=True):
        X, y = rows.X, rows.y
        n_classes, where = y.max() + 1, list(rows.tests)
        samples = np.concatenate([rows.tests[name] for name in where])
        tested = np.concatenate([test for _, test in splits])
        self.splits, self.shelf, self.y = splits, Shelf(), y[tested]
        self.by_fold = {
            metric: np.empty((len(splits), len(candidates)))
            for metric in ("accuracy", "log-likelihood", "pa_scorer")[: 2 + agreement]
        }
        out_of_fold, refitted, of_folds = [], [], []
        for candidate, estimator in enumerate(candidates):
            scores, on_tests = [], []
            for i, (train, test) in enumerate(splits):
                model = self.shelf.fitted(candidate, estimator, X[train], y[train])
                scores.append(scores_of(model, X[test], n_classes))
                on_tests.append(scores_of(model, samples, n_classes))
                right = np.mean(model.predict(X[test]) == y[test])
                self.by_fold["accuracy"][i, candidate] = right
                if agreement:
                    self.by_fold["pa_scorer"][i, candidate] = pa_scorer(model, X[test], y[test])
            beta, bias = doubting_calibration(np.concatenate(scores), self.y)
            logs = [log_softmax(beta * one + bias, axis=1) for one in scores]
            for i, (one, (_, test)) in enumerate(zip(logs, splits, strict=True)):
                value = np.maximum(one, np.log(LEAST))[np.arange(len(test)), y[test]].mean()
                self.by_fold["log-likelihood"][i, candidate] = value
            out_of_fold.append(np.exp(np.concatenate(logs)))
            of_folds.append(np.mean([softmax(beta * s + bias, axis=1) for s in on_tests], axis=0))
            of_all = scores_of(self.shelf.fitted(candidate, estimator, X, y), samples, n_classes)
            refitted.append(softmax(beta * of_all + bias, axis=1))
        self.out_of_fold = np.array(out_of_fold)
        ends = np.cumsum([len(rows.tests[name]) for name in where])[:-1]
        self.refitted, self.of_folds = (
            dict(zip(where, np.split(np.array(one), ends, axis=1), strict=True))
            for one in (refitted, of_folds)
        )

    def table(self, *metrics):
        """Return the scores as a search of scikit-learn has them."""
        found = {"params": [{"candidate": i} for i in range(len(self.out_of_fold))]}
        for metric in metrics:
            found[f"mean_test_{metric}"] = self.by_fold[metric].mean(axis=0)
            for i, scores in enumerate(self.by_fold[metric]):
                found[f"split{i}_test_{metric}"] = scores
        return found


def remaining(weights):
    """Return the shares of the candidates that remain."""
    weights = np.where(weights >= MIN_WEIGHT * weights.max(), weights, 0)
    return weights / weights.sum()


def only(candidate, n):
    return np.eye(n)[candidate]


def within_one_error(by_fold):
    """Return equal shares for all candidates within one standard error of the best one."""
    mean = by_fold.mean(axis=0)
    error = by_fold[:, mean.argmax()].std(ddof=1) / np.sqrt(len(by_fold))
    near = mean >= mean.max() - error
    return near / near.sum()


def greedy(probabilities, y, n_rounds=N_ROUNDS):
    """Add the candidate that makes the mean most accurate, again and again; keep the best mean.

    Ensemble selection with replacement (Caruana et al., ICML 2004). `probabilities` have the shape
    (n_candidates, n, n_classes). The first one decides ties.
    """
    total, counts = np.zeros(probabilities.shape[1:]), np.zeros(len(probabilities))
    best, shares = -1.0, counts
    for _ in range(n_rounds):
        accuracy = ((total + probabilities).argmax(axis=2) == y).mean(axis=1)
        added = accuracy.argmax()
        total, counts[added] = total + probabilities[added], counts[added] + 1
        if accuracy[added] > best:
            best, shares = accuracy[added], counts / counts.sum()
    return shares


def log_features(probabilities):
    """Return a row of the logarithms of all candidates' probabilities for each row."""
    logs = np.log(np.maximum(probabilities, LEAST))
    return np.moveaxis(logs, 0, 1).reshape(probabilities.shape[1], -1)


def stacked(probabilities, y):
    """Fit a logistic regression on the logarithms of out-of-fold probabilities."""
    return LogisticRegression(max_iter=300).fit(log_features(probabilities), y)


def shares_of(record):
    """Return the shares of the candidates by each rule that needs no search."""
    by_fold, n = record.by_fold, len(record.out_of_fold)
    weights = {
        metric: candidate_posterior(record.table(metric), splits=record.splits).weights
        for metric in by_fold
    }
    found = {
        CHOICE: only(by_fold["accuracy"].mean(axis=0).argmax(), n),
        "committee, cost: log-likelihood": remaining(weights["log-likelihood"]),
        "committee, all candidates": weights["accuracy"],
        "within one standard error": within_one_error(by_fold["accuracy"]),
        "greedy selection": greedy(record.out_of_fold, record.y),
        "all, equal weights": np.full(n, 1 / n),
    }
    if "pa_scorer" in by_fold:
        guarded = GuardedSelection("pa_scorer", "accuracy", floor=None)
        found |= {
            "committee, cost: pa_scorer": remaining(weights["pa_scorer"]),
            "pa_scorer alone": only(by_fold["pa_scorer"].mean(axis=0).argmax(), n),
            "pa_scorer, guarded": only(guarded(record.table("pa_scorer", "accuracy")), n),
        }
    return found


def search_of(record, rows, refit="committee"):
    """Run the package's own search on the recorded models, without new fits."""
    candidates = list(range(len(record.out_of_fold)))
    return PASearchCV(
        Known(record.shelf), {"candidate": candidates}, cv=record.splits, refit=refit
    ).fit(rows.X, rows.y)


def accuracies(rows, candidates, splits, agreement=True):
    """Return the accuracy of each rule in percent, and how far two promises are off.

    Two dicts: the accuracies by (state of the test rows, rule), and, for the committee and the
    choice, the cross-validated score minus the accuracy on the first kind of test rows. Without
    `agreement` the rules by `pa_scorer`, which take half of the time, are left out.
    """
    record = Record(rows, candidates, splits, agreement)
    search = search_of(record, rows)
    committee, n = search.best_estimator_, len(candidates)
    shares = shares_of(record)
    weights = np.zeros(n)
    weights[committee.candidates_] = committee.weights_
    shares |= {"guarded agreement": only(search.best_index_, n)}
    of_folds = {
        "committee, fold models": weights,
        "choice by accuracy, fold models": shares[CHOICE],
    }
    stack = stacked(record.out_of_fold, record.y)
    found = {}
    for where, probabilities in record.refitted.items():
        # The package's own prediction.
        predicted = {COMMITTEE: committee.predict(rows.tests[where])}
        for these, sample in ((shares, probabilities), (of_folds, record.of_folds[where])):
            for rule, share in these.items():
                predicted[rule] = np.tensordot(share, sample, 1).argmax(axis=1)
        predicted["stacking"] = stack.predict(log_features(probabilities))
        for rule, classes in predicted.items():
            found[where, rule] = 100 * np.mean(classes == rows.y_test)
        right = (probabilities.argmax(axis=2) == rows.y_test).mean(axis=1)
        found[where, BEST] = 100 * right.max()
    first = next(iter(record.refitted))
    chosen = 100 * record.by_fold["accuracy"].mean(axis=0).max()
    promises = {
        COMMITTEE: 100 * search.committee_score_ - found[first, COMMITTEE],
        CHOICE: chosen - found[first, CHOICE],
    }
    return found, promises
