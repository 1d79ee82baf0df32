"""What the candidates of a search are expected to score at the sites where nobody labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from pa_select.model_selection.kinds.kind import ExpectedElsewhere
from pa_select.model_selection.split_scores import SAMPLE_X, Data
from pa_select.model_selection.splits import Split
from pa_select.model_selection.table_columns import (
    new_site_columns,
    ranks,
    scores_and_errors,
    split_scores_of,
)
from pa_select.scores import align_classes, class_scores
from pa_select.scores.candidate_posterior import scores_of_changes
from pa_select.scores.precomputed import RecordedClassifier, RecordedRegressor, Stacks
from pa_select.utils.arrays import as_numpy
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _MultimetricScorer
from pa_select.utils.typing import Array, Floats, Ints, Mask, Reference

if TYPE_CHECKING:
    from pa_select.model_selection.committee_vote import CommitteeVote
    from pa_select.two_sites.engine import Engine
    from pa_select.two_sites.score_of_units import Differences


class Site(NamedTuple):
    """A site where nobody labels; the paired objects were measured there and where X was."""

    #: Empty for the only site.
    name: str
    n_pairs: int
    #: The samples of the rows: as X was measured, and at the site.
    a: int
    b: int
    #: The sample of the rows at the site, mapped by an adapter that has not seen them, or None.
    adapted: int | None
    #: Whether the site has other columns than X, so that no model can predict rows as measured.
    has_own_columns: bool

    @property
    def b_samples(self) -> list[int]:
        """The samples that show the site's objects to a model: as measured, and adapted."""
        samples = [] if self.has_own_columns else [self.b]
        return samples if self.adapted is None else [*samples, self.adapted]


def is_adapted(site: Site, table: Mapping[str, Any]) -> Mask:
    """Return which candidates are judged by adapted rows of a site."""
    if site.adapted is None:
        return np.zeros(len(table["params"]), dtype=bool)
    return np.asarray(table[f"adapted_{site.name}" if site.name else "adapted"], dtype=bool)


def attributes_of(table: Mapping[str, Any], metric: str, model: int) -> dict[str, Any]:
    """Return the attributes of a search that say what a model is expected to score."""
    expected, interval = f"expected_{metric}", None
    if f"{expected}_low" in table:
        interval = tuple(float(table[f"{expected}_{end}"][model]) for end in ("low", "high"))
    return {
        "expected_score_": float(table[expected][model]),
        "expected_score_se_": float(table[f"{expected}_se"][model]),
        "expected_interval_": interval,
    }


class ExpectedScores:
    """Computes what the candidates of a search are expected to score at other sites.

    The posteriors or predictions of `reference` stand in for the labels of the paired objects:
    "self", "ensemble" or a fitted model. `weight` has the weights of the rows of X. A metric, a
    reference or groups that cannot be used are refused.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        splits: Sequence[Split],
        groups: Array | None,
        data: Data,
        reference: Reference,
        weight: Floats | None,
    ) -> None:
        # Imported here: workers that fit and score do not need torch.
        from pa_select.two_sites.classification import Classification, is_accuracy
        from pa_select.two_sites.regression import Regression
        from pa_select.two_sites.score_of_units import (
            LabelledRows,
            check_reference,
            group_codes,
        )

        self.sites, self._error_score = sites, data.error_score
        rows = [np.unique(test) for _, test in splits]
        #: The labelled rows, on which each split's model is scored.
        y = np.asarray(data.y, dtype=np.float64 if data.of_regressors else None)
        self.labelled = LabelledRows(y, rows, groups, weight)
        tested = y[self.labelled.tested]
        self._task = Regression(float(tested.min())) if data.of_regressors else Classification()
        if groups is not None:
            group_codes(groups[self.labelled.tested])  # refuses a single one
        several = isinstance(data.scorer, _MultimetricScorer)
        #: By the metric's name, as in ``mean_test_<metric>``.
        # Named as in ``cv_results_``, whose columns follow from the names.
        self.scorers = dict(data.scorer._scorers) if several else {"score": data.scorer}
        #: By metric, if it counts the rows with weights.
        self.score_weights: dict[str, Array] = {}
        for name, scorer in self.scorers.items():
            self._task.check_scorer(scorer, self.labelled.y)
            if (counted := data.score_weight(name)) is not None:
                self.score_weights[name] = counted
        #: Whether a metric looks at more than the predicted classes.
        self.needs_probabilities = not all(map(is_accuracy, self.scorers.values()))
        self.of_regressors = data.of_regressors
        check_reference(reference, data.of_regressors)
        self._reference = self._stand_ins(reference, data)

    def _stand_ins(self, reference: Any, data: Data) -> str | dict[int, Floats]:
        """Return what a fitted model lets stand in for the labels, by the sample of the rows."""
        if isinstance(reference, str):
            return reference
        from pa_select.two_sites.engine import reference_labels

        kind = "regressor" if data.of_regressors else "classifier"

        def output(sample: int) -> RecordedClassifier | RecordedRegressor:
            try:
                if data.of_regressors:
                    return RecordedRegressor.of(reference, data.samples[sample])
                scores, classes = class_scores(reference, data.samples[sample])
            except NotFittedError as error:
                raise ValueError(
                    f"reference: expected a fitted {kind}, got one that is not fitted: "
                    f"{reference!r}."
                ) from error
            if not np.isin(classes, data.labels).all():
                raise ValueError(
                    f"reference: expected a classifier of the classes {data.labels.tolist()}, got "
                    f"one of {np.asarray(classes).tolist()}."
                )
            scores = align_classes(np.asarray(as_numpy(scores)), classes, data.labels)
            return RecordedClassifier(data.labels, scores, None)

        known = output(SAMPLE_X), self.labelled.y
        return {
            site.a: reference_labels(self._task, *known, output(site.a), self.labelled.weight)
            for site in self.sites
        }

    def at_sites(
        self, stacks: Stacks, cv_results: Mapping[str, Any], metric: str
    ) -> ExpectedAtSites:
        """Compute the expected scores; `metric` decides about adapted rows and the worst site."""
        from pa_select.two_sites.engine import Engine

        candidates = stacks.candidates
        # "raise" lets the first error through.
        errors = None if isinstance(self._error_score, str) else list[str]()
        validation: dict[str, tuple[Floats, Floats | None]] = {}
        for name in self.scorers:
            scores, of_scores = scores_and_errors(dict(cv_results), name)
            validation[name] = scores[candidates], of_scores[candidates]
        engine = Engine(
            self._task,
            self.scorers,
            self.labelled,
            stacks,
            validation,
            metric,
            self._reference,
            errors,
            self.score_weights,
        )
        n_candidates = len(cv_results[f"mean_test_{metric}"])
        found = [engine.at(site) for site in self.sites]
        by_site = []
        for site, expected in zip(self.sites, found, strict=True):
            if site.has_own_columns:
                _add_adapted_columns(expected.columns, metric)
            columns = {}
            for name, values in expected.columns.items():
                columns[name] = np.full(n_candidates, np.nan)
                columns[name][candidates] = values
            by_site.append(columns)
        if errors:
            warn_caller(
                f"{len(errors)} expected scores could not be computed and are nan. The "
                f"first error: {errors[0]}"
            )
        columns = self._joined(by_site, metric)
        return ExpectedAtSites(
            columns,
            errors or (),
            made_by=self,
            metric=metric,
            table={**cv_results, **columns},
            engine=engine,
            candidates=candidates,
            found=found,
        )

    def _joined(self, by_site: list[dict[str, Floats]], metric: str) -> dict[str, Any]:
        """Take each candidate's worst site; add the columns of every site if they have names."""
        values = np.stack([columns[f"expected_{metric}"] for columns in by_site])
        # A site without an expected score is never the worst one.
        worst = np.where(np.isnan(values), np.inf, values).argmin(0)
        candidates = np.arange(values.shape[1])
        joined: dict[str, Any] = {
            name: np.stack([columns[name] for columns in by_site])[worst, candidates]
            for name in by_site[0]
        }
        sites = self.sites
        if sites[0].name:
            for site, columns in zip(sites, by_site, strict=True):
                joined |= {f"{name}_{site.name}": value for name, value in columns.items()}
            joined["worst_site"] = np.array([site.name for site in sites], dtype=object)[worst]
            sizes = np.array([site.n_pairs for site in sites], dtype=np.float64)
            for name in self.scorers:
                at_sites = np.stack([columns[f"expected_{name}"] for columns in by_site])
                joined |= new_site_columns(name, at_sites, sizes, of_regressors=self.of_regressors)
        for name in joined:
            if name == "adapted" or name.startswith("adapted_"):
                joined[name] = joined[name] == 1
        joined[f"rank_expected_{metric}"] = ranks(joined[f"expected_{metric}"])
        return joined


@dataclass(frozen=True, eq=False)
class ExpectedAtSites(ExpectedElsewhere):
    """What the candidates of a search are expected to score at each of its sites."""

    _: KW_ONLY
    made_by: ExpectedScores
    metric: str
    #: ``cv_results_`` with these columns.
    table: Mapping[str, Any]
    engine: Engine
    #: The candidates that have all scores, and what is expected of them at each site.
    candidates: Ints
    found: Sequence[Any]

    def scores_of_parts(self, folds: Sequence[Ints], seed: int) -> tuple[Floats, Floats]:
        """Return the expected scores from parts of the rows and of the pairs, for all candidates.

        A part is one of `pairs_of_parts` with half of the objects; see `scores_of_changes`.
        """
        from pa_select.two_sites.engine import changes_of_halves

        expected = np.asarray(self.columns[f"expected_{self.metric}"])
        scores = split_scores_of(self.table, self.metric)
        names, at_worst = self._names, self._worst
        known, every = self.candidates, np.arange(len(expected))

        def at_sites(values: Iterable[Floats]) -> Floats:
            """Return each candidate's value at its worst site; nan for those without scores."""
            of_all = np.full((len(names), len(expected)), np.nan)
            for row, of_known in zip(of_all, values, strict=True):
                row[known] = of_known
            return of_all[at_worst, every]

        believed = at_sites(found.believed for found in self.found)
        of_rows = believed * (scores - scores.mean(axis=0))

        def of_halves(n: int) -> Floats:
            by_site = changes_of_halves(self.found, n, seed)
            of_known = np.stack([changes.reshape(2 * n, -1) for changes in by_site], axis=1)
            return np.array([at_sites(of_half) for of_half in of_known]).reshape(2, n, -1)

        return scores_of_changes(folds, expected, of_rows, of_halves, self.made_by.of_regressors)

    @property
    def _names(self) -> list[str]:
        return [site.name for site in self.made_by.sites]

    @property
    def _worst(self) -> Ints:
        """The position of each candidate's worst site."""
        if "worst_site" not in self.columns:
            return np.zeros(len(self.columns["disagreement"]), dtype=np.intp)
        return np.array([self._names.index(name) for name in self.columns["worst_site"]])

    def differences(self) -> dict[str, Differences]:
        """Return the differences between expected scores: at "", the worst sites, and by site."""
        worst, known = self._worst, self.candidates
        places = {"": worst} | {
            name: np.full_like(worst, i) for i, name in enumerate(self._names) if name
        }
        return {
            name: self.engine.differences(self.found, at[known]).among(known, len(worst))
            for name, at in places.items()
        }

    def attributes_of_choice(self, chosen: int) -> dict[str, Any]:
        """Return what the chosen candidate is expected to score; warn if this is in doubt."""
        for message in self._doubts_of_scores(chosen):
            warn_caller(message)
        by_site = {site.name: site.n_pairs for site in self.made_by.sites}
        n_objects: Any = by_site.get("", by_site)
        return attributes_of(self.columns, self.metric, chosen) | {"n_objects_": n_objects}

    def attributes_of_committee(self, vote: CommitteeVote) -> dict[str, Any]:
        """Return what a committee is expected to score.

        It is one more model of the engine. Its members predict the rows of each site as they are
        judged: as measured, or adapted. A single member whose temperature changes no score is
        expected to score what it scores alone.
        """
        # Its votes are its only member's, so that its estimate is that candidate's, too.
        if len(vote.candidates) == 1:
            member = int(vote.candidates[0])
            given = self.made_by.scorers[self.metric], self.metric
            votes = vote.scores(*given, self.made_by.score_weights.get(self.metric))
            if np.allclose(votes, split_scores_of(self.table, self.metric)[:, member]):
                return attributes_of(self.columns, self.metric, member)
        n, made_by, validation = len(vote.stacks), self.made_by, {}
        with_vote = self.engine.with_models(vote, self.engine.validation)
        for name, (scores, errors) in self.engine.validation.items():
            weight = made_by.score_weights.get(name)
            score = float(vote.scores(made_by.scorers[name], name, weight).mean())
            error = with_vote.error_of_score(name, n, score)
            # As for every candidate: R2 is that of the rows of all folds together.
            score = with_vote.validated(name, n, score)
            validation[name] = np.append(scores, score), np.append(errors, error)
        by_site = []
        for site in made_by.sites:
            adapted = site.b if site.adapted is None else site.adapted
            shown = np.where(is_adapted(site, self.table), adapted, site.b)
            models = vote.as_judged({site.b: shown})
            engine = self.engine.with_models(models, validation)
            found = engine.at(site._replace(adapted=None, has_own_columns=False))
            by_site.append({name: values[n:] for name, values in found.columns.items()})
        # The worst site, as for the candidates.
        expected = [columns[f"expected_{self.metric}"][0] for columns in by_site]
        return attributes_of(by_site[int(np.argmin(expected))], self.metric, 0)

    def _position(self, candidate: int) -> int | None:
        """Return a candidate's place among those that have all scores; None if it has not."""
        candidates = self.candidates.tolist()
        return candidates.index(candidate) if candidate in candidates else None

    def _doubts_of_scores(self, chosen: int) -> Iterable[str]:
        """Say if a candidate's scores of some labels are missing, or absurdly low."""
        from pa_select.two_sites.classification import doubt_of_lapses

        position = self._position(chosen)
        if position is None:
            return []
        return doubt_of_lapses(self.engine.lapses(position), self.made_by.labelled.n, "X")


def _add_adapted_columns(columns: dict[str, Floats], metric: str) -> None:
    """Add the columns of rows as measured and adapted where only adapted rows are predicted."""
    expected = columns[f"expected_{metric}"]
    columns["adapted"] = np.ones_like(expected)
    columns[f"expected_{metric}_as_measured"] = np.full_like(expected, np.nan)
    columns[f"expected_{metric}_as_adapted"] = expected


def warn_of_equal_predictions(table: Mapping[str, Any]) -> None:
    """Warn if no candidate predicts anything else at the other site."""
    disagreement = table["disagreement"]
    known = disagreement[np.isfinite(disagreement)]
    # Where adapted rows are expected to score more, the rows as measured differ.
    if len(known) and not known.any() and not np.any(table.get("adapted", False)):
        warn_caller(
            "No candidate predicts another class or number for any of the paired objects: the "
            "pairs do not show a difference between the sites that matters, and the score decides."
        )
