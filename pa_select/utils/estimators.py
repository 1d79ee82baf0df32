"""What is inside an estimator: the steps of pipelines, searches and frozen estimators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any


def is_instance(estimator: Any, module: str, name: str) -> bool:
    """Call `isinstance` without an import: a module never imported has no instances."""
    home = sys.modules.get(module)
    return home is not None and isinstance(estimator, getattr(home, name))


def is_pipeline(estimator: Any) -> bool:
    """Whether the estimator is a pipeline of scikit-learn."""
    return is_instance(estimator, "sklearn.pipeline", "Pipeline")


def unwrapped(estimator: Any) -> Iterator[Any]:
    """Yield the estimator, then one after another those that it wraps."""
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
