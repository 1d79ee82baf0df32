"""
Problems and candidates of the examples on selection without target labels
==========================================================================

Each problem has up to 200 labelled rows of the source, up to 150 unlabelled rows of the target,
and other rows of the target for the test. Most have views: the source rows under a change of the
kind that will come. ``CANDIDATES`` are 28 classifiers.
"""

from typing import NamedTuple

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier


class Problem(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_target: np.ndarray  # without labels
    X_test: np.ndarray  # other rows of the target, for the test
    y_test: np.ndarray
    views: np.ndarray | None = None  # X as another environment would show it
    X_unshifted: np.ndarray | None = None  # the rows of X_test as the source would show them


def digits(seed):
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def moons(seed):
    return make_moons(1000, noise=0.2, random_state=seed)


def table(load):
    def scaled(seed):
        X, y = load(return_X_y=True)
        y = y if y.dtype.kind == "i" else (y > np.median(y)).astype(int)
        return StandardScaler().fit_transform(X), y

    return scaled


def parts(X, y, seed):
    """Split rows and labels into source, target and test."""
    n, m = min(200, len(y) // 2), min(150, len(y) // 4)
    X, rest, y, y_rest = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    return (X, y), (rest[:m], y_rest[:m]), (rest[m : m + 500], y_rest[m : m + 500])


def changed(load, change, on_target, on_views):
    """Make a problem whose target rows and views are changed by different amounts."""

    def make(seed):
        rng = np.random.default_rng(seed)
        (X, y), (X_target, _), (X_test, y_test) = parts(*load(seed), seed)
        target, test = change(X_target, on_target, rng), change(X_test, on_target, rng)
        return Problem(X, y, target, test, y_test, change(X, on_views, rng), X_test)

    return make


def scanned(X, strength, rng):
    """Change digits like a drifted scanner: slips, blur, less light, noise."""
    images = X.reshape(-1, 8, 8)
    slips = rng.normal(scale=0.4 * strength, size=(len(X), 2))
    slipped = [ndimage.shift(i, s, order=1) for i, s in zip(images, slips, strict=True)]
    blurred = ndimage.gaussian_filter(slipped, (0, 0.4 * strength, 0.4 * strength))
    noisy = blurred / (1 + 0.3 * strength) + rng.normal(scale=strength / 16, size=images.shape)
    return noisy.clip(0, 1).reshape(len(X), -1)


def blurred(X, width, rng):
    return ndimage.gaussian_filter(X.reshape(-1, 8, 8), (0, width, width)).reshape(len(X), -1)


def turned(X, angles, rng):
    """Turn each image by its own angle, drawn from (lowest, highest) degrees."""
    images = [
        ndimage.rotate(image, angle, reshape=False, order=1)
        for image, angle in zip(X.reshape(-1, 8, 8), rng.uniform(*angles, len(X)), strict=True)
    ]
    return np.reshape(images, (len(X), -1))


def turned_points(X, angles, rng):
    """Turn each point of the plane about the centre by its own angle."""
    angle = np.deg2rad(rng.uniform(*angles, len(X)))
    centre = np.array([0.5, 0.25])  # of the moons
    x, y = (X - centre).T
    c, s = np.cos(angle), np.sin(angle)
    return np.column_stack([c * x - s * y, s * x + c * y]) + centre


def measured_elsewhere(load, change, on_target, on_views):
    """Make a problem with another laboratory as target; in the views each row has its own."""

    def make(seed):
        rng = np.random.default_rng(seed)
        (X, y), (X_target, _), (X_test, y_test) = parts(*load(seed), seed)
        one = rng.normal(scale=on_target, size=X.shape[1])
        views = change(X, rng.normal(scale=on_views, size=X.shape))
        target, test = change(X_target, one), change(X_test, one)
        return Problem(X, y, target, test, y_test, views, X_test)

    return make


def offset(X, drawn):
    return X + drawn


def gained(X, drawn):
    """Multiply columns, counted from three deviations below their mean, by a gain."""
    return (X + 3) * np.exp(drawn) - 3


def spurious(load):
    """Make a problem with two spurious categorical columns, one-hot encoded.

    They agree with the class in 9 and in 8 of 10 source rows, and in 1 of 10 target rows. The
    views have the columns of other rows.
    """

    def make(seed):
        rng = np.random.default_rng(seed)

        def told(X, y, rates):
            tells = rng.random((2, len(y))) < np.array(rates)[:, None]
            n_classes = y.max() + 1
            columns = np.where(tells, y, (y + rng.integers(1, n_classes, len(y))) % n_classes)
            return np.hstack([X, *np.eye(n_classes)[columns]])

        (X, y), target, (X_test, y_test) = parts(*load(seed), seed)
        rows = told(X, y, (0.9, 0.8))
        views = np.hstack([X, rows[rng.permutation(len(y)), X.shape[1] :]])
        test = told(X_test, y_test, (0.1, 0.1))
        target = told(*target, (0.1, 0.1))
        return Problem(rows, y, target, test, y_test, views, told(X_test, y_test, (0.9, 0.8)))

    return make


def of_skada(name, *args, **kwargs):
    """Make a problem from a data set of skada, which has no views."""

    def make(seed):
        from skada import datasets

        X, y, domain = getattr(datasets, name)(*args, **kwargs, random_state=seed)
        order = np.random.default_rng(seed).permutation(len(y))
        X, y, domain = X[order], y[order].astype(int), domain[order]
        source, target = np.flatnonzero(domain > 0)[:200], np.flatnonzero(domain < 0)[:650]
        return Problem(X[source], y[source], X[target[:150]], X[target[150:]], y[target[150:]])

    return make


PROBLEMS = {
    "drifted": {
        "digits, scanner": changed(digits, scanned, 1.5, 1.0),
        "digits, focus": changed(digits, blurred, 0.8, 0.5),
        "breast cancer, offsets": measured_elsewhere(table(load_breast_cancer), offset, 0.4, 0.4),
        "wine, gains": measured_elsewhere(table(load_wine), gained, 0.3, 0.3),
    },
    "spurious": {
        "diabetes": spurious(table(load_diabetes)),
        "breast cancer": spurious(table(load_breast_cancer)),
        "wine": spurious(table(load_wine)),
        "digits": spurious(digits),
    },
    "rotated": {
        "digits, 20 degrees": changed(digits, turned, (20, 20), (-30, 30)),
        "digits, 40 degrees": changed(digits, turned, (40, 40), (-30, 30)),
        "moons, 30 degrees": changed(moons, turned_points, (30, 30), (-30, 30)),
    },
    "skada's": {
        "covariate shift": of_skada("make_shifted_datasets", 40, 90, "covariate_shift", 0.3),
        "target shift": of_skada("make_shifted_datasets", 40, 90, "target_shift", 0.3, ratio=0.8),
        "conditional shift": of_skada("make_shifted_datasets", 40, 90, "conditional_shift", 0.3),
        "subspace": of_skada("make_shifted_datasets", 80, 180, "subspace", 0.3),
        "blobs": of_skada("make_shifted_blobs", 720, shift=1.0, centers=4),
        "moons": of_skada(
            "make_dataset_from_moons_distribution", 150, 350, noise=0.2, pos_target=0.3
        ),
    },
    "unshifted": {
        "digits": changed(digits, scanned, 0, 1.0),
        "breast cancer": measured_elsewhere(table(load_breast_cancer), offset, 0, 0.4),
    },
}

CANDIDATES = [
    DummyClassifier(),
    *[GaussianNB(var_smoothing=v) for v in (1e-9, 0.1)],
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    *[LogisticRegression(C=C, max_iter=500) for C in (1e-3, 1e-2, 0.1, 1, 10)],
    *[SVC(C=C, gamma=gamma) for C in (0.1, 1, 10) for gamma in (0.01, 0.1, 1)],
    *[KNeighborsClassifier(k) for k in (1, 5, 15, 40)],
    *[DecisionTreeClassifier(max_depth=d, random_state=0) for d in (3, None)],
    *[RandomForestClassifier(20, max_depth=d, random_state=0) for d in (3, None)],
    ExtraTreesClassifier(20, random_state=0),
    MLPClassifier((32,), max_iter=100, random_state=0),
]
