"""Type checks of estimators without imports, and estimators inside estimators."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any


def is_instance(estimator: Any, module: str, name: str) -> bool:
    """Call `isinstance` without an import: a module not yet imported has no instances."""
    home = sys.modules.get(module)
    return home is not None and isinstance(estimator, getattr(home, name))


def is_pipeline(estimator: Any) -> bool:
    """Whether the estimator is a `sklearn.pipeline.Pipeline`."""
    return is_instance(estimator, "sklearn.pipeline", "Pipeline")


def unwrapped(estimator: Any) -> Iterator[Any]:
    """Yield the estimator, then the one inside it (last step, best, frozen), and so on."""
    while True:
        yield estimator
        if is_pipeline(estimator) and len(estimator.steps):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif is_instance(estimator, "sklearn.frozen", "FrozenEstimator"):
            estimator = estimator.estimator
        else:
            return


def named_estimators(estimators: Any) -> dict[str, Any]:
    """Return a dict of the estimators by name."""
    if isinstance(estimators, Mapping):
        named = {str(name): estimator for name, estimator in estimators.items()}
    else:
        several = estimators if isinstance(estimators, (list, tuple)) else [estimators]
        kinds = [type(estimator).__name__ for estimator in several]
        named = {
            kind if kinds.count(kind) == 1 else f"{kind} {kinds[:i].count(kind) + 1}": estimator
            for i, (kind, estimator) in enumerate(zip(kinds, several, strict=True))
        }
    if not named:
        raise ValueError("estimators: expected at least one, got none.")
    return named
