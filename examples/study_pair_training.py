"""
Training by unlabelled pairs
============================

A classifier is chosen, and a few dozen objects were measured at both sites and labelled at
neither. How much better is it at the other site (b) after it was trained by the pairs? Three
classifiers are fitted to the labelled rows, and then trained in these ways:

- *PairTrainingClassifier*: fitted to the labelled rows and to the rows of b, with the labels that
  the same classifier predicts from the rows of a;
- *true labels* of the rows of b in place of the predicted ones;
- *self-training without pairs*: `SelfTrainingClassifier` on the same rows of b without their
  partners;
- *moved rows*: fitted to the labelled rows, and to the same rows once more, each moved by the
  difference b - a of a pair;
- *SiteAdapter*: the classifier as it was, always after the adapter.

And what does the expected score say of a trained logistic regression, if its judges are other
pairs than those that trained it, or the same ones?

The problems with shifts that we made are those of ``plot_unlabelled_pairs.py`` with at least 100
pairs; tablets and corn are those of ``plot_two_spectrometers.py``. Texts are the first paragraphs
of docstrings, whose class is the library; at b they have another spelling or typing errors, and
no adapter maps them. Errors are over problems (of tablets and corn over directions), each the mean
over classifiers and seeds.

``--table FILE`` and ``--estimates FILE`` write the tables.
"""

import argparse
import warnings

import joblib
import library_texts
import numpy as np
import pair_problems
import pandas as pd
import spectrometers
from pair_rules import with_error
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC

from pa_select import PairTrainingClassifier, PASearchCV, SiteAdapter
from pa_select.environments import CharacterEdits

N_PAIRS = (20, 60)
# The classifier whose expected score is looked at comes first.
OF_NUMBERS = [
    make_pipeline(StandardScaler(), model)
    for model in (
        LogisticRegression(C=0.1, max_iter=500),
        SVC(C=10, gamma=0.01),
        RandomForestClassifier(10, random_state=0),
    )
]
OF_TEXTS = [
    make_pipeline(TfidfVectorizer(), model)
    for model in (
        LogisticRegression(C=10, max_iter=500),
        MultinomialNB(alpha=0.1),
        RandomForestClassifier(10, random_state=0),
    )
]
SPELLING = [("ph", "f"), ("tion", "shun"), ("th", "dh"), ("c", "k"), ("ee", "i")]
SPELLING += [("x", "ks"), ("qu", "kw"), ("oo", "u"), ("y", "i"), ("ss", "s")]


def spelt(texts, rules):
    """Spell texts by rules, one after the other."""
    for old, new in rules:
        texts = [text.replace(old, new) for text in texts]
    return texts


# What becomes of texts at b, by seed.
TEXTS = {
    "another spelling": lambda texts, _: spelt(texts, SPELLING),
    "another spelling of some sounds": lambda texts, _: spelt(texts, SPELLING[:5]),
    "few typing errors": lambda texts, seed: CharacterEdits(4, random_state=seed)(texts).X,
    "many typing errors": lambda texts, seed: CharacterEdits(12, random_state=seed)(texts).X,
}
PROBLEMS = {
    "made": [
        name
        for name in pair_problems.PROBLEMS
        if name.partition(",")[0] not in ("wine", "iris")  # which have few rows
    ],
    "corn": [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)],
    "tablets": [(0, 1), (1, 0)],
    "texts": list(TEXTS),
}


def rows_of(kind, name, seed):
    """Return the rows of a problem."""
    if kind == "made":
        return pair_problems.rows_of(name, seed)
    if kind != "texts":
        return spectrometers.rows_of(kind, *name, seed)
    texts, labels = library_texts.load_library_texts()
    at_b = np.array(TEXTS[name](list(texts), seed), dtype=object)
    return pair_problems.drawn(texts, at_b, labels, seed)


def self_training(model):
    """Return a pipeline whose classifier trains itself, after the step that makes numbers."""
    classifier = model[-1]
    if not hasattr(classifier, "predict_proba"):
        classifier = CalibratedClassifierCV(classifier, cv=3, ensemble=False)
    return make_pipeline(clone(model[0]), SelfTrainingClassifier(classifier, max_iter=3))


def moved(X, a, b):
    """Move each row by the difference of a pair; the pairs take turns."""
    return X + (b - a)[np.random.default_rng(0).permutation(np.arange(len(X)) % len(a))]


def trained(model, rows, n):
    """Return the accuracy at b of a classifier after each way to train it by n pairs."""
    a, b, y_b = rows.pairs_a[:n], rows.pairs_b[:n], rows.y_pairs[:n]
    by_pairs = PairTrainingClassifier(model).fit(rows.X, rows.y, pairs=(a, b))

    def on(more, labels, fitted=model):
        X, y = np.concatenate([rows.X, more]), np.concatenate([rows.y, labels])
        return clone(fitted).fit(X, y).score(rows.X_test, rows.y_test)

    missing = np.full(n, -1)
    # Unlabelled rows are marked by -1, so that the classes must be numbers.
    classes, y = np.unique(rows.y, return_inverse=True)
    own = self_training(model).fit(np.concatenate([rows.X, b]), np.concatenate([y, missing]))
    found = {
        "PairTrainingClassifier": by_pairs.score(rows.X_test, rows.y_test),
        "true labels": on(b, y_b),
        "self-training without pairs": np.mean(classes[own.predict(rows.X_test)] == rows.y_test),
    }
    if rows.X.ndim == 2:
        found["moved rows"] = on(moved(rows.X, a, b), rows.y)
        mapped = SiteAdapter().fit(b, a).transform(rows.X_test)
        found["SiteAdapter"] = clone(model).fit(rows.X, rows.y).score(mapped, rows.y_test)
    return found


def expected(model, rows):
    """Return the expected score of a classifier that 20 pairs trained, and its accuracy at b.

    Its judges are 20 other pairs, or the same ones.
    """
    first, second = ((rows.pairs_a[s], rows.pairs_b[s]) for s in (slice(20), slice(20, 40)))
    for judges, paired in (("other pairs", second), ("the same pairs", first)):
        search = PASearchCV(PairTrainingClassifier(model), {}, cv=5)
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
    rows = rows_of(kind, name, seed)
    gains, estimates = [], []
    models = OF_TEXTS if kind == "texts" else OF_NUMBERS
    for model in models:
        plain = clone(model).fit(rows.X, rows.y).score(rows.X_test, rows.y_test)
        for n in [n for n in N_PAIRS if n <= len(rows.y_pairs)]:
            found = trained(model, rows, n)
            gains.append({"not trained": 100 * plain, "pairs": n})
            gains[-1] |= {way: 100 * (score - plain) for way, score in found.items()}
    if len(rows.y_pairs) >= 40:
        estimates += expected(models[0], rows)
    known = {"kind": kind, "problem": str(name), "seed": seed}
    return pd.DataFrame(gains).assign(**known), pd.DataFrame(estimates).assign(**known)


def over_problems(values, by):
    """Return the mean over the problems and its standard error."""
    means = values.groupby([*by, "problem"]).mean().groupby(by)
    return means.mean(), means.std().div(np.sqrt(means.size()), axis=0)


def table_of(gains):
    """Return the accuracy of the classifiers as they were, and the gains."""
    mean, error = over_problems(gains.drop(columns="seed"), ["kind", "pairs"])
    kinds = list(PROBLEMS)
    cells = {
        f"{kind}, {n} pairs": [
            "" if np.isnan(mean.at[(kind, n), way]) else with_error(m, error.at[(kind, n), way])
            for way, m in mean.loc[(kind, n)].items()
        ]
        for kind, n in sorted(mean.index, key=lambda key: (kinds.index(key[0]), key[1]))
    }
    return pd.DataFrame(cells, index=pd.Index(mean.columns, name="training"))


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
    with warnings.catch_warnings():
        # The search warns of few pairs, and of pairs that trained the classifier.
        warnings.simplefilter("ignore")
        found = [
            kept(kind, name, seed)
            for kind, names in PROBLEMS.items()
            for name in names
            for seed in range(options.seeds)
        ]
    gains, estimates = (pd.concat(parts) for parts in zip(*found, strict=True))
    print(f"{len(PROBLEMS['made'])} problems that we made")
    for table, file in (
        (table_of(gains), options.table),
        (estimates_of(estimates), options.estimates),
    ):
        print(table.to_string())
        if file:
            table.to_csv(file)
