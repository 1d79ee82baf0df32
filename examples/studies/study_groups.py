"""
How often do errors hold if pairs are in groups?
================================================

A pair may be a pixel, and the objects that are drawn at random the images. Here the other site
moves each image by another distance. For 4, 10 and 30 images this script counts how often the
expected score plus and minus 1.96 of its standard error holds the truth, and how often the
interval of the accuracy does, in many draws of made data.

``--table FILE`` writes the table of errors in groups.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer

from pa_select import expected_score

IMAGES = 4, 10, 30
MEANS = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
METRICS = "accuracy", "neg_log_loss"


def draw(n_images, n_pixels, seed):
    """Draw pixels of both sites, their classes and images, each with shares of its own."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([2.0, 2.0, 2.0], n_images).cumsum(axis=1)
    y = (rng.random((n_images, n_pixels, 1)) > shares[:, None, :2]).sum(axis=2).ravel()
    images = np.repeat(np.arange(n_images), n_pixels)
    a = MEANS[y] + rng.normal(size=(len(y), 2))
    moved = rng.gamma(4.0, 0.25, n_images)[images, None] * np.array([0.8, -0.4])
    return a, a + moved + 0.3 * rng.normal(size=a.shape), y, images


def table_of(n_draws, n_pixels=100):
    """Return a row for each number of images and metric."""
    rows = []
    for n_images in IMAGES:
        held = {metric: [] for metric in METRICS}
        for seed in range(n_draws):
            (X, _, y, _), (V, _, v, _), (A, B, _, images), (_, F, f, _) = (
                draw(*size, [seed, i])
                for i, size in enumerate([(300, 1), (1000, 1), (n_images, n_pixels), (20_000, 1)])
            )
            model = LogisticRegression().fit(X, y)
            for metric in METRICS:
                given = model, A, B, V, v
                found = expected_score(*given, scoring=metric, pair_groups=images)
                truth = get_scorer(metric)(model, F, f)
                within = abs(found.score - truth) <= 1.96 * found.standard_error
                held[metric].append([within, found.low <= truth <= found.high])
        for metric in METRICS:
            error, interval = np.mean(held[metric], axis=0)
            row = {"images": n_images, "metric": metric, "held": error}
            rows.append(row | ({"interval": interval} if metric == "accuracy" else {}))
    return pd.DataFrame(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How often errors of groups hold")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "X_a and X_b: expected at least 20 objects", UserWarning)
    table = table_of(options.draws)
    print(table.to_string())
    if options.table:
        table.round(3).to_csv(options.table, index=False)
