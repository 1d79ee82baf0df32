"""The columns of ``cv_results_`` that pairs add: the scores expected at each site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.pair_labels import PairLabels
from pa_select.model_selection.pairings import OF_X
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.results_columns import scores_and_errors
from pa_select.model_selection.score_columns import ranks
from pa_select.model_selection.sites import Site
from pa_select.model_selection.stacks import Stacks
from pa_select.model_selection.worker import Data
from pa_select.scores.recorded import Recorded
from pa_select.utils.sklearn_private import _MultimetricScorer
from pa_select.utils.typing import Floats
from pa_select.utils.warn_caller import warn_caller

if TYPE_CHECKING:
    from pa_select.unlabelled.scored import Expectation
    from pa_select.unlabelled.shrinkage import Shrunk

# What a site's sources show, in their order.
_SHOWN = ("measured", "adapted")


class ExpectedColumns:
    """Computes what the candidates of a search are expected to score at other sites.

    Parameters
    ----------
    plan : Plan
        With sites.
    data : Data
    pair_labels : PairLabels
        What stands in for the labels of the paired objects.

    Raises
    ------
    TypeError
        If a metric takes no sample weights.
    ValueError
        If all rows that are tested are in one group.
    """

    def __init__(self, plan: Plan, data: Data, pair_labels: PairLabels) -> None:
        # Imported here: workers that fit and score do not need torch.
        from pa_select.unlabelled import expectation
        from pa_select.unlabelled.accuracy_interval import check_several

        if plan.groups is not None:
            tested = np.concatenate([split.test for split in plan.splits])
            check_several(len(np.unique(plan.groups[tested])))

        several = isinstance(data.scorer, _MultimetricScorer)
        #: By the metric's name, as in ``mean_test_<metric>``.
        self.scorers = dict(data.scorer._scorers) if several else {"score": data.scorer}
        for scorer in self.scorers.values():
            expectation.check_scorer(scorer, np.unique(np.asarray(data.y)))
        self._accuracies = [n for n, s in self.scorers.items() if expectation.is_accuracy(s)]
        #: Whether a metric looks at more than the predicted classes.
        self.needs_probabilities = len(self._accuracies) < len(self.scorers)
        self._plan, self._y, self._error_score = plan, np.asarray(data.y), data.error_score
        self._labels = pair_labels
        #: For each candidate and site, the mean posterior of each class over the paired objects.
        self.class_shares: dict[tuple[int, str], Floats] = {}

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
        self._failures: list[str] = []
        self._scores = {name: scores_and_errors(cv_results, name) for name in self.scorers}
        if len(self._plan.splits) == 1:
            self._add_errors_of_rows(stacks, which)
        labels_of = self._labels.of(stacks, which, *self._scores[metric])
        by_site = [
            self._of_site(site, stacks, which, labels_of, n, metric) for site in self._plan.sites
        ]
        if self._failures:
            warn_caller(
                f"{len(self._failures)} expected scores could not be computed and are nan. The "
                f"first error: {self._failures[0]}"
            )
        return self._joined(by_site, metric)

    def _add_errors_of_rows(self, stacks: Stacks, which: NDArray[np.intp]) -> None:
        """Take the errors over the test rows: a single score does not show how it varies."""
        from pa_select.unlabelled.expectation import error_of_score
        from pa_select.unlabelled.scored import Expectation

        rows = self._plan.layout.wanted[0][OF_X]
        y, groups = self._y[rows], self._plan.groups
        if groups is not None:
            groups = groups[rows]
        for name, (scores, errors) in self._scores.items():
            for k, c in enumerate(which.tolist()):
                model, score = stacks.recorded(k, 0, OF_X), float(scores[c])

                def error(
                    name: str = name, score: float = score, model: Recorded = model
                ) -> list[Expectation]:
                    found = error_of_score(self.scorers[name], score, model, y, groups)
                    return [Expectation(score, found)]

                errors[c] = self._tried(error, name, 1)[0].standard_error

    def _of_site(
        self,
        site: Site,
        stacks: Stacks,
        which: NDArray[np.intp],
        labels_of: Callable[[int, Site], list[Floats]],
        n: int,
        metric: str,
    ) -> dict[str, Floats]:
        """Return the columns of one site, for n candidates."""
        from pa_select.unlabelled.shrinkage import shrunk_scores

        columns = {name: np.full(n, np.nan) for name in self._names(metric)}
        levels = {name: np.full((2, n), np.nan) for name in self.scorers}
        changes = {}
        for k, c in enumerate(which.tolist()):
            labels = labels_of(k, site)
            self.class_shares[c, site.name] = np.mean(labels, axis=(0, 1))
            here = [stacks.recorded(k, s, site.a) for s in range(len(labels))]
            found, changes[c], others = self._changes(stacks, k, site, labels, here, metric)
            # A candidate's own posteriors are calibrated by its score, and say no more than it.
            for name in found if self._labels.are_shared else ():
                if np.isfinite(changes[c][name][0].score):
                    levels[name][:, c] = found[name]
            for name, value in others.items():
                columns[name][c] = value
        shrunk = {name: shrunk_scores(*self._scores[name], *levels[name]) for name in levels}
        for c in which.tolist():
            for name, value in self._row(c, shrunk, changes[c]).items():
                columns[name][c] = value
        self._add_intervals(columns, site.n_pairs, stacks, which)
        return columns

    def of_chosen(
        self, table: dict[str, Any], metric: str, chosen: int
    ) -> tuple[float, tuple[float, float] | None]:
        """Return what the chosen candidate is expected to score, and the interval if it has one.

        Warn if the pairs say little of it.
        """
        warn_of_expectation(table, metric, chosen)
        self._warn_of_other_classes(chosen)
        limits = None
        if metric in self._accuracies:
            low, high = (table[f"expected_{metric}_{end}"][chosen] for end in ("low", "high"))
            limits = float(low), float(high)
        return float(table[f"expected_{metric}"][chosen]), limits

    def _warn_of_other_classes(self, chosen: int) -> None:
        """Warn if the posteriors of the paired objects have other class shares than the labels."""
        from pa_select.unlabelled.class_mix import other_mix

        classes, counts = np.unique(self._y, return_counts=True)
        shares = counts / counts.sum()
        for site in self._plan.sites:
            found = self.class_shares.get((chosen, site.name), shares)
            if len(found) != len(shares):
                continue
            # Posteriors vary less than labels, so that the test is conservative.
            variance = shares * (1 - shares) * (1 / site.n_pairs + 1 / len(self._y))
            other = other_mix(found, shares, variance)
            if other is not None:
                where = f"paired[{site.name!r}]" if site.name else "paired"
                warn_caller(other.message(where, classes))

    def _names(self, metric: str) -> list[str]:
        metrics = [f"expected_{name}{end}" for name in self.scorers for end in ("", "_se")]
        limits = [f"expected_{n}_{end}" for n in self._accuracies for end in ("low", "high")]
        adapted: list[str] = []
        if self._plan.sites[0].adapted is not None:
            adapted = ["adapted", *(f"expected_{metric}_as_{how}" for how in _SHOWN)]
        return [*metrics, *limits, "disagreement", *adapted]

    def _changes(
        self,
        stacks: Stacks,
        k: int,
        site: Site,
        labels: Sequence[Floats],
        here: Sequence[Recorded],
        metric: str,
    ) -> tuple[dict[str, Expectation], dict[str, list[Expectation]], dict[str, float]]:
        """Compute each metric on the rows of site a, and by how much it is expected to change.

        The metric that decides has a change for rows as measured, and one for adapted rows. The
        other metrics have the change for those of them that are expected to score more.
        """
        splits = range(len(labels))
        there = [[stacks.recorded(k, s, shown) for s in splits] for shown in site.shown]
        level, *found = self._tried_on(metric, labels, here, *there)
        better = len(found) == 2 and found[1].score > found[0].score
        used = there[better]
        levels, changes = {metric: level}, {metric: [found[better], *found]}
        for name in self.scorers:
            if name != metric:
                levels[name], *changes[name] = self._tried_on(name, labels, here, used)
        differ = [one.predicted != two.predicted for one, two in zip(here, used, strict=True)]
        others = {"disagreement": float(np.mean(differ))}
        if site.adapted is not None:
            others["adapted"] = float(better)
        return levels, changes, others

    def _row(
        self, c: int, shrunk: dict[str, Shrunk], changes: dict[str, list[Expectation]]
    ) -> dict[str, float]:
        """Add the expected changes to a candidate's scores."""
        from pa_select.unlabelled.expectation import expected_score_of

        row = {}
        for name, found in changes.items():
            score = shrunk[name].scores[c]
            # What is wrong with the posteriors at the first site may be wrong at the other one.
            error = float(np.hypot(self._scores[name][1][c], shrunk[name].misfit[c]))
            totals = [expected_score_of(self.scorers[name], score, error, one) for one in found]
            row[f"expected_{name}"], row[f"expected_{name}_se"] = totals[0]
            if len(totals) == 3:
                for how, total in zip(_SHOWN, totals[1:], strict=True):
                    row[f"expected_{name}_as_{how}"] = total.score
        return row

    def _tried_on(
        self,
        name: str,
        labels: Sequence[Floats],
        here: Sequence[Recorded],
        *there: Sequence[Recorded],
    ) -> list[Expectation]:
        """Compute a metric on the rows of site a, and its changes on other rows."""
        from pa_select.unlabelled.expectation import expected_scores

        def expected() -> list[Expectation]:
            first, *others = expected_scores(self.scorers[name], labels, here, *there)
            return [first.expectation(), *(one.minus(first).expectation() for one in others)]

        return self._tried(expected, name, 1 + len(there))

    def _tried(
        self, compute: Callable[[], list[Expectation]], name: str, n: int
    ) -> list[Expectation]:
        """Compute what is expected of a metric; nan for all n if the metric raises an error."""
        from pa_select.unlabelled.scored import Expectation

        try:
            return compute()
        except Exception as error:
            if isinstance(self._error_score, str):
                raise
            self._failures.append(f"{name}: {type(error).__name__}: {error}")
            return [Expectation(np.nan, np.nan)] * n

    def _add_intervals(
        self, columns: dict[str, Floats], n_pairs: int, stacks: Stacks, which: NDArray[np.intp]
    ) -> None:
        from pa_select.unlabelled.accuracy_interval import accuracy_interval

        n_rows = len(np.unique(np.concatenate([split.test for split in self._plan.splits])))
        for k, c in enumerate(which.tolist()):
            for name in self._accuracies:
                accuracy, disagreement = self._scores[name][0][c], columns["disagreement"][c]
                if np.isfinite(accuracy) and np.isfinite(disagreement):
                    n_labelled = self._n_independent(stacks, k, n_rows)
                    limits = accuracy_interval(accuracy, n_labelled, disagreement, n_pairs)
                    columns[f"expected_{name}_low"][c] = limits[0]
                    columns[f"expected_{name}_high"][c] = limits[1]

    def _n_independent(self, stacks: Stacks, k: int, n_rows: int) -> float:
        """Return how many independent rows would say as much of the accuracy as the test rows."""
        if self._plan.groups is None:
            return n_rows
        from pa_select.unlabelled.accuracy_interval import effective_number

        wanted = [rows[OF_X] for rows in self._plan.layout.wanted]
        models = [stacks.recorded(k, s, OF_X) for s in range(len(wanted))]
        right = [m.predicted == self._y[rows] for m, rows in zip(models, wanted, strict=True)]
        return effective_number(
            np.concatenate(right), self._plan.groups[np.concatenate(wanted)], n_rows
        )

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


def warn_of_expectation(table: dict[str, Any], metric: str, chosen: int) -> None:
    """Warn if the pairs cannot tell candidates apart, or say little of the chosen one."""
    disagreement = table["disagreement"]
    known = disagreement[np.isfinite(disagreement)]
    # Where adapted rows are expected to score more, the rows as measured differ.
    if len(known) and not known.any() and not np.any(table.get("adapted", False)):
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
