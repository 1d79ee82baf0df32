"""The candidates of a fitted search as notebooks show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.model_selection.candidate_names import candidate_names
from pa_select.model_selection.search_results import first_metric, metric_in_words
from pa_select.utils.html import bar_cell, table
from pa_select.utils.typing import Floats, Ints

#: Candidates that a notebook shows.
_SHOWN = 20


def table_of_candidates(search: Any) -> str:
    """Return what decided between a search's candidates, with bars; the chosen one is first."""
    found = search.cv_results_
    metric = first_metric(search, found)
    columns = _columns(found, metric, search.scoring)
    n, best = len(found["params"]), getattr(search, "best_index_", None)
    names = candidate_names(found["params"], search.estimator)

    def row(i: int) -> tuple[str, list[str]]:
        adapted = ", adapted" if "adapted" in found and found["adapted"][i] else ""
        return names[i] + adapted + (" (chosen)" if i == best else ""), [
            bar_cell(values[i], most, _text(values[i], errors, i))
            for values, errors, most in columns.values()
        ]

    caption = f"{n} candidate{'s' if n > 1 else ''}"
    if n > _SHOWN:
        caption += f", of which {_SHOWN} are shown"
    shown = _order(found, metric, best)[:_SHOWN]
    return table(caption, ["candidate", *columns], map(row, shown.tolist()))


def _columns(
    found: dict[str, Any], metric: str, scoring: Any
) -> dict[str, tuple[Floats, Floats | None, float]]:
    """Return values, errors and the longest bar of each column, by its head."""
    words = metric_in_words(metric, scoring)
    expected = f"expected_{metric}"
    shown = {
        f"expected {words}": (expected, f"{expected}_se"),
        words: (f"mean_test_{metric}", f"se_test_{metric}"),
        f"{words} on the views": (f"mean_test_{metric}_views", f"se_test_{metric}_views"),
        "agreement (nats)": ("agreement", "agreement_se"),
    }
    return {
        head: (found[name], found.get(error), _longest(found[name], name != "agreement"))
        for head, (name, error) in shown.items()
        if name in found
    }


def _longest(values: Floats, may_be_shares: bool) -> float:
    """Return 1 for what looks like shares, such as accuracies, and else the largest value."""
    largest = float(np.nanmax(values, initial=0.0))
    return 1.0 if may_be_shares and 0.5 < largest <= 1 else largest


def _text(value: float, errors: Floats | None, i: int) -> str:
    if errors is None or not np.isfinite(errors[i]):
        return f"{value:.3f}"
    return f"{value:.3f} ± {errors[i]:.3f}"


def _order(found: dict[str, Any], metric: str, best: int | None) -> Ints:
    """Return the candidates in the order of what decided: the chosen one, then eligible ones."""
    decides = next(
        found[name]
        for name in (f"expected_{metric}", "agreement", f"mean_test_{metric}")
        if name in found
    )
    eligible = np.asarray(found.get("eligible", np.ones(len(decides))), dtype=bool)
    chosen = np.arange(len(decides)) == best
    ranked: Ints = np.lexsort((-np.nan_to_num(decides, nan=-np.inf), ~eligible, ~chosen))
    return ranked
