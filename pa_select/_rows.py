"""Order of the rows of DataFrames."""

from __future__ import annotations

from typing import Any


def reordered(one: Any, other: Any) -> bool:
    """Whether both have a pandas index and it is the same one in another order."""
    first: Any = getattr(one, "index", None)
    second: Any = getattr(other, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return False
    return len(first) == len(second) and second.is_unique and bool(first.isin(second).all())
