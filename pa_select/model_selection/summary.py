"""A fitted search in few columns, and what it is asked: compare, plan pairs, summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection.rules import (
    cv_results_of,
    decides,
    first_metric,
    new_site_names,
    order_of,
)
from pa_select.utils.html import bar_cell, html_table, visible
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Array, Estimator, Floats, Frame, Scoring, Search

if TYPE_CHECKING:
    from pa_select.agreement.compare_agreement import AgreementComparison
    from pa_select.agreement.solved_problems import PooledPairs
    from pa_select.two_sites.score_of_units import Differences

#: An axis of agreement begins at 0 and has at least this length: less is hardly any agreement.
LEAST_NATS = 0.1
# What a search adds to the name of a metric.
_SUFFIXES = {"_views": " on the views", "_worst_environment": " in the worst environment"}
# Largest number of characters of one value, and of a whole name.
_LONGEST_VALUE, _LONGEST_NAME = 40, 60
#: Candidates that a notebook shows, and that a sentence names.
_SHOWN, _NAMED = 20, 3
# Three decimals show too little of smaller values, and too much of larger ones, such as errors
# of a regressor.
_SMALL, _LARGE, _MOST_DECIMALS = 0.01, 10.0, 8


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


def candidate_names(
    params: Sequence[dict[str, Any]], estimator: Estimator | None = None
) -> list[str]:
    """Return names such as "SVC, C=10", from the parameters that differ between candidates.

    If none differs, it is the class of the `estimator`. Equal names get the candidate's number.
    """
    keys = list(dict.fromkeys(key for parameters in params for key in parameters))
    texts = {key: [_text_of(one[key]) if key in one else "" for one in params] for key in keys}
    differing = [key for key in keys if len(set(texts[key])) > 1]
    short = Counter(key.rpartition("__")[2] for key in differing)
    names = []
    for candidate, parameters in enumerate(params):
        parts = []
        for key in differing:
            if key in parameters:
                word, text = key.rpartition("__")[2], texts[key][candidate]
                named = hasattr(parameters[key], "get_params")  # an estimator says what it is
                parts.append(text if named else f"{word if short[word] == 1 else key}={text}")
        names.append(_cut(", ".join(parts) or class_name(estimator), _LONGEST_NAME))
    times = Counter(names)
    return [f"{name} #{i}" if times[name] > 1 else name for i, name in enumerate(names)]


def _text_of(value: Any) -> str:
    if hasattr(value, "get_params") and not isinstance(value, type):
        steps = [_text_of(step) for _, step in getattr(value, "steps", [])]
        words = " + ".join(steps) or repr(value)
        if steps and len(words) > _LONGEST_VALUE:
            words = f"… + {steps[-1]}"  # the last step says most
        return _cut(words, _LONGEST_VALUE)
    if isinstance(value, float):
        return f"{value:.3g}"
    text = getattr(value, "__name__", None) if callable(value) else None
    return _cut(str(value) if text is None else text, _LONGEST_VALUE)


def class_name(value: Any) -> str:
    """Return the class of an estimator, or that of the last step of a pipeline."""
    steps = getattr(value, "steps", None)
    return class_name(steps[-1][1]) if steps else "" if value is None else type(value).__name__


def some_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    named = list(names)
    if len(named) > _NAMED:
        named = [*named[:_NAMED], f"{len(named) - _NAMED} more"]
    # Names have commas inside.
    return " and ".join(part for part in ("; ".join(named[:-1]), *named[-1:]) if part)


def _cut(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def table_of_candidates(search: Search) -> str:
    """Return what decided between a search's candidates, with bars; the chosen one is first."""
    cv_results = search.cv_results_
    metric = first_metric(search, cv_results)
    columns = {}
    # A narrow screen cuts the last columns.
    for head, (value, error) in columns_that_decide(search, metric, scoring_of(search)).items():
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
    return html_table(caption, ["candidate", *columns], map(row, order_of(search)[:_SHOWN]))


def columns_that_decide(
    search: Search, metric: str, scoring: object
) -> dict[str, tuple[str, str]]:
    """Return by its head in words each column that decides, and the column of its error."""
    cv_results, first = search.cv_results_, decides(search)
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
        f"{words} in the worst environment": (
            f"{score}{metric}_worst_environment",
            f"se_test_{metric}_worst_environment",
        ),
        f"{words} at a new site (worse end)": (at_new_site, ""),
    }
    if expected not in cv_results:  # with pairs the agreement is shown only if it decides
        shown["agreement (nats)"] = "agreement", "agreement_se"
    if first not in {value for value, _ in shown.values()}:
        unit = " (nats)" if first.startswith("agreement") else ""
        shown[column_in_words(first, scoring) + unit] = first, error_column(first)
    shown = {head: names for head, names in shown.items() if names[0] in cv_results}
    return dict(sorted(shown.items(), key=lambda item: item[1][0] != first))


def column_in_words(column: str, scoring: object) -> str:
    """Return in words what is in a column: the mean of a metric, or what its name says."""
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
        if decimals <= _MOST_DECIMALS:
            return f"{round(float(value), decimals) + 0.0:.{max(decimals, 0)}f}"  # no -0
        return f"{value:.2g}"
    if 0 < abs(value) < _SMALL:
        return f"{value:.2g}"
    return f"{value:.3f}" if abs(value) < _LARGE else f"{value:.1f}"


def with_error(value: float, error: float) -> str:
    """Return a value with its standard error, if it is known."""
    if not np.isfinite(error):
        return in_digits(value)
    return f"{in_digits(value, error)} ± {in_digits(error, error)}"


class FittedSearchMixin:
    """Methods of a search that read its attributes."""

    cv_results_: dict[str, Any]
    best_index_: int
    agreement_terms_: Floats
    estimator: Estimator
    scoring: Scoring
    _pairs: PooledPairs
    _differences: Mapping[str, Differences]

    def _html_repr(self) -> str:
        diagram = str(super()._html_repr())  # type: ignore[misc]
        fitted = hasattr(self, "cv_results_")
        return diagram + visible(table_of_candidates(self)) if fitted else diagram

    def compare(self, i: int, j: int, *, site: str | None = None) -> AgreementComparison:
        """Compare two candidates: their agreement, or with pairs their expected score.

        Parameters
        ----------
        i, j : int
            Indices of candidates in ``cv_results_["params"]``; the column ``index`` of `summary`.
        site : str, default=None
            The site of a dict of pairs at which the expected scores are compared. None: each
            candidate's worst one.

        Returns
        -------
        AgreementComparison
            ``difference``, the agreement of i minus the agreement of j in nats per pair, or the
            difference of their expected scores; its ``standard_error``; and the two-sided
            ``p_value`` of no difference. The error of agreements is that of the mean over the
            same pairs, and allows for pairs that share a row. The error of expected scores is
            that of the differences over the labelled rows and over the pairs, which both
            candidates predict (:doc:`/paired`). On sixteen simulated shifts 1.96 of it held 94 %
            of the differences with 40 pairs and 85 % with 300, as each candidate has a bias of its
            own. The p-value is valid for two candidates that were
            named beforehand: the best of many looks better than it is, and ``p_adjusted`` is the
            same. ``interval`` is nan: nothing is resampled. All are nan if a candidate has no
            such value. With pairs and a rule that looks at the agreement, it is the agreement.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        IndexError
            If there is no such candidate.
        ValueError
            If `site` is not the name of one, or agreements are compared.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> search = search.fit(*load_wine(return_X_y=True))
        >>> found = search.compare(1, 0)
        >>> found.difference > 0, found.p_value < 0.05
        (True, True)
        """
        from pa_select.agreement.compare_agreement import AgreementComparison
        from pa_select.agreement.standard_errors import mean_difference

        check_is_fitted(self, "cv_results_")
        expected = f"expected_{first_metric(self, self.cv_results_)}"
        if expected in self.cv_results_ and decides(self) != "agreement":
            # The empty name is that of the worst sites, which None stands for.
            if site not in {None, *self._differences} - {""}:
                raise ValueError(
                    f"site: expected one of {list(self._differences)[1:]}, got {site!r}."
                )
            difference, error, p_value = self._differences[site or ""].between(i, j)
            return AgreementComparison(difference, error, p_value, p_value)
        if site is not None:
            raise ValueError(f"site: expected None to compare agreements, got {site!r}.")
        weight = self._pairs.weight / self._pairs.weight.sum()
        objects = self._pairs.object_a, self._pairs.object_b
        terms = self.agreement_terms_
        difference, error, p_value, _ = mean_difference(terms[i], terms[j], weight, objects)
        return AgreementComparison(difference, error, p_value, p_value)

    def plan_pairs(self, n_pairs: Sequence[int] = (20, 50, 100, 200, 500)) -> dict[int, float]:
        """Predict the standard error of the expected score with other numbers of pairs.

        Parameters
        ----------
        n_pairs : sequence of int, default=(20, 50, 100, 200, 500)
            The numbers of objects measured at both sites, each at least 2.

        Returns
        -------
        dict of int to float
            For each number the standard error that ``expected_score_se_`` would have if further
            objects are like those of the search; with several sites at the worst one. The part of
            it that is not due to the pairs stays (see the notes of the function `plan_pairs`). On
            simulated shifts the prediction was 0.94 to 1.40 times the later one with 20 first
            pairs, in nine of ten cases.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ValueError
            If the search was fitted without pairs, or with a single one, or `n_pairs` are not
            whole numbers of at least 2.

        See Also
        --------
        pa_select.plan_pairs : The same for trained models, with intervals.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.utils import shuffle
        >>> from pa_select import PASearchCV
        >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
        >>> again = X + np.random.default_rng(0).normal(scale=0.5 * X.std(axis=0), size=X.shape)
        >>> search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]})
        >>> search = search.fit(X[:140], y[:140], paired=(X[140:], again[140:]))
        >>> now, with_100 = search.plan_pairs([38, 100]).values()
        >>> with_100 < now, abs(now - search.expected_score_se_) < 1e-9
        (True, True)
        """
        from pa_select.two_sites.pair_planning import checked_sizes, error_with_pairs

        check_is_fitted(self, "cv_results_")
        sizes, n = checked_sizes(n_pairs), getattr(self, "n_objects_", 0)
        if isinstance(n, dict):  # at the choice's worst site
            n = n[self.cv_results_["worst_site"][self.best_index_]]
        if n < 2:
            raise ValueError(
                "plan_pairs: expected a search that was fitted with at least two pairs, "
                f"fit(X, y, paired=...), got {n} pairs."
            )
        error = f"expected_{first_metric(self, self.cv_results_)}_se"
        whole, of_pairs = (
            self.cv_results_[e][self.best_index_] for e in (error, f"{error}_pairs")
        )
        return {size: error_with_pairs(whole, of_pairs, n, size) for size in sizes}

    def summary(self) -> Frame:
        """Return a small table: a row for each candidate, and what decided between them.

        Returns
        -------
        pandas.DataFrame
            A row is named by the parameters that differ. The chosen candidate is first, then
            come the other eligible ones; the value that decides orders them. The columns are
            ``chosen``, and those of ``cv_results_`` that decide: first the value that orders the
            rows, then other scores and agreements, each with its standard error, for each site if
            there are several, the worst environment's name, ``eligible`` and ``weight``; the last
            one is ``index``, which `compare` takes. Print all of them with ``to_string()``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> table = search.fit(*load_wine(return_X_y=True)).summary()
        >>> table.index.tolist(), table["chosen"].tolist()
        (['max_depth=3', 'max_depth=1'], [True, False])
        """
        table, pandas = cv_results_of(self), optional_import("pandas", "plot")
        metric, order = first_metric(self, table), order_of(self)
        shown = columns_that_decide(self, metric, self.scoring)
        wanted = [name for with_error in shown.values() for name in with_error]
        wanted += [f"worst_environment_{metric}", *new_site_names(metric), "adapted", "worst_site"]
        # A narrow screen leaves out columns in the middle.
        columns: dict[str, Any] = {
            "chosen": np.arange(len(order)) == getattr(self, "best_index_", None)
        }
        for name in (*wanted, "eligible", "weight"):
            if name in table:
                columns[name] = table[name]
        columns["index"] = np.arange(len(order))
        names = candidate_names(table["params"], self.estimator)
        return pandas.DataFrame(columns, index=pandas.Index(names, name="candidate")).iloc[order]
