"""How a search chooses: by which rule, the choice, its certificate, and who is as good."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.model_selection.kinds.kind import DataKind
from pa_select.model_selection.rules import (
    DEFAULT,
    Selection,
    named_rule,
    without_agreement,
)
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.table_columns import first_metric
from pa_select.utils.p_values import LEVEL_TOLD_APART
from pa_select.utils.typing import Floats, Ints, Mask, Search

if TYPE_CHECKING:
    from pa_select.agreement.compare_agreement import AgreementComparison
    from pa_select.agreement.solved_problems import PooledPairs
    from pa_select.agreement.standard_errors import MeanDifference
    from pa_select.two_sites.score_of_units import Differences


def selection_of(search: Search) -> Selection | None:
    """Return what names the rule of a search; None if a search of scikit-learn has no rule."""
    if callable(search.refit):
        return search.refit
    return getattr(search, "selection", None)


def make_rule(
    selection: Selection | None,
    score: str = "score",
    kind: DataKind | type[DataKind] = DataKind,
    only_class: str = "",
) -> SelectionRule:
    """Return the rule of a selection with a kind of data.

    If only the rows of one class are compared, which `only_class` names, agreements say nothing,
    and the score decides instead of a rule that has a name.
    """
    if not isinstance(selection, str):
        return named_rule(selection, score)
    # The default alone depends on the data: who names another rule gets that one.
    rule = kind.default_rule(score) if selection == DEFAULT else named_rule(selection, score)
    return without_agreement(rule, score) if only_class else rule


def rule_of(search: Search, table: dict[str, Any]) -> SelectionRule:
    """Return the rule by which a search chose."""
    if hasattr(search, "_rule"):
        rule: SelectionRule = search._rule
        return rule
    # One of scikit-learn keeps none.
    return make_rule(selection_of(search), first_metric(search, table))


def what_decides(search: Search) -> str:
    """Return the column by which a search ranks its candidates."""
    return rule_of(search, search.cv_results_).column(search.cv_results_)


def by_what_decides(search: Search) -> Ints:
    """Return the candidates as the rule orders them: the chosen one, then eligible ones."""
    table, chosen = search.cv_results_, getattr(search, "best_index_", None)
    eligible = np.asarray(table.get("eligible", np.ones(len(table["params"]))), dtype=bool)
    # A function may choose one that is not the first of this order.
    order = rule_of(search, table).order(table, eligible)
    return np.array(sorted(order, key=lambda candidate: candidate != chosen))


def explain(
    rule: SelectionRule, table: dict[str, Any], failures: list[str | None]
) -> dict[str, Any]:
    """Make the columns "eligible" and "reason"."""
    try:
        eligible, reasons = rule.explain(table)
    except ValueError as error:
        if None in failures:
            raise
        # The rule only knows that the column is empty.
        text = f"No candidate can be selected. The first: {failures[0]}"
        raise ValueError(text) from error
    # A rule that does not look at the agreement may choose a candidate without one.
    reasons = [
        reason if failure is None else f"{'eligible' if fits else 'not eligible'}: {failure}"
        for reason, failure, fits in zip(reasons, failures, eligible, strict=True)
    ]
    return {"eligible": np.asarray(eligible), "reason": np.array(reasons, dtype=object)}


def choose(rule: SelectionRule, table: dict[str, Any]) -> int:
    """Return the candidate that a rule chooses; check it, since a user may write the rule."""
    chosen, n = rule(table), len(table["params"])
    if not isinstance(chosen, (int, np.integer)):
        raise TypeError(f"selection: expected the index of a candidate, got {chosen!r}.")
    if not 0 <= chosen < n:
        raise IndexError(f"selection: expected a candidate from 0 to {n - 1}, got {chosen}.")
    return int(chosen)


def certify_choice(
    rule: SelectionRule,
    table: dict[str, Any],
    tol: float,
    refine: Callable[[Ints, float], None],
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
    # The bounds are those of this column alone.
    if rule.decides != "agreement" or not table["eligible"].any():
        return chosen, None
    tie = tol + rule.tie_tol
    asked = np.full(len(table["eligible"]), np.inf)
    while True:
        left = contenders(table, chosen, tie)
        # How far below the chosen one a candidate is: a gap of this size decides between the two.
        margin = np.maximum(table["agreement"][chosen] - table["agreement"][left], tol)
        # Only candidates whose gap at least halves are asked again, so that the rounds end.
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
    """Compare the mean terms of two candidates, each of shape (n_pairs,)."""
    from pa_select.agreement.compare_agreement import AgreementComparison

    comparison = _mean_difference(terms, others, pairs)
    difference, error, p_value, _ = comparison
    return AgreementComparison(difference, error, p_value, p_value)


def _mean_difference(terms: Floats, others: Floats, pairs: PooledPairs) -> MeanDifference:
    from pa_select.agreement.standard_errors import mean_difference

    weight = pairs.weight / pairs.weight.sum()
    return mean_difference(terms, others, weight, (pairs.object_a, pairs.object_b))


def expected_comparison(differences: Differences, i: int, j: int) -> AgreementComparison:
    """Compare the expected scores of two candidates."""
    from pa_select.agreement.compare_agreement import AgreementComparison

    found = differences.between(i, j)
    return AgreementComparison(*found, found.p_value)


def indistinguishable(
    rule: SelectionRule,
    table: dict[str, Any],
    chosen: int,
    terms: Floats | None,
    pairs: PooledPairs,
    differences: Differences | None,
) -> Mask | None:
    """Find the eligible candidates whose value of what decides differs little from the chosen's.

    `terms` are the agreements of all pairs, (n_candidates, n_pairs), and `differences` those of
    the expected scores. A candidate is found if the p-value of no difference is at least 0.05, but
    not the chosen one, nor one without a p-value.
    None: no comparison is known of what decides.
    """
    if rule.by_agreement and terms is not None:
        found = np.zeros(len(terms), dtype=bool)
        for other in np.flatnonzero(table["eligible"]):
            if other != chosen:
                p_value = _mean_difference(terms[chosen], terms[other], pairs).p_value
                found[other] = p_value >= LEVEL_TOLD_APART
        return found
    if differences is None or not rule.decides.startswith("expected_"):
        return None
    # Scores other than the expected one have no paired errors.
    return np.asarray(table["eligible"] & differences.not_told_from(chosen))


def mark_the_indistinguishable(
    rule: SelectionRule, table: dict[str, Any], chosen: int, found: Mask
) -> None:
    """Make the column "not_told_apart", and say how many are in the reason of the chosen one."""
    table["not_told_apart"] = found
    if found.any():
        value, n = "agreement" if rule.by_agreement else "expected score", int(found.sum())
        others = "another eligible candidate" if n == 1 else f"{n} other eligible candidates"
        added = f"; chosen, but its {value} cannot be told from that of {others}"
        table["reason"][chosen] += added
