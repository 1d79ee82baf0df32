"""The posteriors that stand in for the labels of paired objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from pa_select.model_selection.pairings import OF_X
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.sites import Site
from pa_select.model_selection.stacks import Stacks
from pa_select.model_selection.worker import Data
from pa_select.scores import align_classes, class_scores
from pa_select.scores.alignment import columns_of
from pa_select.utils.typing import Floats


class PairLabels:
    """Calibrated posteriors of each class for the paired objects, on the rows of site a.

    Parameters
    ----------
    plan : Plan
        With sites.
    data : Data
    labels : ndarray
        The distinct labels.
    reference : {"self", "ensemble"} or fitted classifier
        Whose posteriors they are: the candidate's own, the mean of those of the most accurate
        candidates, or those of a classifier.
    weight : ndarray or None
        Weights of the rows of X.

    Raises
    ------
    TypeError
        If `reference` is not a classifier.
    ValueError
        If it does not know a label, or has other classes.
    """

    def __init__(
        self, plan: Plan, data: Data, labels: NDArray[Any], reference: Any, weight: Any
    ) -> None:
        self._plan, self._y, self._weight = plan, np.asarray(data.y), weight
        self._is_ensemble = isinstance(reference, str) and reference == "ensemble"
        #: Whether all candidates are judged by the same posteriors.
        self.are_shared = self._is_ensemble or not isinstance(reference, str)
        self._shared: dict[Site, list[Floats]] = {}
        if not isinstance(reference, str):
            self._shared = self._of_reference(reference, data, labels)

    def of(
        self, stacks: Stacks, which: NDArray[np.intp], score: Floats, error: Floats
    ) -> Callable[[int, Site], list[Floats]]:
        """Return a function of a candidate and a site: the posteriors for each split's model.

        Parameters
        ----------
        stacks : Stacks
            The scores of the candidates `which`.
        which : ndarray
            Numbers of these candidates among all.
        score, error : ndarray of shape (n_candidates,)
            The mean scores of all candidates, and their standard errors.
        """
        if self._shared:
            return lambda k, site: self._shared[site]
        betas = [self._beta(stacks, k) for k in range(len(which))]
        if self._is_ensemble and len(which):
            from pa_select.unlabelled.shrinkage import near_best

            known = np.isin(np.arange(len(score)), which) & np.isfinite(score)
            members = np.flatnonzero(near_best(score, error, known)[which])
            if len(members):
                found = self._of_ensemble(stacks, members, betas)
                return lambda k, site: found[site]
        return lambda k, site: list(self._posteriors(stacks, k, site, betas[k]))

    def _beta(self, stacks: Stacks, k: int) -> float:
        """Calibrate a candidate by the labels of its test rows, those of all splits together."""
        from pa_select.unlabelled.calibration import calibrating_beta

        splits = range(len(self._plan.splits))
        scores = np.concatenate([stacks.matrix(k, s, OF_X) for s in splits])
        return calibrating_beta(scores, *self._tested(stacks.classes))

    def _posteriors(self, stacks: Stacks, k: int, site: Site | None, beta: float) -> list[Floats]:
        """Return each split's posteriors of paired objects, or of its test rows."""
        from pa_select.unlabelled.calibration import calibrated

        source = OF_X if site is None else site.a
        splits = range(len(self._plan.splits))
        return [calibrated(stacks.matrix(k, s, source), beta) for s in splits]

    def _of_ensemble(
        self, stacks: Stacks, members: NDArray[np.intp], betas: Sequence[float]
    ) -> dict[Site, list[Floats]]:
        """Return each split's mean posteriors of some candidates, calibrated again."""
        from pa_select.unlabelled.calibration import calibrated, calibrating_beta, log_mean

        def log_means(site: Site | None) -> list[Floats]:
            # Summed one by one: all of them together may not fit into memory.
            total: list[Any] = [0.0] * len(self._plan.splits)
            for k in members.tolist():
                own = self._posteriors(stacks, k, site, betas[k])
                total = [x + y for x, y in zip(total, own, strict=True)]
            return [log_mean([x / len(members)]) for x in total]

        scores = np.concatenate(log_means(None))
        beta = calibrating_beta(scores, *self._tested(stacks.classes))
        return {
            site: [calibrated(of_split, beta) for of_split in log_means(site)]
            for site in self._plan.sites
        }

    def _tested(self, classes: NDArray[Any]) -> tuple[NDArray[np.intp], Any]:
        """Return the columns of the labels of all test rows, and their weights or None."""
        rows = np.concatenate([wanted[OF_X] for wanted in self._plan.layout.wanted])
        weight = None if self._weight is None else np.asarray(self._weight)[rows]
        return columns_of(self._y[rows], classes, "the candidate"), weight

    def _of_reference(
        self, reference: Any, data: Data, labels: NDArray[Any]
    ) -> dict[Site, list[Floats]]:
        """Return the posteriors of a fitted classifier, for each split the same."""
        from pa_select.unlabelled.calibration import calibrated, calibrating_beta

        scores = {}
        for source in (OF_X, *(site.a for site in self._plan.sites)):
            try:
                found, classes = class_scores(reference, data.sources[source])
            except NotFittedError as error:
                raise ValueError(
                    f"reference: expected a fitted classifier, got one that is not fitted: "
                    f"{reference!r}."
                ) from error
            if hasattr(found, "detach"):
                found = found.detach().cpu().numpy()
            if not np.isin(classes, labels).all():
                raise ValueError(
                    f"reference: expected a classifier of the classes {labels.tolist()}, got one "
                    f"of {np.asarray(classes).tolist()}."
                )
            scores[source] = align_classes(np.asarray(found), classes, labels)
        columns = columns_of(self._y, labels, "the reference")
        beta = calibrating_beta(scores[OF_X], columns, self._weight)
        n = len(self._plan.splits)
        return {site: [calibrated(scores[site.a], beta)] * n for site in self._plan.sites}
