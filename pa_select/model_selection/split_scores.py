"""The splits of a search: the work on one of them, its rows, fit and scores, and parallel jobs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from traceback import format_exc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import parallel
from sklearn.utils.metadata_routing import get_routing_for_object

from pa_select.model_selection.splits import Split
from pa_select.scores.class_scores import comparable_scores
from pa_select.scores.precomputed import Predictions, RecordedRegressor, predictions
from pa_select.utils.arrays import BadScoresError
from pa_select.utils.messages import named_error
from pa_select.utils.sklearn_private import (
    _check_method_params,
    _fit_and_score,
    _MultimetricScorer,
    _num_samples,
    _PassthroughScorer,
    _safe_split,
    _score,
)
from pa_select.utils.typing import Array, ErrorScore, Estimator, Floats, Ints, Labels

if TYPE_CHECKING:
    from pa_select.agreement.solved_problems import PooledPairs

#: Number of X among the samples.
SAMPLE_X = 0
#: So many parts of the test rows are scored if splits do not show the error of few rows.
N_PARTS = 5
# This many constant predictions, of the most frequent classes, are scored.
_CONSTANTS = 3


class Extra(NamedTuple):
    """Rows of a sample on which a split's model is also scored with the search's scorer.

    Attributes
    ----------
    suffix : str
        The name of the scores: ``scores.extras[suffix]`` in ``Comparison.score_columns``.
    sample : int
        The sample that the rows are of: 0 is X, then follow those of the kind of data.
    rows : ndarray of int
        The numbers of the rows.
    may_fail : bool
        Whether the rows are so few that a metric may not be defined on them.
    """

    suffix: str
    sample: int
    rows: Ints
    may_fail: bool = False


def parts_of_rows(
    suffix: str, sample: int, rows: Ints, seed: int, strata: Array | None = None
) -> list[Extra]:
    """Return random parts of rows, whose scores show the error of few rows.

    Each has its share of the `strata` of all rows, such as classes, without which some metrics
    are not defined.
    """
    shuffled = np.random.default_rng(seed).permutation(rows)
    parts = np.array_split(shuffled, N_PARTS)
    if strata is not None:
        ordered = shuffled[np.argsort(strata[shuffled], kind="stable")]
        parts = [ordered[first::N_PARTS] for first in range(N_PARTS)]
    return [Extra(suffix, sample, part, may_fail=True) for part in parts]


@dataclass(frozen=True)
class SplitTask:
    """The work to do for one split."""

    train: Ints
    test: Ints
    #: Rows of each sample whose class scores are needed.
    scored_rows: dict[int, Ints]
    extras: Sequence[Extra]
    #: Sources whose predicted classes are needed, too.
    predicted: Sequence[int] = ()


@dataclass(frozen=True)
class Data:
    """The data that all splits of a search share."""

    #: X, then its views, or the rows of paired objects.
    samples: Sequence[Any]
    y: Labels
    scorer: Any
    fit_params: dict[str, Any]
    score_params: dict[str, Any]
    error_score: ErrorScore
    #: The distinct labels, the classes that estimators may have. None: any.
    labels: Any = None
    #: Whether predictions come with probabilities, which some metrics need.
    with_probabilities: bool = False
    #: Whether the candidates are regressors, whose class scores are their predictions.
    of_regressors: bool = False
    #: The targets as a column if they were given so, for nets, whose loss needs them so.
    column: Any = None

    @property
    def y_to_fit(self) -> Labels:
        """The labels in the shape that the estimator's ``fit`` gets."""
        return self.y if self.column is None else self.column

    def score_weight(self, metric: str) -> Array | None:
        """Return the weights that scikit-learn's searches give a metric; None without."""
        name, params = "sample_weight", self.score_params
        if params and isinstance(self.scorer, _MultimetricScorer):
            one = self.scorer._scorers[metric]
            if get_config()["enable_metadata_routing"]:
                taken = get_routing_for_object(one).consumes("score", params.keys())
                name = next(iter(taken), "")
            elif not one._accept_sample_weight():
                name = ""
        weight = params.get(name)
        return None if weight is None else np.asarray(weight, dtype=np.float64)

    def __sizeof__(self) -> int:
        # A cluster looks at the size: it sends large objects once, not with each job.
        return sum(getattr(x, "nbytes", None) or getsizeof(x) for x in self.samples)


@dataclass
class Outcome:
    """The result of a worker: numbers, never models."""

    fit_time: float
    score_time: float
    n_test_samples: int
    test_scores: Any
    #: Scores on the split's extras, each like ``test_scores``.
    extra_scores: list[Any] = field(default_factory=list)
    #: Class scores of each sample, and the classes of their columns.
    matrices: dict[int, Array] | None = None
    classes: Array | None = None
    #: Of the samples that need them.
    predictions: dict[int, Predictions] | None = None
    fit_error: str | None = None
    #: The error if a fitted model has no class scores: one line, and the whole traceback.
    score_error: str | None = None
    score_traceback: str | None = None
    #: Why metrics are not finite on the test rows, by name; empty texts where it is not known.
    metric_errors: dict[str, str] = field(default_factory=dict)


def fit_and_score_split(
    estimator: Estimator,
    parameters: dict[str, Any] | None,
    task: SplitTask,
    data: Data,
    verbose: int = 0,
    split_progress: tuple[int, int] | None = None,
    candidate_progress: tuple[int, int] | None = None,
    callback: dict[str, Any] | None = None,
) -> Outcome:
    """Fit a clone of the estimator to a split and score it."""
    X = data.samples[0]
    candidate: Any = estimator
    if parameters is not None and candidate.set_params(**clone(parameters, safe=False)) is None:
        parameters = None  # set already; scikit-learn would go on with what set_params returns
    # Private, but what GridSearchCV itself calls: times, failures and messages are the same.
    result = _fit_and_score(
        estimator,
        X,
        data.y_to_fit,
        scorer=data.scorer,
        train=task.train,
        test=task.test,
        verbose=verbose,
        parameters=parameters,
        fit_params=data.fit_params,
        score_params=data.score_params,
        return_n_test_samples=True,
        return_times=True,
        return_estimator=True,
        split_progress=split_progress,
        candidate_progress=candidate_progress,
        error_score=data.error_score,
        **(callback or {}),
    )
    outcome = Outcome(
        fit_time=result["fit_time"],
        score_time=result["score_time"],
        n_test_samples=result["n_test_samples"],
        test_scores=result["test_scores"],
        fit_error=result["fit_error"],
    )
    if outcome.fit_error is None:
        fitted = result["estimator"]
        # While the model is at hand: only numbers leave the worker.
        scores = outcome.test_scores
        if not np.isfinite(list(scores.values()) if isinstance(scores, dict) else scores).all():
            outcome.metric_errors = _metric_errors(fitted, scores, task.test, data)
        outcome.extra_scores = [_extra_scores(fitted, extra, task, data) for extra in task.extras]
        try:
            matrices, classes = _matrices(fitted, task, data)
            outcome.predictions = _predictions(fitted, task, data, matrices, classes)
            outcome.matrices, outcome.classes = matrices, classes
        except Exception as error:
            if isinstance(data.error_score, str):  # "raise"
                raise named_error(error, f"candidate {parameters or {}}") from error
            kind = "ValueError" if isinstance(error, BadScoresError) else type(error).__name__
            outcome.score_error = f"{kind}: {error}"
            outcome.score_traceback = format_exc()
    return outcome


def _metric_errors(fitted: Estimator, scores: Any, test: Ints, data: Data) -> dict[str, str]:
    """Say why metrics are not finite; scikit-learn only warns of it."""
    by_metric = scores if isinstance(scores, dict) else {"score": scores}
    undefined = [name for name, score in by_metric.items() if not np.isfinite(score)]
    rows, labels = _safe_split(fitted, data.samples[SAMPLE_X], data.y, test)
    params = _check_method_params(data.samples[SAMPLE_X], data.score_params, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown
        try:
            again = data.scorer(fitted, rows, labels, **params)
        except Exception:
            again = dict.fromkeys(undefined, format_exc())
    errors = again if isinstance(again, dict) else {}  # tracebacks; scores are numbers
    of_class = "" if data.of_regressors else class_of_rows(labels)
    reasons = {}
    for name in undefined:
        error = errors.get(name)
        own = error.strip().splitlines()[-1].removesuffix(".") if isinstance(error, str) else ""
        reasons[name] = "; ".join(filter(None, [own, of_class]))
    return reasons


def class_of_rows(y: Array) -> str:
    """Say that test rows are all of one class, and what to do; an empty text if they are not."""
    classes = np.unique(y).tolist()
    if len(classes) > 1:
        return ""
    return (
        f"its {len(y)} test rows are all of class {classes[0]!r}, and a metric such as roc_auc is "
        "not defined without rows of the other class. Leave such rows out, join sites, or choose "
        "by another metric, such as 'accuracy'"
    )


def _extra_scores(fitted: Estimator, extra: Extra, task: SplitTask, data: Data) -> Any:
    if not len(extra.rows):
        return np.nan
    sample = data.samples[extra.sample]
    rows, labels = _safe_split(fitted, sample, data.y, extra.rows, task.train)
    params = _check_method_params(data.samples[0], params=data.score_params, indices=extra.rows)
    if not extra.may_fail:
        return _score(fitted, rows, labels, data.scorer, params, data.error_score)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _score(fitted, rows, labels, data.scorer, params, np.nan)


def _matrices(
    fitted: Estimator, task: SplitTask, data: Data
) -> tuple[dict[int, Array], Array | None]:
    matrices, classes = {}, None
    for sample, rows in task.scored_rows.items():
        X, _ = _safe_split(fitted, data.samples[sample], None, rows, task.train)
        if data.of_regressors:
            matrices[sample] = RecordedRegressor.of(fitted, X).predicted[:, None]
            continue
        matrices[sample], classes = comparable_scores(fitted, X, numbers=rows, labels=data.labels)
    return matrices, classes


def _predictions(
    fitted: Estimator,
    task: SplitTask,
    data: Data,
    matrices: dict[int, Array],
    classes: Array | None,
) -> dict[int, Predictions]:
    recorded = {}
    for sample in () if data.of_regressors else task.predicted:
        X, _ = _safe_split(
            fitted, data.samples[sample], None, task.scored_rows[sample], task.train
        )
        recorded[sample] = predictions(
            fitted, X, matrices[sample], classes, data.with_probabilities
        )
    return recorded


def chance_scores(splits: Sequence[SplitTask], data: Data) -> list[list[Any]]:
    """Return the test scores, for each split, of classifiers that ignore the features.

    The first list is for predicting the class frequencies. One list follows for always
    predicting each of the most frequent classes. Regressors predict the mean and the median.
    A useful candidate scores higher.
    """
    weight = data.fit_params.get("sample_weight")
    # The dummies ignore the features, so that none is copied unless a scorer looks at them.
    X: Any = np.zeros((_num_samples(data.samples[SAMPLE_X]), 1))
    for scorer in getattr(data.scorer, "_scorers", {"score": data.scorer}).values():
        if not (hasattr(scorer, "_score_func") or isinstance(scorer, _PassthroughScorer)):
            X = data.samples[SAMPLE_X]
    blind = Data(
        samples=[X],
        y=data.y,
        scorer=data.scorer,
        fit_params={} if weight is None else {"sample_weight": weight},
        score_params=data.score_params,
        error_score=np.nan,
    )
    labels, counts = np.unique(np.asarray(data.y), return_counts=True)
    # As Python's own values, since the dummies take no bool of numpy.
    frequent = labels[np.argsort(-counts, kind="stable")[:_CONSTANTS]].tolist()
    dummies: list[Any] = [
        DummyClassifier(strategy="prior"),
        *(DummyClassifier(strategy="constant", constant=label) for label in frequent),
    ]
    if data.of_regressors:
        # The best constants for the squared and for the absolute error.
        dummies = [DummyRegressor(strategy=constant) for constant in ("mean", "median")]
    with warnings.catch_warnings():
        # A metric that is not defined for constant predictions warns each time.
        warnings.simplefilter("ignore")
        return [
            [
                fit_and_score_split(
                    dummy, None, SplitTask(task.train, task.test, {}, []), blind
                ).test_scores
                for task in splits
            ]
            for dummy in dummies
        ]


class PairsOfModels(NamedTuple):
    """Pairs of rows; a split's model scores each side, and may score both.

    Attributes
    ----------
    split_a, split_b : int
        The splits whose models score the rows of either side.
    rows_a, rows_b : ndarray of int
        The numbers of the rows; entry i of both is a pair.
    sample_a, sample_b : int
        The samples that the rows are of: 0 is X, then follow those of the kind of data.
    """

    split_a: int
    rows_a: Ints
    split_b: int
    rows_b: Ints
    sample_a: int = SAMPLE_X
    sample_b: int = SAMPLE_X


class Layout:
    """The rows that the model of each split scores, and their places in the stacked scores.

    `blocks` are all pairs that will be compared.
    """

    def __init__(self, splits: Sequence[Split], blocks: Iterable[PairsOfModels]) -> None:
        parts: dict[tuple[int, int], list[Ints]] = {}
        for block in blocks:
            parts.setdefault((block.split_a, block.sample_a), []).append(block.rows_a)
            parts.setdefault((block.split_b, block.sample_b), []).append(block.rows_b)
        #: For each split, the rows of each sample that its model scores.
        self.scored_rows: list[dict[int, Ints]] = [{} for _ in splits]
        self._start: dict[tuple[int, int], int] = {}
        start = 0
        for split, sample in sorted(parts):
            # Most samples have one block, whose rows are sorted without a copy of them all.
            first, *others = parts[split, sample]
            rows = np.unique(np.concatenate([first, *others]) if others else first)
            self.scored_rows[split][sample] = rows
            self._start[split, sample] = start
            start += len(rows)

    def pooled(self, blocks: Sequence[PairsOfModels], weight: Floats | None) -> PooledPairs:
        """Return the pairs of the given blocks as rows of the stacked scores."""
        # Imported here: workers that fit and score do not need torch.
        from pa_select.agreement.solved_problems import PooledPairs

        def side(split: int, sample: int, rows: Ints) -> Ints:
            positions = np.searchsorted(self.scored_rows[split][sample], rows)
            return self._start[split, sample] + positions

        row_a = [side(b.split_a, b.sample_a, b.rows_a) for b in blocks]
        row_b = [side(b.split_b, b.sample_b, b.rows_b) for b in blocks]
        lengths = [len(b.rows_a) for b in blocks]
        object_a = np.concatenate([b.rows_a for b in blocks])
        object_b = np.concatenate([b.rows_b for b in blocks])
        weights = np.ones(len(object_a))
        if weight is not None:
            # Roots first: the product of two tiny weights may be 0.
            weights = np.sqrt(weight[object_a]) * np.sqrt(weight[object_b])
        return PooledPairs(
            np.concatenate(row_a),
            np.concatenate(row_b),
            np.repeat([b.split_a for b in blocks], lengths),
            np.repeat([b.split_b for b in blocks], lengths),
            object_a,
            object_b,
            weights,
        )


class Parallel(parallel.Parallel):
    """scikit-learn's `Parallel` without the warning filters that torch has set in this process.

    scikit-learn sends all filters to the workers. One of torch's is for a class of its own, so
    each worker would import torch to read it, which takes seconds.
    """

    def __call__(self, iterable: Iterable[Any]) -> Any:
        """Start the jobs, as `joblib.Parallel` does."""
        with warnings.catch_warnings():
            warnings.filters = [
                kept
                for kept in warnings.filters
                if getattr(kept[2], "__module__", "").split(".")[0] != "torch"
            ]
            return super().__call__(iterable)
