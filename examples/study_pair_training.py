"""
Training by unlabelled pairs
============================

A classifier is chosen, and a few dozen objects were measured at both sites and labelled at
neither. How much better is it at the other site (b) after it was trained by the pairs? Three
classifiers are fitted to the labelled rows, and then trained in these ways:

- *PairTrainingClassifier*: the labelled rows, the same rows moved by the differences of pairs, and
  the rows of b with the votes of a teacher, which is the same classifier and reads the rows of a;
- *votes alone* (``augment=False``), hard and soft, and *moved rows alone*;
- *true labels* of the rows of b in place of the votes;
- *self-training*: `SelfTrainingClassifier` on the same rows of b without their partners;
- *SiteAdapter*: the classifier as it was, always after the adapter.

And what does the expected score say of a trained logistic regression, if its judges are other
pairs than those that trained it, or the same ones?

The problems with shifts that we made are those of ``plot_unlabelled_pairs.py`` with at least 100
pairs; tablets and corn are those of ``plot_two_spectrometers.py``. Errors are over problems (of
tablets and corn over directions), each the mean over classifiers and seeds.

``--table FILE`` and ``--estimates FILE`` write the tables.
"""

import argparse
import warnings

import joblib
import numpy as np
import pair_problems
import pandas as pd
import spectrometers
from pair_rules import with_error
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC

from pa_select import PairTrainingClassifier, PASearchCV, SiteAdapter

N_PAIRS = (20, 60)
MODELS = {
    "logistic regression": LogisticRegression(C=0.1, max_iter=500),
    "SVC": SVC(C=10, gamma=0.01),
    "forest": RandomForestClassifier(10, random_state=0),
}
MADE = [name for name in pair_problems.PROBLEMS if name.partition(",")[0] not in ("wine", "iris")]
SPECTRA = {
    "tablets": [(0, 1), (1, 0)],
    "corn": [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)],
}


def scaled(model):
    return make_pipeline(StandardScaler(), clone(model))


def with_probabilities(model):
    """Return a classifier that has probabilities, as soft votes and self-training need."""
    if hasattr(model, "predict_proba"):
        return model
    return CalibratedClassifierCV(model, cv=3, ensemble=False)


def trained(model, rows, n):
    """Return the accuracy at b of a classifier after each way to train it by n pairs."""
    a, b, y_b = rows.pairs_a[:n], rows.pairs_b[:n], rows.y_pairs[:n]
    soft = {"voting": "soft", "teacher": with_probabilities(scaled(model))}

    def by_pairs(**params):
        return PairTrainingClassifier(scaled(model), **params).fit(rows.X, rows.y, pairs=(a, b))

    def on(X, y):
        return scaled(model).fit(np.concatenate(X), np.concatenate(y))

    moved = by_pairs()._moved(rows.X, a, b)
    unlabelled = [rows.y, np.full(n, -1)]
    self_trained = SelfTrainingClassifier(with_probabilities(scaled(model)), max_iter=3)
    fitted = {
        "PairTrainingClassifier": by_pairs(),
        "PairTrainingClassifier, soft votes": by_pairs(**soft),
        "hard votes alone": by_pairs(augment=False),
        "soft votes alone": by_pairs(augment=False, **soft),
        "moved rows alone": on([rows.X, moved], [rows.y, rows.y]),
        "true labels alone": on([rows.X, b], [rows.y, y_b]),
        "true labels and moved rows": on([rows.X, moved, b], [rows.y, rows.y, y_b]),
        "self-training without pairs": self_trained.fit(
            np.concatenate([rows.X, b]), np.concatenate(unlabelled)
        ),
    }
    found = {rule: one.score(rows.X_test, rows.y_test) for rule, one in fitted.items()}
    mapped = SiteAdapter().fit(b, a).transform(rows.X_test)
    found["SiteAdapter"] = scaled(model).fit(rows.X, rows.y).score(mapped, rows.y_test)
    return found


def expected(model, rows):
    """Return the expected score of a classifier that 20 pairs trained, and its accuracy at b.

    Its judges are 20 other pairs, or the same ones.
    """
    first, second = ((rows.pairs_a[s], rows.pairs_b[s]) for s in (slice(20), slice(20, 40)))
    for judges, paired in (("other pairs", second), ("the same pairs", first)):
        search = PASearchCV(PairTrainingClassifier(scaled(model)), {}, cv=5)
        search.fit(rows.X, rows.y, pairs=first, paired=paired)
        yield {
            "judges": judges,
            "expected": search.expected_score_,
            "error": search.cv_results_["expected_score_se"][0],
            "low": search.expected_interval_[0],
            "high": search.expected_interval_[1],
            "at home": search.best_score_,
            "truth": search.score(rows.X_test, rows.y_test),
        }


def measure(kind, name, seed):
    """Return the gains and the estimates of one problem."""
    if kind == "made":
        rows = pair_problems.rows_of(name, seed)
    else:
        rows = spectrometers.rows_of(kind, *name, seed)
    gains, estimates = [], []
    for model in MODELS.values():
        plain = scaled(model).fit(rows.X, rows.y).score(rows.X_test, rows.y_test)
        for n in [n for n in N_PAIRS if n <= len(rows.y_pairs)]:
            found = trained(model, rows, n)
            gains.append({rule: 100 * (score - plain) for rule, score in found.items()})
            gains[-1] |= {"not trained": 100 * plain, "pairs": n}
        if len(rows.y_pairs) >= 40 and isinstance(model, LogisticRegression):
            estimates += expected(model, rows)
    known = {"kind": kind, "problem": str(name), "seed": seed}
    return pd.DataFrame(gains).assign(**known), pd.DataFrame(estimates).assign(**known)


def over_problems(values, by):
    """Return the mean over the problems and its standard error."""
    means = values.groupby([*by, "problem"]).mean().groupby(by)
    return means.mean(), means.std().div(np.sqrt(means.size()), axis=0)


def table_of(gains):
    """Return the accuracy of the classifiers as they were, and the gains."""
    mean, error = over_problems(gains.drop(columns="seed"), ["kind", "pairs"])
    rules = ["not trained", *mean.columns.drop("not trained")]
    cells = {
        f"{kind}, {n} pairs": [
            with_error(mean.at[(kind, n), r], error.at[(kind, n), r]) for r in rules
        ]
        for kind, n in sorted(mean.index, key=lambda key: (key[0] != "made", key))
    }
    return pd.DataFrame(cells, index=pd.Index(rules, name="training"))


def estimates_of(data):
    """Return how far the expected scores of trained classifiers are from the truth."""
    away, home = (100 * (data[x] - data["truth"]) for x in ("expected", "at home"))
    within = away.abs() <= 196 * data["error"]
    inside = (data["low"] <= data["truth"]) & (data["truth"] <= data["high"])
    numbers = data[["kind", "judges", "problem"]].assign(
        **{
            "mean error": away,
            "absolute error": away.abs(),
            "absolute error of cross-validation": home.abs(),
            "within 1.96 SE [%]": 100.0 * within,
            "inside the interval [%]": 100.0 * inside,
        }
    )
    mean, error = over_problems(numbers, ["kind", "judges"])
    cells = {c: [with_error(m, e) for m, e in zip(mean[c], error[c], strict=True)] for c in mean}
    return pd.DataFrame(cells, index=mean.index)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Training by unlabelled pairs")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of every problem")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished problems there")
    parser.add_argument("--table", metavar="FILE", help="write the gains there")
    parser.add_argument("--estimates", metavar="FILE", help="write the errors of estimates there")
    options = parser.parse_args()
    kept = joblib.Memory(options.memory, verbose=0).cache(measure)
    problems = [("made", name) for name in MADE]
    problems += [(kind, direction) for kind in SPECTRA for direction in SPECTRA[kind]]
    with warnings.catch_warnings():
        # The search warns of few pairs, and of pairs that trained the classifier.
        warnings.simplefilter("ignore")
        found = [kept(*problem, seed) for problem in problems for seed in range(options.seeds)]
    gains, estimates = (pd.concat(parts) for parts in zip(*found, strict=True))
    print(f"{len(MADE)} problems that we made")
    for table, file in (
        (table_of(gains), options.table),
        (estimates_of(estimates), options.estimates),
    ):
        print(table.to_string())
        if file:
            table.to_csv(file)
