"""
Selection under real shifts: candidates and rules
=================================================

What ``study_real_shifts.py`` and ``study_digits_of_two_collections.py`` share: a mixed grid of
candidates, and a function that applies all rules to one problem.
"""

import warnings
from typing import NamedTuple

import label_free_rules as field
import numpy as np
from fold_scores import fold_scores
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from pa_select import PASearchCV
from pa_select.model_selection import GuardedSelection

CANDIDATES = [
    DummyClassifier(),
    *[GaussianNB(var_smoothing=v) for v in (1e-9, 0.1)],
    *[LogisticRegression(C=C, max_iter=300) for C in (1e-3, 1e-2, 0.1, 1)],
    *[SVC(C=C, gamma=gamma) for C in (1, 10) for gamma in (0.01, 0.1)],
    SVC(gamma="scale"),
    *[KNeighborsClassifier(k) for k in (1, 5, 15, 40)],
    *[RandomForestClassifier(20, max_depth=d, random_state=0) for d in (3, None)],
]
N_LABELS = 100  # of the target, for the comparison with labels

ACCURACY, BALANCED = "accuracy", "balanced accuracy"
TARGET = "target: ranks of accuracy and agreement"
BALANCED_TARGET = "target: ranks of balanced accuracy and agreement"
GUARDED_TARGET = "target: guarded agreement"
ALONE = "target: agreement alone"
REPEATED = "no target: guarded agreement (default)"
VOTE = "ensemble's vote"
RIVALS = [
    "thresholded confidence (ATC)",
    "optimal transport (COT)",
    "MaNo",
    "nuclear norm",
    "mean sigmoid confidence",
]
GUARDED = "`environments`: guarded agreement (default)"
WORST = "`environments`: worst environment's accuracy"
LEFT_OUT = "leave one environment out: accuracy"
LEFT_OUT_WORST = "leave one environment out: worst accuracy"
LEFT_OUT_GUARDED = "leave one environment out: guarded agreement"
LABELS = f"accuracy on {N_LABELS} labelled rows of the target"
BEST = "best in hindsight by accuracy"
BEST_BALANCED = "best in hindsight by balanced accuracy"
RULES = [ACCURACY, BALANCED, TARGET, BALANCED_TARGET, GUARDED_TARGET, ALONE, REPEATED, VOTE]
RULES += RIVALS
RULES += [GUARDED, WORST, LEFT_OUT, LEFT_OUT_WORST, LEFT_OUT_GUARDED, LABELS, BEST, BEST_BALANCED]


class Problem(NamedTuple):
    """Rows of the source, of the target for the rules, and of the target for the test."""

    X: np.ndarray
    y: np.ndarray
    X_target: np.ndarray
    y_target: np.ndarray  # only for the comparison with labels
    X_test: np.ndarray
    y_test: np.ndarray
    environments: np.ndarray | None = None  # of the rows of the source


def search(candidates, problem, seed, *, cv=3, pairing="repeated", refit=ACCURACY, **data):
    """Search over the candidates by accuracy; the table has the balanced accuracy, too."""
    return PASearchCV(
        Pipeline([("model", DummyClassifier())]),
        {"model": candidates},
        scoring=[ACCURACY, "balanced_accuracy"],
        refit=refit,
        cv=cv,
        pairing=pairing,
        random_state=seed,
    ).fit(problem.X, problem.y, **data)


def choices_with_target(candidates, problem, seed):
    """Return what the rules choose that use the source and unlabelled rows of the target."""
    found = search(candidates, problem, seed)
    scored, rows = fold_scores(found, problem.X, problem.y)
    test_folds = [of_split[0] for of_split in rows]
    both, options = field.with_target(problem, test_folds)
    # Chosen by score, each candidate above chance is eligible.
    there = search(candidates, both, seed, refit="score", **options).cv_results_
    table, agreement = found.cv_results_, there["agreement"]
    accuracy, balanced = table[f"mean_test_{ACCURACY}"], table["mean_test_balanced_accuracy"]
    eligible = GuardedSelection(score=ACCURACY).eligible(table)
    by_agreement = field.choices(agreement, accuracy, eligible)
    able = np.flatnonzero(there["eligible"] & np.isfinite(agreement))
    of_able = field.choices(agreement[able], accuracy[able], eligible[able])
    picks = {
        ACCURACY: int(np.argmax(accuracy)),
        BALANCED: int(np.argmax(balanced)),
        TARGET: int(able[of_able["rank sum"]]),
        BALANCED_TARGET: field.choices(agreement, balanced, eligible)["rank sum"],
        GUARDED_TARGET: by_agreement["guarded"],
        ALONE: by_agreement["alone"],
        REPEATED: field.choices(table["agreement"], accuracy, eligible)["guarded"],
    }
    labels = problem.y[np.concatenate(test_folds)]
    on_source = [np.concatenate([one[0] for one in of_splits]) for of_splits in scored]
    fitted = []
    for candidate, scores in zip(candidates, on_source, strict=True):
        temperature, _ = field.fit_temperature(scores, labels)
        fitted.append(field.WithTemperature(candidate, temperature).fit(problem.X, problem.y))
    vote = field.ensemble_vote(fitted, problem.X_target)
    picks[VOTE] = field.choices(vote, accuracy, eligible)["alone"]
    estimates = field.rivals(fitted, on_source, labels, problem.X, problem.y, problem.X_target)
    for rule in RIVALS:
        values = np.array(estimates[rule]())
        picks[rule] = field.choices(values, accuracy, eligible)["alone"]
    return picks, fitted


def choices_with_environments(candidates, problem, seed):
    """Return what the rules choose that use the environments of the source."""
    rows = {"environments": problem.environments}
    mixed = search(candidates, problem, seed, **rows)
    left_out = search(
        candidates, problem, seed, cv=LeaveOneGroupOut(), groups=problem.environments, **rows
    )
    worst = f"mean_test_{ACCURACY}_worst_environment"
    return {
        GUARDED: mixed.best_index_,
        WORST: int(np.argmax(mixed.cv_results_[worst])),
        LEFT_OUT: int(np.argmax(left_out.cv_results_[f"mean_test_{ACCURACY}"])),
        LEFT_OUT_WORST: int(np.argmax(left_out.cv_results_[worst])),
        LEFT_OUT_GUARDED: left_out.best_index_,
    }


def choose(candidates, problem, seed):
    """Return the candidate that each rule chooses, and all candidates' two accuracies.

    The accuracies, of shape (2, n_candidates) and in percent, are those on the test rows.
    """
    with warnings.catch_warnings():
        # Some candidates never predict a class, and some environments lack one.
        warnings.simplefilter("ignore")
        picks, fitted = choices_with_target(candidates, problem, seed)
        if problem.environments is not None:
            picks |= choices_with_environments(candidates, problem, seed)
        known = problem.X_target[:N_LABELS], problem.y_target[:N_LABELS]
        picks[LABELS] = int(np.argmax([model.score(*known) for model in fitted]))
        predicted = [model.predict(problem.X_test) for model in fitted]
        on_test = 100 * np.array(
            [
                [np.mean(p == problem.y_test) for p in predicted],
                [balanced_accuracy_score(problem.y_test, p) for p in predicted],
            ]
        )
    picks |= {BEST: int(np.argmax(on_test[0])), BEST_BALANCED: int(np.argmax(on_test[1]))}
    return picks, on_test
