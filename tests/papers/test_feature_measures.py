"""Discrepancies of features, and the check of a representation's invariance."""

import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from pa_select import robustness_curve
from pa_select.shifts import FGSM, GaussianNoise
from papers.measures import feature_columns, feature_discrepancy, invariance

DIGITS, LABELS = load_digits(return_X_y=True)
A = DIGITS[:400][:, DIGITS[:400].std(0) > 1][:, :32]  # without the dark corners
B = 0.8 * A + np.random.default_rng(0).normal(size=A.shape)


def test_each_discrepancy_by_its_definition():
    found = feature_discrepancy(A, B)
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(A, B, strict=True)]
    assert found.cosine_similarity == pytest.approx(np.mean(cosines))
    cov_a, cov_b = np.cov(A.T), np.cov(B.T)
    root = sqrtm(cov_a @ cov_b).real
    distance = ((A.mean(0) - B.mean(0)) ** 2).sum() + np.trace(cov_a + cov_b - 2 * root)
    assert found.frechet == pytest.approx(distance, rel=1e-4)
    means = [[sum(column) / len(column) for column in x.T] for x in (A, B)]
    assert found.centroid_distance == pytest.approx(math.dist(*means))
    both = np.concatenate([A, B])
    squares = ((both[:, None] - both[None]) ** 2).sum(-1)
    gamma = 1 / np.median(squares[np.triu_indices(len(both), 1)])
    mean = rbf_kernel(A, gamma=gamma).mean() + rbf_kernel(B, gamma=gamma).mean()
    mean -= 2 * rbf_kernel(A, B, gamma=gamma).mean()
    assert found.mmd == pytest.approx(np.sqrt(mean))


def test_equal_samples_and_one_feature():
    found = feature_discrepancy(A, A)
    assert found.cosine_similarity == pytest.approx(1)
    assert found.mmd == pytest.approx(0, abs=1e-7)
    assert found.frechet == pytest.approx(0, abs=1e-6)
    line = np.arange(10.0)[:, None]
    assert feature_discrepancy(line, line + 3).frechet == pytest.approx(9)
    constant = feature_discrepancy(np.zeros((5, 2)), np.zeros((5, 2)))
    assert constant == (0, 0, 0, 0)


def test_large_samples_are_thinned_always_the_same_way():
    large = np.tile(A, (4, 1)), np.tile(B, (4, 1))
    one, two = (feature_discrepancy(*large) for _ in range(2))
    assert one == two
    assert one.mmd == pytest.approx(feature_discrepancy(A, B).mmd, rel=0.2)


@pytest.mark.parametrize("shift", [GaussianNoise(), FGSM()], ids=["noise", "attack"])
def test_the_columns_are_those_of_the_rows_of_a_curve(shift):
    models = {str(c): LogisticRegression(C=c, max_iter=500).fit(A, LABELS[:400]) for c in (1, 9)}
    features = {name: model.decision_function for name, model in models.items()}
    how = {"shift": shift, "powers": [0.5, 2], "ratios": [0.0, 1.0]}
    X, y = A[:50], LABELS[:50]
    curve = robustness_curve(models, X, y, metrics="agreement", **how)
    columns = feature_columns(curve, models, X, y, shift=shift, features=features)
    assert columns["frechet"][::2] == pytest.approx(0, abs=1e-6)
    for i, (name, power) in enumerate((m, p) for m in models for p in (0.5, 2)):
        shifted = shift(X, y, estimator=models[name], power=power).X
        found = feature_discrepancy(*(features[name](rows) for rows in (X, shifted)))
        for column, value in found._asdict().items():
            assert columns[column][2 * i + 1] == pytest.approx(value)


def test_invariance_is_that_of_the_leading_components():
    y = LABELS[:400]
    found = invariance(A, B, y)
    z = [PCA(1).fit_transform(x)[:, 0] for x in (A, B)]
    z = [side / side.std() for side in z]
    z[1] *= np.sign(z[0] @ z[1])
    assert found.error == pytest.approx(((z[0] - z[1]) ** 2).mean(), rel=1e-6)
    within = [
        sum((side[y == k] - side[y == k].mean()) @ side[y == k] for k in set(y)) for side in z
    ]
    assert found.class_variance == pytest.approx(np.mean(within) / len(y), rel=1e-6)
    # Rotations, scales and signs of a representation do not matter.
    rotation = np.linalg.qr(np.random.default_rng(4).normal(size=(32, 32)))[0]
    turned = invariance(A, -3 * B @ rotation, y)
    assert turned.error == pytest.approx(found.error, abs=1e-8)
    assert turned.class_variance == pytest.approx(found.class_variance, abs=1e-8)
