"""The columns of ``cv_results_``, made of arrays: scores and their errors, and agreements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pa_select.model_selection.comparison import Comparison
from pa_select.model_selection.data import SAMPLE_X, Given, n_disjoint
from pa_select.model_selection.rules import new_site_columns
from pa_select.model_selection.work import Outcome, chance_scores
from pa_select.scores.precomputed import RecordedRegressor, Stacks, row_numbers
from pa_select.utils.arrays import distinct_rows
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints, Prior

if TYPE_CHECKING:
    from pa_select.agreement.solved_problems import PooledPairs
    from pa_select.two_sites.score_of_units import LabelledRows

# Recorded predictions give the same scores, but for rounding to single precision.
_ROUNDING = 1e-5
# The columns of a candidate's agreement, by the attribute of the result.
_COLUMNS = {
    "agreement": "score",
    "agreement_se": "standard_error",
    "beta": "beta",
    "gap": "gap",
    "n_pairs": "n_pairs",
}


def score_columns(
    outcomes: Sequence[Sequence[Outcome]],
    stacks: Stacks,
    comparison: Comparison,
    given: Given,
) -> dict[str, Any]:
    """Make the columns of errors, of chance, and of the scores in environments and on views."""
    scores = _by_metric([[one.test_scores for one in of_candidate] for of_candidate in outcomes])
    by_chance = _by_metric(chance_scores(comparison.splits, given))
    extras = _scores_on_extras(outcomes, comparison)
    columns: dict[str, Any] = {}
    for metric, splits in scores.items():
        columns[f"chance_test_{metric}"] = _chance(by_chance, metric, len(splits))
        of_x = _standard_errors(metric, splits, [SAMPLE_X], stacks, comparison, given)
        columns[f"se_test_{metric}"] = of_x
        of_metric = {suffix: by[metric] for suffix, by in extras.items() if metric in by}
        if comparison.views and "views" in of_metric:
            views, name = of_metric["views"], f"{metric}_views"
            columns |= metric_columns(name, views, rank=True)
            error = _standard_errors(metric, views, comparison.views, stacks, comparison, given)
            columns[f"se_test_{name}"] = error
            columns[f"chance_test_{name}"] = columns[f"chance_test_{metric}"]
        if comparison.environments is not None:
            columns |= _environment_columns(metric, of_metric, stacks, comparison, given)
    return columns


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


def _scores_on_extras(
    outcomes: Sequence[Sequence[Outcome]], comparison: Comparison
) -> dict[str, dict[str, Floats]]:
    """Return the scores on other rows by suffix and metric; several of one suffix are averaged."""
    found: dict[str, list[dict[str, Floats]]] = {}
    for number, extra in enumerate(comparison.extras[0] if comparison.extras else ()):
        # A fit that failed has no scores.
        of_extra = [
            [one.extra_scores[number] if one.extra_scores else np.nan for one in of_candidate]
            for of_candidate in outcomes
        ]
        found.setdefault(extra.suffix, []).append(_by_metric(of_extra))
    return {
        suffix: {name: np.mean([x[name] for x in several], axis=0) for name in several[0]}
        for suffix, several in found.items()
    }


def _chance(by_chance: dict[str, Floats], name: str, n: int) -> Floats:
    """Return the best score of constant predictions; nan if the scorer cannot score any."""
    means = by_chance[name].mean(1) if name in by_chance else np.array([np.nan])
    # The best constant prediction is the floor of all candidates.
    known = means[np.isfinite(means)]
    return np.full(n, known.max() if len(known) else np.nan)


def ranks(values: Floats) -> NDArray[np.int32]:
    """Rank values from the best, 1; nan values tie for the last rank."""
    # All ranks are numbers, as in GridSearchCV.
    lowest = np.nanmin(values, initial=0.0) - 1
    return rankdata(-np.nan_to_num(values, nan=lowest), method="min").astype(np.int32)


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


def _environment_columns(
    metric: str,
    scores: Mapping[str, Floats],
    stacks: Stacks,
    comparison: Comparison,
    given: Given,
) -> dict[str, Any]:
    """Make the columns of each environment's scores, of the worst one and of a new site."""
    names = np.asarray(comparison.environments)
    distinct = np.unique(names).tolist()
    columns: dict[str, Any] = {}
    by_environment = np.stack([scores[f"environment_{name}"] for name in distinct])
    for name, splits in zip(distinct, by_environment, strict=True):
        columns |= metric_columns(f"{metric}_environment_{name}", splits)
    means = np.stack([columns[f"mean_test_{metric}_environment_{name}"] for name in distinct])
    # The worst on average: in single splits an environment may have a few rows.
    worst = np.where(np.isnan(means), np.inf, means).argmin(axis=0)
    splits, label = by_environment[worst, np.arange(means.shape[1])], f"{metric}_worst_environment"
    columns |= metric_columns(label, splits, rank=True)
    error = _error_over_splits(splits, n_disjoint(comparison.splits))
    tests = [test for _, test in comparison.splits]
    # Each environment has few rows in a split, so that its scores there say little.
    for number in np.unique(worst).tolist():
        rows = {i: test[names[test] == distinct[number]] for i, test in enumerate(tests)}
        rows = {i: of_split for i, of_split in rows.items() if len(of_split)}
        these = stacks.of(stacks.candidates[worst[stacks.candidates] == number])
        scores_there = by_environment[number][:, list(rows)]
        options = [SAMPLE_X], these, comparison, given, rows
        of_rows = _errors_of_rows(metric, scores_there, *options)
        error = np.where((worst == number) & np.isfinite(of_rows), of_rows, error)
    columns[f"se_test_{label}"] = error
    columns[f"worst_environment_{metric}"] = np.array(distinct, dtype=object)[worst]
    if comparison.holds_out:
        tested = names[distinct_rows(np.concatenate(tests))]
        sizes = np.array([np.count_nonzero(tested == name) for name in distinct], dtype=np.float64)
        columns |= new_site_columns(metric, means, sizes, of_regressors=False)
    return columns


def _standard_errors(
    metric: str,
    splits: Floats,
    samples: Sequence[int],
    stacks: Stacks,
    comparison: Comparison,
    given: Given,
) -> Floats:
    """Return the standard errors of mean scores on the test rows, (n_candidates, n_splits).

    They are over the rows; where the recorded predictions do not give the scores, over the splits.
    """
    of_rows = _errors_of_rows(metric, splits, samples, stacks, comparison, given)
    error = _error_over_splits(splits, n_disjoint(comparison.splits))
    return np.where(np.isfinite(of_rows), of_rows, error)


def _error_over_splits(splits: Floats, n_disjoint: float) -> Floats:
    """Return the standard error of the mean of `splits`, (n_candidates, n_splits).

    `n_disjoint` is the effective number of disjoint test sets.
    """
    known = np.ma.masked_invalid(splits)
    # Splits without a score are left out, and so are their share of the test sets.
    error = known.std(1, ddof=1) / np.sqrt(n_disjoint * known.count(1) / splits.shape[1])
    return np.asarray(np.ma.filled(error, np.nan))


def _errors_of_rows(
    metric: str,
    scores: Floats,
    samples: Sequence[int],
    stacks: Stacks,
    comparison: Comparison,
    given: Given,
    rows: Mapping[int, Ints] | None = None,
) -> Floats:
    """Return the standard errors of mean scores over `rows` of splits, by default all test rows.

    With several samples, such as views, each row of which is that of X, it is their mean.
    nan for a candidate whose scores cannot be computed from what was recorded: a scorer may
    look at the rows, at other data of theirs, or at predictions by a threshold.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.classification import Classification
    from pa_select.two_sites.regression import Regression
    from pa_select.two_sites.score_of_units import LabelledRows, error_of_rate, error_of_score

    found = np.full(len(scores), np.nan)
    if metric not in given.scorers:
        return found
    scorer, task = given.scorers[metric], Regression() if given.of_regressors else Classification()
    if rows is None:
        rows = {split: test for split, (_, test) in enumerate(comparison.splits)}
    of_splits = list(rows.values())
    # A metric counts the rows with the weights that it is given.
    weight = given.score_weight(metric) if given.score_params else None
    labelled = LabelledRows(given.y, of_splits, given.groups_within, score_weight=weight)
    if task.is_rate(scorer) and labelled.groups is None:
        return error_of_rate(scores.mean(axis=1), labelled.n_independent)
    for position, candidate in enumerate(stacks.candidates.tolist()):
        models = [_tested(stacks, position, x, comparison, rows) for x in samples]
        mean = float(scores[candidate].mean())
        try:
            again = [
                [
                    _score_again(task, scorer, labelled, *x)
                    for x in zip(one, of_splits, strict=True)
                ]
                for one in models
            ]
            if np.allclose(np.mean(again, axis=0), scores[candidate], _ROUNDING, _ROUNDING):
                errors = [error_of_score(task, scorer, mean, labelled, x) for x in models]
                found[candidate] = np.mean(errors)
        except Exception:  # noqa: S112 - a scorer of the user's may need more than predictions
            continue
    return found


def _score_again(task: Any, scorer: Any, labelled: LabelledRows, model: Any, rows: Ints) -> float:
    """Return the score of a split; a formula is faster than the scorer."""
    y, weight = labelled.y[rows], labelled.score_weight
    weight = None if weight is None else weight[rows]
    labels = task.known_labels(model, y)
    with np.errstate(divide="ignore", invalid="ignore"):  # a class may have no row
        scored = task.closed_form(scorer, labels, model, is_counted=False, weight=weight)
    if scored is not None:
        return float(scored.score)
    params = {} if weight is None else {"sample_weight": weight}
    return float(scorer(model, row_numbers(np.arange(len(y))), y, **params))


def _tested(
    stacks: Stacks, position: int, sample: int, comparison: Comparison, rows: Mapping[int, Ints]
) -> list[Any]:
    """Return what a candidate's models predict for rows of a sample that they tested."""
    models: list[Any] = []
    for split, tested in rows.items():
        model = stacks.recorded(position, split, sample)
        places = np.searchsorted(comparison.scored_rows[split][sample], tested)
        if isinstance(model, RecordedRegressor):
            models.append(RecordedRegressor(model.predicted[places]))
            continue
        scores, probabilities = model.scores[places], model.probabilities
        predicted = model.classes[scores.argmax(axis=1)]
        if model.predicted is not None:
            predicted = model.predicted[places]
        if probabilities is not None:
            probabilities = probabilities[places]
        models.append(
            replace(model, scores=scores, predicted=predicted, probabilities=probabilities)
        )
    return models


def agreement_columns(
    outcomes: Sequence[Sequence[Outcome]],
    stacks: Stacks,
    comparison: Comparison,
    given: Given,
    prior: Prior,
    device: Any,
) -> tuple[dict[str, Any], Floats, PooledPairs]:
    """Make the columns of the agreements, and that of what went wrong with each candidate.

    Returns them, the agreement of every pair, (n_candidates, n_pairs), and the pairs.
    """
    pairs, n, candidates = comparison.pooled(given.weight), stacks.n_candidates, stacks.candidates
    errors = [next(filter(None, (x.error for x in of_one)), "") for of_one in outcomes]
    of_errors = {"error": np.array(errors, dtype=object)}
    if given.of_regressors:
        columns = _of_regressors(stacks, comparison) | of_errors
        return columns, np.empty((n, 0)), pairs
    # Imported here: workers that fit and score do not need torch.
    from pa_select.agreement.solved_problems import pooled_agreement

    columns = {name: np.full(n, np.nan) for name in (*_COLUMNS, "agreement_uniform")} | of_errors
    terms = np.full((n, len(pairs.weight)), np.nan)
    if len(stacks.classes) == 1:  # all posteriors are 1; the solver needs two classes
        for name in ("agreement", "agreement_uniform", "beta", "gap"):
            columns[name][candidates] = 0.0
        columns["n_pairs"][candidates] = np.count_nonzero(pairs.weight)
        terms[candidates] = 0.0
        return columns, terms, pairs
    # The uniform prior is that of the papers, to be reported beside the one that decides.
    is_uniform = isinstance(prior, str) and prior == "uniform"
    priors: list[Prior] = [prior] if is_uniform else [prior, "uniform"]
    names = candidates.tolist()
    results = pooled_agreement(stacks, pairs, priors, device=device, names=names)
    for candidate, found in zip(names, results, strict=True):
        result, uniform = found[0], found[-1]
        columns["agreement_uniform"][candidate] = uniform.score
        columns["error"][candidate] = result.failure or uniform.failure or ""
        if result.failure is None:
            terms[candidate] = result.terms
            for name, attribute in _COLUMNS.items():
                columns[name][candidate] = getattr(result, attribute)
    if comparison.environments is not None and isinstance(prior, str) and prior == "marginal":
        compared = np.unique(given.y[pairs.object_a]).tolist()
        if len(compared) == 1:
            # They are what rounding leaves of 0, and would be compared.
            for name in ("agreement", "agreement_se", "gap"):
                columns[name][np.isfinite(columns[name])] = 0.0
            terms[np.isfinite(terms)] = 0.0
            warn_caller(
                "environments: expected rows of several classes to compare, got only rows of "
                f"class {compared[0]!r}. Their agreement says nothing, and the score decides."
            )
    failed = [i for i in candidates.tolist() if columns["error"][i]]
    if failed:
        said = f"candidate {failed[0]}: {columns['error'][failed[0]]}"
        if isinstance(given.error_score, str):  # "raise"
            raise RuntimeError(said)
        warn_caller(f"{len(failed)} of {n} agreements could not be computed. The first, {said}")
    return columns, terms, pairs


def _of_regressors(stacks: Stacks, comparison: Comparison) -> dict[str, Any]:
    """Make the columns of the regressors' agreements: the mean over the models of all splits."""
    from pa_select.agreement.regression_agreement import regression_agreement

    names, blocks = ("agreement", "agreement_se"), comparison.compared
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
    return columns
