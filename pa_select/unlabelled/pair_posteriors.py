"""What stands in for the labels of paired objects: calibrated posteriors of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.scores.alignment import columns_of
from pa_select.scores.recorded import Recorded
from pa_select.unlabelled.calibration import calibrated, calibrating_beta, log_mean
from pa_select.utils.typing import Floats


class PairPosteriors(NamedTuple):
    """The probability of each class for each pair.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    posterior : ndarray of shape (n, n_classes)
    """

    classes: NDArray[Any]
    posterior: Floats

    @classmethod
    def mean_of(
        cls, a: Mapping[str, Recorded], val: Mapping[str, Recorded], y_val: NDArray[Any]
    ) -> PairPosteriors:
        """Return the mean of several calibrated posteriors, calibrated again.

        Parameters
        ----------
        a, val : dict of str to Recorded
            What classifiers of the same classes predict for the pairs and for labelled rows.
        y_val : ndarray of shape (m,)
            The labels of these rows.
        """
        name, first = next(iter(a.items()))
        columns = columns_of(y_val, first.classes, name, "y_val")
        betas = {name: calibrating_beta(val[name].scores, columns) for name in a}
        log_a, log_val = (
            log_mean([calibrated(one[name].scores, beta) for name, beta in betas.items()])
            for one in (a, val)
        )
        return cls(first.classes, calibrated(log_a, calibrating_beta(log_val, columns)))

    def of(self, classes: NDArray[Any]) -> Floats:
        """Return the posteriors in the order of a classifier's classes.

        Raises
        ------
        ValueError
            If these are other classes.
        """
        if not np.array_equal(np.sort(self.classes), np.sort(classes)):
            raise ValueError(
                f"reference: expected a classifier of the classes {classes.tolist()}, got one "
                f"of {self.classes.tolist()}."
            )
        return self.posterior[:, columns_of(classes, self.classes, "the reference")]


def check_same_classes(models: Mapping[str, Recorded]) -> None:
    """Check that the mean of the classifiers' posteriors can be taken.

    Raises
    ------
    ValueError
        If they do not have the same classes in the same order.
    """
    classes = next(iter(models.values())).classes
    for name, model in models.items():
        if not np.array_equal(model.classes, classes):
            raise ValueError(
                f"reference: expected estimators of the same classes, got {classes.tolist()} and "
                f"{model.classes.tolist()} of {name}. reference='self' takes each estimator's own "
                "posteriors."
            )
