"""
Do calibrated posteriors tell the score of a model?
===================================================

An expected score lets the posteriors of a model, calibrated on labelled rows, stand in for labels.
Here the labels of held-out rows of the same site are known. For eleven kinds of models and eight
problems, with shares of the rarest class of 3 to 50 % and two, four or ten classes, this script
compares each metric by the posteriors with the metric by the labels.

``--table FILE`` writes the table that docs/paired.rst quotes: for each model and metric the mean
error over the problems, in points, and its standard error over the draws, and the metric and the
problem with the largest mean error. Forests and neighbours predict probabilities of 0; their
log-loss hangs on few rows, so it is left out.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from pa_select.two_sites.classification import Classification

N_TRAIN, N_LABELLED, N_HELD_OUT = 400, 400, 3000
MODELS = {
    "logistic regression": LogisticRegression(max_iter=500),
    "logistic regression, C=1e-4": LogisticRegression(C=1e-4),
    "boosting": HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "boosting, 20 small steps": GradientBoostingClassifier(
        n_estimators=20, learning_rate=0.01, random_state=0
    ),
    "forest": RandomForestClassifier(50, random_state=0),
    "forest, large leaves": RandomForestClassifier(50, min_samples_leaf=60, random_state=0),
    "50 neighbours": KNeighborsClassifier(50),
    "naive Bayes": GaussianNB(),
    "discriminant analysis": LinearDiscriminantAnalysis(),
    "SVC": SVC(),
    "net after 5 epochs": MLPClassifier((20,), max_iter=5, random_state=0),
}
PROBLEMS = {
    **{f"{share} %": (1 - share / 100, share / 100) for share in (3, 10, 30, 50)},
    "four classes": (0.25,) * 4,
    "70, 10, 10, 10 %": (0.7, 0.1, 0.1, 0.1),
    "ten classes": (0.1,) * 10,
    "ten classes, half in one": (0.5, *(0.5 / 9,) * 9),
}
METRICS = [
    "accuracy",
    "balanced_accuracy",
    "f1_macro",
    "recall_macro",
    "roc_auc_ovr",
    "average_precision",
    "neg_log_loss",
    "neg_brier_score",
]
OF_TWO_CLASSES = ("average_precision", "neg_brier_score")
OF_PROBABILITIES = ("neg_log_loss", "neg_brier_score", "roc_auc_ovr")
# The metrics that the page shows.
SHOWN = ["accuracy", "balanced_accuracy", "roc_auc_ovr", "average_precision"]


def draw(shares, seed, n):
    """Draw rows and labels; the classes overlap."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), size=n, p=shares)
    means = 2.2 * np.eye(len(shares)) if len(shares) > 2 else np.array([[0, 0], [2, 1.2]])
    return np.hstack([means[y] + rng.normal(size=(n, means.shape[1])), rng.normal(size=(n, 1))]), y


def applies(model, metric, n_classes):
    """Whether a model has what a metric needs, and the comparison is not one of few rows."""
    if isinstance(model, SVC) and metric in OF_PROBABILITIES:
        return False
    has_zeros = isinstance(model, RandomForestClassifier | KNeighborsClassifier)
    if has_zeros and metric == "neg_log_loss":
        return False
    return n_classes == 2 or metric not in OF_TWO_CLASSES


def errors_of(name, problem, n_draws):
    """Return each metric by posteriors less that by labels, for each draw."""
    shares, task, found = PROBLEMS[problem], Classification(), {}
    for seed in range(n_draws):
        sizes = (N_TRAIN, N_LABELLED, N_HELD_OUT)
        (X, y), (V, v), (U, u) = (draw(shares, 3 * seed + i, n) for i, n in enumerate(sizes))
        model = clone(MODELS[name]).fit(X, y)
        for metric in METRICS:
            if not applies(model, metric, len(shares)):
                continue
            scorer = get_scorer(metric)
            labelled, held_out = task.output(model, V, scorer), task.output(model, U, scorer)
            (posterior,) = task.calibration([labelled], v, None).labels([held_out])
            expected = task.weighted_score(scorer, held_out, posterior, np.arange(len(u)))
            found.setdefault(metric, []).append(expected - scorer(model, U, u))
    return found


def table_of(n_draws, models=MODELS, problems=PROBLEMS):
    """Return a row for each model and metric."""
    rows = []
    for name in models:
        by_problem = {problem: errors_of(name, problem, n_draws) for problem in problems}
        for metric in METRICS:
            known = {p: np.array(e[metric]) for p, e in by_problem.items() if metric in e}
            if not known:
                continue
            mean_of_draw = np.mean(list(known.values()), axis=0)
            worst = max(known, key=lambda problem: abs(known[problem].mean()))
            rows.append({
                "model": name,
                "metric": metric,
                "error": mean_of_draw.mean(),
                "standard_error": mean_of_draw.std(ddof=1) / np.sqrt(n_draws),
                "largest": known[worst].mean(),
                "of_problem": worst,
            })  # fmt: skip
    return pd.DataFrame(rows)


def in_points(table):
    """Return a row for each model: mean errors with standard errors, and the largest error."""
    table = table.copy()
    table["text"] = [
        f"{100 * error + 0.0:.1f} +- {100 * se:.1f}".replace("-0.0 ", "0.0 ")
        for error, se in zip(table["error"], table["standard_error"], strict=True)
    ]
    wide = table.pivot(index="model", columns="metric", values="text")
    wide = wide.reindex(index=table["model"].unique(), columns=METRICS)
    by_model = table.loc[table["largest"].abs().groupby(table["model"]).idxmax()]
    by_model = by_model.set_index("model").loc[wide.index]
    wide["largest"] = (100 * by_model["largest"]).round(1)
    wide["metric of it"], wide["problem of it"] = by_model["metric"], by_model["of_problem"]
    return wide


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Reliability of calibrated posteriors")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    parser.add_argument(
        "--page", metavar="FILE", help="write the columns of docs/paired.rst there"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # nets that have not converged, classes without a row
    table = in_points(table_of(options.draws))
    print(table.to_string())
    if options.table:
        table.to_csv(options.table)
    if options.page:
        table[SHOWN].to_csv(options.page)
