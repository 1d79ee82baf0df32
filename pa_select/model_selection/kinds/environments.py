"""Rows of several environments: which are compared, and which environments can be scored."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from pa_select.model_selection.kinds.kind import (
    Comparison,
    DataKind,
    ExpectedElsewhere,
    RowsOfX,
    check_text,
)
from pa_select.model_selection.split_scores import (
    SAMPLE_X,
    Data,
    Extra,
    PairsOfModels,
    parts_of_rows,
)
from pa_select.model_selection.splits import Split
from pa_select.model_selection.table_columns import (
    ScoresOfMetric,
    environment_columns,
    new_site_columns,
    split_scores_of,
)
from pa_select.pairing import LabelPairing, pair_environments
from pa_select.scores.candidate_posterior import halves_of, scores_of_halves
from pa_select.scores.precomputed import RecordedClassifier, row_numbers
from pa_select.utils.arrays import check_column
from pa_select.utils.frames import columns_of, look_up, shares_index
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _check_method_params, _num_samples, _score
from pa_select.utils.typing import Array, Floats, Ints, Labels, Mask, Rows

# A warning names so many environments.
_SHOWN = 3
# So many rows of a column are compared first.
_FEW = 100


class Environments(DataKind):
    """The environment of each row; one model scores rows of different environments.

    `between` pairs the rows of two environments; None pairs rows of the same label at random.
    """

    pairing: Any = "environments"

    def __init__(
        self, rows: RowsOfX, environments: Labels, between: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(rows)
        self.strata = self.names = check_environments(environments, rows.X)
        _warn_of_column(rows.X, self.names)
        if between is None or isinstance(between, LabelPairing):
            _warn_of_own_classes(self.names, rows.y)
        if between is not None:
            self.pairing = between
        self._between = between

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        # One model for both rows of a pair, unless each split holds out whole environments.
        pairs = self._within_splits(splits) or self._between_splits(splits)
        if not pairs and self._between is None:
            raise ValueError(
                "environments: expected a class with rows in at least two environments among the "
                "test rows, got none."
            )
        return self.compare_pairs(pairs, splits, data, self._only_class(pairs))

    def compare_pairs(
        self,
        pairs: Sequence[PairsOfModels],
        splits: list[Split],
        data: Data,
        only_class: str = "",
    ) -> Comparison:
        """Compare pairs, and score each environment."""
        names, distinct = self.names, np.unique(self.names).tolist()
        of_environments = [
            [
                Extra(f"environment_{environment}", SAMPLE_X, test[names[test] == environment])
                for environment in distinct
            ]
            for _, test in splits
        ]
        scorable = scorable_environments(of_environments, data, distinct)
        are_held_out = not any(np.isin(names[train], names[test]).any() for train, test in splits)
        if are_held_out:
            # Splits that hold out whole environments differ for other reasons than few rows.
            # The scores of random parts of the test rows show the error of few rows.
            for of_split, (_, test) in zip(of_environments, splits, strict=True):
                of_split += parts_of_rows("part", SAMPLE_X, test, self.rows.seed)
        return ComparisonOfEnvironments(
            self,
            splits,
            pairs,
            extra_test_rows=of_environments,
            only_class=only_class,
            names=names,
            distinct=distinct,
            are_held_out=are_held_out,
            scorable=scorable,
        )

    def _within_splits(self, splits: Sequence[Split]) -> list[PairsOfModels]:
        """Pair the test rows of each split, which one model scores."""
        pairs = []
        for split, (_, test) in enumerate(splits):
            a, b = self._pair(test)
            if len(a):
                pairs.append(PairsOfModels(split, test[a], split, test[b]))
        return pairs

    def _between_splits(self, splits: Sequence[Split]) -> list[PairsOfModels]:
        """Pair rows of different splits, each of which holds out whole environments.

        The model that has not seen its environment scores each row.
        """
        # Rows that several splits test are there once for each.
        split_of = np.repeat(range(len(splits)), [len(test) for _, test in splits])
        rows = np.concatenate([test for _, test in splits])
        a, b = self._pair(rows)
        pairs = []
        for split_a, split_b in np.unique(np.column_stack([split_of[a], split_of[b]]), axis=0):
            both = (split_of[a] == split_a) & (split_of[b] == split_b)
            pairs.append(PairsOfModels(int(split_a), rows[a[both]], int(split_b), rows[b[both]]))
        return pairs

    def _pair(self, rows: Ints) -> tuple[Ints, Ints]:
        pairs = pair_environments(
            self.names[rows],
            self.rows.y[rows],
            self.rows.seed,
            X=None if self._between is None else _safe_indexing(self.rows.X, rows),
            pairing=self._between,
        )
        return pairs.a, pairs.b

    def _only_class(self, pairs: Sequence[PairsOfModels]) -> str:
        """Return the name of the class of all rows that are compared; empty if several."""
        rows = [side for both in pairs for side in (both.rows_a, both.rows_b)]
        compared = np.unique(self.rows.y[np.concatenate([np.zeros(0, dtype=np.intp), *rows])])
        if len(compared) != 1 or len(np.unique(self.rows.y)) == 1:
            return ""
        return repr(compared.tolist()[0])


@dataclass(frozen=True, eq=False)
class ComparisonOfEnvironments(Comparison):
    """The scores in each environment are columns; environments are parts of the data."""

    _: KW_ONLY
    #: The environment of each row, and the different ones.
    names: Array
    distinct: Sequence[Any]
    #: Whether no model has seen an environment that it scores.
    are_held_out: bool
    scorable: ScorableEnvironments

    @property
    def n_unseen_sites(self) -> int:
        return int(np.count_nonzero(self.sizes)) if self.are_held_out else 0

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        by_environment = {
            environment: scores.extras[f"environment_{environment}"][0]
            for environment in self.distinct
        }
        defined = self.scorable.defined.get(scores.metric)
        if defined is not None:
            for environment, known in zip(self.distinct, defined, strict=True):
                # Scores on rows on which the metric is not defined say nothing.
                by_environment[environment] = np.where(known, by_environment[environment], np.nan)
        left_out = self.scorable.left_out.get(scores.metric, {})
        error = f"se_test_{scores.metric}_worst_environment"
        columns = environment_columns(scores.metric, by_environment, scores.n_disjoint, left_out)
        if len(self.folds) == 1:  # which does not show how scores vary
            worst = columns[f"worst_environment_{scores.metric}"]
            for environment in self.distinct:
                some = scores.out_of_fold.among(self.names == environment)
                of_rows = some.errors(scores.metric, by_environment[environment])
                columns[error] = np.where(worst == environment, of_rows, columns[error])
        if self.are_held_out:
            mean = f"mean_test_{scores.metric}_environment_"
            means = np.stack([columns[f"{mean}{environment}"] for environment in self.distinct])
            columns |= new_site_columns(scores.metric, means, self.sizes, of_regressors=False)
        return columns

    @property
    def sizes(self) -> Floats:
        """The number of different test rows of each environment, 0 if it is never tested."""
        tested = self.names[np.unique(np.concatenate(self.folds))]
        return np.array([np.count_nonzero(tested == x) for x in self.distinct], dtype=np.float64)

    def scores_of_parts(
        self,
        table: Mapping[str, Any],
        metric: str,
        expected: ExpectedElsewhere,
        folds: Sequence[Ints] | None = None,
    ) -> tuple[Floats, Floats]:
        if self.are_held_out:  # folds share no environment, either
            return super().scores_of_parts(table, metric, expected, folds)
        folds = self.folds if folds is None else folds
        scores = np.stack(
            [split_scores_of(table, f"{metric}_environment_{name}") for name in self.distinct]
        )
        counts = np.array(
            [
                [np.count_nonzero(self.names[fold] == name) for fold in folds]
                for name in self.distinct
            ]
        )
        # A metric may not be defined on the rows of an environment in a fold.
        counts = np.where(np.isfinite(scores).any(axis=2), counts, 0)
        summed = np.where(counts[..., None] > 0, scores, 0.0) * counts[..., None]
        # The number of rows is one more column.
        both = np.concatenate([summed, counts[..., None]], axis=2)
        a, b = scores_of_halves(
            folds,
            halves_of(len(self.distinct), self.kind.rows.seed),
            lambda half: both[half].sum(axis=0),
            of_regressors=False,
        )
        known = (a[:, -1] > 0) & (b[:, -1] > 0)
        return a[known, :-1], b[known, :-1]


def check_environments(environments: Labels, X: Rows) -> Array:
    """Return the environment of each row of X, at least two."""
    check_text(environments, "environments", X)
    n = _num_samples(X)
    if isinstance(environments, (dict, list, tuple)) and len(environments) != n:
        raise ValueError(
            f"environments: expected one value for each of {n} rows of X, got a "
            f"{type(environments).__name__} of {len(environments)}. Rows of X as other "
            "environments would show them are views: fit(X, y, views=...)."
        )
    # A Series in another order than X is looked up; one without X's index is taken by position.
    if shares_index(environments, X):
        try:
            environments = look_up(environments, X, "environments")
        except ValueError as error:
            by_position = "Give environments.to_numpy() if they are in the order of X."
            raise ValueError(f"{error} {by_position}") from None
    names = check_column(environments, n, "environments")
    distinct = np.unique(names).tolist()
    if len(distinct) < 2:
        raise ValueError(f"environments: expected at least two, got only {distinct[0]!r}.")
    # Such as dates: hardly any class would have rows of two environments.
    if len(distinct) > len(names) / 2:
        raise ValueError(
            f"environments: expected groups of rows, got {len(distinct)} of them for {len(names)} "
            "rows. Give longer periods than days, or sites."
        )
    return names


def _warn_of_own_classes(names: Array, y: Array) -> None:
    """Warn of rows whose class no other environment has: they are compared with nothing."""
    found, environment = np.unique(names, return_inverse=True)
    classes, label = np.unique(y, return_inverse=True)
    both = np.unique(np.column_stack([environment, label]), axis=0)
    alone = both[np.bincount(both[:, 1])[both[:, 1]] == 1]
    if not len(alone):
        return
    n = np.count_nonzero(np.isin(label, alone[:, 1]))
    listed = ", ".join(
        f"{classes[[code]].tolist()[0]!r} of {found[[place]].tolist()[0]!r}"
        for place, code in alone[:_SHOWN]
    )
    more = f" and {len(alone) - _SHOWN} more" if len(alone) > _SHOWN else ""
    warn_caller(
        f"environments: expected classes that several have, got {n} of {len(y)} rows whose class "
        f"no other environment has ({listed}{more}): none of them is compared. If a label such as "
        "-1 says that rows are not labelled, leave them out."
    )


def _warn_of_column(X: Rows, names: Array) -> None:
    """Warn if a column of X is the environment."""
    # Lists, since arrays of several types cannot be compared by ==
    first = names[:_FEW].tolist()
    for number, values in enumerate(columns_of(X)):
        if values.dtype.kind == "O" and not isinstance(values[0], (str, int)):
            continue  # such as arrays, which cannot be compared by ==
        # Few values suffice to recognise most other columns.
        if values[:_FEW].tolist() == first and values.tolist() == names.tolist():
            column = list(getattr(X, "columns", range(number + 1)))[number]
            warn_caller(
                f"environments: expected values that are no column of X, got column {column!r}. "
                "The model sees in it which environment a row is from: leave it out of X."
            )


#: With fewer test rows the score of an environment is unreliable: for one row it is 0 or 1.
FEWEST_ROWS = 5


class ScorableEnvironments(NamedTuple):
    """The environments whose scores can be compared.

    For each metric, `defined` says whether it is defined on the test rows of an environment in a
    split, (n_environments, n_splits), and `left_out` has the environments that the worst one is
    not chosen from, with the reasons.
    """

    defined: dict[str, Mask]
    left_out: dict[str, dict[Any, str]]


def scorable_environments(
    test_rows: Sequence[Sequence[Extra]], data: Data, environments: Sequence[Any]
) -> ScorableEnvironments:
    """Find the environments that can be scored, and warn of those that are left out.

    `test_rows` has the rows of each environment in each split.

    A metric is not defined on rows on which even perfect predictions score 0 or nan, if they
    score more on all rows. An example is the recall if no row is positive.
    """
    y = np.asarray(data.y)
    classes, codes = np.unique(y, return_inverse=True)
    # What scores perfectly on all rows shows where a metric is not defined.
    certain = np.eye(len(classes))[codes]
    perfect = RecordedClassifier(classes, certain, y, certain)
    reference = _by_metric(_scored(perfect, np.arange(len(y)), data))
    tested = [[of_split.rows for of_split in rows] for rows in zip(*test_rows, strict=True)]
    shape = len(environments), len(test_rows)
    defined = {name: np.ones(shape, dtype=bool) for name in reference}
    for number, of_splits in enumerate(tested):
        for split, rows in enumerate(of_splits):
            scores = _by_metric(_scored(perfect, rows, data)) if len(rows) else {}
            for name, best in reference.items():
                if np.isfinite(best) and abs(best) > 1e-6:
                    value = scores.get(name, np.nan)
                    defined[name][number, split] = np.isfinite(value) and abs(value) > 1e-6
                elif np.isfinite(best):  # a loss is 0 for perfect predictions
                    defined[name][number, split] = np.isfinite(scores.get(name, np.nan))
    left_out: dict[str, dict[Any, str]] = {}
    for name, known in defined.items():
        left_out[name] = {}
        for number, environment in enumerate(environments):
            rows = np.unique(np.concatenate(tested[number]))
            n = len(rows)
            if n < FEWEST_ROWS:
                few = f"{n} test row{'' if n == 1 else 's'}"
                left_out[name][environment] = few if n else "never tested"
            elif not known[number].any():
                lacking = np.setdiff1d(y, y[rows]).tolist()
                lacks = f", since no row has class {', '.join(map(repr, lacking))}"
                left_out[name][environment] = f"{name} is not defined{lacks if lacking else ''}"
    _warn(left_out)
    return ScorableEnvironments(defined, left_out)


def _warn(left_out: dict[str, dict[Any, str]]) -> None:
    reasons: dict[Any, str] = {}
    for of_metric in left_out.values():
        reasons |= of_metric
    if reasons:
        named = [f"{environment!r} ({why})" for environment, why in reasons.items()]
        more = f"; and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        warn_caller(
            f"environments: the choice of the worst environment leaves out {len(reasons)} of "
            f"them, which have no reliable score: {'; '.join(named[:_SHOWN])}{more}."
        )


def _scored(perfect: RecordedClassifier, rows: Ints, data: Data) -> float | dict[str, float]:
    """Return the search's score of perfect predictions on some rows."""
    n = _num_samples(data.samples[0])
    params = _check_method_params(np.zeros((n, 1)), params=data.score_params, indices=rows)
    labels = np.asarray(data.y)[rows]
    with warnings.catch_warnings():
        # A metric that is not defined on these rows warns each time.
        warnings.simplefilter("ignore")
        return _score(perfect, row_numbers(rows), labels, data.scorer, params, np.nan)


def _by_metric(scores: float | dict[str, float]) -> dict[str, float]:
    return dict(scores) if isinstance(scores, dict) else {"score": scores}
