"""Results of one classifier or of several by name, and true scores in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def named_results(results: Any, kind: type, name: str) -> dict[str, Any]:
    """Return results of the class `kind` by the names of their classifiers.

    Raises
    ------
    TypeError
        If `results` is neither such a result nor a dict of them; `name` is that of the argument.
    """
    named = dict(results) if isinstance(results, Mapping) else {"classifier": results}
    wrong = next((one for one in named.values() if not isinstance(one, kind)), None)
    if wrong is not None or not named:
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(
            f"{name}: expected {article} {kind.__name__} or a dict of these, got "
            f"{type(wrong).__name__ if named else 'an empty dict'}."
        )
    return {str(key): one for key, one in named.items()}


def in_order(true_scores: Any, names: list[str]) -> Any:
    """Return true scores in the order of the candidates; nan for names that are missing."""
    if not isinstance(true_scores, Mapping):
        return None if true_scores is None else np.atleast_1d(true_scores)
    by_name = {str(key): score for key, score in true_scores.items()}
    unknown = [name for name in by_name if name not in names]
    if unknown:
        raise ValueError(f"true_scores: expected some of the names {names}, got {unknown[0]!r}.")
    return np.array([by_name.get(name, np.nan) for name in names], dtype=np.float64)
