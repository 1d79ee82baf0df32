"""
Names in two languages
======================

Is a name that of a country, a language, a currency, a script or a part of a country? The labelled
names are English (site a), and the classifier will read another language (site b). A pair is the
English and the other name of one object. Nobody made this shift for a study: the package
``pycountry`` (``pip install pycountry``; its names are those of Debian's iso-codes) ships the
names of the ISO standards and their translations. Names that are the same in both languages are
left out, and so are English names that came before; a kind has at most 400 names.

300 names are labelled, 20, 40 or 100 are pairs, and the others, up to 800, are the test. Each
language is one collection, and errors are over the six collections, each the mean over the seeds.

``make figures`` installs the package and writes the tables to docs/figures.
"""

import argparse
import gettext
import json
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
from fold_scores import fold_scores
from pair_problems import drawn
from pair_rules import NUMBERS, best, by_collection, error_lines, error_of
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from pa_select import PASearchCV, posterior_agreement
from pa_select.model_selection import GuardedSelection

LANGUAGES = {
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "nl": "Dutch",
    "pt": "Portuguese",
}
# The standard of each kind; a name that has two kinds counts as the first one.
KINDS = {
    "country": "iso3166-1",
    "language": "iso639-3",
    "currency": "iso4217",
    "script": "iso15924",
    "subdivision": "iso3166-2",
}
AT_MOST = 400  # names of a kind
N_PAIRS = (20, 40, 100)
MODEL = Pipeline([("letters", TfidfVectorizer(analyzer="char_wb")), ("model", SVC())])
LENGTHS = [(1, 1), (1, 2), (2, 4)]
GRID = [
    {
        "letters__ngram_range": LENGTHS,
        "model": [LogisticRegression(max_iter=500)],
        "model__C": [0.3, 3, 30],
    },
    {
        "letters__ngram_range": LENGTHS,
        "model": [MultinomialNB()],
        "model__alpha": [0.01, 0.3],
    },
    {"letters__ngram_range": [(1, 2)], "model": [SVC()], "model__C": [1, 10]},
    {"letters__ngram_range": [(1, 2)], "model": [ExtraTreesClassifier(50, random_state=0)]},
]
ESTIMATES = {
    name: NUMBERS[name]
    for name in ("cross-validated accuracy", "expected score", "labels of the pairs")
}
RULES = {
    "accuracy": "accuracy",
    "agreement, guarded": "agreement",
    "expected score": "expected",
    "labels of the pairs": "labels",
    "best in hindsight": "truth",
}


def names_of(entries, translate):
    """Return the English and the other names of the entries of a standard, where they differ."""
    names = {entry["name"]: translate(entry["name"]) for entry in entries}
    return [(name, other) for name, other in names.items() if name != other]


def load_names(language):
    """Return the English names, those in another language, and their kinds."""
    folder = Path(find_spec("pycountry").origin).parent
    found = {}
    for kind, standard in KINDS.items():
        [entries] = json.loads((folder / f"databases/{standard}.json").read_text("utf8")).values()
        # A standard without a translation leaves all names equal.
        messages = gettext.translation(standard, folder / "locales", [language], fallback=True)
        for name, other in names_of(entries, messages.gettext):
            found.setdefault(name, (other, kind))
    others, kinds = zip(*found.values(), strict=True)
    return np.array(list(found), dtype=object), np.array(others, dtype=object), np.array(kinds)


def rows_of(language, seed):
    """Draw the names of a collection."""
    a, b, y = load_names(language)
    order = np.random.default_rng(seed).permutation(len(y))
    kept = np.concatenate([order[y[order] == kind][:AT_MOST] for kind in np.unique(y)])
    return drawn(a[kept], b[kept], y[kept], seed)


def largest_excess(fold_scores, fold_rows, y):
    """Return by how much the posteriors believe in one class more than its share, at most.

    The posteriors are of labelled rows, by a candidate's models of the other folds, with one
    temperature.
    """
    scores = np.concatenate([fold[0] for fold in fold_scores])
    labels = y[np.concatenate([fold[0] for fold in fold_rows])]
    is_class = labels[:, None] == np.unique(y)
    beta = posterior_agreement(scores, np.where(is_class, 0.0, -np.inf)).beta
    return (softmax(min(beta, 1e6) * scores, axis=1) - is_class).mean(axis=0).max()


def measure(rows, grid=GRID, n_pairs=N_PAIRS):
    """Return what is known of each candidate, for these numbers of pairs, and the truth."""
    sites = {f"{n}": (rows.pairs_a[:n], rows.pairs_b[:n]) for n in n_pairs}
    with TemporaryDirectory() as folder:  # so that each model is fitted once
        search = PASearchCV(MODEL, grid, refit=False, memory=folder)
        found = search.fit(rows.X, rows.y, paired=sites).cv_results_
        of_folds, of_rows = fold_scores(search, rows.X, rows.y, paired=sites)
    fitted = [
        clone(MODEL).set_params(**clone(p, safe=False)).fit(rows.X, rows.y)
        for p in found["params"]
    ]
    truth = np.array([model.score(rows.X_test, rows.y_test) for model in fitted])
    right = np.array([model.predict(rows.pairs_b) == rows.y_pairs for model in fitted])
    accuracy = found["mean_test_score"]
    known = {
        "accuracy": accuracy,
        "error": found["se_test_score"],
        "chance": found["chance_test_score"],
        "truth": truth,
        "truth_se": error_of(truth, len(rows.y_test)),
        "excess": largest_excess(of_folds[int(accuracy.argmax())], of_rows, rows.y),
    }
    units = []
    for position, n in enumerate(n_pairs):
        # The scores of each fold: labelled rows, then rows at a and at b of each site.
        at_sites = (
            [np.concatenate([fold[1 + 2 * position + end] for fold in c]) for c in of_folds]
            for end in (0, 1)
        )
        agreements = posterior_agreement(*at_sites, prior="marginal", tol=1e-4)
        of_pairs = {
            "agreement": [agreement.score for agreement in agreements],
            "expected": found[f"expected_score_{n}"],
            "expected_se": found[f"expected_score_se_{n}"],
            "low": found[f"expected_score_low_{n}"],
            "high": found[f"expected_score_high_{n}"],
            "labels": right[:, :n].mean(axis=1),
        }
        units.append(pd.DataFrame(known | of_pairs).assign(pairs=n))
    return pd.concat(units)


def chosen(unit):
    """Return which candidate each rule chooses."""
    accuracy = unit["accuracy"].to_numpy()
    found = {rule: best(unit[column].to_numpy(), accuracy) for rule, column in RULES.items()}
    table = {
        "mean_test_score": accuracy,
        "se_test_score": unit["error"].to_numpy(),
        "chance_test_score": unit["chance"].to_numpy(),
        "agreement": unit["agreement"].to_numpy(),
    }
    return found | {"agreement, guarded": GuardedSelection(n_se=4)(table)}


def gains(unit):
    """Return the accuracy at b of the choice by accuracy, and what each rule gains over it."""
    truth = 100 * unit["truth"].to_numpy()
    accuracies = pd.Series({rule: truth[i] for rule, i in chosen(unit).items()})
    usual = accuracies.pop("accuracy")
    return pd.concat([pd.Series({"accuracy": usual}), accuracies - usual])


def losses_and_ranks(unit):
    """Return what the candidates lose, what they are expected to lose, and rank correlations."""
    ranks = unit[["accuracy", "expected", "truth"]].corr(method="spearman")
    away = 100 * unit[["expected", "truth"]].rsub(unit["accuracy"], axis=0).mean()
    return pd.Series(
        {
            "true loss": away["truth"],
            "expected loss": away["expected"],
            "excess of one class": 100 * unit["excess"].iloc[0],
            "home and true ranks": ranks.at["accuracy", "truth"],
            "expected and true ranks": ranks.at["expected", "truth"],
            "home and expected ranks": ranks.at["accuracy", "expected"],
        }
    )


def by_unit(data, function):
    return data.groupby(["pairs", "problem", "seed"], sort=False).apply(function)


def by_language(data, function):
    named = by_unit(data.replace({"problem": LANGUAGES}), function)
    return by_collection(named).rename_axis("language")


def ranks_table(data):
    """Return the losses and rank correlations, and where a choice among candidates gained."""
    table = by_language(data, losses_and_ranks)
    values = pd.concat([by_unit(data, losses_and_ranks), by_unit(data, gains)], axis=1)
    below = values["home and expected ranks"] < 0.5
    lines = [
        (
            f"home and expected ranks {'below 0.5' if low else '0.5 and more'}",
            f"{(below == low).sum()} of {len(values)}",
            *(f"{values.loc[below == low, rule].mean():.1f}" for rule in list(RULES)[2:]),
        )
        for low in (True, False)
    ]
    return table, pd.DataFrame(lines, columns=["draws", "number", *list(RULES)[2:]])


def error_table(data):
    """Return how well numbers predict the accuracy at b, of all candidates and of the choice."""
    of_choice = by_unit(data, lambda unit: unit.iloc[chosen(unit)["expected score"]])
    of_choice = of_choice.drop(columns=["pairs", "problem", "seed"], errors="ignore")
    lines = error_lines(data.set_index(["pairs", "problem"]), ESTIMATES)
    lines += error_lines(of_choice, ESTIMATES, " of the choice")
    header = ["number", "pairs", "absolute error", "mean error", "width", "accuracy inside"]
    return pd.DataFrame(lines, columns=header)


def unit_of(language, seed):
    """Return what is measured of one draw of a collection."""
    return measure(rows_of(language, seed)).assign(problem=language, seed=seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Names in two languages")
    parser.add_argument("--seeds", type=int, default=1, help="draws of every collection")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished draws there")
    parser.add_argument("--table", metavar="FILE", help="write the gains there")
    parser.add_argument("--errors", metavar="FILE", help="write the errors of estimates there")
    parser.add_argument("--ranks", metavar="FILE", help="write losses and rank correlations there")
    parser.add_argument("--draws", metavar="FILE", help="write where a choice gained there")
    options = parser.parse_args()
    kept = joblib.Memory(options.memory, verbose=0).cache(unit_of)
    with warnings.catch_warnings():
        # Folds have few rows of a class.
        warnings.simplefilter("ignore")
        data = [kept(language, seed) for seed in range(options.seeds) for language in LANGUAGES]
    data = pd.concat(data)
    ranks, draws = ranks_table(data)
    for table, file, index in (
        (by_language(data, gains), options.table, True),
        (error_table(data), options.errors, False),
        (ranks, options.ranks, True),
        (draws, options.draws, False),
    ):
        print(table.to_string(index=index))
        if file:
            table.to_csv(file, index=index)
