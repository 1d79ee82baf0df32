"""What candidates and their committee score on held-out rows, and at sites without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.pipeline import make_pipeline

from pa_select.model_selection.committee_vote import Members, calibrated_members, sum_of
from pa_select.model_selection.comparison import Comparison
from pa_select.model_selection.data import SAMPLE_X, Given, Site
from pa_select.model_selection.rules import column, errors_of, new_site_columns, split_scores_of
from pa_select.scores.candidate_posterior import (
    CandidatePosterior,
    folds_without,
    pairs_of_parts,
    posterior_of_parts,
    scores_of_changes,
)
from pa_select.scores.class_scores import calibrated
from pa_select.scores.precomputed import (
    RecordedClassifier,
    RecordedRegressor,
    Stacks,
    response_methods,
    row_numbers,
)
from pa_select.utils.arrays import distinct_rows
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Floats, Ints, Mask, Scorer

if TYPE_CHECKING:
    from pa_select.two_sites.score_of_units import Differences

# The least probability, of which the log is taken.
_LEAST = 1e-12

#: Takes a function of a fitted model and its candidate's number, which maps the model, and
#: returns what a search predicts with, its model or models mapped.
Mapped: TypeAlias = Callable[[Callable[[Any, int], Any]], Any]


@dataclass(frozen=True)
class CommitteeVote:
    """The votes of a committee, as those of one more candidate after those that are stacked.

    What votes on the rows of a split, its members, their shares and their calibrations, is made
    of the other test folds alone: the rows that judge it have no say in it.
    """

    stacks: Stacks
    #: The numbers of the committee's members among all candidates.
    candidates: Ints
    #: What votes on the rows of each split.
    members: Sequence[Members]
    #: For each split, the rows of each sample that its models score, and its test rows.
    scored_rows: Sequence[Mapping[int, Ints]]
    folds: Sequence[Ints]
    #: The labels of all rows.
    y: Array
    #: By sample, the sample whose rows each candidate predicts instead.
    judged: Mapping[int, Array] = field(default_factory=dict)

    @classmethod
    def cross_fitted(
        cls,
        stacks: Stacks,
        candidates: Ints,
        scored_rows: Sequence[Mapping[int, Ints]],
        folds: Sequence[Ints],
        y: Array,
        weight: Any,
        members_without: Callable[[Ints], Members],
    ) -> CommitteeVote | None:
        """Make the vote on each split from the other folds; None without all class scores.

        ``members_without`` returns the members and shares of the folds without some rows.
        """
        found: dict[bytes, Members] = {}
        for fold in folds:  # several models may have the same test rows
            if fold.tobytes() not in found:
                members = members_without(fold)
                if not np.isin(members.candidates, stacks.candidates).all():
                    return None
                if len(stacks.classes):  # they are classifiers
                    members = calibrated_members(members, stacks, scored_rows, y, weight, fold)
                found[fold.tobytes()] = members
        of_splits = [found[fold.tobytes()] for fold in folds]
        return cls(stacks, candidates, of_splits, scored_rows, folds, y)

    def __len__(self) -> int:
        return len(self.stacks) + 1

    def as_judged(self, judged: Mapping[int, Array]) -> CommitteeVote:
        """Return the votes of which some samples stand for a sample of each candidate's own."""
        return replace(self, judged=judged)

    def outputs(self, model: int, sample: int) -> list[RecordedClassifier | RecordedRegressor]:
        """Return what each split's model predicts for a sample's rows; the last is the vote."""
        if model < len(self.stacks):
            own = self._sample(sample, int(self.stacks.candidates[model]))
            return self.stacks.outputs(model, own)
        return [self._voted(split, sample) for split in range(len(self.folds))]

    def _voted(self, split: int, sample: int) -> RecordedClassifier | RecordedRegressor:
        """Return the votes of a split's models for the rows of a sample."""
        candidates, shares, betas, biases = self.members[split]
        positions = np.searchsorted(self.stacks.candidates, candidates)
        of_members = [
            (int(position), split, self._sample(sample, candidate))
            for position, candidate in zip(positions, candidates.tolist(), strict=True)
        ]
        if betas is None or biases is None:
            predictions = [self.stacks.recorded(*one).predicted for one in of_members]
            return RecordedRegressor(np.einsum("m,mn->n", shares, predictions))
        mixed = sum_of(
            share * calibrated(self.stacks.matrix(*one), beta, bias)
            for share, beta, bias, one in zip(shares, betas, biases, of_members, strict=True)
        )
        classes = self.stacks.classes
        scores = np.log(np.maximum(mixed, _LEAST))
        return RecordedClassifier(classes, scores, classes[mixed.argmax(axis=1)], mixed)

    def _sample(self, sample: int, candidate: int) -> int:
        return int(self.judged[sample][candidate]) if sample in self.judged else sample

    def scores(self, scorer: Scorer, metric: str, weight: Array | None = None) -> Floats:
        """Return the metric of the votes for each split's test rows; weights are of all rows."""
        scores = []
        for split, test in enumerate(self.folds):
            known = self._voted(split, SAMPLE_X)
            rows = np.searchsorted(self.scored_rows[split][SAMPLE_X], test)
            given = {} if weight is None else {"sample_weight": weight[test]}
            score = scorer(known, row_numbers(rows), self.y[test], **given)
            scores.append(float(score[metric] if isinstance(score, Mapping) else score))
        return np.array(scores)

    def mean_score(self, committee: Any, given: Given) -> float:
        """Return the mean score over the splits; nan if the scorer needs more than predictions."""
        metric = committee.metric_
        try:
            scores = self.scores(committee.scorer_, metric, given.score_weight(metric))
        except Exception as error:
            warn_caller(
                "scoring: expected a scorer of predictions, got one that cannot score those "
                f"of a committee's fold models; committee_score_ is nan ({error})."
            )
            return np.nan
        return float(scores.mean())


@dataclass(frozen=True, eq=False)
class Expected:
    """What the candidates of a search are expected to score at its sites; nothing without any."""

    #: The columns of ``cv_results_``, and the table that has them, too.
    columns: dict[str, Any]
    table: Mapping[str, Any]
    metric: str
    sites: Sequence[Site]
    given: Given
    engine: Any  # an `Engine`
    #: The candidates that have all scores, and what is expected of them at each site.
    candidates: Ints
    found: Sequence[Any]

    def scores_of_parts(self, folds: Sequence[Ints]) -> tuple[Floats, Floats]:
        """Return the expected scores from parts of the rows and of the pairs, for all candidates.

        A part is one of `pairs_of_parts` with half of the objects; see `scores_of_changes`.
        """
        from pa_select.two_sites.engine import changes_of_halves

        expected = np.asarray(self.columns[f"expected_{self.metric}"])
        scores = split_scores_of(self.table, self.metric)
        known = self.candidates
        worst, every = self._worst[known], np.arange(len(known))

        def at_worst(by_site: Sequence[Floats]) -> Floats:
            """Return each candidate's values, the last axis, at its worst site; nan: unknown."""
            of_known = np.moveaxis(np.stack(by_site)[worst, ..., every], 0, -1)
            of_all = np.full((*of_known.shape[:-1], len(expected)), np.nan)
            of_all[..., known] = of_known
            return of_all

        def of_halves(n: int) -> Floats:
            return at_worst(changes_of_halves(self.found, n, self.given.seed))

        believed = at_worst([found.believed for found in self.found])
        of_rows = believed * (scores - scores.mean(axis=0))
        return scores_of_changes(folds, expected, of_rows, of_halves, self.given.of_regressors)

    @property
    def _worst(self) -> Ints:
        """The position of each candidate's worst site."""
        if "worst_site" not in self.columns:
            return np.zeros(len(self.columns["disagreement"]), dtype=np.intp)
        names = [site.name for site in self.sites]
        return np.array([names.index(name) for name in self.columns["worst_site"]])

    def differences(self) -> dict[str, Differences]:
        """Return the differences between expected scores: at "", the worst sites, and by site."""
        if not self.sites:
            return {}
        worst, known = self._worst, self.candidates
        places = {"": worst} | {
            site.name: np.full_like(worst, i) for i, site in enumerate(self.sites) if site.name
        }
        return {
            name: self.engine.differences(self.found, at[known]).among(known, len(worst))
            for name, at in places.items()
        }

    def attributes_of_choice(self, chosen: int | None) -> dict[str, Any]:
        """Return what the chosen candidate is expected to score; warn if this is in doubt."""
        if not self.sites or chosen is None:
            return {}
        from pa_select.two_sites.classification import doubt_of_lapses

        if chosen in self.candidates:
            lapses = self.engine.lapses(int(np.searchsorted(self.candidates, chosen)))
            for message in doubt_of_lapses(lapses, self.engine.labelled.n, "X"):
                warn_caller(message)
        methods = map(response_methods, self.given.scorers.values())
        disagreement = self.columns["disagreement"]
        known = disagreement[np.isfinite(disagreement)]
        # Metrics of scores may differ where the predicted classes do not, and so may adapted rows.
        if (
            all(of_metric in ([], ["predict"]) for of_metric in methods)
            and len(known)
            and not known.any()
            and not np.any(self.columns.get("adapted", False))
        ):
            warn_caller(
                "No candidate predicts another class or number for any of the paired objects: the "
                "pairs do not show a difference between the sites that matters, and the score "
                "decides."
            )
        by_site = {site.name: site.n_pairs for site in self.sites}
        n_objects: Any = by_site.get("", by_site)
        return _attributes_of(self.columns, self.metric, chosen) | {"n_objects_": n_objects}

    def attributes_of_committee(self, vote: CommitteeVote | None) -> dict[str, Any]:
        """Return what a committee is expected to score.

        It is one more model of the engine. Its members predict the rows of each site as they are
        judged: as measured, or adapted. A single member whose temperature changes no score is
        expected to score what it scores alone.
        """
        if not self.sites or vote is None:
            return {}
        weights = {name: self.given.score_weight(name) for name in self.given.scorers}
        scorers = self.given.scorers
        # Its votes are its only member's, so that its estimate is that candidate's, too.
        if len(vote.candidates) == 1:
            member = int(vote.candidates[0])
            votes = vote.scores(scorers[self.metric], self.metric, weights[self.metric])
            if np.allclose(votes, split_scores_of(self.table, self.metric)[:, member]):
                return _attributes_of(self.columns, self.metric, member)
        n, validation = len(vote.stacks), {}
        with_vote = self.engine.with_models(vote, self.engine.validation)
        for name, (scores, errors) in self.engine.validation.items():
            score = float(vote.scores(scorers[name], name, weights[name]).mean())
            error = with_vote.error_of_score(name, n, score)
            # As for every candidate: R2 is that of the rows of all folds together.
            score = with_vote.validated(name, n, score)
            validation[name] = np.append(scores, score), np.append(errors, error)
        by_site = []
        for site in self.sites:
            adapted = site.b if site.adapted is None else site.adapted
            shown = np.where(_is_adapted(site, self.table), adapted, site.b)
            models = vote.as_judged({site.b: shown})
            engine = self.engine.with_models(models, validation)
            found = engine.at(site._replace(adapted=None, has_own_columns=False))
            by_site.append({name: values[n:] for name, values in found.columns.items()})
        # The worst site, as for the candidates.
        expected = [columns[f"expected_{self.metric}"][0] for columns in by_site]
        return _attributes_of(by_site[int(np.argmin(expected))], self.metric, 0)

    def attributes_of_refit(self, mapped: Mapped, adapter: Any) -> dict[str, Any]:
        """Return what to use at the site: the fitted models, after an adapter where that helps.

        A dict of these if the sites have names.
        """
        if not self.sites:
            return {}
        # Imported here: workers that fit and score do not need torch.
        from pa_select.two_sites.site_adapter import SiteAdapter

        by_site, samples = {}, self.given.samples
        for site in self.sites:
            helped, learnt = _is_adapted(site, self.table), None
            # Nothing is learnt that no candidate uses.
            if helped.any():
                learnt = SiteAdapter(adapter)._learn(samples[site.b], samples[site.a])

            def adapted(
                model: Any, candidate: int, helped: Mask = helped, learnt: Any = learnt
            ) -> Any:
                return make_pipeline(learnt, model) if helped[candidate] else model

            by_site[site.name] = mapped(adapted)
        return {"best_adapted_": by_site if self.sites[0].name else by_site[""]}


def expected_at_sites(
    stacks: Stacks,
    table: Mapping[str, Any],
    metric: str,
    comparison: Comparison,
    given: Given,
) -> Expected:
    """Compute the expected scores; `metric` decides about adapted rows and the worst site."""
    if not comparison.sites:
        return Expected({}, table, metric, (), given, None, stacks.candidates, ())
    from pa_select.two_sites.classification import Classification
    from pa_select.two_sites.engine import Engine
    from pa_select.two_sites.regression import Regression
    from pa_select.two_sites.score_of_units import LabelledRows

    rows = [distinct_rows(test) for _, test in comparison.splits]
    #: The labelled rows, on which each split's model is scored.
    labelled = LabelledRows(given.y, rows, given.groups, given.weight)
    lowest = float(given.y[labelled.tested].min()) if given.of_regressors else 0.0
    weights = {name: given.score_weight(name) for name in given.scorers}
    known, n = stacks.candidates, stacks.n_candidates
    # "raise" lets the first error through.
    errors = None if isinstance(given.error_score, str) else list[str]()
    engine = Engine(
        Regression(lowest) if given.of_regressors else Classification(),
        given.scorers,
        labelled,
        stacks,
        {name: (column(table, name)[known], errors_of(table, name)[known]) for name in weights},
        metric,
        errors=errors,
        score_weights={name: weight for name, weight in weights.items() if weight is not None},
    )
    found = [engine.at(site) for site in comparison.sites]
    by_site = []
    for site, expected in zip(comparison.sites, found, strict=True):
        columns = {name: np.full(n, np.nan) for name in expected.columns}
        for name, values in expected.columns.items():
            columns[name][known] = values
        if site.has_own_columns:
            columns["adapted"] = np.ones(n)
        by_site.append(columns)
    if errors:
        warn_caller(
            f"{len(errors)} expected scores could not be computed and are nan. The "
            f"first error: {errors[0]}"
        )
    joined = _joined(by_site, metric, comparison.sites, given)
    of_all = {**table, **joined}
    return Expected(joined, of_all, metric, comparison.sites, given, engine, known, found)


def _joined(
    by_site: list[dict[str, Floats]], metric: str, sites: Sequence[Site], given: Given
) -> dict[str, Any]:
    """Take each candidate's worst site; add the columns of every site if they have names."""
    values = np.stack([columns[f"expected_{metric}"] for columns in by_site])
    # A site without an expected score is never the worst one.
    worst = np.where(np.isnan(values), np.inf, values).argmin(0)
    candidates = np.arange(values.shape[1])
    joined: dict[str, Any] = {
        name: np.stack([columns[name] for columns in by_site])[worst, candidates]
        for name in by_site[0]
    }
    if sites[0].name:
        for site, columns in zip(sites, by_site, strict=True):
            joined |= {f"{name}_{site.name}": value for name, value in columns.items()}
        joined["worst_site"] = np.array([site.name for site in sites], dtype=object)[worst]
        sizes = np.array([site.n_pairs for site in sites], dtype=np.float64)
        for name in given.scorers:
            at_sites = np.stack([columns[f"expected_{name}"] for columns in by_site])
            options: Any = {"of_regressors": given.of_regressors}
            joined |= new_site_columns(name, at_sites, sizes, **options)
    for name in joined:
        if name == "adapted" or name.startswith("adapted_"):
            joined[name] = joined[name] == 1
    return joined


def _is_adapted(site: Site, table: Mapping[str, Any]) -> Mask:
    """Return which candidates are judged by adapted rows of a site."""
    if site.adapted is None:
        return np.zeros(len(table["params"]), dtype=bool)
    return np.asarray(table[f"adapted_{site.name}" if site.name else "adapted"], dtype=bool)


def _attributes_of(table: Mapping[str, Any], metric: str, model: int) -> dict[str, Any]:
    """Return the attributes of a search that say what a model is expected to score."""
    expected, interval = f"expected_{metric}", None
    if f"{expected}_low" in table:
        interval = tuple(float(table[f"{expected}_{end}"][model]) for end in ("low", "high"))
    return {
        "expected_score_": float(table[expected][model]),
        "expected_score_se_": float(table[f"{expected}_se"][model]),
        "expected_interval_": interval,
    }


def posterior_of(
    table: Mapping[str, Any],
    metric: str,
    comparison: Comparison,
    given: Given,
    expected: Expected,
    without: Ints | None = None,
) -> CandidatePosterior | None:
    """Compute the posterior over the candidates; None without disjoint parts, or scores.

    Folds with one of the rows `without` are left out.
    """
    folds = folds_without(comparison.folds, without)
    nobody = expected.sites and not len(expected.candidates)
    if nobody or not pairs_of_parts(folds, given.of_regressors):
        return None
    if expected.sites:
        parts = expected.scores_of_parts(folds)
    else:
        parts = comparison.scores_of_parts(table, metric, given.seed, folds)
    # A metric may not be defined on any part.
    if not len(parts[0]) or not np.isfinite(parts).all(axis=(0, 1)).any():
        return None
    return posterior_of_parts(*parts)
