"""
Selection by unlabelled pairs: problems
=======================================

What ``study_unlabelled_pairs.py``, ``study_trained_models.py`` and ``study_number_of_labels.py``
share: tables with a second measurement of every row, and the candidates.
"""

import io

import numpy as np
from pair_rules import Rows
from PIL import Image
from scipy import ndimage
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_sample_image,
    load_wine,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 4, y


def table(load):
    def scaled():
        X, y = load(return_X_y=True)
        y = y if y.dtype.kind == "i" else (y > np.median(y)).astype(int)
        return StandardScaler().fit_transform(X), y

    return scaled


def again(load, measure):
    """Make a problem whose rows `measure` changes at site b."""

    def make(rng):
        X, y = load()
        return X, measure(X, rng), y

    return make


def of_images(change):
    """Measure digits again, as images of 8 x 8 pixels between 0 and 1."""

    def measure(X, rng):
        images = change(X.reshape(-1, 8, 8) / 4, rng)
        return 4 * np.clip(images, 0, 1).reshape(len(X), -1)

    return measure


def slipped(images, rng):
    where = rng.uniform(-0.7, 0.7, 2) + rng.normal(scale=0.3, size=(len(images), 2))
    return np.stack([ndimage.shift(i, w, order=1) for i, w in zip(images, where, strict=True)])


def blurred(images, rng):
    width = rng.uniform(0.3, 1)
    return ndimage.gaussian_filter(images, (0, width, width))


def dimmed(images, rng):
    return rng.uniform(0.3, 0.9) * images + rng.uniform(0, 0.2)


def grainy(images, rng):
    return images + rng.normal(scale=rng.uniform(0.05, 0.4), size=images.shape)


def thick(images, rng):
    share = rng.uniform(0.2, 0.9)
    return (1 - share) * images + share * ndimage.grey_dilation(images, (1, 2, 2))


def saturated_images(images, rng):
    return np.minimum(rng.uniform(1.5, 3) * images, 1) ** rng.uniform(0.4, 0.8)


def dead_pixels(images, rng):
    return images * (rng.random((8, 8)) > rng.uniform(0.1, 0.3))


def few_levels(images, rng):
    return images > rng.uniform(0.3, 0.6)


def instrument(X, rng):
    """Give every column a gain and an offset."""
    gain, offset = rng.normal(scale=[[0.3], [0.6]], size=(2, X.shape[1]))
    return X * np.exp(gain) + offset


def cross_talk(X, rng):
    """Let every column leak into all others."""
    n = X.shape[1]
    return X @ (np.eye(n) + rng.normal(scale=rng.uniform(0.2, 0.8) / np.sqrt(n), size=(n, n)))


def saturated(X, rng):
    """Bend the response of every column, each with its own limit."""
    limit = rng.uniform(0.4, 1.2, X.shape[1])
    return limit * np.tanh((X + 0.5) / limit)


def dead_sensors(X, rng):
    n_dead = round(rng.uniform(0.2, 0.4) * X.shape[1])
    return X * (rng.permutation(X.shape[1]) >= n_dead)


def drifting(X, rng):
    """Let every column drift over the order of measurement, which is random."""
    when = rng.permutation(len(X)) / len(X)
    return X + when[:, None] * rng.normal(scale=1.5, size=X.shape[1])


def rounded(X, rng):
    step = rng.uniform(1, 2.5, X.shape[1])
    return step * np.floor(X / step)


def with_outliers(X, rng):
    """Replace some values of some rows by values from a distribution with heavy tails."""
    rows, columns = rng.random((len(X), 1)) < 0.4, rng.random(X.shape) < 0.3
    return np.where(rows & columns, X + 3 * rng.standard_t(2, X.shape), X)


def noisy_at_a(rng):
    """Make a problem whose site b is the better one."""
    X, y = digits()
    return X + rng.normal(scale=rng.uniform(0.5, 1.5), size=X.shape), X, y


def two_rulers(rng):
    """Make a problem with errors of measurement at both sites, and an offset at b."""
    X, y = table(load_iris)()
    here, there = rng.normal(scale=0.4, size=(2, *X.shape))
    return X + here, X + there + rng.normal(scale=0.5, size=X.shape[1]), y


def photographs(rng):
    """Make a problem of patches of two photographs, saved again with loss and other colours.

    The class is the photograph and the third of its height.
    """
    sites, labels = ([], []), []
    for k, name in enumerate(("china.jpg", "flower.jpg")):
        photo = load_sample_image(name)
        file = io.BytesIO()
        cast = np.clip(photo * rng.uniform(0.6, 1.2, 3), 0, 255).astype(np.uint8)
        Image.fromarray(cast).save(file, "jpeg", quality=int(rng.integers(3, 12)))
        for site, pixels in zip(sites, (photo, np.asarray(Image.open(file))), strict=True):
            # Means of 4 x 4 pixels, in patches of 16 x 16 pixels.
            cut = pixels[:416] / 64
            patches = cut.reshape(26, 4, 4, 40, 4, 4, 3).mean(axis=(2, 5))
            site.append(patches.swapaxes(1, 2).reshape(26 * 40, -1))
        labels.append(3 * k + np.repeat(np.arange(26) * 3 // 26, 40))
    return np.concatenate(sites[0]), np.concatenate(sites[1]), np.concatenate(labels)


cancer, wine, diabetes = map(table, (load_breast_cancer, load_wine, load_diabetes))
PROBLEMS = {
    "digits, slipped": again(digits, of_images(slipped)),
    "digits, blurred": again(digits, of_images(blurred)),
    "digits, dimmed": again(digits, of_images(dimmed)),
    "digits, grainy": again(digits, of_images(grainy)),
    "digits, thick strokes": again(digits, of_images(thick)),
    "digits, saturated": again(digits, of_images(saturated_images)),
    "digits, dead pixels": again(digits, of_images(dead_pixels)),
    "digits, two levels": again(digits, of_images(few_levels)),
    "digits, cross-talk": again(digits, cross_talk),
    "digits, noisy at a": noisy_at_a,
    "photographs, saved again": photographs,
    "breast cancer, instrument": again(cancer, instrument),
    "breast cancer, outliers": again(cancer, with_outliers),
    "breast cancer, rounded": again(cancer, rounded),
    "diabetes, dead sensors": again(diabetes, dead_sensors),
    "diabetes, saturated": again(diabetes, saturated),
    "wine, drifting": again(wine, drifting),
    "wine, cross-talk": again(wine, cross_talk),
    "iris, two rulers": two_rulers,
}


def rows_of(name, seed, n_labels=300):
    """Draw the rows of a problem."""
    return drawn(*PROBLEMS[name](np.random.default_rng([seed, *name.encode()])), seed, n_labels)


def drawn(a, b, y, seed, n_labels=300):
    """Draw 40, 100 or 300 pairs, and at most n_labels labelled and 800 test rows."""
    n = len(y)
    n_labelled, n_pairs = min(n_labels, 2 * n // 5), 300 if n > 1000 else 100 if n > 300 else 40
    every = np.arange(n)
    labelled, rest = train_test_split(every, train_size=n_labelled, stratify=y, random_state=seed)
    pairs, test = rest[:n_pairs], rest[n_pairs : n_pairs + 800]
    return Rows(a[labelled], y[labelled], a[pairs], b[pairs], y[pairs], b[test], y[test])


MODEL = Pipeline([("scale", StandardScaler()), ("model", GaussianNB())])
SCALES = [StandardScaler(), "passthrough"]
GRID = [
    {"scale": SCALES, "model": [LogisticRegression(max_iter=1000)], "model__C": [1e-2, 1]},
    {"scale": SCALES, "model": [SVC(C=10)], "model__gamma": [0.003, 0.03]},
    {"model": [RandomForestClassifier(20, random_state=0)], "model__max_depth": [4, None]},
    {"model": [ExtraTreesClassifier(20, random_state=0)]},
    {"scale": SCALES[1:], "model": [KNeighborsClassifier()], "model__n_neighbors": [1, 5, 25]},
    {"model": [GaussianNB()], "model__var_smoothing": [1e-9, 0.1]},
    {"model": [LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")]},
    {"model": [DecisionTreeClassifier(max_depth=4, random_state=0)]},
]
