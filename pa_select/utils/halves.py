"""Splits whose training rows are divided into two halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from pa_select.utils.typing import Ints

Split = tuple[Ints, Ints]


def halves(splits: Sequence[Split], y: Any, groups: Any, seed: int) -> list[Split]:
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
