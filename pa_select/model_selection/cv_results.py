"""The columns of ``cv_results_`` beyond those of GridSearchCV."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pa_select.model_selection.judged_environments import Judged
from pa_select.model_selection.layout import Layout
from pa_select.model_selection.pairings import OF_X
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.worker import Outcome
from pa_select.scores import align_classes
from pa_select.scores.recorded import Recorded
from pa_select.utils.typing import Floats, Ints
from pa_select.utils.warn_caller import warn_caller

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


# A larger ``class_balance_shift`` causes a warning.
LARGE_SHIFT = 0.1


class Agreements(NamedTuple):
    """Agreements of all candidates; nan for a candidate without one."""

    columns: dict[str, Floats]
    #: (n_candidates, n_pairs) agreement of every pair.
    terms: Floats
    #: Why there is no agreement, by candidate, where the scores are there.
    failures: dict[int, str]


class Stacks(Sequence[NDArray[Any]]):
    """Stacked scores: those of all models of a candidate, one below the other.

    The stack of a candidate is made when it is indexed.

    Parameters
    ----------
    outcomes : list of (list of Outcome)
        The outcomes of all splits, for each candidate that has all score matrices.
    layout : Layout
    labels : ndarray
        The labels of the data.
    """

    def __init__(
        self, outcomes: Sequence[Sequence[Outcome]], layout: Layout, labels: NDArray[Any]
    ) -> None:
        self._outcomes = outcomes
        self._wanted = layout.wanted
        known = {
            tuple(outcome.classes): outcome.classes
            for candidate in outcomes
            for outcome in candidate
            if outcome.classes is not None
        }
        self.classes = np.unique(np.concatenate([labels, *known.values()]))

    def __len__(self) -> int:
        return len(self._outcomes)

    def __getitem__(self, index: Any) -> Any:
        parts = [
            self.matrix(index, split, source)
            for split, wanted in enumerate(self._wanted)
            for source in sorted(wanted)
        ]
        return np.concatenate(parts)

    def of(self, positions: Ints) -> Stacks:
        """Return the stacks at these positions."""
        chosen = copy(self)
        chosen._outcomes = [self._outcomes[i] for i in positions.tolist()]
        return chosen

    def matrix(self, index: int, split: int, source: int) -> NDArray[Any]:
        """Return a split's scores of the rows of a source, with all classes as columns."""
        outcome = self._outcomes[index][split]
        assert outcome.matrices is not None
        assert outcome.classes is not None
        return align_classes(outcome.matrices[source], outcome.classes, self.classes)

    def recorded(self, index: int, split: int, source: int) -> Recorded:
        """Return a split's predictions of the rows of a source, as a classifier of all classes."""
        outcome = self._outcomes[index][split]
        assert outcome.predictions is not None
        assert outcome.classes is not None
        predicted, probabilities = outcome.predictions[source]
        if probabilities is not None:
            columns = np.searchsorted(self.classes, outcome.classes)
            known = np.zeros((len(predicted), len(self.classes)))
            known[:, columns] = probabilities
            probabilities = known
        scores = np.asarray(self.matrix(index, split, source), dtype=np.float64)
        return Recorded(self.classes, scores, predicted, probabilities)


# The columns of a candidate's agreement, by the attribute of the result.
_COLUMNS = {
    "agreement": "score",
    "agreement_se": "standard_error",
    "beta": "beta",
    "agreement_rate": "agreement_rate",
    "gap": "gap",
    "n_pairs": "n_pairs",
}


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


def ranks(values: Floats) -> NDArray[np.int32]:
    """Rank values from the best, 1; nan values tie for the last rank."""
    lowest = np.nanmin(values, initial=0.0) - 1
    return rankdata(-np.nan_to_num(values, nan=lowest), method="min").astype(np.int32)


def error_over_splits(splits: Floats, n_disjoint: float) -> Floats:
    """Return the standard error of the mean of ``splits``, (n_candidates, n_splits).

    ``n_disjoint`` is the effective number of disjoint test sets; see `Plan.n_disjoint`.
    """
    known = np.isfinite(splits).sum(1)
    share = known / splits.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = splits - np.nanmean(np.where(known[:, None], splits, 0.0), 1)[:, None]
        variance = np.nansum(deviations**2, 1) / (known - 1)
        error = np.sqrt(variance / (n_disjoint * share))
    return np.where(known > 1, error, np.nan)


def metric_columns(name: str, splits: Floats, *, rank: bool = False) -> dict[str, Any]:
    """Make the split, mean and std columns of a metric that may be nan in some splits."""
    known = np.isfinite(splits)
    counts = np.maximum(known.sum(1), 1)
    mean = np.where(known.any(1), np.where(known, splits, 0.0).sum(1) / counts, np.nan)
    deviations = np.where(known, splits - mean[:, None], 0.0)
    columns: dict[str, Any] = {
        f"split{i}_test_{name}": splits[:, i] for i in range(splits.shape[1])
    }
    columns[f"mean_test_{name}"] = mean
    std = np.sqrt((deviations**2).sum(1) / counts)
    columns[f"std_test_{name}"] = np.where(known.any(1), std, np.nan)
    if rank:
        columns[f"rank_test_{name}"] = ranks(mean)
    return columns


def environment_columns(
    metric: str,
    by_environment: dict[Any, Floats],
    n_disjoint: float,
    left_out: Collection[Any] = (),
) -> dict[str, Any]:
    """Make the columns of each environment's scores and of each candidate's worst one."""
    columns: dict[str, Any] = {}
    for environment, splits in by_environment.items():
        columns |= metric_columns(f"{metric}_environment_{environment}", splits)
    names = [e for e in by_environment if e not in left_out]
    n_candidates, n_splits = next(iter(by_environment.values())).shape
    label = f"{metric}_worst_environment"
    if names:
        means = np.column_stack([columns[f"mean_test_{metric}_environment_{e}"] for e in names])
        worst = np.where(np.isnan(means), np.inf, means).argmin(1)
        splits = np.stack([by_environment[e] for e in names])[worst, np.arange(n_candidates)]
        named = np.array(names, dtype=object)[worst]
    else:
        splits = np.full((n_candidates, n_splits), np.nan)
        named = np.full(n_candidates, None)
    columns |= metric_columns(label, splits, rank=True)
    columns[f"se_test_{label}"] = error_over_splits(splits, n_disjoint)
    columns[f"worst_environment_{metric}"] = named
    return columns


def split_table(
    outcomes: Sequence[Sequence[Outcome]],
    chance: Sequence[Sequence[Any]],
    plan: Plan,
    judged: Judged,
) -> tuple[dict[str, Any], list[str]]:
    """Make the columns of errors, chance, views and environments; list the metrics, too."""
    scores = _by_metric([[o.test_scores for o in candidate] for candidate in outcomes])
    by_chance = _by_metric(chance)
    columns: dict[str, Any] = {}
    for name, splits in scores.items():
        columns[f"se_test_{name}"] = error_over_splits(splits, plan.n_disjoint)
        columns[f"chance_test_{name}"] = _chance(by_chance, name, len(splits))

    extras: dict[str, dict[str, list[Floats]]] = {}
    for e, extra in enumerate(plan.splits[0].extras):
        found = _by_metric([[_extra(o, e) for o in candidate] for candidate in outcomes])
        for name in scores:
            extras.setdefault(extra.suffix, {}).setdefault(name, []).append(
                found.get(name, np.full((len(outcomes), len(plan.splits)), np.nan))
            )
    for name in scores:
        if "views" in extras:
            label = f"{name}_views"
            splits = np.mean(extras["views"][name], axis=0)
            columns |= metric_columns(label, splits, rank=True)
            columns[f"se_test_{label}"] = error_over_splits(splits, plan.n_disjoint)
            columns[f"chance_test_{label}"] = columns[f"chance_test_{name}"]
        if plan.environments:
            by_environment = {e: extras[f"environment_{e}"][name][0] for e in plan.environments}
            left_out: Collection[Any] = ()
            if name in judged.defined:
                left_out = judged.left_out[name]
                known = dict(zip(by_environment, judged.defined[name], strict=True))
                by_environment = {
                    e: np.where(known[e], splits, np.nan) for e, splits in by_environment.items()
                }
            columns |= environment_columns(name, by_environment, plan.n_disjoint, left_out)
    return columns, list(scores)


def _extra(outcome: Outcome, index: int) -> Any:
    return outcome.extra_scores[index] if outcome.extra_scores else np.nan


def _by_metric(scores: Sequence[Sequence[Any]]) -> dict[str, Floats]:
    """Return scores of candidates x splits, each a number or a dict, by metric."""
    flat = [score for candidate in scores for score in candidate]
    names = next((list(score) for score in flat if isinstance(score, dict)), ["score"])
    return {
        name: np.array(
            [[s[name] if isinstance(s, dict) else s for s in candidate] for candidate in scores],
            dtype=np.float64,
        )
        for name in names
    }


def _chance(by_chance: dict[str, Floats], name: str, n: int) -> Floats:
    """Return the best score of constant predictions; nan if the scorer cannot score any."""
    means = by_chance[name].mean(1) if name in by_chance else np.array([np.nan])
    known = means[np.isfinite(means)]
    return np.full(n, known.max() if len(known) else np.nan)


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


def complete(outcomes: Sequence[Sequence[Outcome]]) -> NDArray[np.intp]:
    """Return the numbers of the candidates whose models have all their scores."""
    return np.flatnonzero([all(o.matrices is not None for o in found) for found in outcomes])


def class_balances(
    stacks: Stacks, layout: Layout, labels: NDArray[Any], source: int
) -> tuple[Floats, Floats]:
    """Return the shares of the classes predicted for the test rows and for a source.

    Both arrays have the shape (n_candidates, n_classes). If no test row was scored, the
    shares are those of the labels.
    """
    shape = (len(stacks), len(stacks.classes))
    on_test, on_source = np.zeros(shape), np.zeros(shape)
    for c in range(len(stacks)):
        for split, wanted in enumerate(layout.wanted):
            for kind, counts in ((OF_X, on_test), (source, on_source)):
                if kind in wanted:
                    predicted = stacks.matrix(c, split, kind).argmax(1)
                    counts[c] += np.bincount(predicted, minlength=shape[1])
    if not on_test.any():
        on_test += (labels[:, None] == stacks.classes).sum(0)
    return (
        on_test / on_test.sum(1, keepdims=True),
        on_source / on_source.sum(1, keepdims=True),
    )


def failure(outcomes: Sequence[Outcome], unsolved: str | None = None) -> tuple[int, str | None]:
    """Return the number of splits in which a candidate failed, and the first error.

    `unsolved` says why there is no agreement although all scores are there.
    """
    messages = []
    for outcome in outcomes:
        if outcome.fit_error is not None:
            messages.append(outcome.fit_error.strip().splitlines()[-1])
    if messages:
        return len(messages), f"failed in {len(messages)} of {len(outcomes)} splits: {messages[0]}"
    errors = [outcome.score_error for outcome in outcomes if outcome.score_error is not None]
    if errors:
        return 0, f"no class scores: {errors[0].splitlines()[0]}"
    return 0, None if unsolved is None else f"no agreement: {unsolved}"


def report_unsolved(failures: dict[int, str], params: Sequence[Any], error_score: Any) -> None:
    """Warn of candidates whose agreement could not be computed, or raise an error."""
    if not failures:
        return
    first, message = next(iter(failures.items()))
    if isinstance(error_score, str):  # "raise"
        raise RuntimeError(f"candidate {params[first]}: {message}")
    warn_caller(
        f"The agreement of {len(failures)} of {len(params)} candidates could not be computed. "
        f"They cannot be selected by it. The first, {params[first]}: {message}"
    )


def warn_of_missing_scores(outcomes: Sequence[Sequence[Outcome]]) -> None:
    """Warn once, for each kind of error, that class scores could not be computed."""
    kinds: dict[str, list[Outcome]] = {}
    for candidate in outcomes:
        for outcome in candidate:
            if outcome.score_traceback is not None:
                # The last line may name a row, which differs between splits.
                where = outcome.score_traceback.strip().rpartition("\n")[0]
                kinds.setdefault(where, []).append(outcome)
    n = sum(map(len, outcomes))
    for alike in kinds.values():
        warn_caller(
            f"Class scores could not be computed in {len(alike)} of {n} fits. Their candidates "
            f"have no agreement and cannot be selected by it. The first error:\n"
            f"{alike[0].score_traceback}"
        )


def warn_of_label_shift(table: dict[str, Any], chosen: int) -> None:
    """Warn if the chosen candidate predicts other class shares on the target than on X."""
    shift = table.get("class_balance_shift")
    if shift is not None and shift[chosen] > LARGE_SHIFT:
        warn_caller(
            f"The chosen candidate predicts other classes on the target than on X: "
            f"{shift[chosen]:.0%} of its predictions would have to change. Either the "
            "class shares differ on the target, or the candidate fails there; neither its "
            "score nor its agreement shows which."
        )
