"""Functions of all selection rules that read ``cv_results_``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.utils.typing import Floats, Mask


def column(cv_results: dict[str, Any], name: str, argument: str) -> Floats:
    """Return the mean of a metric over the splits, or else the column of this name."""
    for key in (f"mean_test_{name}", name):
        if key in cv_results:
            return np.asarray(cv_results[key], dtype=np.float64)
    known = [key[10:] for key in cv_results if key.startswith("mean_test_")]
    raise ValueError(f"{argument}: expected one of the metrics {known}, got {name!r}.")


def scores_and_errors(cv_results: dict[str, Any], metric: str) -> tuple[Floats, Floats]:
    """Return mean scores and their standard errors; nan for candidates that failed a split."""
    score = column(cv_results, metric, "score").copy()
    score[np.asarray(cv_results.get("n_failed_splits", np.zeros(len(score)))) > 0] = np.nan
    return score, recorded_errors(cv_results, metric)


def recorded_errors(cv_results: dict[str, Any], metric: str) -> Floats:
    """Return the standard error of each mean over the splits; 0 for a single split."""
    if f"se_test_{metric}" in cv_results:
        error: Floats = np.asarray(cv_results[f"se_test_{metric}"], dtype=np.float64)
        return np.nan_to_num(error)
    splits = [
        np.asarray(values, dtype=np.float64)
        for key, values in cv_results.items()
        if key.startswith("split")
        and key.endswith(f"_test_{metric}")
        and key[5 : -len(f"_test_{metric}")].isdigit()
    ]
    if len(splits) < 2:
        return np.zeros(len(column(cv_results, metric, "score")))
    return np.nan_to_num(np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits)))


def recorded_chance(cv_results: dict[str, Any], metric: str) -> Floats:
    """Return the score of predictions that look at no feature; -inf if it is not known."""
    chance = cv_results.get(f"chance_test_{metric}", np.full(len(cv_results["params"]), np.nan))
    return np.nan_to_num(np.asarray(chance, dtype=np.float64), nan=-np.inf)


class AgainstChance(NamedTuple):
    """Values of candidates, their errors, and what predictions that look at no feature have."""

    name: str
    values: Floats
    errors: Floats
    chance: Floats
    #: How many standard errors above chance a candidate must be.
    n_se: float = 2

    @property
    def above(self) -> Mask:
        """Whether each candidate is better than such predictions."""
        above: Mask = self.values > self.chance + self.n_se * np.nan_to_num(self.errors)
        return above

    def not_above(self, i: int) -> str:
        """Say that a candidate is not."""
        return (
            f"{self.name} {self.values[i]:.4g} is not {errors_in_words(self.n_se)} above chance, "
            f"{self.chance[i]:.4g}"
        )


def errors_in_words(n: float) -> str:
    """Return a number of standard errors in words."""
    return f"{n:g} standard error{'' if n == 1 else 's'}"


def first_by(candidates: NDArray[np.intp], keys: list[Floats], cv_results: Any) -> int:
    """Return the candidate with the highest keys; the first key that differs decides."""
    # Remaining ties are decided by the candidates' parameters, not by the order of the grid.
    names = [repr(sorted(p.items(), key=str)) for p in cv_results.get("params", [])]
    ranked = sorted(
        candidates.tolist(),
        key=lambda i: (
            *(-np.nan_to_num(k[i], nan=-np.inf) for k in keys),
            names[i] if names else "",
        ),
    )
    return int(ranked[0])
