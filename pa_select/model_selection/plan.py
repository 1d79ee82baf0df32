"""The plan of a search, made from the arguments of ``fit``: splits, pairs and rows to score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from pa_select.model_selection import pairings
from pa_select.model_selection.fit_arguments import check_text
from pa_select.model_selection.layout import Layout
from pa_select.model_selection.pairings import OF_X, Block
from pa_select.model_selection.sites import Site, make_sites
from pa_select.model_selection.splits import make_splits
from pa_select.model_selection.worker import Extra, SplitTask
from pa_select.utils.columns import check_column, check_weight
from pa_select.utils.frames import check_columns, look_up, named_like, reordered, view_of
from pa_select.utils.halves import halves
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Ints

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


@dataclass(frozen=True)
class Plan:
    """All that a search does, except for its candidates."""

    #: Name of the pairing, or the object that made the pairs.
    pairing: Any
    splits: list[SplitTask]
    #: X, then its views, the target rows, or the rows of paired objects.
    sources: list[Any]
    layout: Layout
    pairs: PooledPairs
    #: With a target, the pairs of rows of X that are tested twice.
    source_pairs: PooledPairs | None
    environments: list[Any]
    #: With pairs, the sites where nobody labels.
    sites: list[Site]
    #: With pairs, the group of each row of X, if rows have groups.
    groups: NDArray[Any] | None

    @property
    def n_disjoint(self) -> float:
        """Effective number of disjoint test sets: as if each row was tested once."""
        sizes = [len(split.test) for split in self.splits]
        distinct = len(np.unique(np.concatenate([split.test for split in self.splits])))
        return len(self.splits) * distinct / sum(sizes)


class Rows(NamedTuple):
    """The rows that ``fit`` was given, with their labels, groups and weights."""

    X: Any
    y: Any
    groups: Any = None
    sample_weight: Any = None
    environments: Any = None
    #: X as other environments would show it.
    views: Any = None
    #: Unlabelled rows from where the model will be used.
    target: Any = None
    #: Unlabelled rows of the same objects, as X was measured and from where the model will be
    #: used, or a dict of such pairs.
    paired: Any = None


def make_plan(
    rows: Rows,
    *,
    pairing: Any,
    cv: Any,
    seed: int,
    split_params: dict[str, Any],
    estimator: Any,
    adapter: Any = None,
) -> Plan:
    """Check the arguments of ``fit`` and plan the search.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it, what was expected and what was found.
    """
    X, n = rows.X, _num_samples(rows.X)
    labels = check_column(rows.y, n, "y")
    weight = None if rows.sample_weight is None else check_weight(rows.sample_weight, n)
    kind = choose_pairing(
        pairing,
        environments=rows.environments,
        views=rows.views,
        target=rows.target,
        paired=rows.paired,
    )
    between = None  # a pairing of two environments
    if callable(kind):
        kind, between = "environments", kind
    names = None
    if rows.environments is not None:
        names = check_environments(rows.environments, X)
    others: list[Any] = []
    sites: list[Site] = []
    if rows.views is not None:
        others = [_check_view(view, X, n, name) for name, view in _named_views(rows.views, n)]
    elif rows.target is not None:
        others = [_check_target(rows.target, X)]
    elif rows.paired is not None:
        sites, others = make_sites(rows.paired, X, estimator, adapter, seed)
    rows = rows._replace(y=labels, environments=names)

    stratify = names if kind == "environments" else None
    splits = make_splits(
        cv,
        kind,
        X,
        labels,
        groups=rows.groups,
        environments=stratify,
        seed=seed,
        split_params=split_params,
        classifier=is_classifier(estimator),
    )
    splits = [(_positions(train), _positions(test)) for train, test in splits]
    if kind == "repeated" and not pairings.tested_twice(splits):
        kind = "split-half"
        warn_caller(
            "cv tests no row by two models, but pairing='repeated' compares two models on each "
            "row. The search compares models of the two halves of each split's training rows "
            "instead (pairing='split-half'). To train on all of these rows, give as cv a number "
            "of folds, a repeated splitter, or a list of two splitters with different seeds."
        )
    if kind == "split-half":
        splits = halves(splits, labels, rows.groups, seed)
    blocks = _blocks(kind, splits, rows, others, seed, between, sites)
    if not blocks:
        reason = None if between else _NO_PAIRS.get(kind)
        raise ValueError(reason or "pairing: expected pairs of the test rows, got none.")
    source_blocks = pairings.tested_twice(splits) if kind == "target" else []
    scored = pairings.for_calibration(splits, sites)
    layout = Layout(splits, [*blocks, *source_blocks, *scored])
    predicted = [source for site in sites for source in (site.a, *site.shown)]
    groups = None
    if sites and rows.groups is not None:
        groups = check_column(rows.groups, n, "groups")
    if sites and (len(splits) == 1 or groups is not None):
        # A single score does not show how it varies, nor several how alike rows of a group are.
        predicted.append(OF_X)
    distinct = [] if names is None else np.unique(names).tolist()
    whole = names is not None and not any(np.isin(names[a], names[b]).any() for a, b in splits)
    return Plan(
        pairing=kind if between is None else between,
        splits=[
            SplitTask(
                train,
                test,
                wanted,
                [
                    *_extras(test, len(others) * (kind == "views"), names, distinct),
                    *(_parts(test, seed) if whole else []),
                ],
                predicted,
            )
            for (train, test), wanted in zip(splits, layout.wanted, strict=True)
        ],
        sources=[X, *others],
        layout=layout,
        pairs=layout.pooled(blocks, None if kind in ("target", "paired") else weight),
        source_pairs=layout.pooled(source_blocks, weight) if source_blocks else None,
        environments=distinct,
        sites=sites,
        groups=groups,
    )


# Parts of the test rows of a split that holds out whole environments.
_PARTS = 5

_NO_PAIRS = {
    "target": "cv: expected at least two splits with pairing='target', got one.",
    "environments": (
        "environments: expected a class with rows in at least two environments among the "
        "test rows, got none."
    ),
}


def choose_pairing(pairing: Any, **data: Any) -> Any:
    """Return the pairing; environments, views, a target or pairs select that of their name."""
    given = {name: value for name, value in data.items() if value is not None}
    if callable(pairing) and "environments" not in given:
        raise ValueError(
            "environments: expected some in fit(X, y, environments=...) with a pairing of two "
            "samples, got None."
        )
    if not isinstance(pairing, str):
        surplus = [name for name in given if name != "environments"]
        if surplus:
            raise ValueError(
                f"{surplus[0]}: expected None with a pairing object, which gets X, y, groups "
                f"and environments, got {type(given[surplus[0]]).__name__}."
            )
        return pairing
    if len(given) > 1:
        first, second, *_ = given
        raise ValueError(f"{second}: expected None if {first} is given, got both.")
    if pairing == "split-half" and given:
        raise ValueError(f"{next(iter(given))}: expected None with pairing='split-half'.")
    if pairing in data and pairing not in given:
        raise ValueError(
            f"{pairing}: expected some in fit(X, y, {pairing}=...) with pairing={pairing!r}, got "
            f"{next(iter(given), None)}."
        )
    return next(iter(given), pairing)


def _blocks(
    kind: Any,
    splits: list[Any],
    rows: Rows,
    others: list[Any],
    seed: int,
    between: Any,
    sites: list[Site],
) -> list[Block]:
    """Return the blocks of pairs that are compared."""
    X, y, environments = rows.X, rows.y, rows.environments
    if kind == "repeated":
        return pairings.tested_twice(splits)
    if kind == "split-half":
        return pairings.halves_compared(splits)
    if kind == "environments":
        return pairings.across_environments(splits, environments, y, seed, X, between)
    if kind == "views":
        return pairings.with_views(splits, len(others))
    if kind == "target":
        return pairings.models_on_target(len(splits), _num_samples(others[0]))
    if kind == "paired":
        return pairings.measured_twice(len(splits), sites)
    context = {"environments": environments, "groups": rows.groups}
    return pairings.from_object(kind, splits, X, y, len(y), **context)


def _extras(test: Any, n_views: int, names: Any, distinct: list[Any]) -> list[Extra]:
    """Return the rows on which a split's model is scored, apart from its test rows."""
    extras = [Extra("views", 1 + view, test) for view in range(n_views)]
    if names is not None:
        extras += [Extra(f"environment_{e}", OF_X, test[names[test] == e]) for e in distinct]
    return extras


def _parts(test: Ints, seed: int) -> list[Extra]:
    """Return random parts of a split's test rows, whose scores show the error of few rows.

    They are for splits that hold out whole environments, whose scores also differ for other
    reasons.
    """
    shuffled = np.random.default_rng(seed).permutation(test)
    return [Extra("part", OF_X, part, may_fail=True) for part in np.array_split(shuffled, _PARTS)]


def _positions(rows: Any) -> NDArray[np.int64]:
    """Return row numbers; a mask is converted to them."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def check_environments(environments: Any, X: Any) -> NDArray[Any]:
    """Return the environment of each row of X, at least two.

    Raises
    ------
    TypeError, ValueError
        If they are not.
    """
    check_text(environments, "environments", X)
    if reordered(X, environments):
        environments = look_up(environments, X, "environments")
    names = check_column(environments, _num_samples(X), "environments")
    distinct = np.unique(names).tolist()
    if len(distinct) < 2:
        raise ValueError(f"environments: expected at least two, got only {distinct[0]!r}.")
    return names


def _named_views(views: Any, n: int) -> list[tuple[str, Any]]:
    """Return the views with their names for messages."""
    if isinstance(views, dict):
        raise TypeError("views: expected one view or a list of them, got a dict.")
    several = isinstance(views, (list, tuple)) and all(
        callable(v) or hasattr(v, "transform") or (hasattr(v, "shape") and _num_samples(v) == n)
        for v in views
    )
    if several and not len(views):
        raise ValueError("views: expected at least one, got an empty list.")
    return [(f"views[{i}]", v) for i, v in enumerate(views)] if several else [("views", views)]


def _check_view(view: Any, X: Any, n: int, name: str) -> Any:
    check_text(view, name, X)
    made = callable(view) or hasattr(view, "transform")
    indexed = hasattr(view, "loc") and hasattr(X, "loc") and not view.index.equals(X.index)
    if made and not hasattr(view, "loc") or indexed:
        view = view_of(view, X, name)
    if _num_samples(view) != n:
        raise ValueError(
            f"{name}: expected a view of each of {n} rows of X, got {_num_samples(view)} rows."
        )
    check_columns(view, X, name)
    return named_like(X, view, same_rows=True)


def _check_target(target: Any, X: Any) -> Any:
    check_text(target, "target", X)
    if isinstance(target, tuple):
        raise TypeError(
            f"target: expected unlabelled rows like X, got a tuple of {len(target)}. The target's "
            "labels are not used: give its rows alone."
        )
    if not hasattr(target, "__len__") and not hasattr(target, "shape"):
        raise TypeError(f"target: expected unlabelled rows like X, got {type(target).__name__}.")
    if not _num_samples(target):
        raise ValueError("target: expected at least one row, got none.")
    check_columns(target, X, "target")
    return named_like(X, target)
