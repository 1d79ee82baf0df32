"""
A few labels at a new site: what are they worth?
================================================

Trained models meet a site where 10 to 100 of 500 rows are labelled. On tables with made shifts and
on digits of nets, this script compares the committee of `FewLabels` with the choice of the model
that is right most often, with equal votes, and with two published rules that ask for labels. It
also compares estimated accuracies with the true ones.

``--table FILE`` writes the mean over the settings with its standard error, and the setting with
the worst mean over the draws; ``--settings FILE`` writes what each setting has with 20 labels.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from few_labels_rules import best_of, coda, model_selector
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pa_select import FewLabels
from pa_select.scores.precomputed import METHODS, RecordedClassifier, replace, row_numbers

SIZES = (10, 20, 50, 100)
# After so many labels the votes, by which half of the next rows are drawn, are counted anew.
STEPS = (10, 20, 35, 50, 75, 100)
EPSILONS = (0.35, 0.4, 0.45, 0.48)
N_TRAIN, N_SITE, N_TEST = 300, 500, 800
DIGITS = load_digits(return_X_y=True)
TABLES = {
    "digits": lambda: DIGITS,
    "cancer": lambda: load_breast_cancer(return_X_y=True),
    "made, 2 classes": lambda: make_classification(
        2000, 30, n_informative=6, class_sep=0.8, flip_y=0.1, random_state=0
    ),
    "made, 3 classes": lambda: make_classification(
        2000, 18, n_informative=7, n_classes=3, class_sep=1.1, random_state=0
    ),
    "made, 5 classes": lambda: make_classification(
        2000, 12, n_informative=8, n_classes=5, class_sep=1.5, random_state=0
    ),
}


def candidates():
    """The candidates for a table, from bad to good ones."""
    models = [LogisticRegression(C=C, max_iter=300) for C in (0.003, 0.1, 3)]
    models += [SVC(C=C, gamma=gamma) for C in (1, 30) for gamma in (0.005, 0.05)]
    models += [KNeighborsClassifier(k) for k in (1, 7)]
    models += [GaussianNB(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")]
    models += [DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (3, None)]
    models += [ExtraTreesClassifier(40, random_state=0)]
    return [make_pipeline(StandardScaler(), model) for model in models]


def nets(X, y, rng):
    """Train twelve nets that differ in size, epochs, and the noise that they were trained with."""
    trained = []
    for layers in ((16,), (64,), (64, 64)):
        for epochs in (10, 60):
            for noise in (0, 0.3):
                net = MLPClassifier(layers, max_iter=epochs, random_state=len(trained))
                rows = X + noise * rng.normal(size=X.shape)
                trained.append(net.fit(rows, y))
    return trained


def offset(X, scale, rng, size=1.0):
    return X + size * scale * rng.normal(size=X.shape[1])


def lost(X, scale, rng):
    lost_columns = rng.permutation(X.shape[1])[: X.shape[1] // 3]
    X = X.copy()
    X[:, lost_columns] = X[:, lost_columns].mean(axis=0)
    return X


SHIFTS = {
    "noise": lambda X, scale, rng: X + scale * rng.normal(size=X.shape),
    "offset": offset,
    "lost columns": lost,
    "gain": lambda X, scale, rng: X * np.exp(0.5 * rng.normal(size=X.shape[1])),
}
IMAGE_SHIFTS = {
    "noise": lambda X, scale, rng: X + 0.4 * rng.normal(size=X.shape),
    "dim": lambda X, scale, rng: 0.3 * X + 0.2 * rng.normal(size=X.shape),
    "moved": lambda X, scale, rng: np.roll(X.reshape(-1, 8, 8), 1, axis=2).reshape(len(X), -1),
}


def tables():
    """Yield the kind and the name of each setting of a table, models, and rows and labels."""
    far = {"far offset": lambda X, scale, rng: offset(X, scale, rng, 3.0)}
    for name, load in TABLES.items():
        X, y = load()
        rng = np.random.default_rng(0)
        order = rng.permutation(len(y))
        n_train = min(N_TRAIN, len(y) // 3)
        train, rest = order[:n_train], order[n_train:]
        models = [model.fit(X[train], y[train]) for model in candidates()]
        for shift, shifted in {**SHIFTS, **far}.items():
            kind = "far offsets" if shift in far else "tables"
            rows = shifted(X[rest], X[train].std(axis=0), rng)
            yield kind, f"{name}: {shift}", models, rows, y[rest]


def nets_of_digits():
    """Yield the same for nets: digits with made shifts, and those of another collection."""
    from digit_collections import BLOCK, collections

    images, labels = collections()["digits"]
    there, labels_there = collections()["MNIST"]
    X, far = (x.reshape(len(x), -1) / BLOCK**2 for x in (images, there))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    train, rest = order[:N_TRAIN], order[N_TRAIN:]
    models = nets(X[train], labels[train], rng)
    for shift, shifted in IMAGE_SHIFTS.items():
        yield "nets", f"nets: {shift}", models, shifted(X[rest], None, rng), labels[rest]
    rows = rng.permutation(len(far))[: N_SITE + N_TEST]
    yield "nets", "nets: MNIST", models, far[rows], labels_there[rows]


def measured(models, X, y, seeds):
    """Return a row for each draw, number of labels and rule; and estimates of accuracies."""
    n_site = min(N_SITE, len(y) // 2)
    labels, columns = np.unique(y, return_inverse=True)
    recorded = [
        replace(RecordedClassifier.of(model, X, with_probabilities=False), methods=METHODS)
        for model in models
    ]
    said = np.array([np.searchsorted(labels, one.predicted) for one in recorded])
    posteriors = np.array([one.predict_proba(row_numbers(np.arange(len(y)))) for one in recorded])
    rows = row_numbers(np.arange(len(y)))
    site, test = rows[:n_site], rows[n_site:][:N_TEST]
    of_test = (said == columns)[:, test[:, 0]].mean(axis=1)
    on_site = (said == columns)[:, :n_site].mean(axis=1)
    votes = np.array([(said == label).sum(axis=0) for label in range(len(labels))])
    equal = (votes.argmax(axis=0) == columns)[test[:, 0]].mean()
    sizes = [n for n in SIZES if n <= n_site // 2]
    found, estimated = [], []

    def note(draw, n, rule, accuracy):
        found.append({"draw": draw, "n": n, "rule": rule, "accuracy": accuracy})

    for draw in seeds:
        rng = np.random.default_rng(draw)
        for how in ("random", "disagreement"):
            few = FewLabels(recorded, site, draw=how, random_state=draw)
            for n in STEPS if how == "disagreement" else sizes:
                if n > max(sizes):
                    break
                asked = few.ask(n - (len(few.rows_) if hasattr(few, "rows_") else 0))
                few.tell(asked, y[asked])
                if n not in sizes:
                    continue
                note(draw, n, f"committee, {how}", few.committee_.score(test, y[test[:, 0]]))
                if how == "random":
                    hits = (said == columns)[:, few.rows_].mean(axis=1)
                    note(draw, n, "most right", of_test[best_of(hits)].mean())
                    note(draw, n, "equal votes", equal)
                estimated += estimates_of(few, how, n, y, on_site, site)
        given = said[:, :n_site], columns, sizes
        rules = {f"Model Selector, {e}": model_selector(*given, e, rng) for e in EPSILONS}
        rules["CODA"] = coda(said[:, :n_site], posteriors[:, :n_site], columns, sizes, rng)
        for rule, choices in rules.items():
            for n, chosen in choices.items():
                note(draw, n, rule, of_test[chosen].mean())
    return pd.DataFrame(found), pd.DataFrame(estimated), of_test


def estimates_of(few, how, n, y, on_site, site):
    """Return how far estimates are from the accuracies on all rows of the site."""
    table, rows = few.summary(), few.rows_
    true = few.committee_.score(site, y[: len(site)])
    again = few.committee_.score(site[rows], y[rows])
    models = table.iloc[:-1]
    errors = models["expected_score"] - on_site
    hits = np.array([one.predicted[rows] == y[rows] for one in few.models])
    inside = (models["low"] <= on_site) & (on_site <= models["high"])
    low, high = few.expected_interval_
    found = {
        "committee: estimate less truth": few.expected_score_ - true,
        "committee: interval holds": low <= true <= high,
        "committee: width of interval": high - low,
        "committee: score on its own labels less truth": again - true,
        "squared error of models": np.mean(errors**2),
        "squared error of labels": np.mean((hits.mean(axis=1) - on_site) ** 2),
        "models: interval holds": inside.mean(),
    }
    return [{"draw": how, "n": n, **found}]


def with_error(values, scale=100, sign=True):
    """Return the mean over settings with its standard error."""
    values = scale * np.asarray(values, float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    digits = 1 if scale == 100 else 2
    text = f"{values.mean():+.{digits}f}" if sign else f"{values.mean():.{digits}f}"
    return f"{text} +- {error:.{digits}f}"


def table_of(choices, estimates):
    """Return a row for each rule and estimate, and a column for each number of labels."""
    rows = []
    gains = choices.pivot_table("accuracy", ["kind", "setting", "n"], "rule")
    gains = gains.sub(gains.pop("most right"), axis=0)
    for rule in gains:
        for kind in ("tables", "nets", "far offsets"):
            of_kind = gains.loc[kind, rule].unstack()
            worst = of_kind[20].idxmin()
            rows.append({
                "what": f"gain of {rule}", "settings": f"{len(of_kind)} {kind}",
                **{str(n): with_error(of_kind[n].dropna()) for n in SIZES},
                "worst at 20": f"{100 * of_kind[20].min():+.1f} ({worst})",
            })  # fmt: skip
    usual = estimates[estimates["kind"] != "far offsets"].drop(columns="kind")
    means_of = usual.groupby(["draw", "setting", "n"]).mean()
    for how in ("random", "disagreement"):
        means = means_of.loc[how].copy()
        # The hits on rows drawn at random are the usual estimate.
        of_hits = means_of.loc["random", "squared error of labels"]
        part = means.pop("squared error of models") / of_hits
        means = means.drop(columns="squared error of labels")
        means["models: error, over that of random labels alone"] = np.sqrt(part)
        for name, values in means.items():
            by_n = values.unstack()
            in_points = not name.endswith("holds") and not name.startswith("models")
            worst = (by_n[20].abs() if in_points else by_n[20]).agg(
                "idxmin" if name.endswith("holds") else "idxmax"
            )
            scale, signed = (100 if in_points else 1), name.endswith("truth")
            rows.append({
                "what": f"{name}, {how}", "settings": f"{len(by_n)} tables and nets",
                **{str(n): with_error(by_n[n].dropna(), scale, signed) for n in SIZES},
                "worst at 20": f"{scale * by_n[20][worst]:.{1 if in_points else 2}f} ({worst})",
            })  # fmt: skip
    return pd.DataFrame(rows)


def settings_of(choices, best, median):
    """Return accuracies of each setting with 20 labels, in percent."""
    of_20 = choices[choices["n"] == 20].pivot_table("accuracy", "setting", "rule")
    of_20.insert(0, "median candidate", median)
    of_20.insert(0, "best candidate", best)
    return (100 * of_20).round(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A few labels at a new site")
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--table", metavar="FILE", help="write means over settings there")
    parser.add_argument("--settings", metavar="FILE", help="write each setting there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # nets that have not converged
    choices, estimates, best, median = [], [], {}, {}
    for make in (nets_of_digits, tables):
        for kind, name, models, X, y in make():
            # No two settings draw the same rows.
            seeds = range(len(best) * options.draws, (len(best) + 1) * options.draws)
            of_choice, of_estimate, accuracies = measured(models, X, y, seeds)
            choices.append(of_choice.assign(kind=kind, setting=name))
            estimates.append(of_estimate.assign(kind=kind, setting=name))
            best[name], median[name] = accuracies.max(), np.median(accuracies)
            print(name, f"{100 * best[name]:.0f}, {100 * median[name]:.0f}", flush=True)
    choices, estimates = pd.concat(choices), pd.concat(estimates)
    table = table_of(choices, estimates)
    settings = settings_of(choices, pd.Series(best), pd.Series(median))
    print(table.to_string(), settings.to_string(), sep="\n")
    if options.table:
        table.to_csv(options.table, index=False)
    if options.settings:
        settings.to_csv(options.settings)
