"""Calibration by other means than the package's: a bounded search, and a root."""

import numpy as np
from scipy.optimize import minimize_scalar, root
from scipy.special import softmax


def calibration(scores, columns):
    """Return what calibrates scores: the temperature of labelled rows, then class biases.

    A tenth of a label is expected to be drawn at random.

    The biases are the root of the derivative of the penalised likelihood.
    """
    rows, counts = np.arange(len(columns)), np.bincount(columns, minlength=scores.shape[1])
    lapse = 0.1 / len(columns)
    beta = np.exp(
        minimize_scalar(
            lambda t: (
                -np.log(
                    (1 - lapse) * softmax(np.exp(t) * scores, axis=1)[rows, columns]
                    + lapse / scores.shape[1]
                ).mean()
            ),
            bounds=(-5, 8),
            method="bounded",
            options={"xatol": 1e-10},
        ).x
    )

    def posterior(scores, bias):
        return softmax(beta * scores + bias, axis=1)

    solution = root(lambda bias: posterior(scores, bias).sum(axis=0) - counts + bias, 0 * counts)
    assert solution.success
    return lambda scores: posterior(scores, solution.x)


def error_of_change(gains):
    """Half of a pair that becomes right and half of one that becomes wrong are added."""
    added = np.append(gains, [np.sqrt(0.5), -np.sqrt(0.5)])
    return added.std() / np.sqrt(len(added))
