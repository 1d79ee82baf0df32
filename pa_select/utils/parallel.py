"""Parallel jobs whose workers import no more than their work needs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from sklearn.utils import parallel


class Parallel(parallel.Parallel):
    """scikit-learn's `Parallel` without the warning filters that torch has set in this process.

    scikit-learn sends all filters to the workers. One of torch's is for a class of its own, so
    each worker would import torch to read it, which takes seconds.
    """

    def __call__(self, iterable: Iterable[Any]) -> Any:
        """Start the jobs, as `joblib.Parallel` does."""
        with warnings.catch_warnings():
            warnings.filters = [
                kept
                for kept in warnings.filters
                if getattr(kept[2], "__module__", "").split(".")[0] != "torch"
            ]
            return super().__call__(iterable)
