"""Names of a search's metrics, in words."""

from __future__ import annotations

from typing import Any

# What a search adds to the name of a metric.
_SUFFIXES = {"_views": " on the views", "_worst_environment": " in the worst environment"}


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
