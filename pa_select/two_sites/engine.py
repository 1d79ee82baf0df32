"""The engine of the expected score: for searches, trained models and saved scores alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from pa_select.two_sites.score_of_units import (
    Differences,
    Expectation,
    LabelledRows,
    ScoreOfUnits,
    error_of_score,
    parts_of,
    parts_of_groups,
    scored_rows,
    widening,
)
from pa_select.utils.arrays import distinct_rows
from pa_select.utils.typing import Array, Floats, Ints, Mask, Scorer

if TYPE_CHECKING:
    from pa_select.two_sites.classification import Classification, TemperatureAndBias
    from pa_select.two_sites.regression import Line, Regression

    #: What differs between classifiers and regressors: the stand-in for a label, and metrics.
    Task: TypeAlias = Classification | Regression
    Calibration: TypeAlias = TemperatureAndBias | Line

# Candidates within so many standard errors of the best score are the most accurate ones, and
# within so many they may be chosen: others may have any misfit.
N_SE_OF_NEAR, N_SE_OF_CHOICE = 2.0, 4.0
# More pairs than this are halved in random parts of several.
_MOST_HALVED = 1000
_DIVISIONS = 1000
#: The sample of the labelled rows.
LABELLED = 0

# Of a metric that fails.
_UNKNOWN = Expectation(np.nan, np.nan, ScoreOfUnits(np.nan, np.zeros(0)))

#: What a classifier or a regressor predicts for some rows, as a model of scikit-learn.
Output: TypeAlias = Any
Outputs: TypeAlias = Sequence[Output]


class Models(Protocol):
    """Models, each fitted once for every split, and what they predict for rows of samples."""

    def __len__(self) -> int: ...

    def outputs(self, model: int, sample: int) -> Outputs:
        """Return what the model predicts, fitted to each split, for the rows of a sample."""


class Pairs(Protocol):
    """The paired objects of a site."""

    @property
    def a(self) -> int:
        """The sample of the rows as measured at the labelled site."""

    @property
    def b_samples(self) -> Sequence[int]:
        """The samples of the rows at the other site: as measured, and adapted."""


class ShrunkScores(NamedTuple):
    """Shrunk scores, and by how much posteriors are wrong about each candidate."""

    scores: Floats
    #: Root of the mean squared deviation of the residuals from that of the most accurate
    #: candidates, over the candidates that may be chosen and the candidate itself; 0 for a
    #: single candidate.
    misfit: Floats
    #: The weight of the score itself, in [0, 1]; the rest is that of the posteriors.
    believed: Floats


class SiteExpectation(NamedTuple):
    """What is expected of each model at a site."""

    #: Named as in ``cv_results_``.
    columns: dict[str, Floats]
    #: The mean stand-in for the labels of each model.
    shares: list[Floats]
    #: The weight of each model's score on labelled rows in its shrunk score.
    believed: Floats
    #: What each unit of the pairs contributes to the expected score of the metric that decides,
    #: (n_models, n_units), and to the score on the rows of the first site; nan for a model
    #: without one.
    contributions: Floats
    of_first_site: Floats
    #: By how much that metric is expected to change; without units if it has failed.
    changes: list[ScoreOfUnits]

    def has_pairs_of(self, other: SiteExpectation) -> bool:
        """Whether the same objects were measured at two sites."""
        one, two = self.of_first_site, other.of_first_site
        return one.shape == two.shape and np.allclose(one, two, atol=1e-9, equal_nan=True)


class Engine:
    """Computes what models of several splits are expected to score at other sites.

    The outputs on labelled rows calibrate each model. What the most accurate models believe of
    the pairs stands in for their labels. The scores on labelled rows are shrunk towards what the
    stand-ins say, and the change from the rows of the first site to those of the other one is
    added. Trained models are models of one split.

    `validation` has the scores of all models on labelled rows, and their standard errors, by
    metric; errors that are None are computed here. `metric` decides which models are the most
    accurate, and whether rows are adapted. A `reference` that is given is by the sample of the
    rows at the first site. If `errors` are a list, metrics that fail are nan, and what they raise
    is added to it. `score_weights` are by metric, if it counts the labelled rows with weights.
    """

    def __init__(
        self,
        task: Task,
        scorers: Mapping[str, Any],
        labelled: LabelledRows,
        models: Models,
        validation: Mapping[str, tuple[Floats, Floats | None]],
        metric: str,
        reference: str | Mapping[int, Floats] = "ensemble",
        errors: list[str] | None = None,
        score_weights: Mapping[str, Floats] = MappingProxyType({}),
    ) -> None:
        self.task, self.scorers, self.labelled, self.models = task, scorers, labelled, models
        # What a metric scores.
        self._scored = {
            name: labelled._replace(score_weight=score_weights.get(name)) for name in scorers
        }
        self.metric, self.errors = metric, errors
        self.validation = {
            name: (
                np.array([self.validated(name, *of_model) for of_model in enumerate(scores)]),
                self._errors_of(name, scores) if of_scores is None else of_scores,
            )
            for name, (scores, of_scores) in validation.items()
        }
        self._is_shared = not isinstance(reference, str) or reference == "ensemble"
        self._given = None if isinstance(reference, str) else reference
        self._calibrations: dict[int, Calibration] = {}
        self._ensemble: Calibration | None = None
        self._shared: dict[int, list[Floats]] = {}

    def with_models(
        self, models: Models, validation: Mapping[str, tuple[Floats, Floats]]
    ) -> Engine:
        """Return an engine of the same models and some more, with the same stand-ins."""
        more = copy(self)
        more.models, more.validation = models, dict(validation)
        return more

    def at(self, site: Pairs, groups: Array | None = None) -> SiteExpectation:
        """Compute what is expected at one site, whose pairs may be in groups."""
        n = len(self.models)
        shared = self._shared_labels(site.a) if self._is_shared and n else None
        columns: dict[str, Floats] = {"disagreement": np.full(n, np.nan)}
        levels = {name: np.full((2, n), np.nan) for name in self.scorers}
        changes: list[dict[str, list[Expectation]]] = []
        of_levels, shares = [], []
        for model in range(n):
            outputs_a = self.models.outputs(model, site.a)
            labels = shared
            if labels is None:
                labels = self.calibration(model).labels(outputs_a)
            shares.append(np.mean(labels, axis=(0, 1)))
            outputs_b = [self.models.outputs(model, sample) for sample in site.b_samples]
            level, changed, better = self._changes(labels, outputs_a, outputs_b, groups)
            changes.append(changed)
            of_levels.append(level[self.metric].units.contributions)
            # Its own stand-ins are calibrated by its score, and say no more than it.
            for name in level if self._is_shared else ():
                if np.isfinite(changed[name][0].score):
                    levels[name][:, model] = level[name][:2]
            values = {"disagreement": self.task.disagreement(outputs_a, outputs_b[better])}
            if len(outputs_b) == 2:
                values["adapted"] = float(better)
            both = outputs_a, outputs_b[better]
            values |= self._limits(model, *both, values["disagreement"], groups)
            for name, value in values.items():
                columns.setdefault(name, np.full(n, np.nan))[model] = value
        shrunk = {
            name: shrunk_scores(*self.validation[name], *levels[name]) for name in self.scorers
        }
        believed = shrunk[self.metric].believed
        of_metric = [of_model[self.metric][0].units for of_model in changes]
        of_first_site = np.full((n, max(map(len, of_levels), default=0)), np.nan)
        of_changes = of_first_site.copy()
        for model, of_level in enumerate(of_levels):
            if len(of_level):  # the metric of a model may have failed
                of_first_site[model] = of_level
                of_changes[model] = of_metric[model].contributions
        contributions = of_changes + (1 - believed[:, None]) * of_first_site
        return SiteExpectation(
            self._totals(shrunk, changes) | columns,
            shares,
            believed,
            contributions,
            of_first_site,
            of_metric,
        )

    def differences(self, at_sites: Sequence[SiteExpectation], sites: Ints) -> Differences:
        """Return the differences between expected scores, of each model at one of the sites."""
        name, models = f"expected_{self.metric}", range(len(self.models))
        expected, of_pairs = (
            np.array([at_sites[sites[model]].columns[column][model] for model in models])
            for column in (name, f"{name}_se_pairs")
        )
        changes = [at_sites[sites[model]].changes[model] for model in models]
        units = [None if x.of_parts or not len(x.contributions) else x for x in changes]
        errors = self.validation[self.metric][1]
        return Differences(expected, self._units_of_rows(), units, errors, of_pairs, sites)

    def _units_of_rows(self) -> list[ScoreOfUnits | None]:
        """Return each model's score on the labelled rows, by the metric that decides."""
        scorer, labelled = self.scorers[self.metric], self._scored[self.metric]
        return [
            scored_rows(self.task, scorer, labelled, self.models.outputs(model, LABELLED))
            for model in range(len(self.models))
        ]

    def calibration(self, model: int) -> Calibration:
        """Calibrate a model by the labelled rows of all splits together."""
        if model not in self._calibrations:
            self._calibrations[model] = self._calibrated(self.models.outputs(model, LABELLED))
        return self._calibrations[model]

    def lapses(self, model: int) -> Ints:
        """Return the labelled rows whose label has no score of a model, -inf."""
        tested = self.labelled.tested
        found = self.task.lapses(self.models.outputs(model, LABELLED), self.labelled.y[tested])
        lapses: Ints = distinct_rows(tested[found])
        return lapses

    def _calibrated(self, outputs: Outputs) -> Calibration:
        tested, weight = self.labelled.tested, self.labelled.weight
        weight = None if weight is None else weight[tested]
        return self.task.calibration(outputs, self.labelled.y[tested], weight)

    def _shared_labels(self, sample: int) -> list[Floats]:
        """Return each split's stand-ins for the labels, for all models the same."""
        if self._given is not None:
            return [self._given[sample]] * len(self.labelled.rows)
        members = self._most_accurate()
        if len(members) == 1:  # the ensemble of a single model is itself, calibrated once
            return self.calibration(members[0]).labels(self.models.outputs(members[0], sample))
        if self._ensemble is None:
            self._ensemble = self._calibrated(self._mean_outputs(members, LABELLED))
        if sample not in self._shared:
            self._shared[sample] = self._ensemble.labels(self._mean_outputs(members, sample))
        return self._shared[sample]

    def _most_accurate(self) -> list[int]:
        """Return the models whose mean stands in for the labels."""
        score, error = self.validation[self.metric]
        near = near_best(score, error, np.isfinite(score))
        members: list[int] = np.flatnonzero(near if near.any() else ~near).tolist()
        return members

    def _mean_outputs(self, members: list[int], sample: int) -> list[Output]:
        """Return each split's mean of what some models believe."""
        # Summed one by one: all of them together may not fit into memory.
        total: list[Any] = [0.0] * len(self.labelled.rows)
        outputs: Outputs = []
        for model in members:
            outputs = self.models.outputs(model, sample)
            calibrated = self.calibration(model).calibrated_labels(outputs)
            total = [x + y for x, y in zip(total, calibrated, strict=True)]
        means = [one / len(members) for one in total]
        return [self.task.ensemble(x, y) for x, y in zip(means, outputs, strict=True)]

    def validated(self, name: str, model: int, score: float) -> float:
        """Return the score of a model on labelled rows, given the mean over the splits."""
        if not np.isfinite(score):
            return score
        outputs = partial(self.models.outputs, model, LABELLED)
        return self.task.validated(self.scorers[name], self._scored[name], outputs, score)

    def error_of_score(self, name: str, model: int, score: float) -> float:
        """Return the standard error of a model's score on labelled rows."""

        def compute() -> list[Expectation]:
            outputs = self.models.outputs(model, LABELLED)
            given = self.scorers[name], score, self._scored[name], outputs
            return [_UNKNOWN._replace(standard_error=error_of_score(self.task, *given))]

        return self._tried(name, 1, compute)[0].standard_error

    def _errors_of(self, name: str, scores: Floats) -> Floats:
        """Return the standard errors of the scores on the labelled rows."""
        errors = [self.error_of_score(name, *of_model) for of_model in enumerate(scores.tolist())]
        return np.array(errors)

    def _changes(
        self,
        labels: Sequence[Floats],
        outputs_a: Outputs,
        outputs_b: Sequence[Outputs],
        groups: Array | None,
    ) -> tuple[dict[str, Expectation], dict[str, list[Expectation]], bool]:
        """Compute each metric on the rows of site a, and by how much it is expected to change.

        The metric that decides has a change for rows as measured, and one for adapted rows, after
        the larger one. The other metrics have the change for those rows.
        """
        level, *both = self._expected(self.metric, labels, groups, outputs_a, *outputs_b)
        better = len(both) == 2 and both[1].score > both[0].score
        levels, changes = {self.metric: level}, {self.metric: [both[better]]}
        if len(both) == 2:
            changes[self.metric] += both
        for name in self.scorers:
            if name != self.metric:
                levels[name], *changes[name] = self._expected(
                    name, labels, groups, outputs_a, outputs_b[better]
                )
        return levels, changes, better

    def _expected(
        self, name: str, labels: Sequence[Floats], groups: Array | None, *sides: Outputs
    ) -> list[Expectation]:
        """Compute a metric on the rows of site a, and its changes on other rows."""

        def compute() -> list[Expectation]:
            given = self.task, self.scorers[name], labels
            first, *others = expected_scores(*given, *sides, y=self.labelled.y, groups=groups)
            return [first.expectation(), *(one.change_from(first) for one in others)]

        return self._tried(name, len(sides), compute)

    def _tried(
        self, name: str, n: int, compute: Callable[[], list[Expectation]]
    ) -> list[Expectation]:
        """Compute n numbers of a metric; nan if it raises an error."""
        try:
            return compute()
        except Exception as error:
            if self.errors is None:
                raise
            self.errors.append(f"{name}: {type(error).__name__}: {error}")
            return [_UNKNOWN] * n

    def _totals(
        self,
        shrunk: Mapping[str, ShrunkScores],
        changes: Sequence[Mapping[str, list[Expectation]]],
    ) -> dict[str, Floats]:
        """Add the expected changes to the shrunk scores."""
        columns = {}
        for name, scorer in self.scorers.items():
            # What is wrong with the stand-ins at the first site may be wrong at the other one.
            errors = np.hypot(self.validation[name][1], shrunk[name].misfit)
            changed = [of_model[name][0] for of_model in changes]
            totals = [
                self.task.in_range(scorer, score + change.score)
                for score, change in zip(shrunk[name].scores, changed, strict=True)
            ]
            of_changes = [change.standard_error for change in changed]
            columns[f"expected_{name}"] = np.array(totals)
            columns[f"expected_{name}_se"] = np.hypot(errors, of_changes)
            columns[f"expected_{name}_se_pairs"] = np.array(of_changes)
        return columns

    def _limits(
        self,
        model: int,
        outputs_a: Outputs,
        outputs_b: Outputs,
        disagreement: float,
        groups: Array | None,
    ) -> dict[str, float]:
        """Return the ends of the intervals of the metrics that have one."""
        ends: dict[str, float] = {}
        for name, scorer in self.scorers.items():
            if not self.task.has_interval(scorer):
                continue
            score, limits = float(self.validation[name][0][model]), (np.nan, np.nan)
            if np.isfinite(score) and np.isfinite(disagreement):
                outputs = partial(self.models.outputs, model, LABELLED)
                limits = self.task.interval(
                    scorer, score, self._scored[name], outputs, outputs_a, outputs_b, groups
                )
            ends |= {f"expected_{name}_low": limits[0], f"expected_{name}_high": limits[1]}
        return ends


def reference_labels(
    task: Task, labelled: Output, y: Array, pairs: Output, weight: Floats | None = None
) -> Floats:
    """Return what a given model's outputs let stand in for the labels of pairs."""
    return task.calibration([labelled], y, weight).labels([pairs])[0]


def expected_scores(
    task: Task,
    scorer: Scorer,
    labels: Sequence[Floats],
    *sides: Outputs,
    y: Array | None = None,
    groups: Array | None = None,
) -> list[ScoreOfUnits]:
    """Score several sets of predictions for the same objects, whose labels are uncertain.

    For each model `labels` has what stands in for the label of each object, and each of the
    `sides` its outputs, such as those for the rows of one site. Return for each side the mean
    score over the models. An object that several models predict is one unit, and so are those of
    one of the `groups`. Labelled rows `y` say which classes there are.
    """
    pairs = [list(zip(labels, models, strict=True)) for models in sides]
    scored = [[task.closed_form(scorer, *one, y=y) for one in of_side] for of_side in pairs]
    if all(one is not None for of_side in scored for one in of_side):
        means = [ScoreOfUnits.mean_of([one for one in of_side if one]) for of_side in scored]
        return means if groups is None else [mean.by_group(groups) for mean in means]
    factor = 1.0
    if groups is None:
        outputs = [x for models in sides for one in models for x in task.all_outputs(one)]
        part = parts_of(*labels, *outputs)
    else:
        part = parts_of_groups(groups)
        factor = widening(len(np.unique(groups)), len(groups))

    def score_of(side: list[tuple[Floats, Output]], rows: Ints) -> float:
        scores = [
            task.weighted_score(scorer, model, known[rows], rows, y) for known, model in side
        ]
        return float(np.mean(scores))

    found = [ScoreOfUnits.by_leaving_out(partial(score_of, side), part) for side in pairs]
    return [one._replace(widening=factor) for one in found]


def changes_of_halves(at_sites: Sequence[SiteExpectation], n: int, seed: int) -> list[Floats]:
    """Return what changes in expected scores if only half of the pairs are known, at each site.

    That of n random halves, and of the other halves, (2, n, n_models). They are drawn by what the
    pairs contribute, whatever their order. Sites that share the objects share the halves.
    """
    found = []
    for site in at_sites:
        rng = np.random.default_rng(seed)
        alike = [one.contributions for one in at_sites if site.has_pairs_of(one)]
        part = parts_of(*(rows.T for rows in alike), n_parts=_MOST_HALVED, seed=seed)
        n_parts = int(part.max(initial=-1)) + 1
        by_part = np.zeros((n_parts, len(site.contributions)))
        np.add.at(by_part, part, site.contributions.T)
        # Of every two parts one is in the half, after some random divisions of all into twos: each
        # needs one random bit.
        size = n_parts // 2
        order = rng.permuted(np.tile(np.arange(n_parts), (_DIVISIONS, 1)), axis=1)
        one, other = by_part[order[:, :size]], by_part[order[:, size : 2 * size]]
        bits = rng.integers(2, size=(_DIVISIONS, -(-n // _DIVISIONS), size), dtype=np.int8)
        sums = (bits @ (one - other) + other.sum(axis=1)[:, None]).reshape(-1, by_part.shape[1])
        sums = sums[:n] * (n_parts / max(size, 1))
        rest = (by_part.sum(axis=0) * n_parts - size * sums) / max(n_parts - size, 1)
        changes = [sums, rest]
        found.append(np.array(changes))
    return found


def near_best(score: Floats, error: Floats, among: Mask, n_se: float = N_SE_OF_NEAR) -> Mask:
    """Return which candidates, among some, are not clearly worse than the best one."""
    if not among.any():
        return among
    best = score[among].max()
    error_of_best = np.nan_to_num(error[among & (score == best)]).max()
    near: Mask = among & (score >= best - n_se * error_of_best)
    return near


def shrunk_scores(
    score: Floats, error: Floats, level: Floats, level_error: Floats
) -> ShrunkScores:
    """Shrink the scores of candidates towards what posteriors say of them (empirical Bayes).

    Labels and posteriors of unlabelled objects of the same site give two scores of each candidate.
    Their residuals differ since both have errors, and since posteriors may be wrong for some
    candidates more than for others. Only the part of their variance that the errors do not explain
    is believed; :doc:`/theory` has the formula. The variance is the mean over the candidates that
    may be chosen, within four standard errors of the best score, and the candidate itself: a bad
    candidate does not change the others. A single candidate keeps its score, and so do all with
    many labels.

    `score` and `error` are those on labelled rows, `level` and `level_error` those that posteriors
    expect, each of shape (n_candidates,). Where one is nan the score is kept. The candidates are
    scored on the same rows, so their errors are common to them and not in the misfit.
    """
    residual, noise = score - level, np.square(error) + np.square(level_error)
    known = np.isfinite(residual) & np.isfinite(noise)
    if not known.any():
        return ShrunkScores(score.copy(), np.zeros_like(score), np.ones_like(score))
    centre = residual[near_best(score, error, known)].mean()
    away = residual - centre
    may_be_chosen = near_best(score, np.hypot(error, level_error), known, N_SE_OF_CHOICE)

    def mean_with_itself(values: Floats) -> Floats:
        count = may_be_chosen.sum()
        with_own = (values[may_be_chosen].sum() + values) / (count + 1)
        return np.where(may_be_chosen, values[may_be_chosen].mean(), with_own)

    squares = np.square(away)
    spread = np.maximum(mean_with_itself(squares - noise), 0.0)
    believed = np.divide(spread, spread + noise, out=np.ones_like(noise), where=noise > 0)
    misfit = np.sqrt(mean_with_itself(squares))
    return ShrunkScores(
        np.where(known, level + centre + believed * away, score),
        np.where(known, misfit, 0.0),
        np.where(known, believed, 1.0),
    )
