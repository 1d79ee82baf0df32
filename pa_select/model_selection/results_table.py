"""A fitted search in few columns: a frame, a table of HTML, and the names in both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from pa_select.model_selection.choice import by_what_decides, what_decides
from pa_select.model_selection.table_columns import cv_results_of, first_metric, new_site_names
from pa_select.utils.html import bar_cell, html_table
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Array, Estimator, Floats, Frame, Scoring, Search

#: An axis of agreement begins at 0 and has at least this length: less is hardly any agreement.
LEAST_NATS = 0.1
# What a search adds to the name of a metric.
_SUFFIXES = {"_views": " on the views", "_worst_environment": " in the worst environment"}


def metric_in_words(metric: str, scoring: object) -> str:
    """Return a metric's name in words, with the name of `scoring` for "score"."""
    # "score" alone does not say what is scored.
    if isinstance(scoring, str) and metric.split("_")[0] == "score":
        metric = scoring + metric[len("score") :]
    for suffix, words in _SUFFIXES.items():
        if metric.endswith(suffix):
            metric = metric.removesuffix(suffix) + words
    return metric.replace("_", " ")


def scoring_of(search: Search) -> Scoring:
    """Return the scoring of a search; None becomes the name of the estimators' usual score."""
    if search.scoring is None:
        return "R²" if is_regressor(search.estimator) else "accuracy"
    return search.scoring


def objects_of_choice(search: Search) -> int:
    """Return the number of paired objects, with several sites at the choice's worst one."""
    n: Any = getattr(search, "n_objects_", 0)
    if isinstance(n, dict):
        n = n[search.cv_results_["worst_site"][search.best_index_]]
    return int(n)


# Largest numbers of characters of one value, and of a whole name.
_LONGEST_VALUE = 40
_LONGEST_NAME = 60


def candidate_names(
    params: Sequence[dict[str, Any]],
    estimator: Estimator | None = None,
    longest: int = _LONGEST_NAME,
) -> list[str]:
    """Return names such as "SVC, C=10", from the parameters that differ between candidates.

    A name has at most `longest` characters. If no parameter differs, it is the class of the
    `estimator`. Where shortened names are equal, the number of the candidate is added.
    """
    keys = list(dict.fromkeys(key for parameters in params for key in parameters))
    identities: dict[int, str] = {}  # by id, because the repr of an estimator takes long

    def identity(value: object) -> str:
        if id(value) not in identities:
            identities[id(value)] = f"{type(value).__name__} {value!r}"
        return identities[id(value)]

    of_key: dict[str, list[str]] = {
        key: [identity(parameters[key]) for parameters in params if key in parameters]
        for key in keys
    }
    varying = [key for key in keys if len(set(of_key[key])) > 1]
    # A parameter with one value distinguishes candidates that have it from those that do not.
    sometimes = [key for key in keys if key in varying or len(of_key[key]) < len(params)]
    short, long = (_names(params, some, identity) for some in (varying, sometimes))
    times = Counter(short)
    # Short names are tried first; equal ones get the parameters that only some have.
    names = [a if a and times[a] == 1 else b for a, b in zip(short, long, strict=True)]
    names = [_cut(name or class_name(estimator), longest) for name in names]
    times = Counter(names)
    marks = [f" #{i}" if times[name] > 1 else "" for i, name in enumerate(names)]
    return [_cut(a, longest - len(b)) + b for a, b in zip(names, marks, strict=True)]


def some_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    named = list(names)
    if len(named) > _NAMED:
        named = [*named[:_NAMED], f"{len(named) - _NAMED} more"]
    # Names have commas inside.
    return " and ".join(part for part in ("; ".join(named[:-1]), *named[-1:]) if part)


def _names(
    params: Sequence[dict[str, Any]], keys: list[str], identity: Callable[[Any], str]
) -> list[str]:
    """Return a name for each candidate, from those of the keys that it has."""
    words = {key: key.rpartition("__")[2] for key in keys}
    times = Counter(words.values())
    parts: list[list[str]] = [[] for _ in params]
    for key in keys:
        word = words[key] if times[words[key]] == 1 else key
        having = [candidate for candidate, parameters in enumerate(params) if key in parameters]
        values = (params[candidate][key] for candidate in having)
        texts = _estimator_texts({identity(value): value for value in values})
        for candidate in having:
            value = params[candidate][key]
            parts[candidate].append(texts.get(identity(value)) or _part(word, value))
    return [", ".join(words) for words in parts]


def _estimator_texts(values: dict[str, Any]) -> dict[str, str]:
    """Return the class of each estimator, or its steps if others have the class of its last step.

    Steps that are the same in all estimators of the class are left out, except for the last one.
    """
    same_class: dict[str, dict[str, list[str]]] = {}
    for identity, value in values.items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            same_class.setdefault(class_name(value), {})[identity] = _steps(value)
    texts = {}
    for name, members in same_class.items():
        left_out = set.intersection(*map(set, members.values())) | {"'passthrough'", "None"}
        for identity, (*before, last) in members.items():
            differing = [step for step in before if step not in left_out]
            text = " + ".join([*differing, last])
            texts[identity] = name if len(members) == 1 else _in_line(text)
    return texts


def _part(word: str, value: object) -> str:
    """Return the text of a parameter that is no estimator."""
    if callable(value) and hasattr(value, "__name__"):
        text = str(value.__name__)
    elif isinstance(value, float):
        text = f"{value:.3g}"
    else:
        text = _in_line(str(value))
    return f"{word}={text}"


def _steps(estimator: object) -> list[str]:
    """Return the text of each step of a pipeline, also of pipelines in it, or the estimator's."""
    steps = getattr(estimator, "steps", None)
    if isinstance(steps, list) and steps:
        return [text for _, step in steps for text in _steps(step)]
    # The text of a function has an address, which names nothing.
    function = getattr(estimator, "func", None)
    return [getattr(function, "__name__", repr(estimator))]


def _last_step(estimator: object) -> Any:
    """Return the estimator, or that of the last step of a pipeline."""
    steps = getattr(estimator, "steps", None)
    return _last_step(steps[-1][1]) if isinstance(steps, list) and steps else estimator


def class_name(value: object) -> str:
    """Return the class of an estimator, or that of the last step of a pipeline."""
    return "" if value is None else type(_last_step(value)).__name__


def class_of_all(estimator: Estimator, params: Sequence[dict[str, Any]]) -> str:
    """Return the class that `class_name` gives of all candidates, "" if they have several."""
    if not hasattr(estimator, "steps"):
        return class_name(estimator)
    # A candidate may replace the last step, or set a parameter of it.
    name, step = estimator.steps[-1]
    inner, classes = f"{name}__", set()
    for parameters in params:
        keys = [key for key in parameters if key.startswith(inner)]
        of_step = {key.removeprefix(inner): parameters[key] for key in keys}
        classes.add(class_of_all(parameters.get(name, step), [of_step]))
    return classes.pop() if len(classes) == 1 else ""


def _in_line(text: str) -> str:
    return _cut(" ".join(text.split()), _LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


#: Candidates that a notebook shows, and that a sentence names.
_SHOWN, _NAMED = 20, 3
# Three decimals show too little of smaller values, and too much of larger ones, such as errors
# of a regressor.
_SMALL, _LARGE = 0.01, 10.0


def summary(search: Search) -> Frame:
    """Return the columns of ``cv_results_`` that decided, a row for each candidate."""
    table = cv_results_of(search)
    pandas = optional_import("pandas", "plot")
    metric = first_metric(search, table)
    chosen = getattr(search, "best_index_", None)
    order = by_what_decides(search)
    number = np.arange(len(order))
    shown = _decisive_first(search, columns_that_decide(search, metric, search.scoring))
    wanted = [name for with_error in shown.values() for name in with_error]
    wanted += [f"worst_environment_{metric}", *new_site_names(metric), "adapted", "worst_site"]
    wanted += ["eligible", "not_told_apart", "weight"]
    # A narrow screen leaves out columns in the middle.
    columns = {"chosen": number == chosen}
    columns |= {name: table[name] for name in wanted if name in table} | {"index": number}
    names = candidate_names(table["params"], search.estimator)
    return pandas.DataFrame(columns, index=pandas.Index(names, name="candidate")).iloc[order]


def table_of_candidates(search: Search) -> str:
    """Return what decided between a search's candidates, with bars; the chosen one is first."""
    cv_results = search.cv_results_
    metric = first_metric(search, cv_results)
    columns = {}
    shown = columns_that_decide(search, metric, scoring_of(search))
    # A narrow screen cuts the last columns.
    for head, (value, error) in _decisive_first(search, shown).items():
        # Errors are recorded with a minus sign, since larger scores are better.
        words, values = head.replace("neg ", "", 1), np.asarray(cv_results[value])
        values = values if words == head else -values
        where = None
        if value.endswith("_worst_environment"):
            where = cv_results[f"worst_environment_{metric}"]
        # Hardly any agreement has hardly a bar.
        longest = max(LEAST_NATS, np.nanmax(values, initial=0.0))
        if value != "agreement":
            longest = _longest(values)
        columns[words] = values, cv_results.get(error), longest, where
    if "weight" in cv_results:
        columns["weight"] = np.round(cv_results["weight"], 3), None, 1.0, None
    n, chosen = len(cv_results["params"]), getattr(search, "best_index_", None)
    names = candidate_names(cv_results["params"], search.estimator)
    adapted = cv_results.get("adapted", np.zeros(n))
    eligible = cv_results.get("eligible", np.ones(n))

    def row(candidate: int) -> tuple[str, list[str]]:
        name = names[candidate] + (", adapted" if adapted[candidate] else "")
        name += " (chosen)" if candidate == chosen else ""
        return name + ("" if eligible[candidate] else " (not eligible)"), [
            bar_cell(values[candidate], most, _text(values, errors, candidate, where))
            for values, errors, most, where in columns.values()
        ]

    caption = f"{n} candidate{'s' if n > 1 else ''}"
    if n > _SHOWN:
        caption += f", of which {_SHOWN} are shown"
    rows = map(row, by_what_decides(search)[:_SHOWN].tolist())
    return html_table(caption, ["candidate", *columns], rows)


def _decisive_first(
    search: Search, shown: dict[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Return columns with that one first that decides."""
    decides = what_decides(search)
    return dict(sorted(shown.items(), key=lambda item: item[1][0] != decides))


def columns_that_decide(
    search: Search, metric: str, scoring: object
) -> dict[str, tuple[str, str]]:
    """Return by its head in words each column that decides, and the column of its error."""
    cv_results, decides = search.cv_results_, what_decides(search)
    words, expected, score = metric_in_words(metric, scoring), f"expected_{metric}", "mean_test_"
    at_worst = " at the worst site" if "worst_site" in cv_results else ""
    shown = {f"expected {words}{at_worst}": (expected, f"{expected}_se")}
    for site in sites_of(cv_results):
        shown[f"expected {words} at {site}"] = f"{expected}_{site}", f"{expected}_se_{site}"
    at_home = " at the labelled site" if expected in cv_results else ""
    at_new_site, _ = new_site_names(metric)
    shown |= {
        f"{words}{at_home}": (score + metric, f"se_test_{metric}"),
        f"{words} on the views": (f"{score}{metric}_views", f"se_test_{metric}_views"),
        f"{words} in the worst environment": (f"{score}{metric}_worst_environment", ""),
        column_in_words(at_new_site, scoring): (at_new_site, ""),
    }
    if expected not in cv_results:  # with pairs the agreement is shown only if it decides
        shown["agreement (nats)"] = "agreement", "agreement_se"
    if decides not in {value for value, _ in shown.values()}:
        unit = " (nats)" if decides.startswith("agreement") else ""
        shown[column_in_words(decides, scoring) + unit] = decides, error_column(decides)
    return {head: names for head, names in shown.items() if names[0] in cv_results}


def column_in_words(column: str, scoring: object) -> str:
    """Return in words what is in a column: the mean of a metric, or what its name says."""
    if column.startswith("new_site_low"):
        metric = column.removeprefix("new_site_low").removeprefix("_") or "score"
        return f"{metric_in_words(metric, scoring)} at a new site (worse end)"
    for start in ("mean_test_", "expected_"):
        if column.startswith(start):
            words = metric_in_words(column.removeprefix(start), scoring)
            return words if start == "mean_test_" else f"expected {words}"
    return column.replace("_", " ")


def error_column(column: str) -> str:
    """Return the name of the column of the standard errors of a column."""
    metric = column.removeprefix("mean_test_")
    return f"{column}_se" if metric == column else f"se_test_{metric}"


def sites_of(cv_results: dict[str, Any]) -> list[str]:
    """Return the names of the sites; none for a single site without a name."""
    start = "disagreement_"
    return [name[len(start) :] for name in cv_results if name.startswith(start)]


def _longest(values: Floats) -> float:
    """Return 1 for what looks like shares, such as accuracies, and else the largest value."""
    largest = float(np.nanmax(values, initial=0.0))
    return 1.0 if 0.5 < largest <= 1 else largest


def _text(values: Floats, errors: Floats | None, candidate: int, where: Array | None) -> str:
    text = with_error(values[candidate], np.nan if errors is None else errors[candidate])
    if where is not None and np.isfinite(values[candidate]):
        return f"{text} ({where[candidate]})"
    return text


def in_digits(value: float, error: float = np.nan) -> str:
    """Return a number as pages show it, to two digits of its standard error.

    Without one it has three decimals, one from 10 on, and two digits below 0.01.
    """
    if 0 < error < np.inf:
        # Rounded first: 0.0996 becomes 0.10, of which the digits are counted.
        decimals = 1 - int(np.floor(np.log10(float(f"{error:.1e}"))))
        return f"{round(float(value), decimals) + 0.0:.{max(decimals, 0)}f}"  # no -0
    if 0 < abs(value) < _SMALL:
        return f"{value:.2g}"
    return f"{value:.3f}" if abs(value) < _LARGE else f"{value:.1f}"


def with_error(value: float, error: float) -> str:
    """Return a value with its standard error, if it is known."""
    if not np.isfinite(error):
        return in_digits(value)
    return f"{in_digits(value, error)} ± {in_digits(error, error)}"
