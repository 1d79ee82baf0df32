"""Rows of several environments: which are compared, and which environments can be scored."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from pa_select.model_selection.data_kind import DataKind, RowsOfX, check_text
from pa_select.model_selection.fits import Split
from pa_select.model_selection.split_scores import (
    OF_X,
    Block,
    Data,
    Extra,
    Layout,
    SplitTask,
    parts_of_rows,
)
from pa_select.model_selection.table_columns import (
    ScoresOfMetric,
    environment_columns,
    split_scores_of,
)
from pa_select.pairing import pair_environments
from pa_select.scores.candidate_posterior import halves_of, scores_of_halves
from pa_select.scores.precomputed import RecordedClassifier, row_numbers
from pa_select.utils.arrays import check_column
from pa_select.utils.frames import columns_of, look_up, shares_index
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _check_method_params, _num_samples, _score
from pa_select.utils.typing import Array, Floats, HasPairs, Ints, Labels, Mask, Rows

# A warning names so many environments.
_SHOWN = 3
# So many rows of a column are compared first.
_FEW = 100


class Environments(DataKind):
    """The environment of each row; one model scores rows of different environments.

    `between` pairs the rows of two environments; None pairs rows of the same label at random.
    """

    def __init__(
        self, rows: RowsOfX, environments: Labels, between: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(rows)
        self.strata = self.names = check_environments(environments, rows.X)
        _warn_of_column(rows.X, self.names)
        if between is None:
            _warn_of_own_classes(self.names, rows.y)
        self.distinct = np.unique(self.names).tolist()
        self.pairing = "environments" if between is None else between
        self._between = between

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        blocks = []
        for split, (_, test) in enumerate(splits):
            a, b = self._pair(test)
            if len(a):
                blocks.append(Block(split, test[a], split, test[b]))
        if blocks:
            return blocks
        # Every fold holds out whole environments. Rows of different folds are paired, and the
        # model that has not seen its environment scores each row.
        split_of = np.repeat(range(len(splits)), [len(test) for _, test in splits])
        rows = np.concatenate([test for _, test in splits])
        a, b = self._pair(rows)
        for split_a, split_b in np.unique(np.column_stack([split_of[a], split_of[b]]), axis=0):
            pairs = (split_of[a] == split_a) & (split_of[b] == split_b)
            blocks.append(Block(int(split_a), rows[a[pairs]], int(split_b), rows[b[pairs]]))
        return blocks

    def _pair(self, rows: Ints) -> tuple[Ints, Ints]:
        pairs = pair_environments(
            self.names[rows],
            self.rows.y[rows],
            self.rows.seed,
            X=None if self._between is None else _safe_indexing(self.rows.X, rows),
            pairing=self._between,
        )
        return pairs.a, pairs.b

    def only_class(self, blocks: Sequence[Block]) -> str:
        compared = np.unique(np.concatenate([self.rows.y[block.rows_a] for block in blocks]))
        if self._between is not None or len(compared) > 1 or len(np.unique(self.rows.y)) == 1:
            return ""
        name = repr(compared.tolist()[0])
        warn_caller(
            f"environments: expected rows of several classes to compare, got only rows of class "
            f"{name}. Their agreement is 0 whatever the classifier, so the score decides. To "
            "compare other rows, give views, pairs or other environments."
        )
        return name

    def no_pairs(self) -> str:
        if self._between is not None:
            return super().no_pairs()
        return (
            "environments: expected a class with rows in at least two environments among the "
            "test rows, got none."
        )

    def extras(self, splits: Sequence[Split]) -> list[list[Extra]]:
        names = self.names
        self._unseen = not any(np.isin(names[train], names[test]).any() for train, test in splits)
        extras = [
            [
                Extra(f"environment_{environment}", OF_X, test[names[test] == environment])
                for environment in self.distinct
            ]
            for _, test in splits
        ]
        if self._unseen:
            # Splits that hold out whole environments differ for other reasons than few rows.
            # The scores of random parts of the test rows show the error of few rows.
            for of_split, (_, test) in zip(extras, splits, strict=True):
                of_split += parts_of_rows("part", OF_X, test, self.rows.seed)
        return extras

    def unseen(self, metric: str) -> list[Any]:
        left_out = self._scorable.left_out.get(metric, {})
        return [x for x in self.distinct if x not in left_out] if self._unseen else []

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        self._scorable = scorable_environments(splits, data, self.distinct)

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        by_environment = {
            environment: scores.extras[f"environment_{environment}"][0]
            for environment in self.distinct
        }
        defined = self._scorable.defined.get(scores.metric)
        if defined is not None:
            for environment, known in zip(self.distinct, defined, strict=True):
                by_environment[environment] = np.where(known, by_environment[environment], np.nan)
        left_out = self._scorable.left_out.get(scores.metric, {})
        return environment_columns(scores.metric, by_environment, scores.n_disjoint, left_out)

    def scores_of_parts(
        self, splits: Sequence[Split], table: Mapping[str, Any], metric: str
    ) -> tuple[Floats, Floats]:
        if self._unseen:  # folds share no environment, either
            return super().scores_of_parts(splits, table, metric)
        folds = self.folds(splits)
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
        a, b = scores_of_halves(
            folds,
            halves_of(len(self.distinct), self.rows.seed),
            lambda fold, half: np.append(summed[half, fold].sum(0), counts[half, fold].sum()),
        )
        known = (a[:, -1] > 0) & (b[:, -1] > 0)
        return a[known, :-1], b[known, :-1]


class ObjectOfUser(DataKind):
    """A pairing object; `environments` are scored, and passed on to it."""

    def __init__(self, rows: RowsOfX, pairing: HasPairs, environments: Labels | None) -> None:
        super().__init__(rows)
        self.pairing = pairing
        self._environments = None
        if environments is not None:
            self._environments = Environments(rows, environments)

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        names = None if self._environments is None else self._environments.names
        X, y, groups, _ = self.rows
        items = self.pairing.pairs(splits, X, y, environments=names, groups=groups)
        return list(_checked(items, splits, len(y)))

    def extras(self, splits: Sequence[Split]) -> list[list[Extra]]:
        if self._environments is None:
            return super().extras(splits)
        return self._environments.extras(splits)

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        if self._environments is not None:
            self._environments.prepare(layout, splits, data, weight)

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        if self._environments is None:
            return {}
        return self._environments.score_columns(scores)

    def scores_of_parts(
        self, splits: Sequence[Split], table: Mapping[str, Any], metric: str
    ) -> tuple[Floats, Floats]:
        if self._environments is None:
            return super().scores_of_parts(splits, table, metric)
        return self._environments.scores_of_parts(splits, table, metric)


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


def _checked(items: Iterable[Any], splits: Sequence[Split], n: int) -> Iterator[Block]:
    """Yield the pairs of a pairing object, after checking them."""
    for i, item in enumerate(items):
        name = f"pairing: item {i} of pairs(...)"
        try:
            split_a, rows_a, split_b, rows_b = item
        except (TypeError, ValueError):
            raise TypeError(
                f"{name}: expected (split_a, rows_a, split_b, rows_b), got {item!r}."
            ) from None
        sides: list[Any] = []
        for split, rows in ((split_a, rows_a), (split_b, rows_b)):
            if not isinstance(split, (int, np.integer)) or not 0 <= split < len(splits):
                raise ValueError(
                    f"{name}: expected the number of a split, 0 to {len(splits) - 1}, got "
                    f"{split!r}."
                )
            rows = np.asarray(rows)
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or not np.isin(rows, range(n)).all():
                raise ValueError(f"{name}: expected row numbers from 0 to {n - 1}, got {rows!r}.")
            seen = np.intersect1d(rows, splits[int(split)][0])
            if len(seen):
                raise ValueError(
                    f"{name}: expected rows that the model of split {split} was not fitted to, "
                    f"got row {seen[0]} ({len(seen)} such rows)."
                )
            sides += [int(split), rows.astype(np.int64)]
        if len(sides[1]) != len(sides[3]):
            raise ValueError(
                f"{name}: expected as many rows on both sides, got {len(sides[1])} and "
                f"{len(sides[3])}."
            )
        if len(sides[1]):
            yield Block(*sides)


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
    splits: Sequence[SplitTask], data: Data, environments: Sequence[Any]
) -> ScorableEnvironments:
    """Find the environments that can be scored, and warn of those that are left out.

    A metric is not defined on rows on which even perfect predictions score 0 or nan, if they
    score more on all rows. An example is the recall if no row is positive.
    """
    y = np.asarray(data.y)
    classes, codes = np.unique(y, return_inverse=True)
    certain = np.eye(len(classes))[codes]
    perfect = RecordedClassifier(classes, certain, y, certain)
    reference = _by_metric(_scored(perfect, np.arange(len(y)), data))
    tested = [_test_rows(splits, environment) for environment in environments]
    shape = len(environments), len(splits)
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


def _test_rows(splits: Sequence[SplitTask], environment: object) -> list[Ints]:
    """Return the test rows of an environment in each split."""
    suffix = f"environment_{environment}"
    return [next(x.rows for x in task.extras if x.suffix == suffix) for task in splits]


def _scored(perfect: RecordedClassifier, rows: Ints, data: Data) -> float | dict[str, float]:
    """Return the search's score of perfect predictions on some rows."""
    n = _num_samples(data.sources[0])
    params = _check_method_params(np.zeros((n, 1)), params=data.score_params, indices=rows)
    labels = np.asarray(data.y)[rows]
    with warnings.catch_warnings():
        # A metric that is not defined on these rows warns each time.
        warnings.simplefilter("ignore")
        return _score(perfect, row_numbers(rows), labels, data.scorer, params, np.nan)


def _by_metric(scores: float | dict[str, float]) -> dict[str, float]:
    return dict(scores) if isinstance(scores, dict) else {"score": scores}
