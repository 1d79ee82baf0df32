"""Which level of a factor goes with which class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from pa_select.environments.rows import seeded
from pa_select.scoring.columns import check_column


def co_occurrence(
    labels: Any,
    setting: str,
    levels: Any,
    *,
    unseen: bool = False,
    random_state: Any = None,
) -> NDArray[Any]:
    """A level of the learning factor for each row, more or less tied to its class.

    A classifier is to predict one factor, but may learn another one where their levels go
    together. Settings, from a perfect shortcut to none [1]_:

    - ``"ZGO"``, zero generalization opportunities: each class has one level of its own.
    - ``"1-CGO"``, ``"2-CGO"``, ``"3-CGO"``, compositional generalization opportunities: so many
      classes also come with the level of another class. These are the first class, the last
      one, the one before the last and so on, each with the level of the class after it (of
      the last one, the first). Of more than three classes there are such settings up to
      their number.
    - ``"ZSO"``, zero shortcut opportunities: each class comes with all levels.

    The rows of a class are divided evenly among its levels, but for a row.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The levels of the predicted factor: where it is the shape, the classes.
    setting : {"ZGO", "1-CGO", "2-CGO", "3-CGO", "ZSO"}
        How many combinations of class and level there are.
    levels : mapping from class to level
        The level of its own for each class, all different; its order is that of the classes.
        `SHORTCUT_LEVELS` has those of the thesis.
    unseen : bool, default=False
        The combinations that the setting lacks in place of those it has: of these are the tests
        that a shortcut fails. ZSO lacks none.
    random_state : int, RandomState instance or None, default=None
        Which rows of a class get which level; None: always the same ones. Two sources by the
        same state divide the rows alike.

    Returns
    -------
    ndarray of shape (n,)
        Levels, for `factor_images`.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit; the message names it.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.2, Figure 12 and appendix E.
    .. [2] Master's thesis on posterior agreement, Experiment 7 and appendix C.2.2 (the
       combinations of ZGO, 1-CGO and 2-CGO; 3-CGO goes on in the same way).

    Examples
    --------
    >>> from pa_select.environments import SHORTCUT_LEVELS, co_occurrence
    >>> first, second = SHORTCUT_LEVELS["hue"]
    >>> co_occurrence([7, 7, 4, 9], "ZGO", first).tolist()
    ['blue', 'blue', 'red', 'green']
    >>> co_occurrence([7, 7, 4, 9], "1-CGO", first).tolist()
    ['red', 'blue', 'red', 'green']
    >>> co_occurrence([7, 7, 4, 9], "2-CGO", first, unseen=True).tolist()
    ['green', 'green', 'blue', 'red']

    Digits that are drawn so:

    >>> from sklearn.datasets import load_digits
    >>> from pa_select.environments import FACTOR_LADDERS, factor_images
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> hues = co_occurrence(y, "ZSO", {0: "red", 1: "green", 2: "blue"})
    >>> environment = {**FACTOR_LADDERS["hue shortcut"][0], "hue": hues}
    >>> factor_images(X.reshape(-1, 8, 8) / 16, environment).shape
    (537, 3, 32, 32)
    """
    if not isinstance(levels, Mapping):
        raise TypeError(f"levels: expected a mapping from class to level, got {levels!r}.")
    classes, own = list(levels), np.array(list(levels.values()))
    if len(own) < 2 or len(np.unique(own)) < len(own):
        raise ValueError(
            f"levels: expected a level of its own for each of two or more classes, got {levels!r}."
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


def _combinations(setting: str, n_classes: int) -> NDArray[np.bool_]:
    """Which class comes with which class's level, of shape (n_classes, n_classes)."""
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
