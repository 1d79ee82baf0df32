"""The data of a search: what it was given, its splits, and the rows that models score."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from inspect import signature
from sys import getsizeof
from typing import Any, NamedTuple

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

from pa_select.utils.arrays import distinct_rows
from pa_select.utils.sklearn_private import _MultimetricScorer
from pa_select.utils.typing import (
    Array,
    ErrorScore,
    Floats,
    Groups,
    HasArray,
    Ints,
    Labels,
    Rows,
)

#: Training rows and test rows.
Split = tuple[Ints, Ints]
#: Number of X among the samples.
SAMPLE_X = 0


class PairsOfModels(NamedTuple):
    """Pairs of rows; a split's model scores each side, and may score both.

    `rows_a` and `rows_b` are the numbers of rows of two samples: 0 is X, then follow the others.
    """

    split_a: int
    rows_a: Ints
    split_b: int
    rows_b: Ints
    sample_a: int = SAMPLE_X
    sample_b: int = SAMPLE_X


class Extra(NamedTuple):
    """Rows of a sample on which a split's model is scored by the metrics, too."""

    #: What the scores are called.
    suffix: str
    sample: int
    rows: Ints


@dataclass(frozen=True)
class Task:
    """The work to do for one split."""

    train: Ints
    test: Ints
    #: Rows of each sample whose class scores are needed.
    scored_rows: Mapping[int, Ints] = field(default_factory=dict)
    extras: Sequence[Extra] = ()
    #: Samples whose predicted classes are needed, too, and whether with probabilities.
    predicted: Sequence[int] = ()
    with_probabilities: bool = False

    def __getstate__(self) -> Any:
        # Sent to the workers: a bit for each row is less than its number.
        return _with_rows(_packed, vars(self))

    def __setstate__(self, state: Any) -> None:
        vars(self).update(_with_rows(_unpacked, state))

    def __sizeof__(self) -> int:
        return self.train.nbytes + self.test.nbytes  # that of `Given` says why


class Site(NamedTuple):
    """A site where nobody labels; the paired objects were measured there and where X was."""

    #: Empty for the only site.
    name: str
    n_pairs: int
    #: The samples of the rows: as X was measured, and at the site.
    a: int
    b: int
    #: The sample of the rows at the site, mapped by an adapter that has not seen them, or None.
    adapted: int | None
    #: Whether the site has other columns than X, so that no model can predict rows as measured.
    has_own_columns: bool

    @property
    def b_samples(self) -> list[int]:
        """The samples that show the site's objects to a model: as measured, and adapted."""
        samples = [] if self.has_own_columns else [self.b]
        return samples if self.adapted is None else [*samples, self.adapted]


@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given; it knows nothing of splits and models."""

    #: X, then its views, or the rows of paired objects.
    samples: Sequence[Any]
    #: The labels, and as the estimator's ``fit`` gets them: nets may need a column.
    y: Array
    y_to_fit: Any
    #: The distinct labels, the classes that estimators may have; none of regressors.
    labels: Array
    of_regressors: bool
    #: The groups and the environments of the rows of X, or None.
    groups: Array | None
    environments: Array | None
    n_views: int
    sites: Sequence[Site]
    #: Weights of the rows of X, or None.
    weight: Floats | None
    #: What chooses folds and pairs at random.
    seed: int
    scorer: Any
    error_score: ErrorScore
    #: What is passed on to ``fit``, to the scorer and to the splitter.
    fit_params: Mapping[str, Any]
    score_params: Mapping[str, Any]
    split_params: Mapping[str, Any]

    @property
    def scorers(self) -> dict[str, Any]:
        """The scorers by the names of their metrics."""
        return dict(self.scorer._scorers) if self.has_several else {"score": self.scorer}

    @property
    def has_several(self) -> bool:
        """Whether scores are several, by name."""
        return isinstance(self.scorer, _MultimetricScorer)

    @property
    def groups_within(self) -> Array | None:
        """The groups; None if they divide no environment, so that its rows count singly."""
        if self.groups is None or self.environments is None:
            return self.groups
        n_parts = cells(self.environments, self.groups).max() + 1
        return None if n_parts == len(np.unique(self.environments)) else self.groups

    def score_weight(self, metric: str) -> Array | None:
        """Return the weights that scikit-learn's searches give a metric; None without."""
        name, params = "sample_weight", self.score_params
        if params and self.has_several:
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


def _packed(rows: Ints) -> Array:
    if len(rows) < 2 or (np.diff(rows) <= 0).any():  # the order counts, or a row comes twice
        return rows
    there = np.zeros(rows[-1] + 1, dtype=bool)
    there[rows] = True
    bits = np.packbits(there)
    return bits if bits.nbytes < rows.nbytes else rows


def _unpacked(rows: Array) -> Ints:
    return np.flatnonzero(np.unpackbits(rows)) if rows.dtype == np.uint8 else rows


def _with_rows(of_rows: Callable[[Array], Array], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task, a function applied to all row numbers."""
    return {
        **fields,
        "train": of_rows(fields["train"]),
        "test": of_rows(fields["test"]),
        "scored_rows": {x: of_rows(rows) for x, rows in fields["scored_rows"].items()},
        "extras": [x._replace(rows=of_rows(x.rows)) for x in fields["extras"]],
    }


def cells(environments: Array, y: Labels) -> Ints:
    """Return a number for each row that stands for its environment and class."""
    # Codes, since environments and labels may be of different types.
    codes = [np.unique(np.asarray(values), return_inverse=True)[1] for values in (environments, y)]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


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
        options = {"n_splits": n_folds, "shuffle": True}
        seeds = (seed, seed + 1) if tested_twice else (seed,)
        splitters = [StratifiedGroupKFold(**options, random_state=x) for x in seeds]
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
        parts = [list(part.split(X, labels, groups)) for part in splitters]
        if groups is not None and tested_twice:
            first, second = ({test.tobytes() for _, test in part} for part in parts)
            if first == second:  # few groups are always divided alike
                other = GroupKFold(**options, random_state=seed)
                parts[1] = list(other.split(X, labels, groups))
        return [split for part in parts for split in part]


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


def folds_of(splits: Iterable[Any]) -> list[Ints]:
    """Return the test rows of each split; masks become row numbers."""
    folds = []
    for split in splits:
        if not isinstance(split, (tuple, list)) or len(split) != 2:
            raise ValueError(
                f"splits: expected (train, test) for each split, got {type(split).__name__}."
            )
        folds.append(positions(split[1]))
    return folds


def positions(rows: Sequence[int] | HasArray) -> Ints:
    """Return row numbers; a mask is converted to them."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def n_disjoint(splits: Sequence[Split]) -> float:
    """Return the effective number of disjoint test sets: as if each row was tested once."""
    tested = np.concatenate([test for _, test in splits])
    return len(splits) * len(distinct_rows(tested)) / len(tested)
