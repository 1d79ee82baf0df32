"""The splits of a search into training and test rows."""

from __future__ import annotations

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

from pa_select.utils.typing import Ints

Split = tuple[Ints, Ints]


def make_splits(
    cv: Any,
    pairing: str,
    X: Any,
    y: Any,
    *,
    groups: Any,
    environments: Any,
    seed: int,
    split_params: dict[str, Any],
    classifier: bool = True,
) -> list[Split]:
    """Return all splits of a search.

    A splitter of the user is used as it is, with the parameters routed to it. If rows must be
    tested twice, a splitter with a parameter ``shuffle`` is used a second time, shuffled. For
    None or a number, the splitter depends on the pairing: two shuffled repetitions if rows
    must be tested twice, folds stratified by class and environment to compare environments,
    or else those of GridSearchCV. With groups it makes group folds. Those of regressors are not
    stratified.
    """
    if is_sequence_of_splitters(cv):
        return [split for part in cv for split in part.split(X, y, **split_params)]
    if cv is not None and not isinstance(cv, (int, np.integer)):
        given = [check_cv(cv, y, classifier=classifier)]
        if pairing == "repeated" and "shuffle" in signature(type(cv)).parameters:
            given.append(copy(cv))
            given[1].shuffle, given[1].random_state = True, seed
        return [split for part in given for split in part.split(X, y, **split_params)]
    k = 5 if cv is None else int(cv)
    if not classifier:
        splitter = check_cv(cv, y, classifier=False) if groups is None else GroupKFold(k)
        return list(splitter.split(X, y, groups))
    labels = y if environments is None else _cells(environments, y)
    largest = int(np.unique(labels, return_counts=True)[1].max())
    if largest < k:
        raise ValueError(
            f"cv: expected no more folds than there are rows of the largest class"
            f"{'' if environments is None else ' in one environment'}, {largest}, got {k} with "
            f"n_samples={len(labels)}."
        )
    twice = pairing in ("repeated", "target")
    splitters: list[Any]
    if groups is not None:
        seeds = (seed, seed + 1) if twice else (seed,)
        splitters = [StratifiedGroupKFold(k, shuffle=True, random_state=s) for s in seeds]
    elif twice:
        splitters = [RepeatedStratifiedKFold(n_splits=k, n_repeats=2, random_state=seed)]
    elif environments is not None:
        # Unshuffled folds of sorted data would have one environment each.
        splitters = [StratifiedKFold(k, shuffle=True, random_state=seed)]
    else:
        splitters = [check_cv(cv, y, classifier=True)]
    return [split for part in splitters for split in part.split(X, labels, groups)]


def needs_groups(cv: Any) -> bool:
    """Whether a splitter, or one of several, requests groups, as those of scikit-learn do."""
    splitters = cv if is_sequence_of_splitters(cv) else [cv]
    return any(get_routing_for_object(x).consumes("split", ["groups"]) for x in splitters)


def is_sequence_of_splitters(cv: Any) -> bool:
    """Whether ``cv`` is a list of splitters, not a splitter or a list of splits."""
    return isinstance(cv, (list, tuple)) and len(cv) > 0 and all(hasattr(x, "split") for x in cv)


def _cells(environments: Any, y: Any) -> Ints:
    """Return a number for each row that stands for its environment and class."""
    codes = [np.unique(np.asarray(values), return_inverse=True)[1] for values in (environments, y)]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()
