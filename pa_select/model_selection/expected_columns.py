"""The columns of ``cv_results_`` that pairs add: the scores expected at each site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from pa_select.model_selection.results_table import scores_and_errors
from pa_select.model_selection.sites import Site
from pa_select.model_selection.stacks import Layout, Stacks
from pa_select.model_selection.table_columns import ranks
from pa_select.model_selection.worker import OF_X, Data
from pa_select.scores import align_classes, class_scores
from pa_select.scores.recorded import Recorded, RecordedRegressor
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _MultimetricScorer
from pa_select.utils.typing import Floats, Ints


class ExpectedColumns:
    """Computes what the candidates of a search are expected to score at other sites.

    The posteriors or predictions of `reference` stand in for the labels of the paired objects:
    "self", "ensemble" or a fitted model. `weight` has the weights of the rows of X. A metric, a
    reference or groups that cannot be used are refused.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        layout: Layout,
        groups: NDArray[Any] | None,
        data: Data,
        reference: Any,
        weight: Floats | None,
    ) -> None:
        # Imported here: workers that fit and score do not need torch.
        from pa_select.unlabelled.classification import Classification, is_accuracy
        from pa_select.unlabelled.regression import Regression
        from pa_select.unlabelled.scored import LabelledRows, check_several

        self._sites, self._error_score = sites, data.error_score
        self._task = Regression() if data.of_regressors else Classification()
        rows = [wanted[OF_X] for wanted in layout.wanted]
        self._n_splits = len(rows)
        #: The labelled rows, on which each split's model is scored.
        y = np.asarray(data.y, dtype=np.float64 if data.of_regressors else None)
        self.labelled = LabelledRows(y, rows, groups, weight)
        if groups is not None:
            check_several(len(np.unique(groups[self.labelled.tested])))
        several = isinstance(data.scorer, _MultimetricScorer)
        #: By the metric's name, as in ``mean_test_<metric>``.
        self.scorers = dict(data.scorer._scorers) if several else {"score": data.scorer}
        for scorer in self.scorers.values():
            self._task.check_scorer(scorer, self.labelled.y)
        #: Whether a metric looks at more than the predicted classes.
        self.needs_probabilities = not all(map(is_accuracy, self.scorers.values()))
        self._of_regressors = data.of_regressors
        self._reference = reference
        if not isinstance(reference, str):
            self._reference = self._labels_of(reference, data)
        #: For each candidate and site, the mean posterior of each class over the paired objects.
        self.class_shares: dict[tuple[int, str], Floats] = {}

    def _labels_of(self, reference: Any, data: Data) -> dict[int, Floats]:
        """Return what a fitted model lets stand in for the labels, by the source of the rows."""
        from pa_select.unlabelled.engine import reference_labels

        kind = "regressor" if data.of_regressors else "classifier"
        if data.of_regressors and is_classifier(reference):
            name = type(reference).__name__
            raise TypeError(f"reference: expected a regressor, got {name}, which is a classifier.")

        def output(source: int) -> Recorded | RecordedRegressor:
            try:
                if data.of_regressors:
                    return RecordedRegressor.of(reference, data.sources[source])
                scores, classes = class_scores(reference, data.sources[source])
            except NotFittedError as error:
                raise ValueError(
                    f"reference: expected a fitted {kind}, got one that is not fitted: "
                    f"{reference!r}."
                ) from error
            if hasattr(scores, "detach"):
                scores = scores.detach().cpu().numpy()
            if not np.isin(classes, data.labels).all():
                raise ValueError(
                    f"reference: expected a classifier of the classes {data.labels.tolist()}, got "
                    f"one of {np.asarray(classes).tolist()}."
                )
            scores = align_classes(np.asarray(scores), classes, data.labels)
            return Recorded(data.labels, scores, None)

        known = output(OF_X), self.labelled.y
        return {
            site.a: reference_labels(self._task, *known, output(site.a), self.labelled.weight)
            for site in self._sites
        }

    def table(
        self, stacks: Stacks, which: Ints, cv_results: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        """Make the columns.

        The candidates `which` have scores, in the stacks. `metric` decides whether their rows are
        adapted, and which site is the worst.
        """
        from pa_select.unlabelled.engine import Engine

        errors = None if isinstance(self._error_score, str) else list[str]()
        validation: dict[str, tuple[Floats, Floats | None]] = {}
        for name in self.scorers:
            scores, of_scores = scores_and_errors(cv_results, name)
            single = self._n_splits == 1
            validation[name] = scores[which], None if single else of_scores[which]
        engine = Engine(
            self._task,
            self.scorers,
            self.labelled,
            stacks,
            validation,
            metric,
            self._reference,
            errors,
        )
        by_site = []
        for site in self._sites:
            expected = engine.at(site)
            self.class_shares |= {
                (c, site.name): shares
                for c, shares in zip(which.tolist(), expected.shares, strict=True)
            }
            columns = {}
            for name, values in expected.columns.items():
                columns[name] = np.full(len(cv_results[f"mean_test_{metric}"]), np.nan)
                columns[name][which] = values
            by_site.append(columns)
        if errors:
            warn_caller(
                f"{len(errors)} expected scores could not be computed and are nan. The "
                f"first error: {errors[0]}"
            )
        return self._joined(by_site, metric)

    def of_chosen(
        self, table: dict[str, Any], metric: str, chosen: int
    ) -> tuple[float, tuple[float, float] | None]:
        """Return what the chosen candidate is expected to score, and the interval if it has one.

        Warn if the pairs say little of it.
        """
        self._warn_of_other_classes(chosen)
        limits = None
        if f"expected_{metric}_low" in table:
            low, high = (table[f"expected_{metric}_{end}"][chosen] for end in ("low", "high"))
            limits = float(low), float(high)
        return float(table[f"expected_{metric}"][chosen]), limits

    def _warn_of_other_classes(self, chosen: int) -> None:
        """Warn if the posteriors of the paired objects have other class shares than the labels."""
        from pa_select.unlabelled.paired_rows import other_mix

        if self._of_regressors:
            return
        classes, counts = np.unique(self.labelled.y, return_counts=True)
        shares = counts / counts.sum()
        for site in self._sites:
            found = self.class_shares.get((chosen, site.name), shares)
            if len(found) != len(shares):
                continue
            # Posteriors vary less than labels, so that the test is conservative.
            variance = shares * (1 - shares) * (1 / site.n_pairs + 1 / len(self.labelled.y))
            other = other_mix(found, shares, variance)
            if other is not None:
                where = f"paired[{site.name!r}]" if site.name else "paired"
                warn_caller(other.message(where, classes))

    def _joined(self, by_site: list[dict[str, Floats]], metric: str) -> dict[str, Any]:
        """Take each candidate's worst site; add the columns of every site if they have names."""
        values = np.stack([columns[f"expected_{metric}"] for columns in by_site])
        worst = np.where(np.isnan(values), np.inf, values).argmin(0)
        candidates = np.arange(values.shape[1])
        joined: dict[str, Any] = {
            name: np.stack([columns[name] for columns in by_site])[worst, candidates]
            for name in by_site[0]
        }
        sites = self._sites
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
            "No candidate predicts another class or number for any of the paired objects: the "
            "pairs do not show a difference between the sites that matters, and the score decides."
        )
    low, chance = table.get(f"expected_{metric}_low"), table[f"chance_test_{metric}"]
    if low is not None and low[chosen] <= chance[chosen]:
        warn_caller(
            f"The interval of the chosen candidate's score at the other site begins at "
            f"{low[chosen]:.2g}, and predictions that look at no feature have "
            f"{chance[chosen]:.2g}: without the assumption that its predictions are calibrated, "
            "the pairs do not show that it is better. More pairs, an adapter or a few labels "
            "would."
        )
