"""Pairings of two samples: each returns row numbers of the first and of the second."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import _num_samples

from pa_select.pairing.one_sample import Pairs, in_words, pair_environments
from pa_select.scores.features import features_of
from pa_select.utils.arrays import check_column, distinct_rows
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Array, Floats, Index, Labels, RandomState, Rows


class _Pairing(BaseEstimator, ABC):
    """Base class: counts the rows that are left out and gives the reason."""

    def __call__(
        self, X_a: Rows, X_b: Rows, y_a: Labels | None = None, y_b: Labels | None = None
    ) -> Pairs:
        """Pair the rows of two samples.

        Parameters
        ----------
        X_a, X_b : array-likes of n_a and n_b rows
            The samples.
        y_a, y_b : array-likes of shape (n_a,) and (n_b,), default=None
            Their labels, where the pairing needs them.

        Returns
        -------
        Pairs
            Row numbers of the first and of the second sample.

        Raises
        ------
        TypeError, ValueError
            If the samples do not fit; the message names the argument.
        """
        n = _num_samples(X_a), _num_samples(X_b)
        a, b, alone = self._pair(X_a, X_b, y_a, y_b)
        used = len(distinct_rows(a)), len(distinct_rows(b))
        return Pairs(
            a.astype(np.intp),
            b.astype(np.intp),
            sum(n) - sum(used),
            in_words(
                (n[0] - used[0], f"of the first sample {alone[0]}", f"of the first {alone[1]}"),
                (n[1] - used[1], f"of the second sample {alone[0]}", f"of the second {alone[1]}"),
            ),
        )

    def __sklearn_clone__(self) -> _Pairing:
        # A transformer of features has to stay fitted.
        return copy(self)

    @abstractmethod
    def _pair(
        self, X_a: Rows, X_b: Rows, y_a: Labels | None, y_b: Labels | None
    ) -> tuple[Index, Index, tuple[str, str]]:
        """Return row numbers, and why rows are left out: a phrase for one row, for several."""


class IdentityPairing(_Pairing):
    """Pair row i of the first sample with row i of the second: views of the same objects.

    Examples
    --------
    >>> from pa_select.pairing import IdentityPairing
    >>> IdentityPairing()([[1.0], [2.0]], [[1.1], [2.1]]).b
    array([0, 1])
    """

    def _pair(
        self, X_a: Rows, X_b: Rows, y_a: Labels | None, y_b: Labels | None
    ) -> tuple[Index, Index, tuple[str, str]]:
        n = _num_samples(X_a)
        if _num_samples(X_b) != n:
            raise ValueError(f"X_b: expected as many rows as X_a, {n}, got {_num_samples(X_b)}.")
        return np.arange(n), np.arange(n), ("", "")


class LabelPairing(_Pairing):
    """Pair rows of equal label at random, as many as the sample with fewer of them has.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Chooses the partners; with None they are the same in each call.

    Examples
    --------
    >>> from pa_select.pairing import LabelPairing
    >>> LabelPairing()([[0.0]] * 3, [[1.0]] * 2, [0, 1, 1], [1, 0]).n_left_out
    1
    """

    def __init__(self, random_state: RandomState = None) -> None:
        self.random_state = random_state

    def _pair(
        self, X_a: Rows, X_b: Rows, y_a: Labels | None, y_b: Labels | None
    ) -> tuple[Index, Index, tuple[str, str]]:
        labels = _labels(X_a, X_b, y_a, y_b)
        sample = np.repeat([0, 1], [len(part) for part in labels])
        seed = 0 if self.random_state is None else self.random_state
        pairs = pair_environments(sample, np.concatenate(labels), seed)
        why = "has a label with fewer rows in the other", "have labels with fewer in the other"
        return pairs.a, pairs.b - len(labels[0]), why


@dataclass(eq=False, repr=False)
class NearestPairing(_Pairing):
    """Pair each row of the first sample with the nearest row of the second.

    Give `features` that the shift does not change. If features shift with the environment or
    are spuriously correlated with the label, nearest neighbours share the spurious feature.
    On such data selection by nearest neighbours was worse than by random pairs of equal
    label.

    Parameters
    ----------
    within_label : bool, default=False
        Whether to search only among rows of the same label; needs labels.
    features : callable or fitted transformer, default=None
        ``features(X)`` or ``features.transform(X)`` returns the points to compare. None:
        the rows themselves.
    metric : str or callable, default="euclidean"
        As in `sklearn.neighbors.NearestNeighbors`.
    backend : {"sklearn", "faiss"}, default="sklearn"
        "faiss" searches with the package of that name, by Euclidean distance. It compares all
        rows, in single precision.
    n_jobs : int, default=None
        Number of scikit-learn's parallel searches.

    References
    ----------
    .. [1] Master's thesis on posterior agreement, section 5.3 (nearest neighbours of the
       same class in a net's features).

    Examples
    --------
    >>> from pa_select.pairing import NearestPairing
    >>> pairs = NearestPairing()([[0.0], [5.0]], [[4.0], [1.0], [9.0]])
    >>> pairs.b, pairs.why
    (array([1, 0]), "1 row of the second sample is nobody's partner")
    """

    within_label: bool = False
    _: KW_ONLY
    features: Any = None
    metric: str | Callable[..., float] = "euclidean"
    backend: str = "sklearn"
    n_jobs: int | None = None

    def _pair(
        self, X_a: Rows, X_b: Rows, y_a: Labels | None, y_b: Labels | None
    ) -> tuple[Index, Index, tuple[str, str]]:
        points = [features_of(X, self.features, name) for X, name in ((X_a, "X_a"), (X_b, "X_b"))]
        if self.within_label:
            labels = _labels(X_a, X_b, y_a, y_b)
        else:
            labels = [np.zeros(len(each)) for each in points]
        first, second = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for label in np.intersect1d(labels[0], labels[1]):
            rows_a, rows_b = (np.flatnonzero(each == label) for each in labels)
            first.append(rows_a)
            second.append(rows_b[self._nearest(points[0][rows_a], points[1][rows_b])])
        a, b = np.concatenate(first), np.concatenate(second)
        order = np.argsort(a, kind="stable")
        return a[order], b[order], ("is nobody's partner", "are nobody's partners")

    def _nearest(self, a: Floats, b: Floats) -> Index:
        """Return which point of b is nearest to each point of a."""
        if self.backend not in ("sklearn", "faiss"):
            raise ValueError(f"backend: expected 'sklearn' or 'faiss', got {self.backend!r}.")
        if self.backend == "sklearn":
            search = NearestNeighbors(n_neighbors=1, metric=self.metric, n_jobs=self.n_jobs)
            return search.fit(b).kneighbors(a, return_distance=False)[:, 0]
        if self.metric != "euclidean":
            raise ValueError(f"metric: expected 'euclidean' with faiss, got {self.metric!r}.")
        index = optional_import("faiss", "faiss").IndexFlatL2(b.shape[1])
        # faiss squares numbers in single precision: far from 0 it would lose their differences.
        a, b = a - b.mean(0), b - b.mean(0)
        unit = max(np.abs(a).max(), np.abs(b).max()) or 1.0
        queries, rows = (np.ascontiguousarray(x / unit, dtype=np.float32) for x in (a, b))
        index.add(rows)
        return index.search(queries, 1)[1][:, 0]


def _labels(X_a: Rows, X_b: Rows, y_a: Labels | None, y_b: Labels | None) -> list[Array]:
    labels = []
    for X, y, name in ((X_a, y_a, "y_a"), (X_b, y_b, "y_b")):
        if y is None:
            raise ValueError(f"{name}: expected labels, got None.")
        labels.append(check_column(y, _num_samples(X), name))
    return labels
