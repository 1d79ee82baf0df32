"""
Label-free selection: the rules
===============================

The rules that ``study_selection_without_target_labels.py`` compares with posterior agreement,
and a function that applies all rules to one problem. Each rule gives every fitted candidate a
score from labelled source rows and unlabelled target rows; higher is better.
"""

import sklearn

# Importing skada switches on scikit-learn's metadata routing; the context restores it.
with sklearn.config_context():
    try:
        import skada
        from skada import metrics as skada_metrics
    except ImportError:
        skada = None

import sys
import time
import warnings
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
from fold_scores import fold_scores, test_folds
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import entr, log_softmax, softmax
from scipy.stats import norm, rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline

from pa_select import PASearchCV, class_scores
from pa_select.model_selection import GuardedSelection


def fit_temperature(scores, labels):
    """Return the temperature with the smallest log-loss of (n, K) class scores, and that loss."""

    def loss(log_temperature):
        logs = log_softmax(scores / np.exp(log_temperature), axis=1)
        return -logs[np.arange(len(labels)), labels].mean()

    found = minimize_scalar(loss, bounds=(-7, 7), method="bounded")
    return float(np.exp(found.x)), float(found.fun)


class WithTemperature(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its class scores at a temperature."""

    def __init__(self, estimator, temperature=1.0):
        self.estimator = estimator
        self.temperature = temperature

    def fit(self, X, y):
        self.estimator_ = clone(self.estimator).fit(X, y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X):
        return self.estimator_.predict(X)

    def predict_proba(self, X):
        return softmax(class_scores(self.estimator_, X)[0] / self.temperature, axis=1)


def agreement_on_the_line(source, target, accuracy):
    """ALine-D: estimate target accuracies from the agreement of all pairs of candidates.

    After a probit transform, agreement on the target is a linear function of agreement on the
    source, and accuracies lie on the same line. Each pair of candidates gives an equation for
    the sum of their two accuracies. Least squares solves all equations (Baek et al.,
    "Agreement-on-the-Line", NeurIPS 2022, algorithm 1).

    The first two arguments are the classes that the models of each split predict, as lists of
    arrays (n_candidates, n_rows); the third is the candidates' accuracy on the source.
    """
    i, j = np.triu_indices(len(accuracy), 1)

    def probit(shares, n_rows):
        return norm.ppf(np.clip(shares, 0.5 / n_rows, 1 - 0.5 / n_rows))

    def agreement(splits):
        rate = np.mean(
            [[np.mean(p[a] == p[b]) for a, b in zip(i, j, strict=True)] for p in splits], axis=0
        )
        return probit(rate, sum(p.shape[1] for p in splits))

    on_source, on_target = agreement(source), agreement(target)
    slope = np.polyfit(on_source, on_target, 1)[0]
    known = probit(np.asarray(accuracy), sum(p.shape[1] for p in source))
    pairs = np.zeros((len(i), len(accuracy)))
    pairs[np.arange(len(i)), i] = pairs[np.arange(len(i)), j] = 0.5
    right = on_target + slope * ((known[i] + known[j]) / 2 - on_source)
    return norm.cdf(np.linalg.lstsq(pairs, right, rcond=None)[0])


def ensemble_vote(fitted, X):
    """EnsV: share of target rows on which a candidate and the mean posterior predict the same.

    Hu et al., "Towards reliable model selection for unsupervised domain adaptation", NeurIPS
    2024. Here each posterior is taken at its candidate's temperature.
    """
    probabilities = np.array([model.predict_proba(X) for model in fitted])
    vote = probabilities.mean(axis=0).argmax(axis=1)
    return np.mean(probabilities.argmax(axis=2) == vote, axis=1)


def thresholded_confidence(source, labels, target):
    """ATC: share of target rows that are more certain than a threshold of the source.

    On the source as many rows are less certain than the threshold as are predicted wrong. The
    certainty is the negative entropy (Garg et al., "Leveraging unlabeled data to predict
    out-of-distribution performance", ICLR 2022). The arguments are probabilities of held-out
    source rows, their labels as columns, and probabilities of target rows.
    """
    certainty, on_target = (-entr(rows).sum(axis=1) for rows in (source, target))
    n_wrong = np.count_nonzero(source.argmax(axis=1) != labels)
    if n_wrong == len(labels):
        return 0.0
    return float(np.mean(on_target >= np.sort(certainty)[n_wrong]))


def transported_confidence(labels, target):
    """COT: accuracy if the target rows had the labels of the source that suit them best.

    Each target row gets a label, and each label is given as often as on the source, so that the
    mean probability of the labels is largest: one minus the distance of optimal transport between
    predictions and labels (Lu et al., "Characterizing out-of-distribution error via optimal
    transport", NeurIPS 2023). The arguments are the labels of the source rows as columns, and
    probabilities of target rows.
    """
    n, n_classes = target.shape
    # Rounded so that the counts add up to n.
    ends = np.round(n * np.cumsum(np.bincount(labels, minlength=n_classes)) / len(labels))
    given = np.repeat(np.arange(n_classes), np.diff(ends, prepend=0).astype(int))
    rows, places = linear_sum_assignment(target[:, given], maximize=True)
    return float(target[rows, given[places]].mean())


def matrix_norm(scores):
    """MaNo: mean fourth power of the normalised class scores of target rows, its fourth root.

    Scores are normalised by softmax, or by the second-order polynomial of the exponential where
    predictions are far from certain: where minus the mean logarithm of the softmax is at most 5
    (Xie et al., "MaNo: exploiting matrix norm for unsupervised accuracy estimation under
    distribution shifts", NeurIPS 2024).
    """
    if -log_softmax(scores, axis=1).mean() > 5:
        shares = softmax(scores, axis=1)
    else:
        shares = 1 + scores + scores**2 / 2
        shares = shares / shares.sum(axis=1, keepdims=True)
    return float(np.mean(shares**4) ** 0.25)


def nuclear_norm(target):
    """Nuclear norm of the probabilities of target rows, divided by its largest possible value.

    It is large if predictions are certain and spread over the classes (Deng et al., "Confidence
    and dispersity speak: characterizing prediction matrix for unsupervised accuracy estimation",
    ICML 2023).
    """
    return float(np.linalg.norm(target, "nuc") / np.sqrt(min(target.shape) * len(target)))


def sigmoid_confidence(candidate, X, y, X_target):
    """Mean largest probability on the target, after scikit-learn's sigmoid calibration.

    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", 1999 (the calibration); Guillory et al., "Predicting with confidence on
    unseen distributions", ICCV 2021 (average confidence as an estimate of the accuracy).
    """
    calibrated = CalibratedClassifierCV(candidate, cv=3).fit(X, y)
    return float(calibrated.predict_proba(X_target).max(axis=1).mean())


def rivals(fitted, on_source, labels, X, y, X_target):
    """Return by name functions that estimate the target accuracy of each candidate.

    ``fitted`` are the candidates at their temperatures, and ``on_source`` the class scores of
    each for held-out source rows, whose labels are ``labels``. X and y are all source rows.
    """
    columns = np.searchsorted(fitted[0].classes_, labels)
    temperatures = [model.temperature for model in fitted]

    def of_source():
        return [softmax(s / t, axis=1) for s, t in zip(on_source, temperatures, strict=True)]

    def of_target():
        return [model.predict_proba(X_target) for model in fitted]

    def scores_of_target():
        scores = [class_scores(model.estimator_, X_target)[0] for model in fitted]
        return [s / t for s, t in zip(scores, temperatures, strict=True)]

    return {
        "thresholded confidence (ATC)": lambda: [
            thresholded_confidence(source, columns, target)
            for source, target in zip(of_source(), of_target(), strict=True)
        ],
        "optimal transport (COT)": lambda: [
            transported_confidence(columns, target) for target in of_target()
        ],
        "MaNo": lambda: list(map(matrix_norm, scores_of_target())),
        "nuclear norm": lambda: list(map(nuclear_norm, of_target())),
        "mean sigmoid confidence": lambda: [
            sigmoid_confidence(model.estimator, X, y, X_target) for model in fitted
        ],
    }


def column_of_losses(labels, probabilities):
    """Return log-losses as a column, because skada 0.6 multiplies them by a column of weights.

    skada's own loss is a row. The product then combines each loss with each weight, and the
    weights cancel.
    """
    right = probabilities[np.arange(len(labels)), labels]
    return -np.log(np.clip(right, 1e-15, 1))[:, None]


def skada_scorers(seed):
    """Return skada's unsupervised scorers at their defaults, except for seeds and DEV's loss."""
    return {
        "importance weighting": skada_metrics.ImportanceWeightedScorer(),
        "entropy": skada_metrics.PredictionEntropyScorer(),
        "soft neighbourhood density": skada_metrics.SoftNeighborhoodDensity(),
        "circular validation": skada_metrics.CircularValidation(),
        "deep embedded validation": skada_metrics.DeepEmbeddedValidation(
            loss_func=column_of_losses, random_state=seed
        ),
        "MixVal": skada_metrics.MixValScorer(random_state=seed),
    }


def score_by_skada(candidates, X, y, X_target, seed):
    """Return the scores of unfitted candidates by each scorer, and each scorer's CPU seconds.

    A skada pipeline fits the candidates to the source rows alone, as for the other rules.
    """
    rows = np.concatenate([X, X_target])
    labels = np.concatenate([y, np.full(len(X_target), -1)])
    domain = np.concatenate([np.ones(len(X), int), np.full(len(X_target), -2)])
    scores, seconds = {}, {}
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        # Some candidates never predict a class, and some weights are all zero.
        warnings.simplefilter("ignore")
        pipelines = []
        for candidate in candidates:
            pipeline = skada.make_da_pipeline(candidate.set_score_request(sample_weight=True))
            pipelines.append(pipeline.fit(rows, labels.copy(), sample_domain=domain))
        for name, scorer in skada_scorers(seed).items():
            start = time.process_time()
            scores[name] = np.array(
                [scorer(p, rows, labels.copy(), sample_domain=domain) for p in pipelines]
            )
            seconds[name] = time.process_time() - start
    return scores, seconds


class EveryTwoModels:
    """Compares every two models of the cross-validation on each row that no split has."""

    def pairs(self, splits, X, y, *, environments, groups):
        """Yield the numbers of two models, and the rows that both score."""
        used = np.concatenate([rows for split in splits for rows in split])
        rows = np.setdiff1d(np.arange(len(X)), used)
        for a, b in combinations(range(len(splits)), 2):
            yield a, rows, b, rows


def with_target(problem, test_folds):
    """Return a problem with the target's rows below the labelled ones, and the search's options.

    The splits are those of the labelled rows alone: no model is fitted to the other rows, and
    their labels, which stand in since a search wants some, are never read.
    """
    X = np.concatenate([problem.X, problem.X_target])
    y = np.concatenate([problem.y, np.repeat(problem.y[:1], len(problem.X_target))])
    rows = np.arange(len(problem.y))
    cv = [(np.setdiff1d(rows, test), test) for test in test_folds]
    return problem._replace(X=X, y=y), {"pairing": EveryTwoModels(), "cv": cv}


def search(candidates, problem, seed, *, cv=3, pairing="repeated", **data):
    """Search over the candidates; return the search and its CPU seconds to and after the fits."""
    scored = []

    def accuracy(estimator, X, y):
        scored.append(time.process_time())
        return estimator.score(X, y)

    start = time.process_time()
    found = PASearchCV(
        Pipeline([("model", DummyClassifier())]),
        {"model": candidates},
        scoring=accuracy,
        cv=cv,
        pairing=pairing,
        refit=False,
        random_state=seed,
    ).fit(problem.X, problem.y, **data)
    last = scored[len(candidates) * found.n_splits_ - 1]
    return found, last - start, time.process_time() - last


WAYS = ("alone", "guarded", "rank sum")
#: Guards of the agreement with views: the guarding accuracy and the number of standard errors.
GUARDS = {
    "4 SE of accuracy": ("score", 4),
    "2 SE of accuracy on views": ("score_views", 2),
    "4 SE of accuracy on views": ("score_views", 4),
}


def choices(values, accuracy, eligible):
    """Choose by a rule alone, with a guard, and by rank sum; accuracy breaks ties."""
    values = np.where(np.isnan(values), -np.inf, values)
    ways = values, np.where(eligible, values, -np.inf), rankdata(values) + rankdata(accuracy)
    return {way: int(np.lexsort((accuracy, v))[-1]) for way, v in zip(WAYS, ways, strict=True)}


def choices_with_views(found):
    """Return choices from a search with views, and the rules that agree with its own choice."""
    table = found.cv_results_
    agreement, on_views = table["agreement"], table["mean_test_score_views"]
    picks = {("accuracy on views", "alone"): int(np.argmax(on_views))}
    for way, (score, n_se) in GUARDS.items():
        rule = GuardedSelection(score=score, n_se=n_se)
        picks["agreement with views", way] = rule(table)
    both = choices(agreement, on_views, np.isfinite(agreement))["rank sum"]
    picks["agreement with views", "rank sum with accuracy on views"] = both
    return picks, {key for key, i in picks.items() if i == found.best_index_}


def run(candidates, problem, seed):
    """Apply all rules to a problem; return gains, degenerate choices and CPU seconds."""
    found, fits, _ = search(candidates, problem, seed)
    folds = test_folds(found, problem.X, problem.y)
    both, options = with_target(problem, folds)
    there, _, solves = search(candidates, both, seed, **options)
    cv_results = found.cv_results_
    scored, rows = fold_scores(there, both.X, both.y)
    # The target's rows are below the labelled ones.
    n_tested = [np.count_nonzero(of_split[0] < len(problem.y)) for of_split in rows]
    accuracy = cv_results["mean_test_score"]
    scores = {
        "source accuracy": accuracy,
        "agreement of repetitions": cv_results["agreement"],
        "agreement on the target": there.cv_results_["agreement"],
    }
    seconds = {"source accuracy": fits, "agreement on the target": solves}

    def timed(rule, function, *args):
        start = time.process_time()
        out = function(*args)
        seconds[rule] = time.process_time() - start
        return out

    rule = "log-loss at its temperature"
    labels = problem.y[np.concatenate(folds)]
    on_source = [
        np.concatenate([one[0][:n] for one, n in zip(of_splits, n_tested, strict=True)])
        for of_splits in scored
    ]
    found_t = timed(rule, lambda: [fit_temperature(s, labels) for s in on_source])
    scores[rule] = -np.array([loss for _, loss in found_t])

    rule = "agreement on the line"
    classes = [np.array([one[s][0].argmax(1) for one in scored]) for s in range(len(rows))]
    predicted = (
        [of_split[:, part] for of_split, part in zip(classes, parts, strict=True)]
        for parts in ([slice(n) for n in n_tested], [slice(n, None) for n in n_tested])
    )
    scores[rule] = timed(rule, agreement_on_the_line, *predicted, accuracy)

    rule = "ensemble's vote"
    calibrated = [
        WithTemperature(candidate, temperature)
        for candidate, (temperature, _) in zip(candidates, found_t, strict=True)
    ]
    fitted = [model.fit(problem.X, problem.y) for model in calibrated]
    scores[rule] = timed(rule, ensemble_vote, fitted, problem.X_target)
    data = problem.X, problem.y, problem.X_target
    for rule, estimate in rivals(fitted, on_source, labels, *data).items():
        scores[rule] = np.array(timed(rule, estimate))

    if skada is not None:
        more = score_by_skada(calibrated, problem.X, problem.y, problem.X_target, seed)
        scores |= more[0]
        seconds |= more[1]

    eligible = GuardedSelection().eligible(cv_results)
    picks = {
        (rule, way): i
        for rule, values in scores.items()
        for way, i in choices(values, accuracy, eligible).items()
    }
    as_default = None
    if problem.views is not None:
        with_views, *_, seconds["agreement with views"] = search(
            candidates, problem, seed, views=problem.views
        )
        more, as_default = choices_with_views(with_views)
        picks |= more
    on_target = np.array([model.score(problem.X_test, problem.y_test) for model in fitted])
    picks["best candidate", "alone"] = int(np.argmax(on_target))
    largest = [np.bincount(m.predict(problem.X_test)).max() / len(problem.y_test) for m in fitted]
    one_class = np.array(largest) >= 0.9
    majority = np.bincount(problem.y_test).max() / len(problem.y_test)
    base = picks["source accuracy", "alone"]
    on_source = on_target
    if problem.X_unshifted is not None:
        on_source = np.array([m.score(problem.X_unshifted, problem.y_test) for m in fitted])
    return {
        "gain": {key: 100 * (on_target[i] - on_target[base]) for key, i in picks.items()},
        "gain without shift": {
            key: 100 * (on_source[i] - on_source[base]) for key, i in picks.items()
        },
        "one class": {key: 100.0 * one_class[i] for key, i in picks.items()},
        "degenerate": {
            key: 100.0 * (one_class[i] or on_target[i] < majority) for key, i in picks.items()
        },
        "seconds": seconds,
        "as default": as_default,
        "accuracy": {key: 100 * on_target[i] for key, i in picks.items()},
    }
