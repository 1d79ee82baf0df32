"""Whether a candidate that was not chosen could agree better than the chosen one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pa_select.model_selection.selection_rules import BestAgreement, choose
from pa_select.utils.typing import Ints


def certify_choice(
    rule: Any, table: dict[str, Any], tol: float, refine: Callable[[Ints, float], None]
) -> tuple[int, bool | None]:
    """Choose a candidate, and certify that none that is eligible agrees better.

    The maximum of a candidate lies between its agreement and its upper bound. Only candidates
    whose upper bounds exceed the agreement of the chosen one are computed more exactly.

    Parameters
    ----------
    rule : callable
        A selection rule.
    table : dict
        ``cv_results_`` with the columns "agreement", "gap" and "eligible".
    tol : float
        Largest gap of agreements that count as known, in nats.
    refine : callable
        Takes candidates and a gap; computes their agreements within this gap, and enters
        agreements and gaps into the table.

    Returns
    -------
    best : int
        The chosen candidate.
    certified : bool or None
        Whether no other eligible candidate can have a higher agreement, but for ties. None: the
        rule does not choose the best agreement, or no candidate was eligible.
    """
    best = choose(rule, table)
    chooses_it = isinstance(rule, BestAgreement) or getattr(rule, "agreement", "") == "agreement"
    if not chooses_it or not table["eligible"].any():
        return best, None
    tie = tol + getattr(rule, "tie_tol", BestAgreement.tie_tol)
    asked = np.full(len(table["eligible"]), np.inf)
    while True:
        left = contenders(table, best, tie)
        margin = np.maximum(table["agreement"][best] - table["agreement"][left], tol)
        new = left[margin < asked[left] / 2]
        if not len(new):
            return best, not len(left)
        gap = float(margin.min())
        asked[new] = gap
        refine(new, gap)
        best = choose(rule, table)


def contenders(table: dict[str, Any], best: int, tie: float) -> Ints:
    """Return the other eligible candidates that may agree better by more than `tie`."""
    upper = table["agreement"] + np.nan_to_num(table["gap"], nan=np.inf)
    may_be_better = table["eligible"] & (upper > table["agreement"][best] + tie)
    may_be_better[best] = False
    return np.flatnonzero(may_be_better)
