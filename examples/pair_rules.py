"""
Selection by unlabelled pairs: rules
====================================

What ``study_unlabelled_pairs.py`` and ``plot_two_spectrometers.py`` share: one search over the
candidates of a problem, whose numbers all rules read, and the choice of each rule.
"""

from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
from fold_scores import fold_scores
from scipy.special import softmax
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PASearchCV, SiteAdapter, posterior_agreement
from pa_select.model_selection import GuardedSelection
from pa_select.scores.calibration import beta_and_bias

# The labels of the pairs are used by one rule, which shows what labelling them would give.
RULES = {
    "expected score (PASearchCV's default)": ("expected", None),
    "expected score, 4 SE": ("expected", 4),
    "expected score, not shrunk": ("unshrunk", None),
    "expected score, own posterior": ("own", None),
    "mean posterior of the ensemble": ("posterior of the ensemble", None),
    "mean posterior of its own": ("posterior", None),
    "low end of the interval": ("low", None),
    "accuracy x agreement rate": ("product", None),
    "pseudo-labels": ("pseudo", None),
    "labels of the pairs": ("labels", None),
    "best in hindsight": ("truth", None),
}

# What predicts the accuracy at b.
NUMBERS = {
    "cross-validated accuracy": "accuracy",
    "accuracy x agreement rate": "product",
    "mean calibrated confidence at b": "confidence",
    "expected score": "expected",
    "expected score, not shrunk": "unshrunk",
    "expected score, own posterior": "own",
    "mean posterior of the ensemble": "posterior of the ensemble",
    "mean posterior of its own": "posterior",
    "labels of the pairs": "labels",
    "expected score, adapted": "expected adapted",
    "labels of the pairs, adapted": "labels adapted",
}
# Other adapters than the default one.
WHOLE_ROW = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
OTHER_ADAPTERS = {
    "ridge of the whole row": TransformedTargetRegressor(WHOLE_ROW, transformer=StandardScaler()),
}
OF_CHOICE = {name: column for name, column in NUMBERS.items() if column.startswith("expected")}


class Rows(NamedTuple):
    """The rows of a problem; a and b are the sites."""

    X: np.ndarray  # labelled
    y: np.ndarray
    pairs_a: np.ndarray
    pairs_b: np.ndarray
    y_pairs: np.ndarray  # unknown, except to the rule that labels the pairs
    X_test: np.ndarray
    y_test: np.ndarray


def cross_adapted(b, a, adapter="ridge"):
    """Map each row of b by an adapter that has not seen its pair."""
    adapted = np.empty_like(b)
    for train, test in KFold(5, shuffle=True, random_state=0).split(b):
        adapted[test] = SiteAdapter(adapter).fit(b[train], a[train]).transform(b[test])
    return adapted


def posterior_of(predicted, posterior):
    """Return the posterior of each predicted class: the mean over the folds, (..., pairs)."""
    posterior = np.broadcast_to(posterior, (*predicted.shape, posterior.shape[-1]))
    return np.take_along_axis(posterior, predicted[..., None], axis=-1)[..., 0].mean(axis=-2)


def error_of(accuracy, n):
    """Return the standard error of an accuracy in n rows; one of each outcome is added."""
    rate = (accuracy * n + 1) / (n + 2)
    return np.sqrt(rate * (1 - rate) / n)


def log_of(posteriors):
    return np.log(np.maximum(posteriors, 1e-12))


class Calibration(NamedTuple):
    """An inverse temperature and a bias of each class."""

    beta: float
    bias: np.ndarray

    def __call__(self, scores):
        return softmax(self.beta * scores + self.bias, axis=-1)

    @classmethod
    def of(cls, scores, labels):
        """Fit both to labels together, as `PASearchCV` does."""
        beta, bias = beta_and_bias(scores, np.unique(labels, return_inverse=True)[1])
        return cls(min(beta, 1e6), bias)


def read_folds(fold_scores, fold_rows, y, n_sites, members):
    """Return for each number of pairs what the folds' models say that the table does not have.

    All arrays begin with the candidates. ``members`` are the candidates of the ensemble. The
    first two arguments are those that `fold_scores` returns.
    """
    by_source = [
        np.array([[fold[source] for fold in candidate] for candidate in fold_scores])
        for source in range(1, 1 + 4 * n_sites)  # a, b, a again and adapted, for each number
    ]
    known = [np.concatenate([fold[0] for fold in c]) for c in fold_scores]
    labels = y[np.concatenate([fold[0] for fold in fold_rows])]
    calibrations = [Calibration.of(scores, labels) for scores in known]
    at_rows = [calibrations[c](known[c]) for c in np.flatnonzero(members)]
    again = Calibration.of(log_of(np.mean(at_rows, axis=0)), labels)
    for i in range(n_sites):
        a, b, _, adapted = by_source[4 * i : 4 * i + 4]
        flat = (list(rows.reshape(len(rows), -1, rows.shape[-1])) for rows in (a, b))
        agreements = posterior_agreement(*flat, prior="marginal", tol=1e-4)
        at_a, at_b = (
            np.array([f(scores) for f, scores in zip(calibrations, rows, strict=True)])
            for rows in (a, b)
        )
        # A mean of calibrated posteriors is too uncertain, and is calibrated again.
        ensemble = again(log_of(at_a[members].mean(axis=0)))
        predicted = [rows.argmax(-1) for rows in (a, b, adapted)]
        yield {
            "agreement": np.array([found.score for found in agreements]),
            "confidence": at_b.max(-1).mean((1, 2)),
            "own": [posterior_of(p, at_a) for p in predicted],
            "ensemble": [posterior_of(p, ensemble) for p in predicted],
        }


def errors_of_differences(search, site):
    """Return the standard errors of the differences of each candidate from every other one."""
    candidates = range(len(search.cv_results_["params"]))
    return {
        i: [search.compare(i, j, site=site).standard_error for j in candidates] for i in candidates
    }


def measure(rows, model, grid, n_pairs):
    """Return what is known of each candidate, for these numbers of pairs, and the truth."""
    sites, sites_of_others, adapters, others = {}, {}, {}, {}
    for n in [n for n in n_pairs if n <= len(rows.y_pairs)]:
        a, b = rows.pairs_a[:n], rows.pairs_b[:n]
        sites |= {f"{n}": (a, b), f"{n} mapped": (a, cross_adapted(b, a))}
        adapters[n] = SiteAdapter().fit(b, a)
        for name, adapter in OTHER_ADAPTERS.items():
            sites_of_others[f"{n} {name}"] = (a, cross_adapted(b, a, adapter))
            others[n, name] = SiteAdapter(adapter).fit(b, a).transform(rows.X_test)
    known = {"X": rows.X, "y": rows.y, "paired": sites | sites_of_others}
    with TemporaryDirectory() as folder:  # so that each model is fitted once
        search = PASearchCV(model, grid, refit=False, memory=folder)
        found = search.fit(**known).cv_results_
        of_folds = fold_scores(search, **known)
    fitted = [
        clone(model).set_params(**clone(p, safe=False)).fit(rows.X, rows.y)
        for p in found["params"]
    ]
    accuracy, error = found["mean_test_score"], found["se_test_score"]
    top = int(accuracy.argmax())
    truth = np.array([m.score(rows.X_test, rows.y_test) for m in fitted])
    at_b = np.array([m.predict(rows.pairs_b) for m in fitted])
    opinion = fitted[top].predict(rows.pairs_a)
    members = accuracy >= accuracy[top] - 2 * error[top]
    units = []
    for (n, adapter), read in zip(
        adapters.items(), read_folds(*of_folds, rows.y, len(adapters), members), strict=True
    ):
        y, adapted = rows.y_pairs[:n], sites[f"{n} mapped"][1]
        mapped = adapter.transform(rows.X_test)
        own_a, own_b, _ = read["own"]
        ensemble_a, ensemble_b, _ = read["ensemble"]
        unit = {
            "accuracy": accuracy,
            "error": error,
            "chance": found["chance_test_score"],
            "expected": found[f"expected_score_{n}"],
            "expected_se": found[f"expected_score_se_{n}"],
            "low": found[f"expected_score_low_{n}"],
            "high": found[f"expected_score_high_{n}"],
            "disagreement": found[f"disagreement_{n}"],
            "agreement": read["agreement"],
            "confidence": read["confidence"],
            "unshrunk": accuracy + (ensemble_b - ensemble_a).mean(1),
            "own": accuracy + (own_b - own_a).mean(1),
            "posterior": own_b.mean(1),
            "posterior of the ensemble": ensemble_b.mean(1),
            "pseudo": (at_b == opinion)[:, :n].mean(1),
            "labels": (at_b == rows.y_pairs)[:, :n].mean(1),
            "truth": truth,
            "truth_se": error_of(truth, len(rows.y_test)),
            "expected adapted": found[f"expected_score_{n} mapped"],
            "expected_se adapted": found[f"expected_score_se_{n} mapped"],
            "low adapted": found[f"expected_score_low_{n} mapped"],
            "high adapted": found[f"expected_score_high_{n} mapped"],
            "disagreement adapted": found[f"disagreement_{n} mapped"],
            "labels adapted": [m.score(adapted, y) for m in fitted],
            "truth adapted": [m.score(mapped, rows.y_test) for m in fitted],
        }
        for name in OTHER_ADAPTERS:
            unit[f"expected, {name}"] = found[f"expected_score_{n} {name}"]
            unit[f"truth, {name}"] = [m.score(others[n, name], rows.y_test) for m in fitted]
        unit = pd.DataFrame(unit).assign(pairs=n, candidate=np.arange(len(fitted)))
        unit["truth_se adapted"] = error_of(unit["truth adapted"], len(rows.y_test))
        for end, site in (("", f"{n}"), (" adapted", f"{n} mapped")):
            for other, errors in errors_of_differences(search, site).items():
                unit[f"error of the difference from {other}{end}"] = errors
        for end in ("", " adapted"):
            unit[f"product{end}"] = unit["accuracy"] * (1 - unit[f"disagreement{end}"])
        units.append(unit)
    return pd.concat(units)


def best(values, accuracy, near=True):
    """Return the eligible candidate of the largest value.

    With the adapter there are values of the candidates without it, then with it.
    """
    eligible = np.flatnonzero(np.resize(near, len(values)))
    return max(eligible.tolist(), key=lambda i: (values[i], accuracy[i % len(accuracy)]))


def both(unit, column):
    """Return the values of the candidates without the adapter, then with it."""
    return np.concatenate([unit[column], unit[f"{column} adapted"]])


def choices(unit):
    """Return the accuracy at b of the choice of each rule, in per cent."""
    u = {column: unit[column].to_numpy() for column in unit}
    # Means over folds of equal accuracies may differ in the last digit.
    accuracy, error, truth = u["accuracy"].round(9), u["error"], u["truth"]
    top = int(accuracy.argmax())
    near = {None: True, 4: accuracy >= accuracy[top] - 4 * error[top]}
    scores = {"mean_test_score": accuracy, "se_test_score": error}
    known = scores | {"chance_test_score": u["chance"], "agreement": u["agreement"]}
    found = {"accuracy": truth[top], "agreement, 4 SE": truth[GuardedSelection(n_se=4)(known)]}
    for rule, (column, n_se) in RULES.items():
        found[rule] = truth[best(u[column], accuracy, near[n_se])]
    found["with adapter: accuracy, always adapted"] = u["truth adapted"][top]
    # Only if the best candidate with adapted rows is expected to score clearly more.
    measured, adapted = (best(u[f"expected{end}"], accuracy) for end in ("", " adapted"))
    gained = u["expected adapted"][adapted] - u["expected"][measured]
    clearly = gained > u["expected_se adapted"][adapted]
    found["with adapter: expected score, if better by 1 SE"] = (
        u["truth adapted"][adapted] if clearly else truth[measured]
    )
    for rule, (column, n_se) in RULES.items():
        if f"{column} adapted" in u:
            i = best(both(u, column), accuracy, near[n_se])
            found[f"with adapter: {rule}"] = both(u, "truth")[i]
    for name in OTHER_ADAPTERS:
        truths, expected = (
            np.concatenate([u[c], u[f"{c}, {name}"]]) for c in ("truth", "expected")
        )
        found[f"with {name}: accuracy, always adapted"] = u[f"truth, {name}"][top]
        found[f"with {name}: expected score"] = truths[best(expected, accuracy)]
    return 100 * pd.Series(found)


def over_problems(values):
    """Return the mean over the problems and its standard error, by number of pairs."""
    means = values.groupby(["pairs", "problem"]).mean().groupby("pairs")
    return means.mean(), means.std().div(np.sqrt(means.size()), axis=0)


def with_error(mean, error):
    return f"{round(mean, 1) + 0.0:.1f} +- {error:.1f}"  # -0.0 is 0


def by_collection(values):
    """Return means of each collection with 40 pairs, and of all with each number of pairs."""
    table = values.loc[40].groupby("problem", sort=False).mean()
    table = table.apply(lambda column: column.map("{:.1f}".format))
    table.index += ", 40 pairs"
    mean, error = over_problems(values)
    for n in mean.index:
        cells = zip(mean.loc[n], error.loc[n], strict=True)
        table.loc[f"all, {n} pairs"] = [with_error(m, e) for m, e in cells]
    return table


def choice(unit):
    """Return what is known of the choice by the expected score, without and with the adapter."""
    accuracy = unit["accuracy"].to_numpy()
    columns = ["expected", "expected_se", "truth", "truth_se", "low", "high"]
    chosen = unit.iloc[best(unit["expected"].to_numpy(), accuracy)]
    adapted = best(both(unit, "expected"), accuracy)
    return pd.Series(
        chosen[columns].to_dict()
        | {f"{column} adapted": both(unit, column)[adapted] for column in columns}
    )


def error_lines(data, numbers, of=""):
    """Return how far the numbers and intervals are from the truth, by number of pairs."""
    known = sorted(set(data.index.get_level_values("pairs")))
    lines = []
    for name, column in numbers.items():
        base, *adapted = name.partition(", adapted")
        label = "".join([base, of, *adapted])
        away = 100 * (data[column] - data["truth adapted" if "adapted" in column else "truth"])
        off, error = over_problems(away.abs())
        bias, _ = over_problems(away)
        for n in known:
            lines.append((label, n, with_error(off[n], error[n]), f"{bias[n]:+.1f}", "", ""))
    for end, adapted in (("", ""), (" adapted", ", adapted")):
        if f"truth{end}" not in data:  # texts have no adapter
            continue
        truth, expected = data[f"truth{end}"], data[f"expected{end}"]
        reach = 1.96 * data[f"expected_se{end}"]
        # The accuracy was measured in some rows, whose error the expected score cannot know.
        of_test = np.hypot(reach, 1.96 * data[f"truth_se{end}"]) - reach
        for name, low, high, beyond in (
            ("interval, low to high", data[f"low{end}"], data[f"high{end}"], 0.0),
            ("expected score +- 1.96 SE", expected - reach, expected + reach, of_test),
        ):
            inside, _ = over_problems(100.0 * ((low - beyond <= truth) & (truth <= high + beyond)))
            width, _ = over_problems(100 * (high - low))
            lines += [
                (name + of + adapted, n, "", "", f"{width[n]:.1f}", f"{inside[n]:.0f} %")
                for n in known
            ]
    return lines


def error_table(data):
    """Return how well numbers predict the accuracy at b, of all candidates and of the choice."""
    chosen = data.groupby(["pairs", "problem", "seed"], sort=False).apply(choice)
    lines = error_lines(data.set_index(["pairs", "problem"]), NUMBERS)
    lines += error_lines(chosen, OF_CHOICE, " of the choice")
    header = ["number", "pairs", "absolute error", "mean error", "width", "accuracy inside"]
    return pd.DataFrame(lines, columns=header)


def differences(unit):
    """Return how sure the differences are between the choice and the other candidates.

    With the adapter each candidate is judged on the rows for which it is expected to score more;
    the errors of a candidate with and one without it count as independent.
    """
    found = {}
    better = unit["expected adapted"] > unit["expected"]
    for rows, adapted in (("as measured", 0 * better), ("with adapter", better)):
        expected, error, truth = (
            np.where(adapted, unit[f"{column} adapted"], unit[column])
            for column in ("expected", "expected_se", "truth")
        )
        chosen = best(expected, unit["accuracy"].to_numpy())
        others = np.arange(len(unit)) != chosen
        behind, in_truth = ((x[chosen] - x)[others] for x in (expected, truth))
        columns = (f"error of the difference from {chosen}{end}" for end in ("", " adapted"))
        of_difference = np.where(adapted, *(unit[column] for column in reversed([*columns])))
        alike = np.equal(adapted, np.asarray(adapted)[chosen])
        of_difference = np.where(alike, of_difference, np.hypot(error[chosen], error))
        reach = 1.96 * of_difference[others]
        clear = behind > reach
        found |= {
            (rows, "reach"): 100 * reach.mean(),
            (rows, "true difference inside"): 100 * (np.abs(behind - in_truth) <= reach).mean(),
            (rows, "clearly behind"): 100 * clear.mean(),
            (rows, "of these worse in truth"): 100 * (in_truth[clear] > 0).mean(),
        }
    return pd.Series(found)


def difference_table(data):
    """Return the means of `differences` over the problems, by number of pairs."""
    with np.errstate(invalid="ignore"):
        found = data.groupby(["pairs", "problem", "seed"], sort=False).apply(differences)
    means, _ = over_problems(found)
    return means.stack(0, future_stack=True).round(1).rename_axis(["pairs", "rows"])
