"""What displays and notebooks read from a search: its table, and the names of its metrics."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

# What a search adds to the name of a metric.
_SUFFIXES = {"_views": " on the views", "_worst_environment": " in the worst environment"}


def cv_results_of(search: Any) -> dict[str, Any]:
    """Return the table of a fitted search.

    Raises
    ------
    TypeError
        If `search` is not a search.
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    """
    if not hasattr(search, "refit"):
        raise TypeError(f"search: expected a fitted search, got {type(search).__name__}.")
    check_is_fitted(search, "cv_results_")
    table: dict[str, Any] = search.cv_results_
    return table


def metric_in_words(metric: str, scoring: Any) -> str:
    """Return a metric's name in words, with the name of `scoring` for "score"."""
    if isinstance(scoring, str) and metric.split("_")[0] == "score":
        metric = scoring + metric[len("score") :]
    for suffix, words in _SUFFIXES.items():
        if metric.endswith(suffix):
            metric = metric.removesuffix(suffix) + words
    return metric.replace("_", " ")


def first_metric(search: Any, table: dict[str, Any]) -> str:
    """Return the metric of ``refit``, or else the first metric."""
    if isinstance(search.refit, str):
        return search.refit
    return next(name for name in table if name.startswith("mean_test_"))[len("mean_test_") :]
