"""Combinations of classes and levels of a factor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from pa_select.shifts.numeric_rows import seeded
from pa_select.utils.arrays import check_column
from pa_select.utils.typing import Array, Labels, Mask, RandomState


def co_occurrence(
    labels: Labels,
    setting: str,
    levels: Any,
    *,
    unseen: bool = False,
    random_state: RandomState = None,
) -> Array:
    """Return a level of the learning factor for each row, more or less tied to its class.

    A classifier should predict one factor, but may learn another one if the levels of both
    occur together. The settings range from a perfect shortcut to none [1]_:

    - ``"ZGO"``, zero generalization opportunities: each class has only its own level.
    - ``"1-CGO"``, ``"2-CGO"``, ``"3-CGO"``, compositional generalization opportunities: 1, 2 or
      3 classes also occur with the level of another class. These are the first class, the last,
      the second to last and so on; each also has the level of the next class (the last class
      has the first one's). With K classes the settings go up to ``"K-CGO"``.
    - ``"ZSO"``, zero shortcut opportunities: each class occurs with all levels.

    The numbers of rows with each level of a class differ by at most one.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The classes, which are the levels of the predicted factor.
    setting : {"ZGO", "1-CGO", "2-CGO", "3-CGO", "ZSO"}
        The combinations of class and level that occur.
    levels : mapping from class to level
        The own level of each class, all different, in the order of the classes.
        `SHORTCUT_LEVELS` has the levels of the thesis.
    unseen : bool, default=False
        Whether to use the combinations that do NOT occur in the setting, for test data on which
        a shortcut fails. Impossible for ZSO, where all combinations occur.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of rows for each level; None: the same rows in every call. Two
        sources with the same seed divide the rows in the same way.

    Returns
    -------
    ndarray of shape (n,)
        Levels, for `factor_images`.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid; the message names it.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.2, Figure 12 and appendix E.
    .. [2] Master's thesis on posterior agreement, Experiment 7 and appendix C.2.2 (the
       combinations of ZGO, 1-CGO and 2-CGO; 3-CGO continues them).

    Examples
    --------
    >>> from papers.datasets import SHORTCUT_LEVELS, co_occurrence
    >>> first, second = SHORTCUT_LEVELS["hue"]
    >>> co_occurrence([7, 7, 4, 9], "ZGO", first).tolist()
    ['blue', 'blue', 'red', 'green']
    >>> co_occurrence([7, 7, 4, 9], "1-CGO", first).tolist()
    ['red', 'blue', 'red', 'green']
    >>> co_occurrence([7, 7, 4, 9], "2-CGO", first, unseen=True).tolist()
    ['green', 'green', 'blue', 'red']
    """
    if not isinstance(levels, Mapping):
        raise TypeError(f"levels: expected a mapping from class to level, got {levels!r}.")
    classes, own = list(levels), np.array(list(levels.values()))
    if len(own) < 2 or len(np.unique(own)) < len(own):
        raise ValueError(
            f"levels: expected a different level for each of two or more classes, got {levels!r}."
        )
    labels = check_column(labels, _num_samples(labels), "labels")
    strange = [label for label in labels.tolist() if label not in levels]
    if strange:
        raise ValueError(f"labels: expected classes among {classes}, got {strange[0]!r}.")
    together = _combinations(setting, len(classes))
    if unseen:
        together = ~together
        if not together.any(1).all():
            raise ValueError(
                f"unseen: expected a setting that lacks combinations of every class, got "
                f"{setting!r} of {len(classes)} classes."
            )
    source = seeded(random_state)
    code = np.empty(len(labels), dtype=np.intp)
    for k, label in enumerate(classes):
        rows = source.permutation(np.flatnonzero(labels == label))
        code[rows] = np.resize(np.flatnonzero(together[k]), len(rows))
    return own[code]


def _combinations(setting: str, n_classes: int) -> Mask:
    """Return which class occurs with which class's level, a mask (n_classes, n_classes)."""
    if setting == "ZSO":
        return np.ones((n_classes, n_classes), dtype=bool)
    together = np.eye(n_classes, dtype=bool)
    if setting == "ZGO":
        return together
    match = re.fullmatch(r"([1-9]\d*)-CGO", str(setting))
    if match is None or int(match[1]) > n_classes:
        raise ValueError(
            f"setting: expected 'ZGO', '1-CGO' to '{n_classes}-CGO' or 'ZSO', got {setting!r}."
        )
    more = -np.arange(int(match[1])) % n_classes
    together[more, (more + 1) % n_classes] = True
    return together
