"""The columns of ``cv_results_`` that pairs add: the scores expected at each site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from pa_select.model_selection.cv_results import Stacks, ranks
from pa_select.model_selection.pairings import OF_X
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.results_columns import scores_and_errors
from pa_select.model_selection.sites import Site
from pa_select.model_selection.worker import Data
from pa_select.scores import align_classes, class_scores
from pa_select.scores.alignment import columns_of
from pa_select.utils.sklearn_private import _MultimetricScorer
from pa_select.utils.typing import Floats
from pa_select.utils.warn_caller import warn_caller

if TYPE_CHECKING:
    from pa_select.scores.recorded import Recorded
    from pa_select.unlabelled.expectation import Expectation

# The candidates within so many standard errors of the best score are the ensemble.
_N_SE_OF_ENSEMBLE = 2
# A warning tells of class shares that differ by more than this, if chance makes such a difference
# less often than once in this many searches.
_LARGE_DIFFERENCE, _SELDOM = 0.1, 10_000
# What a site's sources show, in their order.
_SHOWN = ("measured", "adapted")


class ExpectedColumns:
    """Computes what the candidates of a search are expected to score at other sites.

    Parameters
    ----------
    plan : Plan
        With sites.
    data : Data
    labels : ndarray
        The distinct labels.
    reference : {"self", "ensemble"} or fitted classifier
        Whose posteriors stand in for the labels of the pairs.
    weight : ndarray or None
        Weights of the rows of X.

    Raises
    ------
    TypeError
        If a metric takes no sample weights, or `reference` is not a classifier.
    ValueError
        If `reference` does not know a label.
    """

    def __init__(
        self, plan: Plan, data: Data, labels: NDArray[Any], reference: Any, weight: Any
    ) -> None:
        # Imported here: workers that fit and score do not need torch.
        from pa_select.unlabelled import expectation

        several = isinstance(data.scorer, _MultimetricScorer)
        #: By the metric's name, as in ``mean_test_<metric>``.
        self.scorers = dict(data.scorer._scorers) if several else {"score": data.scorer}
        for scorer in self.scorers.values():
            expectation.check_scorer(scorer, labels)
        self._accuracies = [n for n, s in self.scorers.items() if expectation.is_accuracy(s)]
        #: Whether a metric looks at more than the predicted classes.
        self.needs_probabilities = len(self._accuracies) < len(self.scorers)
        self._plan, self._y, self._weight = plan, np.asarray(data.y), weight
        self._reference, self._error_score = reference, data.error_score
        #: For each candidate and site, the mean posterior of each class over the paired objects.
        self.class_shares: dict[tuple[int, str], Floats] = {}
        self._by_reference: dict[Site, Floats] = {}
        if not isinstance(reference, str):
            self._by_reference = self._posteriors_of(reference, data, labels)

    def table(
        self, stacks: Stacks, which: NDArray[np.intp], cv_results: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        """Make the columns.

        Parameters
        ----------
        stacks : Stacks
            The scores of the candidates `which`.
        which : ndarray
            Numbers of the candidates that have scores.
        cv_results : dict
            The columns so far.
        metric : str
            It decides whether a candidate's rows are adapted, and which site is the worst.
        """
        n = len(cv_results[f"mean_test_{metric}"])
        betas = [self._beta(stacks, k) for k in range(len(which))]
        shared = dict(self._by_reference)
        if isinstance(self._reference, str) and self._reference == "ensemble":
            score, error = scores_and_errors(cv_results, metric)
            best = int(np.nanargmax(np.where(np.isfinite(score), score, -np.inf)))
            near = score >= score[best] - _N_SE_OF_ENSEMBLE * error[best]
            shared = self._of_ensemble(stacks, np.flatnonzero(near[which]), betas)
        self._failures: list[str] = []
        by_site = []
        for site in self._plan.sites:
            columns = {name: np.full(n, np.nan) for name in self._names(metric)}
            for k, c in enumerate(which.tolist()):
                labels = self._labels(stacks, k, site, betas[k])
                if site in shared:
                    labels = [shared[site]] * len(labels)
                self.class_shares[c, site.name] = np.mean(labels, axis=(0, 1))
                for name, value in self._row(stacks, k, site, labels, metric).items():
                    columns[name][c] = value
            self._add_intervals(columns, cv_results, site.n_pairs)
            by_site.append(columns)
        if self._failures:
            warn_caller(
                f"{len(self._failures)} expected scores could not be computed and are nan. The "
                f"first error: {self._failures[0]}"
            )
        return self._joined(by_site, metric)

    def warn_of_other_classes(self, chosen: int) -> None:
        """Warn if the paired objects seem to have other class shares than the labels.

        The chosen candidate's calibrated posteriors say so. They vary less than labels, so
        that the test is conservative.
        """
        classes, counts = np.unique(self._y, return_counts=True)
        shares = counts / counts.sum()
        for site in self._plan.sites:
            found = self.class_shares.get((chosen, site.name), shares)
            if len(found) != len(shares):
                continue
            statistic = site.n_pairs * float((np.square(found - shares) / shares).sum())
            chance = float(chi2.sf(statistic, len(shares) - 1))
            if np.abs(found - shares).sum() / 2 < _LARGE_DIFFERENCE or chance * _SELDOM > 1:
                continue
            most = int(np.abs(found - shares).argmax())
            where = f"paired[{site.name!r}]" if site.name else "paired"
            warn_caller(
                f"{where}: expected objects of the classes that y has, got objects that the "
                f"chosen candidate takes for {classes.tolist()[most]!r} in {found[most]:.0%} of "
                f"the cases, which {shares[most]:.0%} of the labels are. The score on the "
                "labelled rows, and so the expected score, may not hold for these objects."
            )

    def _names(self, metric: str) -> list[str]:
        metrics = [f"expected_{name}{end}" for name in self.scorers for end in ("", "_se")]
        limits = [f"expected_{n}_{end}" for n in self._accuracies for end in ("low", "high")]
        adapted: list[str] = []
        if self._plan.sites[0].adapted is not None:
            adapted = ["adapted", *(f"expected_{metric}_as_{how}" for how in _SHOWN)]
        return [*metrics, *limits, "disagreement", *adapted]

    def _row(
        self, stacks: Stacks, k: int, site: Site, labels: Sequence[Floats], metric: str
    ) -> dict[str, float]:
        """Compute a candidate's columns at a site, by its rows as measured or as adapted."""
        splits = range(len(labels))
        models = [[stacks.recorded(k, s, shown) for s in splits] for shown in site.shown]
        results = [self._expected(metric, labels, of_rows) for of_rows in models]
        better = len(results) == 2 and results[1].score > results[0].score
        row = {}
        for name in self.scorers:
            found = results[better]
            if name != metric:
                found = self._expected(name, labels, models[better])
            row[f"expected_{name}"], row[f"expected_{name}_se"] = found
        differ = [
            model.predicted != stacks.recorded(k, s, site.a).predicted
            for s, model in enumerate(models[better])
        ]
        row["disagreement"] = float(np.mean(differ))
        if site.adapted is not None:
            row["adapted"] = float(better)
            for how, found in zip(_SHOWN, results, strict=True):
                row[f"expected_{metric}_as_{how}"] = found.score
        return row

    def _expected(
        self, name: str, labels: Sequence[Floats], models: Sequence[Recorded]
    ) -> Expectation:
        """Compute the expected value of a metric; nan if the metric raises an error."""
        from pa_select.unlabelled.expectation import Expectation, expected

        try:
            return expected(self.scorers[name], labels, models)
        except Exception as error:
            if isinstance(self._error_score, str):
                raise
            self._failures.append(f"{name}: {type(error).__name__}: {error}")
            return Expectation(np.nan, np.nan)

    def _add_intervals(
        self, columns: dict[str, Floats], cv_results: dict[str, Any], n_pairs: int
    ) -> None:
        from pa_select.unlabelled.expectation import interval

        n_labelled = len(np.unique(np.concatenate([s.test for s in self._plan.splits])))
        for name in self._accuracies:
            accuracy, _ = scores_and_errors(cv_results, name)
            known = np.isfinite(accuracy) & np.isfinite(columns["disagreement"])
            for c in np.flatnonzero(known).tolist():
                limits = interval(accuracy[c], n_labelled, columns["disagreement"][c], n_pairs)
                columns[f"expected_{name}_low"][c] = limits[0]
                columns[f"expected_{name}_high"][c] = limits[1]

    def _joined(self, by_site: list[dict[str, Floats]], metric: str) -> dict[str, Any]:
        """Take each candidate's worst site; add the columns of every site if they have names."""
        values = np.stack([columns[f"expected_{metric}"] for columns in by_site])
        worst = np.where(np.isnan(values), np.inf, values).argmin(0)
        candidates = np.arange(values.shape[1])
        joined: dict[str, Any] = {
            name: np.stack([columns[name] for columns in by_site])[worst, candidates]
            for name in by_site[0]
        }
        sites = self._plan.sites
        if sites[0].name:
            for site, columns in zip(sites, by_site, strict=True):
                joined |= {f"{name}_{site.name}": value for name, value in columns.items()}
            joined["worst_site"] = np.array([site.name for site in sites], dtype=object)[worst]
        for name in joined:
            if name == "adapted" or name.startswith("adapted_"):
                joined[name] = joined[name] == 1
        joined[f"rank_expected_{metric}"] = ranks(joined[f"expected_{metric}"])
        return joined

    def _beta(self, stacks: Stacks, k: int) -> float:
        """Calibrate a candidate by the labels of its test rows, those of all splits together."""
        from pa_select.unlabelled.calibration import calibrating_beta

        rows = [wanted[OF_X] for wanted in self._plan.layout.wanted]
        scores = np.concatenate([stacks.matrix(k, s, OF_X) for s in range(len(rows))])
        columns = columns_of(self._y[np.concatenate(rows)], stacks.classes, "the candidate")
        weight = None if self._weight is None else np.asarray(self._weight)[np.concatenate(rows)]
        return calibrating_beta(scores, columns, weight)

    def _labels(self, stacks: Stacks, k: int, site: Site, beta: float) -> list[Floats]:
        """Return each split's calibrated posteriors of the paired objects."""
        from pa_select.unlabelled.calibration import calibrated

        splits = range(len(self._plan.splits))
        return [calibrated(stacks.matrix(k, s, site.a), beta) for s in splits]

    def _of_ensemble(
        self, stacks: Stacks, members: NDArray[np.intp], betas: Sequence[float]
    ) -> dict[Site, Floats]:
        """Return the mean calibrated posteriors of some candidates."""
        if not len(members):
            return {}  # each candidate's own posteriors have to do
        return {
            site: np.mean(
                [np.mean(self._labels(stacks, k, site, betas[k]), 0) for k in members.tolist()], 0
            )
            for site in self._plan.sites
        }

    def _posteriors_of(
        self, reference: Any, data: Data, labels: NDArray[Any]
    ) -> dict[Site, Floats]:
        """Return the calibrated posteriors of a fitted classifier."""
        from pa_select.unlabelled.calibration import calibrated, calibrating_beta

        sources = [OF_X, *(site.a for site in self._plan.sites)]
        scores = {}
        for source in sources:
            found, classes = class_scores(reference, data.sources[source])
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
        return {site: calibrated(scores[site.a], beta) for site in self._plan.sites}


def warn_of_expectation(table: dict[str, Any], metric: str, chosen: int) -> None:
    """Warn if the pairs cannot tell candidates apart, or say little of the chosen one."""
    disagreement = table["disagreement"]
    known = disagreement[np.isfinite(disagreement)]
    if len(known) and not known.any():
        warn_caller(
            "No candidate predicts another class for any of the paired objects: the pairs do not "
            "show a difference between the sites that matters, and the score decides."
        )
    low, chance = table.get(f"expected_{metric}_low"), table[f"chance_test_{metric}"]
    if low is not None and low[chosen] <= chance[chosen]:
        warn_caller(
            f"The interval of the chosen candidate's accuracy at the other site begins at "
            f"{low[chosen]:.2g}, and predictions that look at no feature have "
            f"{chance[chosen]:.2g}: without the assumption that its posteriors are calibrated, "
            "the pairs do not show that it is better. More pairs, an adapter or a few labels "
            "would."
        )
