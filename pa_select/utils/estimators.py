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


# The parameters of estimators that have others inside.
_INSIDE = ("estimator", "base_estimator", "estimators", "transformers", "transformer_list")


def takes_missing(estimator: Any) -> bool:
    """Whether an estimator may take missing values: True if it does not say."""
    from sklearn.utils import get_tags

    if is_pipeline(estimator):
        for _, step in estimator.steps:
            home = type(step).__module__
            if not hasattr(step, "fit"):
                continue
            own = hasattr(step, "transform") and not home.startswith("sklearn.")
            if own or home.startswith("sklearn.impute") or _has_others(step):
                return True  # it may impute them
            if not takes_missing(step):
                return False
        return True
    if not hasattr(estimator, "__sklearn_tags__") or _has_others(estimator):
        return True
    return bool(get_tags(estimator).input_tags.allow_nan)


def _has_others(estimator: Any) -> bool:
    """Whether an estimator has others inside, which may impute missing values."""
    return any(hasattr(estimator, name) for name in _INSIDE)


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
