"""The columns of ``cv_results_`` of agreements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.plan import Plan
from pa_select.model_selection.score_columns import ranks
from pa_select.model_selection.stacks import Stacks, complete
from pa_select.model_selection.worker import Outcome
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs

# The columns of a candidate's agreement, by the attribute of the result.
_COLUMNS = {
    "agreement": "score",
    "agreement_se": "standard_error",
    "beta": "beta",
    "agreement_rate": "agreement_rate",
    "gap": "gap",
    "n_pairs": "n_pairs",
}


class Agreements(NamedTuple):
    """Agreements of all candidates; nan for a candidate without one."""

    columns: dict[str, Floats]
    #: (n_candidates, n_pairs) agreement of every pair.
    terms: Floats
    #: Why there is no agreement, by candidate, where the scores are there.
    failures: dict[int, str]


def agreement_table(
    outcomes: Sequence[Sequence[Outcome]], plan: Plan, labels: NDArray[Any], **options: Any
) -> tuple[dict[str, Any], Agreements, Stacks]:
    """Make the columns of agreements; they are nan for candidates without all scores."""
    n = len(outcomes)
    which = complete(outcomes)
    stacks = Stacks([outcomes[int(c)] for c in which], plan.layout, labels)
    found = solve(stacks, plan.pairs, which, n, **options)
    columns: dict[str, Any] = dict(found.columns)
    if plan.pairing == "target":
        columns["source_agreement"] = np.full(n, np.nan)
        if plan.source_pairs is not None:
            source = solve(stacks, plan.source_pairs, which, n, **options)
            columns["source_agreement"] = source.columns["agreement"]
    _add_ranks_and_drops(columns)
    return columns, found, stacks


def solve(
    stacks: Stacks, pairs: PooledPairs, which: NDArray[np.intp], n_candidates: int, **options: Any
) -> Agreements:
    """Compute the agreement of the candidates ``which``, whose scores are stacked."""
    from pa_select.agreement.pooled_agreement import pooled_agreement

    columns = {name: np.full(n_candidates, np.nan) for name in (*_COLUMNS, "agreement_uniform")}
    terms = np.full((n_candidates, len(pairs.weight)), np.nan)
    if len(stacks.classes) == 1:
        # With one class all posteriors are 1: agreement 0.
        for name in ("agreement", "agreement_uniform", "beta", "gap"):
            columns[name][which] = 0.0
        columns["agreement_rate"][which] = 1.0
        columns["n_pairs"][which] = np.count_nonzero(pairs.weight)
        terms[which] = 0.0
        return Agreements(columns, terms, {})
    failures: dict[int, str] = {}
    options["names"] = which
    for c, result in zip(which.tolist(), pooled_agreement(stacks, pairs, **options), strict=True):
        if result.failure is not None:
            failures[c] = result.failure
            continue
        _enter(result, c, columns, terms)
    uniform = pooled_agreement(stacks, pairs, **options | {"prior": "uniform"})
    for c, result in zip(which.tolist(), uniform, strict=True):
        columns["agreement_uniform"][c] = result.score
        if result.failure is not None and c not in failures:
            warn_caller(f"agreement_uniform of candidate {c} is nan: {result.failure}")
    return Agreements(columns, terms, failures)


def refine(
    table: dict[str, Any],
    found: Agreements,
    candidates: Ints,
    stacks: Stacks,
    plan: Plan,
    **options: Any,
) -> None:
    """Compute agreements of candidates again, certified, and enter them into the table.

    The agreement of a candidate does not change if it cannot be certified.
    """
    from pa_select.agreement.pooled_agreement import pooled_agreement

    solved = pooled_agreement(stacks, plan.pairs, certify=True, **options)
    for c, result in zip(candidates.tolist(), solved, strict=True):
        if result.failure is None:
            _enter(result, c, table, found.terms)
    _add_ranks_and_drops(table)


def _enter(result: Any, candidate: int, columns: dict[str, Any], terms: Floats) -> None:
    for column, attribute in _COLUMNS.items():
        columns[column][candidate] = getattr(result, attribute)
    terms[candidate] = result.terms


def _add_ranks_and_drops(columns: dict[str, Any]) -> None:
    columns["rank_agreement"] = ranks(columns["agreement"])
    if "source_agreement" in columns:
        columns["agreement_drop"] = columns["source_agreement"] - columns["agreement"]
