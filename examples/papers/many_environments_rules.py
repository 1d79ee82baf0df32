"""
Selection with many environments: the rules
===========================================

What ``selection_with_many_environments.py`` does with one draw of a collection: it selects among
candidates by several protocols, and measures what they choose in the environments of the target.
"""

import warnings
from tempfile import TemporaryDirectory

import numpy as np
from fold_scores import compared, fold_scores
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import Pipeline

from pa_select import PASearchCV
from papers.datasets import WILDSData
from papers.many_environments import COLLECTIONS

ACCURACY = "training domains: accuracy"
WORST = "training domains: worst environment's accuracy"
RATE = "training domains: agreement rate alone (AFR_P)"
UNIFORM = "training domains: agreement alone, uniform prior"
ALONE = "training domains: agreement alone, marginal prior"
GUARDED = "training domains: guarded agreement (default)"
LEFT_OUT = "leave one domain out: accuracy"
LEFT_OUT_WORST = "leave one domain out: worst accuracy"
LEFT_OUT_ALONE = "leave one domain out: agreement alone, marginal prior"
LEFT_OUT_GUARDED = "leave one domain out: guarded agreement"
ORACLE = "test domains: accuracy on labelled rows (oracle)"
BEST = "best in hindsight"
RULES = [ACCURACY, WORST, RATE, UNIFORM, ALONE, GUARDED]
RULES += [LEFT_OUT, LEFT_OUT_WORST, LEFT_OUT_ALONE, LEFT_OUT_GUARDED, ORACLE, BEST]


def search(candidates, data, seed, left_out=False, **options):
    """Compare the candidates on the source, by accuracy and by agreement of environments.

    The folds have rows of all environments, or each environment is left out in turn.
    """
    return PASearchCV(
        Pipeline([("model", DummyClassifier())]),
        {"model": candidates},
        scoring="accuracy",
        cv=LeaveOneGroupOut() if left_out else 3,
        refit=False,
        random_state=seed,
        **options,
    ).fit(
        data.X,
        data.y,
        environments=data.environments,
        groups=data.environments if left_out else None,
    )


def agreement_rates(search, data):
    """Return for each candidate the share of pairs with equal predictions."""
    known = {"X": data.X, "y": data.y, "environments": data.environments}
    scores, rows = fold_scores(search, **known)
    equal = []
    for one in compared(search, **known)[1].compared:
        sides = (one.split_a, one.rows_a), (one.split_b, one.rows_b)
        places = [(split, np.searchsorted(rows[split][0], of_side)) for split, of_side in sides]
        predicted = (
            np.array([candidate[split][0][at].argmax(1) for candidate in scores])
            for split, at in places
        )
        equal.append(np.equal(*predicted))
    return np.concatenate(equal, axis=1).mean(axis=1)


def best(column):
    """Return the first candidate with the largest value; nan is no value."""
    return int(np.nanargmax(column))


def choices(candidates, data, seed):
    """Return the candidate that each rule chooses with rows of the source."""
    with TemporaryDirectory() as folder:  # so that each model is fitted once
        mixed = search(candidates, data, seed, memory=folder)
        rates = agreement_rates(mixed, data)
    unseen = search(candidates, data, seed, left_out=True)
    table, left_out = mixed.cv_results_, unseen.cv_results_
    worst = "mean_test_score_worst_environment"
    return {
        ACCURACY: best(table["mean_test_score"]),
        WORST: best(table[worst]),
        RATE: best(rates),
        UNIFORM: best(table["agreement_uniform"]),
        ALONE: best(table["agreement"]),
        GUARDED: mixed.best_index_,
        LEFT_OUT: best(left_out["mean_test_score"]),
        LEFT_OUT_WORST: best(left_out[worst]),
        LEFT_OUT_ALONE: best(left_out["agreement"]),
        LEFT_OUT_GUARDED: unseen.best_index_,
    }, table["mean_test_score"]


def accuracies(model, data):
    """Return the accuracy in each environment, in percent."""
    right = model.predict(data.X) == data.y
    return np.array([100 * right[data.environments == name].mean() for name in data.names])


def one_draw(name, seed, n_candidates=None, **sizes):
    """Select in one draw of a collection.

    Returns
    -------
    picks : dict
        For each rule the number of the candidate that it chooses.
    found : ndarray of shape (n_candidates, 3)
        For each candidate its cross-validated accuracy on the source, and the mean and the worst
        accuracy over the environments of the target, in percent.
    """
    make, fields, make_candidates = COLLECTIONS[name]
    whole, candidates = make(seed, **sizes), make_candidates()[:n_candidates]
    source, labelled, test = (
        WILDSData(whole.get_subset(split), fields) for split in ("train", "labelled", "test")
    )
    with warnings.catch_warnings():
        # Some environments lack a class, and some solvers stop early.
        warnings.simplefilter("ignore")
        picks, validated = choices(candidates, source, seed)
        fitted = [clone(model).fit(source.X, source.y) for model in candidates]
    known = [accuracies(model, labelled).mean() for model in fitted]
    there = np.array([accuracies(model, test) for model in fitted])
    picks |= {ORACLE: best(known), BEST: best(there.mean(1))}
    return picks, np.column_stack([100 * validated, there.mean(1), there.min(1)])
