"""The columns of ``cv_results_`` of scores: their errors, chance, views and environments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pa_select.model_selection.judged_environments import Judged
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.worker import Outcome
from pa_select.utils.typing import Floats


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


def error_of_rows(parts: Sequence[Floats], n_disjoint: float) -> Floats:
    """Return the standard error of mean scores over splits whose environments are given.

    The scores of the parts of a split's rows, each (n_candidates, n_splits), differ by chance.
    """
    by_split = np.moveaxis(np.stack(parts), 0, 2)
    variance = np.stack([error_over_splits(x, x.shape[1]) for x in by_split.swapaxes(0, 1)]) ** 2
    return np.sqrt(np.ma.masked_invalid(variance).mean(0).filled(np.nan) / n_disjoint)


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
        columns[f"chance_test_{name}"] = _chance(by_chance, name, len(splits))

    extras: dict[str, dict[str, list[Floats]]] = {}
    for e, extra in enumerate(plan.splits[0].extras):
        found = _by_metric([[_extra(o, e) for o in candidate] for candidate in outcomes])
        for name in scores:
            extras.setdefault(extra.suffix, {}).setdefault(name, []).append(
                found.get(name, np.full((len(outcomes), len(plan.splits)), np.nan))
            )
    for name, splits in scores.items():
        error = error_over_splits(splits, plan.n_disjoint)
        if "part" in extras:
            of_rows = error_of_rows(extras["part"][name], plan.n_disjoint)
            error = np.where(np.isfinite(of_rows), of_rows, error)
        columns[f"se_test_{name}"] = error
        if "views" in extras:
            label = f"{name}_views"
            on_views = np.mean(extras["views"][name], axis=0)
            columns |= metric_columns(label, on_views, rank=True)
            columns[f"se_test_{label}"] = error_over_splits(on_views, plan.n_disjoint)
            columns[f"chance_test_{label}"] = columns[f"chance_test_{name}"]
        if plan.environments:
            by_environment = {e: extras[f"environment_{e}"][name][0] for e in plan.environments}
            left_out: Collection[Any] = ()
            if name in judged.defined:
                left_out = judged.left_out[name]
                known = dict(zip(by_environment, judged.defined[name], strict=True))
                by_environment = {
                    e: np.where(known[e], found, np.nan) for e, found in by_environment.items()
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
