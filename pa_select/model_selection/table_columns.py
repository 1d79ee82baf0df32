"""The columns of ``cv_results_``: how they are read, and how scores and agreements make them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection.split_scores import (
    N_PARTS,
    SAMPLE_X,
    Extra,
    Outcome,
    PairsOfModels,
)
from pa_select.scores.new_site import FEWEST_SITES, Scale, interval_of_new_site
from pa_select.scores.precomputed import Stacks
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Search

if TYPE_CHECKING:
    from pa_select.agreement.result import PosteriorAgreement
    from pa_select.agreement.solved_problems import PooledPairs
    from pa_select.model_selection.out_of_fold import OutOfFold


def cv_results_of(search: Search, name: str = "search") -> dict[str, Any]:
    """Return the table of a fitted search, an argument of this name."""
    if not hasattr(search, "refit"):
        raise TypeError(f"{name}: expected a fitted search, got {type(search).__name__}.")
    check_is_fitted(search, "cv_results_")
    table: dict[str, Any] = search.cv_results_
    return table


def first_metric(search: Search, table: dict[str, Any]) -> str:
    """Return the metric of ``refit``, or else the first metric."""
    # A committee says which metric compares its candidates.
    metric = getattr(search.refit, "metric", search.refit)
    if isinstance(metric, str) and f"mean_test_{metric}" in table:
        return metric
    return next(name for name in table if name.startswith("mean_test_"))[len("mean_test_") :]


def column(cv_results: dict[str, Any], name: str, argument: str) -> Floats:
    """Return the mean of a metric over the splits, or else the column of this name."""
    # A metric comes first: it may have the name of a column.
    for key in (f"mean_test_{name}", name):
        if key in cv_results:
            return np.asarray(cv_results[key], dtype=np.float64)
    known = [key[10:] for key in cv_results if key.startswith("mean_test_")]
    asked, advice = f"one of the metrics {known}, got {name!r}", ""
    if argument == "result":
        asked = f"a search that recorded an agreement and a score, got the metrics {known}"
    if name == "agreement":  # which only searches of scikit-learn lack
        advice = (
            " A search of scikit-learn needs both metrics and their names: scoring={'pa': "
            "pa_scorer, 'accuracy': 'accuracy'}, refit=GuardedSelection('pa', 'accuracy')."
        )
    elif argument == "agreement" and "agreement" in cv_results:
        of_score = "" if known[0] == "score" else f"score={known[0]!r}"
        asked = f"'agreement' in PASearchCV, got {name!r}"
        advice = f" Give GuardedSelection({of_score})."
    raise ValueError(f"{argument}: expected {asked}.{advice}")


def scores_and_errors(
    cv_results: dict[str, Any], metric: str, argument: str = "score"
) -> tuple[Floats, Floats]:
    """Return mean scores and their standard errors; nan for candidates that failed a split."""
    score = column(cv_results, metric, argument).copy()
    # A mean over the other splits is of other rows than that of the other candidates.
    score[np.asarray(cv_results.get("n_failed_splits", np.zeros(len(score)))) > 0] = np.nan
    return score, recorded_errors(cv_results, metric)


def split_scores_of(cv_results: Mapping[str, Any], metric: str) -> Floats:
    """Return the scores of a metric, (n_splits, n_candidates)."""
    columns: list[Floats] = []
    while (name := f"split{len(columns)}_test_{metric}") in cv_results:
        columns.append(np.asarray(cv_results[name], dtype=np.float64))
    return np.stack(columns)


def recorded_errors(cv_results: dict[str, Any], metric: str) -> Floats:
    """Return the recorded standard errors, or else those over the splits; 0 for a single split."""
    # Searches of scikit-learn record the scores of the splits alone.
    for name in (f"se_test_{metric}", f"{metric}_se"):
        if name in cv_results:
            error: Floats = np.asarray(cv_results[name], dtype=np.float64)
            return np.nan_to_num(error)
    splits = [
        np.asarray(values, dtype=np.float64)
        for key, values in cv_results.items()
        if key.startswith("split")
        and key.endswith(f"_test_{metric}")
        # The name of another metric may end alike, such as "own_test_accuracy".
        and key[5 : -len(f"_test_{metric}")].isdigit()
    ]
    if len(splits) < 2:
        return np.zeros(len(column(cv_results, metric, "score")))
    return np.nan_to_num(np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits)))


def warn_of_one_split(cv_results: dict[str, Any], metric: str) -> None:
    """Warn if nothing shows how scores vary: a rule then takes any difference for real."""
    error = np.asarray(cv_results.get(f"se_test_{metric}", np.nan), dtype=np.float64)
    single = f"split0_test_{metric}" in cv_results and f"split1_test_{metric}" not in cv_results
    if single and np.isnan(error).all():
        warn_caller(
            f"cv_results: expected scores of at least two splits, got one of {metric!r}. Its "
            "standard error is not known and counts as 0, so any candidate below the best "
            f"{metric!r} is excluded, by however few rows. PASearchCV takes the error over the "
            "rows of a single split; or give several splits, such as "
            "ShuffleSplit(10, random_state=0)."
        )


def recorded_chance(cv_results: dict[str, Any], metric: str) -> Floats:
    """Return the score of predictions that ignore the features; -inf if it is not known."""
    unknown = np.full(len(column(cv_results, metric, "score")), np.nan)
    chance = cv_results.get(f"chance_test_{metric}", unknown)
    return np.nan_to_num(np.asarray(chance, dtype=np.float64), nan=-np.inf)


def new_site_names(metric: str) -> tuple[str, str]:
    """Return the names of the columns of the two ends of a metric's interval."""
    suffix = "" if metric == "score" else f"_{metric}"
    return f"new_site_low{suffix}", f"new_site_high{suffix}"


def new_site_interval_of(
    table: Mapping[str, Any], metric: str, candidate: int
) -> tuple[float, float]:
    """Return a candidate's interval; nan if there is none."""
    low, high = (
        float(table[name][candidate]) if name in table else math.nan
        for name in new_site_names(metric)
    )
    return low, high


def ranks(values: Floats) -> NDArray[np.int32]:
    """Rank values from the best, 1; nan values tie for the last rank."""
    # All ranks are numbers, as in GridSearchCV.
    lowest = np.nanmin(values, initial=0.0) - 1
    return rankdata(-np.nan_to_num(values, nan=lowest), method="min").astype(np.int32)


def error_over_splits(splits: Floats, n_disjoint: float) -> Floats:
    """Return the standard error of the mean of ``splits``, (n_candidates, n_splits).

    ``n_disjoint`` is the effective number of disjoint test sets; see `Plan.n_disjoint`.
    """
    known = np.ma.masked_invalid(splits)
    # Splits without a score are left out, and so are their share of the test sets.
    error = known.std(1, ddof=1) / np.sqrt(n_disjoint * known.count(1) / splits.shape[1])
    return np.asarray(np.ma.filled(error, np.nan))


def error_of_rows(parts: Sequence[Floats], n_disjoint: float) -> Floats:
    """Return the standard error of mean scores over splits whose environments are given.

    The scores of the parts of a split's rows, each (n_candidates, n_splits), differ by chance.
    """
    by_split = np.moveaxis(np.stack(parts), 0, 2)
    variance = np.stack([error_over_splits(x, x.shape[1]) for x in by_split.swapaxes(0, 1)]) ** 2
    return np.sqrt(np.ma.masked_invalid(variance).mean(0).filled(np.nan) / n_disjoint)


def metric_columns(name: str, splits: Floats, *, rank: bool = False) -> dict[str, Any]:
    """Make the split, mean and std columns of a metric that may be nan in some splits."""
    known = np.ma.masked_invalid(splits)
    mean = known.mean(1).filled(np.nan)
    columns: dict[str, Any] = {
        f"split{split}_test_{name}": splits[:, split] for split in range(splits.shape[1])
    }
    columns[f"mean_test_{name}"] = mean
    columns[f"std_test_{name}"] = known.std(1).filled(np.nan)
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
    names = [environment for environment in by_environment if environment not in left_out]
    n_candidates, n_splits = next(iter(by_environment.values())).shape
    label = f"{metric}_worst_environment"
    if names:
        start = f"mean_test_{metric}_environment_"
        means = np.column_stack([columns[f"{start}{environment}"] for environment in names])
        # The worst on average: in single splits an environment may have a few rows.
        worst = np.where(np.isnan(means), np.inf, means).argmin(1)
        scores = np.stack([by_environment[environment] for environment in names])
        splits = scores[worst, np.arange(n_candidates)]
        named = np.array(names, dtype=object)[worst]
    else:
        splits = np.full((n_candidates, n_splits), np.nan)
        named = np.full(n_candidates, None)
    columns |= metric_columns(label, splits, rank=True)
    columns[f"se_test_{label}"] = error_over_splits(splits, n_disjoint)
    columns[f"worst_environment_{metric}"] = named
    return columns


def new_site_columns(
    metric: str, scores: Floats, sizes: Floats, *, of_regressors: bool
) -> dict[str, Floats]:
    """Make the columns from the scores at the sites, (n_sites, n_candidates), and their rows.

    Sites without a score of any candidate are left out, such as those that lack a class.
    Candidates that lack a score at one of the others have nan. There are no columns if fewer than
    three sites are left.
    """
    known = np.isfinite(scores).any(axis=1)
    if known.sum() < FEWEST_SITES:
        return {}
    scores = scores[known]
    # The numbers of rows give the error of a rate, and of no other score.
    scale = _scale_of(scores[np.isfinite(scores)], of_regressors)
    ends = interval_of_new_site(scores.T, sizes[known] if scale.is_rate else None, scale)
    return dict(zip(new_site_names(metric), ends, strict=True))


def _scale_of(scores: Floats, of_regressors: bool) -> Scale:
    """Guess the bounds of a metric from the scores of all candidates at all sites."""
    lowest, highest = scores.min(), scores.max()
    if highest <= 0 and lowest < 0:  # losses and errors have a minus sign
        return Scale(-math.inf, 0.0)
    if of_regressors:
        return Scale(-math.inf, 1.0 if highest <= 1 else math.inf)
    if lowest >= -1 and highest <= 1:
        return Scale(0.0 if lowest >= 0 else -1.0, 1.0)
    return Scale(-math.inf, math.inf)


class ScoresOfMetric(NamedTuple):
    """What all candidates score by one metric on other rows than the test rows."""

    metric: str
    #: The scores on the extras by suffix, each (n_candidates, n_splits).
    extras: Mapping[str, Sequence[Floats]]
    #: (n_candidates,) what predictions that ignore the features score.
    chance: Floats
    n_disjoint: float
    out_of_fold: OutOfFold

    def errors(
        self, scores: Floats, suffix: str = "", samples: Sequence[int] = (SAMPLE_X,)
    ) -> Floats:
        """Return the standard errors of mean scores, (n_candidates, n_splits), of the test rows.

        They are over the rows, or where the predictions that were recorded do not give the scores
        over the splits; if the splits do not show how a score varies, over parts of the rows,
        which are extras. `suffix` and `samples` say on which rows the scores are.
        """
        error = error_over_splits(scores, self.n_disjoint)
        if (parts := self.extras.get(f"part{suffix}")) is not None:
            # Several views have parts of the same rows, one view after the other.
            by_view = np.reshape(parts, (-1, N_PARTS, *scores.shape))
            of_parts = error_of_rows(list(by_view.mean(axis=0)), self.n_disjoint)
            error = np.where(np.isfinite(of_parts), of_parts, error)
        of_rows = self.out_of_fold.errors(self.metric, scores, samples)
        return np.where(np.isfinite(of_rows), of_rows, error)


def score_columns(
    outcomes: Sequence[Sequence[Outcome]],
    chance: Sequence[Sequence[Any]],
    extras: Sequence[Extra],
    n_disjoint: float,
    out_of_fold: OutOfFold,
    extra_columns: Callable[[ScoresOfMetric], dict[str, Any]],
) -> tuple[dict[str, Any], list[str]]:
    """Make the columns of errors, of chance and of the extras; list the metrics, too."""
    scores = _by_metric([[one.test_scores for one in of_candidate] for of_candidate in outcomes])
    by_chance = _by_metric(chance)
    columns: dict[str, Any] = {}
    for metric, splits in scores.items():
        columns[f"chance_test_{metric}"] = _chance(by_chance, metric, len(splits))

    on_extras: dict[str, dict[str, list[Floats]]] = {metric: {} for metric in scores}
    for number, extra in enumerate(extras):
        # A fit that failed has no scores.
        of_extra = [
            [one.extra_scores[number] if one.extra_scores else np.nan for one in of_candidate]
            for of_candidate in outcomes
        ]
        by_metric = _by_metric(of_extra)
        for metric, splits in scores.items():
            values = by_metric.get(metric, np.full(splits.shape, np.nan))
            on_extras[metric].setdefault(extra.suffix, []).append(values)
    for metric, splits in scores.items():
        chances = columns[f"chance_test_{metric}"]
        scores_of_metric = ScoresOfMetric(
            metric, on_extras[metric], chances, n_disjoint, out_of_fold
        )
        columns[f"se_test_{metric}"] = scores_of_metric.errors(splits)
        columns |= extra_columns(scores_of_metric)
    return columns, list(scores)


def _by_metric(scores: Sequence[Sequence[Any]]) -> dict[str, Floats]:
    """Return scores of candidates x splits, each a number or a dict, by metric."""
    flat = [score for of_candidate in scores for score in of_candidate]
    names = next((list(score) for score in flat if isinstance(score, dict)), ["score"])
    return {
        name: np.array(
            [
                [x[name] if isinstance(x, dict) else x for x in of_candidate]
                for of_candidate in scores
            ],
            dtype=np.float64,
        )
        for name in names
    }


def _chance(by_chance: dict[str, Floats], name: str, n: int) -> Floats:
    """Return the best score of constant predictions; nan if the scorer cannot score any."""
    means = by_chance[name].mean(1) if name in by_chance else np.array([np.nan])
    # The best constant prediction is the floor of all candidates.
    known = means[np.isfinite(means)]
    return np.full(n, known.max() if len(known) else np.nan)


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


def agreements_of_regressors(stacks: Stacks, blocks: Sequence[PairsOfModels]) -> dict[str, Any]:
    """Make the columns of the regressors' agreements: the mean over the models of all splits."""
    from pa_select.agreement.regression_agreement import regression_agreement

    names = "agreement", "agreement_se"
    columns: dict[str, Any] = {name: np.full(stacks.n_candidates, np.nan) for name in names}
    weight = [len(block.rows_a) for block in blocks]
    for position, candidate in enumerate(stacks.candidates.tolist()):
        agreements = []
        for block in blocks:
            a = stacks.recorded(position, block.split_a, block.sample_a).predicted
            b = stacks.recorded(position, block.split_b, block.sample_b).predicted
            agreements.append(regression_agreement(a[block.rows_a], b[block.rows_b]))
        columns["agreement"][candidate] = np.average([x.score for x in agreements], weights=weight)
        # All models predict the same pairs: their errors do not average out.
        errors = [x.standard_error for x in agreements]
        columns["agreement_se"][candidate] = np.average(errors, weights=weight)
    columns["rank_agreement"] = ranks(columns["agreement"])
    return columns


def agreements_of(
    stacks: Stacks, pairs: PooledPairs, *, is_zero: bool = False, **options: Any
) -> Agreements:
    """Compute the agreement of the candidates whose scores are stacked.

    With `is_zero` it is 0, and only the other columns are computed.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.agreement.solved_problems import pooled_agreement

    n, candidates = stacks.n_candidates, stacks.candidates
    columns = {name: np.full(n, np.nan) for name in (*_COLUMNS, "agreement_uniform")}
    terms = np.full((n, len(pairs.weight)), np.nan)
    if len(stacks.classes) == 1:
        # With one class all posteriors are 1: agreement 0.
        # The solver needs two classes.
        for name in ("agreement", "agreement_uniform", "beta", "gap"):
            columns[name][candidates] = 0.0
        columns["agreement_rate"][candidates] = 1.0
        columns["n_pairs"][candidates] = np.count_nonzero(pairs.weight)
        terms[candidates] = 0.0
        return Agreements(columns, terms, {})
    failures: dict[int, str] = {}
    options["names"] = candidates
    results = pooled_agreement(stacks, pairs, **options)
    for candidate, result in zip(candidates.tolist(), results, strict=True):
        if is_zero and result.failure is None:
            none = np.zeros_like(result.terms)
            result = replace(result, score=0.0, standard_error=0.0, gap=0.0, terms=none)
        if result.failure is not None:
            failures[candidate] = result.failure
            continue
        _enter(result, candidate, columns, terms)
    # The prior of the papers, to be reported beside the one that decides.
    uniform = pooled_agreement(stacks, pairs, **options | {"prior": "uniform"})
    for candidate, result in zip(candidates.tolist(), uniform, strict=True):
        columns["agreement_uniform"][candidate] = result.score
        if result.failure is not None and candidate not in failures:
            warn_caller(f"agreement_uniform of candidate {candidate} is nan: {result.failure}")
    return Agreements(columns, terms, failures)


def refine(
    table: dict[str, Any], terms: Floats, stacks: Stacks, pairs: PooledPairs, **options: Any
) -> None:
    """Compute agreements of stacks again, certified, and enter them into the table.

    The agreement of a candidate does not change if it cannot be certified.
    """
    from pa_select.agreement.solved_problems import pooled_agreement

    solved = pooled_agreement(stacks, pairs, certify=True, **options)
    for candidate, result in zip(stacks.candidates.tolist(), solved, strict=True):
        # What is in the table is still a lower bound.
        if result.failure is None:
            _enter(result, candidate, table, terms)
    table["rank_agreement"] = ranks(table["agreement"])


def _enter(
    result: PosteriorAgreement, candidate: int, columns: dict[str, Any], terms: Floats
) -> None:
    for column, attribute in _COLUMNS.items():
        columns[column][candidate] = getattr(result, attribute)
    terms[candidate] = result.terms
