"""The choice of a candidate: the rule, its certificate, and candidates that agree as well."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.model_selection.guarded_selection import GuardedSelection
from pa_select.model_selection.selection_rules import (
    N_SE_OF_VIEWS,
    BestAgreement,
    BestExpected,
    BestScore,
)
from pa_select.utils.p_values import LEVEL_TOLD_APART
from pa_select.utils.typing import Floats, Ints, Mask, Pairing, Rule, Selection, SelectionName

if TYPE_CHECKING:
    from pa_select.agreement.bootstrap import AgreementComparison
    from pa_select.agreement.pooled_agreement import PooledPairs
    from pa_select.agreement.standard_errors import MeanDifference
    from pa_select.two_sites.errors_of_scores import Differences


# What "guarded" means with some kinds of data, by ``pairing_``.
_GUARDED: dict[str, Callable[[str], Rule]] = {
    # In our studies the score on the rows of X excludes candidates that resist the shift.
    "views": lambda score: GuardedSelection(score=f"{score}_views", n_se=N_SE_OF_VIEWS),
    # The expected score says what agreement only hints at.
    "paired": BestExpected,
}

# The rules that have a name, as functions of the metric's name.
_NAMED: dict[SelectionName, Callable[[str], Rule]] = {
    "guarded": lambda score: GuardedSelection(score=score),
    "agreement": BestAgreement,
    "score": BestScore,
    "score_views": lambda score: BestScore(f"{score}_views"),
    "worst_environment": lambda score: BestScore(f"{score}_worst_environment"),
    "expected": BestExpected,
}


def make_rule(
    selection: Selection, score: str, pairing: Pairing | str, only_class: str = ""
) -> Rule:
    """Return the rule that ``selection`` names; a callable is returned as it is.

    If only the rows of one class are compared, which `only_class` names, agreements say nothing,
    and the score decides instead.
    """
    if callable(selection):
        return selection
    if only_class and selection in ("guarded", "agreement"):
        return BestScore(score)
    if selection == "guarded" and isinstance(pairing, str) and pairing in _GUARDED:
        return _GUARDED[pairing](score)
    return _NAMED[selection](score)


def looks_at_agreement(rule: object) -> bool:
    """Whether a rule of this package chooses by the agreement."""
    return getattr(rule, "_needs_agreement", isinstance(rule, GuardedSelection))


def explain(rule: Rule, table: dict[str, Any], failures: list[str | None]) -> dict[str, Any]:
    """Make the columns "eligible" and "reason"."""
    if hasattr(rule, "explain"):
        try:
            eligible, reasons = rule.explain(table)
        except ValueError as error:
            if None in failures:
                raise
            # The rule only knows that the column is empty.
            text = f"No candidate can be selected. The first: {failures[0]}"
            raise ValueError(text) from error
    else:
        eligible = [failure is None for failure in failures]
        reasons = ["eligible"] * len(failures)
    # A rule that does not look at the agreement may choose a candidate without one.
    reasons = [
        reason if failure is None else f"{'eligible' if fits else 'not eligible'}: {failure}"
        for reason, failure, fits in zip(reasons, failures, eligible, strict=True)
    ]
    return {"eligible": np.asarray(eligible), "reason": np.array(reasons, dtype=object)}


def choose(rule: Rule, table: dict[str, Any]) -> int:
    """Return the candidate that a rule chooses; check it, since a user may write the rule."""
    chosen, n = rule(table), len(table["params"])
    if not isinstance(chosen, (int, np.integer)):
        raise TypeError(f"selection: expected the index of a candidate, got {chosen!r}.")
    if not 0 <= chosen < n:
        raise IndexError(f"selection: expected a candidate from 0 to {n - 1}, got {chosen}.")
    return int(chosen)


def certify_choice(
    rule: Rule, table: dict[str, Any], tol: float, refine: Callable[[Ints, float], None]
) -> tuple[int, bool | None]:
    """Choose a candidate, and certify that none that is eligible agrees better.

    The maximum of a candidate lies between its agreement and its upper bound. Only candidates
    whose upper bounds exceed the agreement of the chosen one are computed more exactly: `refine`
    takes candidates and a gap, computes their agreements within this gap, and enters agreements
    and gaps into the table. Gaps of at most `tol` nats count as none.

    Returns the chosen candidate, and whether no other eligible candidate can have a higher
    agreement, but for ties. None: the rule does not choose the best agreement, or no candidate was
    eligible.
    """
    chosen = choose(rule, table)
    chooses_it = isinstance(rule, BestAgreement) or getattr(rule, "agreement", "") == "agreement"
    if not chooses_it or not table["eligible"].any():
        return chosen, None
    tie = tol + getattr(rule, "tie_tol", BestAgreement.tie_tol)
    asked = np.full(len(table["eligible"]), np.inf)
    while True:
        left = contenders(table, chosen, tie)
        margin = np.maximum(table["agreement"][chosen] - table["agreement"][left], tol)
        new = left[margin < asked[left] / 2]
        if not len(new):
            return chosen, not len(left)
        gap = float(margin.min())
        asked[new] = gap
        refine(new, gap)
        chosen = choose(rule, table)


def contenders(table: dict[str, Any], chosen: int, tie: float) -> Ints:
    """Return the other eligible candidates that may agree better by more than `tie`."""
    upper = table["agreement"] + np.nan_to_num(table["gap"], nan=np.inf)
    may_be_better = table["eligible"] & (upper > table["agreement"][chosen] + tie)
    may_be_better[chosen] = False
    return np.flatnonzero(may_be_better)


def agreement_comparison(terms: Floats, others: Floats, pairs: PooledPairs) -> AgreementComparison:
    """Compare the mean terms of two candidates, each of shape (n_pairs,); warn of few objects."""
    from pa_select.agreement.bootstrap import AgreementComparison
    from pa_select.agreement.standard_errors import warn_of_few_pairs

    comparison = _mean_difference(terms, others, pairs)
    warn_of_few_pairs("pairs", comparison.n_units)
    difference, error, p_value, _ = comparison
    return AgreementComparison(difference, error, p_value, p_value, (math.nan, math.nan))


def _mean_difference(terms: Floats, others: Floats, pairs: PooledPairs) -> MeanDifference:
    from pa_select.agreement.standard_errors import mean_difference

    weight = pairs.weight / pairs.weight.sum()
    return mean_difference(terms, others, weight, (pairs.object_a, pairs.object_b))


def not_told_apart(terms: Floats, pairs: PooledPairs, chosen: int, eligible: Mask) -> Mask:
    """Find the eligible candidates whose agreement differs little from the chosen one's.

    `terms` has the shape (n_candidates, n_pairs). A candidate is found if the p-value of no
    difference is at least 0.05, but not the chosen one, nor one without a p-value.
    """
    alike = np.zeros(len(terms), dtype=bool)
    for candidate in np.flatnonzero(eligible):
        if candidate != chosen:
            comparison = _mean_difference(terms[chosen], terms[candidate], pairs)
            alike[candidate] = comparison.p_value >= LEVEL_TOLD_APART
    return alike


def expected_comparison(differences: Differences, i: int, j: int) -> AgreementComparison:
    """Compare the expected scores of two candidates."""
    from pa_select.agreement.bootstrap import AgreementComparison

    found = differences.between(i, j)
    return AgreementComparison(*found, found.p_value, (math.nan, math.nan))


def among_equals(value: str, n: int) -> str:
    """Return the reason to add if n other candidates differ little from the chosen one."""
    others = "another eligible candidate" if n == 1 else f"{n} other eligible candidates"
    return f"chosen, but its {value} cannot be told from that of {others}"
