"""Pairs of rows that an object of the user makes: a pairing object, or a kind of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np

from pa_select.model_selection.kinds.kind import Comparison, DataKind, RowsOfX, made_by
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.split_scores import SAMPLE_X, Data, PairsOfModels
from pa_select.model_selection.splits import Split
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Floats, HasPairs


class CustomPairs(DataKind):
    """A pairing object; `environments`, a kind of data, are scored, and passed on to it."""

    def __init__(self, rows: RowsOfX, pairing: HasPairs, environments: DataKind | None) -> None:
        super().__init__(rows)
        self.pairing, self.compares = pairing, made_by(pairing)
        self._scored = self if environments is None else environments
        self.strata = self._scored.strata

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        X, y, groups, _ = self.rows
        items = self.pairing.pairs(splits, X, y, environments=self.strata, groups=groups)
        return self._scored.compare_pairs(list(_checked(items, splits, len(y))), splits, data)


def make_own(kind: type[DataKind], rows: RowsOfX, given: Mapping[str, Any]) -> DataKind:
    """Make a kind of data of the user's own; refuse what it does not take, or lacks."""
    # What the kind takes is read from its ``__init__``, as scikit-learn reads parameters.
    first, *others = signature(kind).parameters.values()
    takes_all = any(x.kind is Parameter.VAR_KEYWORD for x in (first, *others))
    known = {x.name: x for x in others if x.kind is not Parameter.VAR_KEYWORD}
    who = kind.__name__
    for name in given if not takes_all else ():
        if name not in known:
            raise TypeError(
                f"{name}: expected None with pairing={who}, whose __init__ takes "
                f"{', '.join([first.name, *known])}, got {type(given[name]).__name__}."
            )
    for name, parameter in known.items():
        if parameter.default is Parameter.empty and name not in given:
            raise TypeError(
                f"{name}: expected some in fit(X, y, {name}=...) with pairing={who}, got None."
            )
    made = kind(rows, **given)
    rule = made.default_rule("score")
    if not isinstance(rule, SelectionRule):
        raise TypeError(
            f"pairing: expected a SelectionRule of {who}.default_rule, got {type(rule).__name__}."
        )
    return made


def compare_own(
    kind: DataKind, splits: list[Split], data: Data, weight: Floats | None
) -> Comparison:
    """Return what a kind of the user's own compares, after checking it."""
    comparison, who = kind.compare(splits, data, weight), type(kind).__name__
    if not isinstance(comparison, Comparison):
        raise TypeError(
            f"pairing: expected a Comparison of {who}.compare, got {type(comparison).__name__}."
        )
    n_rows = [_num_samples(sample) for sample in data.samples]
    for i, pair in enumerate(comparison.compared):
        name = f"pairing: item {i} that {who} compares"
        _check_pair(name, pair, comparison.splits, n_rows)
    return comparison


def _checked(items: Iterable[Any], splits: Sequence[Split], n: int) -> Iterator[PairsOfModels]:
    """Yield the pairs of a pairing object, after checking them."""
    for i, item in enumerate(items):
        name = f"pairing: item {i} of pairs(...)"
        try:
            split_a, rows_a, split_b, rows_b = item
        except (TypeError, ValueError):
            raise TypeError(
                f"{name}: expected (split_a, rows_a, split_b, rows_b), got {item!r}."
            ) from None
        _check_pair(name, PairsOfModels(split_a, rows_a, split_b, rows_b), splits, [n])
        # A split may have no pair.
        if len(rows_a):
            a, b = (np.asarray(rows, dtype=np.int64) for rows in (rows_a, rows_b))
            yield PairsOfModels(int(split_a), a, int(split_b), b)


def _check_pair(
    name: str, pair: PairsOfModels, splits: Sequence[Split], n_rows: Sequence[int]
) -> None:
    """Check pairs of rows of samples that have so many rows."""
    if not isinstance(pair, PairsOfModels):
        raise TypeError(f"{name}: expected a PairsOfModels, got {pair!r}.")
    for split, rows, sample in (
        (pair.split_a, pair.rows_a, pair.sample_a),
        (pair.split_b, pair.rows_b, pair.sample_b),
    ):
        for number, n, of in ((split, len(splits), "split"), (sample, len(n_rows), "sample")):
            if not isinstance(number, (int, np.integer)) or not 0 <= number < n:
                raise ValueError(
                    f"{name}: expected the number of a {of}, 0 to {n - 1}, got {number!r}."
                )
        rows, n = np.asarray(rows), n_rows[sample]
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not np.isin(rows, range(n)).all():
            raise ValueError(f"{name}: expected row numbers from 0 to {n - 1}, got {rows!r}.")
        seen = np.intersect1d(rows, splits[split][0]) if sample == SAMPLE_X else rows[:0]
        if len(seen):
            raise ValueError(
                f"{name}: expected rows that the model of split {split} was not fitted to, "
                f"got row {seen[0]} ({len(seen)} such rows)."
            )
    if len(pair.rows_a) != len(pair.rows_b):
        raise ValueError(
            f"{name}: expected as many rows on both sides, got {len(pair.rows_a)} and "
            f"{len(pair.rows_b)}."
        )
