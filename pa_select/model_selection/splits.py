"""The splits of the rows of a search, and what is passed on to the fits to them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.model_selection import (
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils.metadata_routing import get_routing_for_object

from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import is_pipeline
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _check_method_params, _num_samples
from pa_select.utils.typing import Array, Groups, HasArray, Ints, Labels, Rows

# What others call environments, without an s at the end.
_SAID_FOR_ENVIRONMENTS = {
    *("site", "domain", "group", "batch", "batche", "env", "centre", "center", "hospital"),
    *("sensor", "device", "instrument", "scanner", "subject", "metadata"),
}
#: Training rows and test rows.
Split = tuple[Ints, Ints]


def check_fit_params(estimator: Any, params: dict[str, Any], arguments: Sequence[str]) -> None:
    """Refuse parameters that the estimator's ``fit`` does not take.

    `arguments` are those that the caller's ``fit`` has itself, beside X and y.
    """
    if get_config()["enable_metadata_routing"]:
        return  # scikit-learn checks it
    expected = (*arguments, "sample_weight")  # with the parameter that most estimators take
    for name in params:
        close = get_close_matches(name, expected, 1)
        if "environments" in arguments and name.lower().rstrip("s") in _SAID_FOR_ENVIRONMENTS:
            close = ["environments"]
        if takes_parameter(estimator, name, likely=name in expected or not close):
            continue
        if is_pipeline(estimator) and not set(close) - {name}:
            close = [
                f"{step}__{name}"
                for step, inside in reversed(estimator.steps)
                if hasattr(inside, "fit") and takes_parameter(inside, name, likely=False)
            ]
        meant = f" Did you mean {close[0]!r}?" if close and close[0] != name else ""
        raise TypeError(
            f"fit: expected {', '.join(arguments)} or a parameter of "
            f"{type(estimator).__name__}.fit, got {name!r}.{meant}"
        )


def params_of_rows(X: Rows, params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of ``fit`` as arrays that splits can index, as GridSearchCV does.

    Weights may have the shape (n, 1), as labels may. Estimators would refuse it at each fit.
    """
    params = _check_method_params(X, params=params)
    for name, value in params.items():
        if name.endswith("sample_weight") and np.ndim(value) > 1:
            params[name] = check_column(value, _num_samples(X), name)
    return params


def takes_parameter(estimator: Any, name: str, likely: bool) -> bool:
    """Whether ``fit`` of an estimator takes a parameter; `likely` if it takes any."""
    if is_pipeline(estimator):
        step, _, rest = name.partition("__")
        inside = estimator.named_steps.get(step)
        return hasattr(inside, "fit") and takes_parameter(inside, rest, likely)
    known = signature(estimator.fit).parameters
    if name in known or not any(p.kind is Parameter.VAR_KEYWORD for p in known.values()):
        return name in known
    inside = getattr(estimator, "estimator", None)
    return takes_parameter(inside, name, likely) if hasattr(inside, "fit") else likely


def halves(splits: Sequence[Split], y: Labels, groups: Groups, seed: int) -> list[Split]:
    """Make two splits of each: one for each half of the training rows, same test rows."""
    y = np.asarray(y)
    out = []
    for train, test in splits:
        if groups is None:
            splitter = StratifiedKFold(2, shuffle=True, random_state=seed)
            parts = splitter.split(train, y[train])
        else:
            splitter = StratifiedGroupKFold(2, shuffle=True, random_state=seed)
            parts = splitter.split(train, y[train], np.asarray(groups)[train])
        out += [(train[half], test) for half, _ in parts]
    return out


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
        return [rows for part in cv for rows in part.split(X, y, **split_params)]
    if cv is not None and not isinstance(cv, (int, np.integer)):
        given = [check_cv(cv, y, classifier=classifier)]
        if tested_twice and "shuffle" in signature(type(cv)).parameters:
            given.append(copy(cv))
            given[1].shuffle, given[1].random_state = True, seed
        return [rows for part in given for rows in part.split(X, y, **split_params)]
    n_folds = 5 if cv is None else int(cv)
    if not classifier:
        splitter = check_cv(cv, y, classifier=False) if groups is None else GroupKFold(n_folds)
        return list(splitter.split(X, y, groups))
    labels = y if environments is None else cells(environments, y)
    # Checked here: scikit-learn would name neither `cv` nor the environment.
    counts = np.unique(labels, return_counts=True)[1]
    largest, smallest = int(counts.max()), int(counts.min())
    if largest < n_folds:
        raise ValueError(
            f"cv: expected no more folds than there are rows of the largest class"
            f"{'' if environments is None else ' in one environment'}, {largest}, got {n_folds} "
            f"with n_samples={len(labels)}."
        )
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
        if environments is not None and smallest < n_folds:
            row = int(np.flatnonzero(labels == counts.argmin())[0])
            (label,), (environment,) = (np.asarray(v)[[row]].tolist() for v in (y, environments))
            warn_caller(
                f"The least populated class of an environment, {label!r} of {environment!r}, has "
                f"only {smallest} row{'' if smallest == 1 else 's'}, fewer than the {n_folds} "
                "folds."
            )
            # Scikit-learn's warning would take each environment's part of a class for a class.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return [split for part in splitters for split in part.split(X, labels, groups)]


def needs_groups(cv: Any) -> bool:
    """Whether a splitter, or one of several, requests groups, as those of scikit-learn do."""
    # scikit-learn's splitters state in their routing whether they need groups.
    splitters = cv if is_sequence_of_splitters(cv) else [cv]
    return any(get_routing_for_object(x).consumes("split", ["groups"]) for x in splitters)


def is_sequence_of_splitters(cv: object) -> bool:
    """Whether ``cv`` is a list of splitters, not a splitter or a list of splits."""
    return isinstance(cv, (list, tuple)) and len(cv) > 0 and all(hasattr(x, "split") for x in cv)


def cells(environments: Array, y: Labels) -> Ints:
    """Return a number for each row that stands for its environment and class."""
    # Codes, since environments and labels may be of different types.
    codes = [np.unique(np.asarray(values), return_inverse=True)[1] for values in (environments, y)]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


def positions(rows: Sequence[int] | HasArray) -> Ints:
    """Return row numbers; a mask is converted to them."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def n_disjoint(splits: Sequence[Split]) -> float:
    """Return the effective number of disjoint test sets: as if each row was tested once."""
    tested = np.concatenate([test for _, test in splits])
    return len(splits) * len(np.unique(tested)) / len(tested)
