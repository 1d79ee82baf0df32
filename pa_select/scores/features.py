"""Features of rows: the rows themselves, or a transformer's or a function's output."""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.utils.arrays import as_numpy
from pa_select.utils.typing import Floats, Rows


def features_of(X: Rows, features: Any, name: str) -> Floats:
    """Return the features of rows, finite numbers of shape (n, n_features)."""
    # Not at the top: importing pa_select.scores must not import scikit-learn.
    from sklearn.utils.validation import _num_samples

    if features is not None:
        transform = features.transform if hasattr(features, "transform") else features
        if not callable(transform):
            raise TypeError(
                "features: expected None, a fitted transformer or a function of the rows, got "
                f"{type(features).__name__}."
            )
        X = transform(X)
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        points = np.asarray(as_numpy(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected numbers to measure distances by: {error}.") from error
    points = points.reshape(_num_samples(points), -1)
    wrong = ~np.isfinite(points).all(1)
    if wrong.any():
        raise ValueError(
            f"{name}: expected finite features, got {points[wrong.argmax()]} in row "
            f"{wrong.argmax()}."
        )
    return points
