"""The splits of the rows of a search."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils.metadata_routing import get_routing_for_object

from pa_select.model_selection.data import Split, cells
from pa_select.utils.typing import Array, Groups, HasArray, Ints, Labels, Rows


def make_splits(
    cv: Any,
    X: Rows,
    y: Labels,
    *,
    tested_twice: bool,
    groups: Groups,
    environments: Array | None,
    seed: int,
    split_params: dict[str, Any],
    classifier: bool = True,
) -> list[Split]:
    """Return all splits of a search.

    A splitter of the user is used as it is, with the parameters routed to it. If rows must be
    tested twice, one with a parameter ``shuffle`` is used a second time, shuffled. For None or
    a number, folds are then two shuffled repetitions; otherwise they are folds stratified by
    class and environment if there are environments, or else those of GridSearchCV. With groups
    they are group folds. Those of regressors are not stratified.
    """
    # Several splitters repeat the folds as their user wants it.
    if is_sequence_of_splitters(cv):
        return _numbered(rows for part in cv for rows in part.split(X, y, **split_params))
    if cv is not None and not isinstance(cv, (int, np.integer)):
        given = [check_cv(cv, y, classifier=classifier)]
        if tested_twice and "shuffle" in signature(type(cv)).parameters:
            given.append(copy(cv))
            given[1].shuffle, given[1].random_state = True, seed
        return _numbered(rows for part in given for rows in part.split(X, y, **split_params))
    n_folds = 5 if cv is None else int(cv)
    if not classifier:
        splitter = check_cv(cv, y, classifier=False) if groups is None else GroupKFold(n_folds)
        return list(splitter.split(X, y, groups))
    labels = y if environments is None else cells(environments, y)
    splitters: list[Any]
    if groups is not None:
        seeds = (seed, seed + 1) if tested_twice else (seed,)
        splitters = [StratifiedGroupKFold(n_folds, shuffle=True, random_state=x) for x in seeds]
    elif tested_twice:
        splitters = [RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=2, random_state=seed)]
    elif environments is not None:
        # Unshuffled folds of sorted data would have one environment each.
        splitters = [StratifiedKFold(n_folds, shuffle=True, random_state=seed)]
    else:
        splitters = [check_cv(cv, y, classifier=True)]
    with warnings.catch_warnings():
        if environments is not None:  # whose classes may have few rows
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return [split for part in splitters for split in part.split(X, labels, groups)]


def halves(splits: Sequence[Split], y: Labels, groups: Groups, seed: int) -> list[Split]:
    """Make two splits of each: one for each half of the training rows, same test rows."""
    y = np.asarray(y)
    out = []
    for train, test in splits:
        splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
        of_rows = None if groups is None else np.asarray(groups)[train]
        parts = splitter(2, shuffle=True, random_state=seed).split(train, y[train], of_rows)
        out += [(train[half], test) for half, _ in parts]
    return out


def needs_groups(cv: Any) -> bool:
    """Whether a splitter, or one of several, requests groups, as those of scikit-learn do."""
    # scikit-learn's splitters state in their routing whether they need groups.
    splitters = cv if is_sequence_of_splitters(cv) else [cv]
    return any(get_routing_for_object(x).consumes("split", ["groups"]) for x in splitters)


def is_sequence_of_splitters(cv: object) -> bool:
    """Whether ``cv`` is a list of splitters, not a splitter or a list of splits."""
    return isinstance(cv, (list, tuple)) and len(cv) > 0 and all(hasattr(x, "split") for x in cv)


def _numbered(splits: Any) -> list[Split]:
    return [(positions(train), positions(test)) for train, test in splits]


def positions(rows: Sequence[int] | HasArray) -> Ints:
    """Return row numbers; a mask is converted to them."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def n_disjoint(splits: Sequence[Split]) -> float:
    """Return the effective number of disjoint test sets: as if each row was tested once."""
    tested = np.concatenate([test for _, test in splits])
    return len(splits) * len(np.unique(tested)) / len(tested)
