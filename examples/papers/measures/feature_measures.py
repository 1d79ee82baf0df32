"""Comparison of a model's representations of the same rows in two environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from pa_select.scores.features import features_of
from pa_select.shifts import RobustnessCurve
from pa_select.shifts.transform import as_shift
from pa_select.utils.arrays import check_column
from pa_select.utils.typing import Array, Floats, Labels, Rows

# So many rows, always the same ones, are compared by the maximum mean discrepancy, whose cost is
# quadratic.
_MOST_ROWS = 1000


class FeatureDiscrepancy(NamedTuple):
    """Discrepancies between two samples of features, from `feature_discrepancy`.

    Attributes
    ----------
    cosine_similarity : float
        Mean over pairs of rows, in [-1, 1]; a row of zeros counts as 0.
    mmd : float
        Maximum mean discrepancy, at least 0.
    frechet : float
        Fréchet distance of the normal distributions with the samples' moments, at least 0,
        in squared units of the features.
    centroid_distance : float
        Euclidean distance of the samples' means, at least 0, in units of the features.
    """

    cosine_similarity: float
    mmd: float
    frechet: float
    centroid_distance: float


def feature_discrepancy(features_a: Rows, features_b: Rows) -> FeatureDiscrepancy:
    """Compare two samples of features, row by row and as distributions.

    Parameters
    ----------
    features_a, features_b : array-like of shape (n, n_features)
        Representations of the same rows in two environments, for example outputs of a
        layer.

    Returns
    -------
    FeatureDiscrepancy

    Raises
    ------
    TypeError, ValueError
        If the features are not finite numbers of one shape, or there are fewer than 2 rows.

    Notes
    -----
    The maximum mean discrepancy uses a Gaussian kernel, whose width is the median distance
    between rows, and the biased estimate, which is 0 for equal samples. Of more than 1000 rows
    it takes 1000 random ones, the same in each call.

    References
    ----------
    .. [1] A. Gretton et al., "A kernel two-sample test", JMLR 2012, equation 5.
    .. [2] M. Heusel et al., "GANs trained by a two time-scale update rule converge to a
       local Nash equilibrium", 2017, section 4 (Fréchet distance).
    .. [3] Master's thesis on posterior agreement, section 4.2 (similarity and centroids).

    Examples
    --------
    >>> import numpy as np
    >>> from papers.measures import feature_discrepancy
    >>> features = np.random.default_rng(0).normal(size=(300, 4))
    >>> found = feature_discrepancy(features, features + 1)
    >>> round(found.frechet, 6), round(found.centroid_distance, 6)
    (4.0, 2.0)
    """
    a, b = _paired(features_a, features_b)
    if len(a) < 2:
        raise ValueError(f"features_a: expected at least 2 rows, got {len(a)}.")
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = np.divide((a * b).sum(1), norms, out=np.zeros(len(a)), where=norms > 0)
    rows = np.arange(len(a))
    if len(a) > _MOST_ROWS:
        rows = np.sort(check_random_state(0).choice(len(a), _MOST_ROWS, replace=False))
    return FeatureDiscrepancy(
        cosine_similarity=float(cosines.mean()),
        mmd=_mmd(a[rows], b[rows]),
        frechet=_frechet(a, b),
        centroid_distance=float(np.linalg.norm(a.mean(0) - b.mean(0))),
    )


def feature_columns(
    curve: RobustnessCurve,
    estimators: Mapping[str, Any],
    X: Rows,
    y: Labels | None = None,
    *,
    shift: Any,
    features: Mapping[str, Callable[[Any], Any]],
) -> dict[str, Array]:
    """Return the discrepancies of the features for each row of a robustness curve's table.

    Parameters
    ----------
    curve : RobustnessCurve
        What `pa_select.robustness_curve` returned.
    estimators : dict of str to object
        The classifiers of the curve.
    X, y, shift
        As the curve was computed with. The rows are shifted again, so the shift must have a seed.
    features : dict of str to callable
        The features of rows for each estimator, for example a `pa_select.scores.LayerFeatures`.

    Returns
    -------
    dict of str to ndarray of shape (n_rows,)
        The columns "cosine_similarity", "mmd", "frechet" and "centroid_distance".
    """
    shift = as_shift(shift)
    before = {name: features_of(X, features[name], "X") for name in estimators}
    found = {}
    for power in curve.powers:
        moved = None if shift._aimed else shift(X, y, power=power)
        for name, estimator in estimators.items():
            rows = (moved or shift(X, y, estimator=estimator, power=power)).X
            after = features_of(rows, features[name], "X")
            for ratio in curve.ratios:
                reached = curve._samples.replaced(name, power, ratio)[:, None]
                mixed = np.where(reached, after, before[name])
                found[name, power, ratio] = feature_discrepancy(before[name], mixed)
    keys = zip(*(curve.table[name] for name in ("estimator", "power", "ratio")), strict=True)
    columns = np.array([found[key] for key in keys])
    return dict(zip(FeatureDiscrepancy._fields, columns.T, strict=True))


class Invariance(NamedTuple):
    """Whether a representation depends on the environment, from `invariance`.

    Attributes
    ----------
    error : float
        Mean squared difference of the two projections of a row, in units of their variance.
        It is 0 if the environment does not matter.
    class_variance : float
        Mean variance of the projections within a class, as a share of the total variance.
        It is 0 if the leading direction separates the classes, 1 if it ignores them.
    projection_a, projection_b : ndarray of shape (n,)
        The rows' coordinates along the leading directions, of mean 0 and variance 1.
    """

    error: float
    class_variance: float
    projection_a: Floats
    projection_b: Floats


def invariance(features_a: Rows, features_b: Rows, y: Labels) -> Invariance:
    """Compare the leading principal components of two environments' features.

    The leading direction is computed for each environment separately. If a representation
    serves the task and ignores the environment, a row has the same coordinate in both, and
    the coordinates of one class are close to each other.

    Parameters
    ----------
    features_a, features_b : array-like of shape (n, n_features)
        Representations of the same rows in two environments.
    y : array-like of shape (n,)
        Labels.

    Returns
    -------
    Invariance

    Raises
    ------
    TypeError, ValueError
        If the features are not finite numbers of one shape, all rows are equal, or the
        labels do not fit.

    Notes
    -----
    The sign of a principal direction is arbitrary; the second direction gets the sign that
    fits the first. The coordinates are standardised, as in the thesis's figure, so that
    representations of different scales can be compared.

    References
    ----------
    .. [1] Master's thesis on posterior agreement, section 4.3, Experiment 5c.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.measures import invariance
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> features = np.column_stack([5.0 * y, rng.normal(size=200)])
    >>> found = invariance(features, features + rng.normal(size=(200, 2)), y)
    >>> found.error < 0.2, found.class_variance < 0.1
    (True, True)
    """
    a, b = _paired(features_a, features_b)
    labels = check_column(y, len(a), "y")
    z = []
    for points, name in ((a, "features_a"), (b, "features_b")):
        centred = points - points.mean(0)
        if not centred.any():
            raise ValueError(f"{name}: expected rows that differ, got {len(points)} equal ones.")
        left, values, _ = np.linalg.svd(centred, full_matrices=False)
        coordinate = left[:, 0] * values[0]
        z.append(coordinate / coordinate.std())
    z[1] *= np.sign(z[0] @ z[1]) or 1
    _, codes = np.unique(labels, return_inverse=True)
    counts = np.bincount(codes)
    within = [
        float(((side - (np.bincount(codes, side) / counts)[codes]) ** 2).mean()) for side in z
    ]
    return Invariance(float(((z[0] - z[1]) ** 2).mean()), float(np.mean(within)), z[0], z[1])


def _paired(features_a: Rows, features_b: Rows) -> tuple[Floats, Floats]:
    a, b = features_of(features_a, None, "features_a"), features_of(features_b, None, "features_b")
    if a.shape != b.shape:
        raise ValueError(f"features_b: expected shape {a.shape} as features_a, got {b.shape}.")
    return a, b


def _mmd(a: Floats, b: Floats) -> float:
    squares = cdist(np.concatenate([a, b]), np.concatenate([a, b]), "sqeuclidean")
    width = np.median(squares[np.triu_indices(len(squares), 1)])
    kernel = np.exp(-squares / width) if width > 0 else (squares == 0).astype(np.float64)
    n = len(a)
    mean = kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()
    return float(np.sqrt(max(mean, 0.0)))


def _frechet(a: Floats, b: Floats) -> float:
    moments = [(x.mean(0), np.atleast_2d(np.cov(x, rowvar=False))) for x in (a, b)]
    (mean_a, cov_a), (mean_b, cov_b) = moments
    values, vectors = np.linalg.eigh(cov_a)
    root = vectors * np.sqrt(values.clip(0)) @ vectors.T
    overlap = np.sqrt(np.linalg.eigvalsh(root @ cov_b @ root).clip(0)).sum()
    distance = ((mean_a - mean_b) ** 2).sum() + np.trace(cov_a) + np.trace(cov_b) - 2 * overlap
    return float(max(distance, 0.0))
