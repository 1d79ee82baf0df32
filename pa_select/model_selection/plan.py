"""The plan of a search, made from the arguments of ``fit``: data, splits, pairs, rows to score."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from pa_select.model_selection.candidate_posterior import no_parts
from pa_select.model_selection.choice import make_rule, selection_of
from pa_select.model_selection.committee import PACommittee
from pa_select.model_selection.committee_vote import (
    CommitteeVote,
    Members,
    calibrated_members,
    members_of,
)
from pa_select.model_selection.kinds.environments import check_environments
from pa_select.model_selection.kinds.kind import (
    Comparison,
    DataKind,
    ExpectedElsewhere,
    RowsOfX,
    check_text,
)
from pa_select.model_selection.kinds.kind_of import ARGUMENTS, kind_of
from pa_select.model_selection.out_of_fold import OutOfFold
from pa_select.model_selection.pa_scorer import PAScorer
from pa_select.model_selection.rules import DEFAULT
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.split_scores import (
    SAMPLE_X,
    Data,
    Extra,
    Layout,
    Outcome,
    PairsOfModels,
    SplitTask,
    chance_scores,
    parts_of_rows,
)
from pa_select.model_selection.splits import (
    Split,
    cells,
    check_fit_params,
    make_splits,
    n_disjoint,
    needs_groups,
    params_of_rows,
    positions,
    takes_parameter,
)
from pa_select.model_selection.table_columns import (
    Agreements,
    agreements_of,
    agreements_of_regressors,
    ranks,
    refine,
    score_columns,
)
from pa_select.scores.candidate_posterior import (
    CandidatePosterior,
    folds_without,
    pairs_of_parts,
    posterior_of_parts,
)
from pa_select.scores.class_scores import warn_of_trained_module
from pa_select.scores.precomputed import Stacks
from pa_select.utils.arrays import (
    check_column,
    check_scoring_argument,
    check_weight,
    refuse_no_rows,
)
from pa_select.utils.estimators import is_instance, unwrapped
from pa_select.utils.frames import check_row_order
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import (
    Array,
    Floats,
    Groups,
    Ints,
    Labels,
    PairedRows,
    Rows,
    Search,
)

# So many different integers from 0 on look like classes.
_MOST_CLASSES = 10
#: The arguments of ``fit`` beside X and y.
GIVEN = (*ARGUMENTS, "groups")


def by_name(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``fit``: what is given beside X and y is given by name."""
    fit.__qualname__ = "fit"  # Python's own messages would name a base class

    @wraps(fit)
    def checked(self: Any, *given: Any, **params: Any) -> Any:
        if len(given) > 2:
            raise TypeError(
                f"fit: expected X, y, and {', '.join(GIVEN)} by name, such as fit(X, y, "
                f"environments=...), got {len(given)} arguments without a name."
            )
        return fit(self, *given, **params)

    return checked


class Plan:
    """All that a search does, except for its candidates.

    It is made of the search, which need not be fitted, and of the arguments of its ``fit``:
    `params` are routed, and `given` is what ``fit`` takes beside X and y.
    """

    def __init__(
        self, search: Search, X: Rows, y: Labels | None, params: dict[str, Any], **given: Any
    ) -> None:
        # Not data to compare, but what no split may divide.
        groups = given.pop("groups", None)
        _check_arguments(search, X, params, groups, given)
        # Before the groups: these are looked up by the index of X.
        X, y = _check_data(search, X, y, given.get("paired"))
        of_environments = groups is None and needs_groups(search.cv)
        groups, params = _with_groups(search, X, y, groups, params, given.get("environments"))
        routed = search._get_routed_params_for_fit(params)
        #: Whether the candidates are regressors, which have no agreement.
        self.of_regressors = is_regressor(search.estimator)
        #: Weights of the rows, or None.
        self.sample_weight = params.get("sample_weight")
        # What all kinds of data get; each takes what it needs.
        rows = _rows_of_x(search, X, y, groups)
        weight = None if self.sample_weight is None else check_weight(self.sample_weight, len(y))
        #: What ``fit`` was given beside X and y.
        self.kind: DataKind = kind_of(rows, search, given)
        self._selection = selection_of(search)
        rule = make_rule(self._selection, kind=self.kind)
        _check_rule(search, rule, given)
        #: The groups of the rows whose scores are alike, or None.
        self._groups = None
        if groups is not None and not of_environments:
            self._groups = _groups_within(self.kind.strata, groups, len(rows.y))
        warn_of_trained_module(search.estimator)
        #: The distinct labels; none for regressors.
        self.labels = np.unique(np.asarray(y)[: 0 if self.of_regressors else None])
        #: Parameters of `pooled_agreement`.
        self.solver = _solver_of(search, self.labels)
        data = _data_of(search, y, routed, [X, *self.kind.samples], self.labels)
        # After the kind, whose environments stratify the folds.
        splits = _splits_of(search, rows, self.kind, routed.splitter.split)
        #: What is compared, and what follows from it.
        self.comparison: Comparison = self.kind.compare(splits, data, weight)
        # Groups that divide sites are the likeliest reason why no site is left out.
        made_by_groups = (
            self.kind.strata is not None and needs_groups(search.cv) and not of_environments
        )
        n_sites = self.comparison.n_unseen_sites
        _check_unseen_sites(search, rule.n_unseen_sites, n_sites, made_by_groups)
        # The kind may compare other models than it was asked to.
        self.kind, splits = self.comparison.kind, list(self.comparison.splits)
        #: The data that each fit needs.
        self.data = replace(data, with_probabilities=self.comparison.needs_probabilities)
        self.only_class = _only_class(search, self.comparison)
        self._lay_out(search, rows, splits, weight)

    def _lay_out(
        self, search: Search, rows: RowsOfX, splits: list[Split], weight: Floats | None
    ) -> None:
        """Decide which rows each model scores."""
        comparison = self.comparison
        # Each row is scored once by each model, in whatever comparisons it is.
        scored = [*comparison.compared, *comparison.scored_too]
        wants_committee = search._committee is not None
        if wants_committee and not pairs_of_parts(comparison.folds, self.of_regressors):
            raise ValueError(no_parts(len(comparison.folds)))
        if wants_committee or not self._are_rates():
            # The test rows give the errors of scores, whether or not a committee is asked for,
            # its members' temperatures and its own score.
            scored += [PairsOfModels(i, test, i, test) for i, (_, test) in enumerate(splits)]
        #: The rows that each model scores, and their places in the stacked scores.
        self.layout = Layout(splits, scored)
        #: The pairs whose agreement is computed.
        self.pairs = self.layout.pooled(
            comparison.compared, weight if comparison.pairs_have_weights else None
        )
        if len(self.pairs.weight) and not self.pairs.weight.any():
            raise ValueError(
                "sample_weight: expected a pair of two rows of positive weight, got none."
            )
        extras = list(comparison.extra_test_rows) or [[] for _ in splits]
        if n_disjoint(splits) <= 1 and not self._are_rates():
            # Splits of the same rows do not show how a score varies.
            extras = [
                _with_parts(x, test, rows) for x, (_, test) in zip(extras, splits, strict=True)
            ]
        #: What is fitted and scored.
        self.splits = [
            SplitTask(train, test, scored_rows, of_split, comparison.samples_to_predict)
            for (train, test), scored_rows, of_split in zip(
                splits, self.layout.scored_rows, extras, strict=True
            )
        ]

    def _are_rates(self) -> bool:
        """Whether the numbers of rows say how certain the scores of all metrics are."""
        # Imported here: workers that fit and score do not need torch.
        from pa_select.two_sites.classification import is_accuracy

        if self.of_regressors or self._groups is not None or self.data.score_params:
            return False
        named = getattr(self.data.scorer, "_scorers", {"score": self.data.scorer})
        return all(map(is_accuracy, named.values()))

    def rule(self, metric: str = "score") -> SelectionRule:
        """Return the rule that chooses, whose score is a metric."""
        return make_rule(self._selection, metric, self.kind, self.only_class)

    @property
    def n_disjoint(self) -> float:
        """Effective number of disjoint test sets."""
        return n_disjoint(self.training_and_test_rows)

    @cached_property
    def chance(self) -> list[list[Any]]:
        """Scores of predictions that ignore the features; see `chance_scores`."""
        return chance_scores(self.splits, self.data)

    def stacks(self, outcomes: list[list[Outcome]]) -> Stacks:
        """Stack the scores of the candidates that have all scores."""
        return Stacks(outcomes, self.layout.scored_rows, self.labels)

    def score_columns(
        self, outcomes: list[list[Outcome]], stacks: Stacks
    ) -> tuple[dict[str, Any], list[str]]:
        """Make the columns of the scores, and list the names of the metrics."""
        tests = [task.test for task in self.splits]
        out_of_fold = OutOfFold(stacks, self.layout, tests, self.data, self._groups)
        # The extras of all splits have the same suffixes, in the same order.
        given = outcomes, self.chance, self.splits[0].extras, self.n_disjoint
        return score_columns(*given, out_of_fold, self.comparison.score_columns)

    def agreement_columns(self, stacks: Stacks) -> tuple[dict[str, Any], Agreements]:
        """Make the columns of the agreements; return the agreements, too."""
        if self.of_regressors:
            columns = agreements_of_regressors(stacks, self.comparison.compared)
            return columns, Agreements(columns, np.empty((stacks.n_candidates, 0)), {})

        is_zero = bool(self.only_class)
        compared = agreements_of(stacks, self.pairs, is_zero=is_zero, **self.solver)
        ranked = {"rank_agreement": ranks(compared.columns["agreement"])}
        return compared.columns | ranked, compared

    @property
    def training_and_test_rows(self) -> list[Split]:
        """The splits."""
        return [(task.train, task.test) for task in self.splits]

    def posterior(
        self,
        table: dict[str, Any],
        metric: str,
        expected: ExpectedElsewhere,
        without: Ints | None = None,
    ) -> CandidatePosterior | None:
        """Compute the posterior over the candidates; None without disjoint parts, or scores.

        Folds with one of the rows ``without`` are left out.
        """
        folds = folds_without(self.comparison.folds, without)
        if not pairs_of_parts(folds, self.of_regressors):
            return None
        parts = self.comparison.scores_of_parts(table, metric, expected, folds)
        # A metric may not be defined on any part.
        if not len(parts[0]) or not np.isfinite(parts).all(axis=(0, 1)).any():
            return None
        return posterior_of_parts(*parts)

    def calibrated(self, stacks: Stacks, members: Members) -> Members:
        """Calibrate the members of a committee by their out-of-fold scores."""
        given = self.layout.scored_rows, np.asarray(self.data.y), self.sample_weight
        return calibrated_members(members, stacks, *given)

    def vote(
        self,
        stacks: Stacks,
        committee: PACommittee,
        table: dict[str, Any],
        metric: str,
        expected: ExpectedElsewhere,
    ) -> CommitteeVote | None:
        """Return the votes of a committee's fold models; None if a member has no class scores."""

        def members_without(rows: Ints) -> Members:
            # Two folds leave none to compare with another one.
            posterior = self.posterior(table, metric, expected, rows) or committee.posterior_
            return members_of(posterior, committee.min_weight)

        return CommitteeVote.cross_fitted(
            stacks,
            committee._members.candidates,
            self.layout.scored_rows,
            [task.test for task in self.splits],
            np.asarray(self.data.y),
            self.sample_weight,
            members_without,
        )

    def refinement(
        self, stacks: Stacks, table: dict[str, Any], agreements: Agreements
    ) -> Callable[[Ints, float], None]:
        """Return a function that enters candidates' agreements within a gap into the table."""

        def refined(candidates: Ints, gap: float) -> None:
            options = self.solver | {"tol": gap}
            refine(table, agreements.terms, stacks.of(candidates), self.pairs, **options)

        return refined


def _check_arguments(
    search: Search, X: Rows, params: Mapping[str, Any], groups: Groups, given: Mapping[str, Any]
) -> None:
    """Check what can be checked without looking at the rows."""
    check_scoring_argument(search.scoring, several=True)
    _refuse_target(search.estimator, params)
    check_fit_params(search.estimator, dict(params), GIVEN)
    check_text(groups, "groups", X)
    _check_selection(search)
    _check_needs(search, make_rule(selection_of(search)), given)
    _check_site_parameters(search, given.get("paired"))
    _check_scorers(search._get_scorers()[0], search.refit)


def _with_groups(
    search: Search,
    X: Rows,
    y: Labels,
    groups: Groups,
    params: dict[str, Any],
    environments: Labels | None,
) -> tuple[Groups, dict[str, Any]]:
    """Return the groups and the parameters that are routed, after checking both.

    The default splitter takes groups itself; they are routed to a splitter of the user.
    """
    values = {"y": y, "groups": groups, "sample_weight": params.get("sample_weight")}
    for name, of_rows in values.items():
        check_row_order(of_rows, X, name)
    if groups is None and needs_groups(search.cv):
        if environments is None:
            raise ValueError(
                f"environments or groups: expected one for each row with cv={search.cv!r}, "
                "got None."
            )
        groups = check_environments(environments, X)
    if groups is not None and not (search.cv is None or isinstance(search.cv, numbers.Integral)):
        params = params | {"groups": groups}
    elif groups is not None:
        groups = check_column(groups, _num_samples(X), "groups")
    return groups, params_of_rows(X, params)


def _groups_within(environments: Array | None, groups: Labels, n: int) -> Array | None:
    """Return the groups; None if they divide no environment, so that its rows count singly."""
    groups = check_column(groups, n, "groups")
    if environments is not None:
        n_parts = cells(environments, groups).max() + 1
        if n_parts == len(np.unique(environments)):
            return None
    return groups


def _rows_of_x(search: Search, X: Rows, y: Labels, groups: Groups) -> RowsOfX:
    rng = check_random_state(0 if search.random_state is None else search.random_state)
    return RowsOfX(X, check_column(y, _num_samples(X), "y"), groups, int(rng.randint(2**31 - 2)))


def _solver_of(search: Search, labels: Array) -> dict[str, Any]:
    """Check the parameters of the solver."""
    # Imported here: workers that fit and score do not need torch.
    from pa_select.agreement.inputs import validation
    from pa_select.utils.arrays import check_tol, resolve_device

    check_tol(search.tol)
    if not is_regressor(search.estimator):
        validation.check_prior(search.prior, len(labels))
    resolve_device(search.device)
    return {"prior": search.prior, "tol": search.tol, "device": search.device}


def _data_of(search: Search, y: Labels, routed: Any, samples: list[Any], labels: Array) -> Data:
    column = None
    if np.ndim(y) == 2:
        *_, final = unwrapped(search.estimator)
        if is_instance(final, "skorch", "NeuralNet") and is_regressor(final):
            column = y
        y = column_or_1d(y, warn=is_classifier(search.estimator))
    return Data(
        samples,
        y,
        search._get_scorers()[0],
        routed.estimator.fit,
        routed.scorer.score,
        search.error_score,
        labels=labels,
        of_regressors=is_regressor(search.estimator),
        column=column,
    )


def _splits_of(
    search: Search, rows: RowsOfX, kind: DataKind, split_params: dict[str, Any]
) -> list[Split]:
    splits = make_splits(
        search.cv,
        rows.X,
        rows.y,
        tested_twice=kind.tested_twice,
        groups=rows.groups,
        environments=kind.strata,
        seed=rows.seed,
        split_params=split_params,
        classifier=is_classifier(search.estimator),
    )
    return [(positions(train), positions(test)) for train, test in splits]


def _only_class(search: Search, comparison: Comparison) -> str:
    """Return the name of the only class that is compared, if its agreement says nothing.

    With the marginal prior it is 0, but for rounding.
    """
    name = comparison.only_class
    if not (name and isinstance(search.prior, str) and search.prior == "marginal"):
        return ""
    warn_caller(
        f"environments: expected rows of several classes to compare, got only rows of class "
        f"{name}. Their agreement is 0 whatever the classifier, so the score decides. To "
        "compare other rows, give views, pairs or other environments."
    )
    return name


def _refuse_target(estimator: Any, params: Mapping[str, Any]) -> None:
    """Refuse unlabelled rows of one site, unless the estimator's ``fit`` takes a `target`."""
    if "target" in params and not takes_parameter(estimator, "target", likely=False):
        raise TypeError(
            "target: expected objects that were measured at both sites, fit(X, y, paired=(X_a, "
            "X_b)), got unlabelled rows of one site. Such rows alone do not choose: on shifted "
            "data sets no rule that uses only them gained two standard errors over the "
            "accuracy (examples/studies/label_free_rules.py, docs/comparison.rst, "
            "docs/figures/label_free_selection.csv)."
        )


def _with_parts(extras: Sequence[Extra], test: Ints, rows: RowsOfX) -> list[Extra]:
    """Add parts of the test rows, and of the same rows of other samples, such as views."""
    wholes = [
        (x.suffix, x.sample)
        for x in extras
        if x.sample != SAMPLE_X and np.array_equal(x.rows, test)
    ]
    added = [
        part
        for suffix, sample in (
            ("part", SAMPLE_X),
            *((f"part_{s}", sample) for s, sample in wholes),
        )
        for part in parts_of_rows(suffix, sample, test, rows.seed, rows.y)
        if not any(x.suffix == suffix for x in extras)  # the kind has them
    ]
    return [*extras, *added]


def _check_selection(search: Search) -> None:
    """Check that there is one rule."""
    selection, refit = search.selection, search.refit
    for argument, value in (("selection", selection), ("refit", refit)):
        if isinstance(value, type):
            raise TypeError(
                f"{argument}: expected an object such as {value.__name__}(), got the class."
            )
    if callable(refit) and (callable(selection) or selection != DEFAULT):
        raise ValueError(
            f"selection: expected {DEFAULT!r}, the default, with a callable refit, which is the "
            f"rule then, got {selection!r}."
        )


def _chosen_by(search: Search) -> tuple[str, Any]:
    """Return the name and the value of the argument that says what chooses."""
    chosen_by = selection_of(search)
    return ("refit" if chosen_by is search.refit else "selection"), chosen_by


def _check_needs(search: Search, rule: SelectionRule, given: Mapping[str, Any]) -> None:
    """Check that ``fit`` was given the data that the rule needs."""
    argument, chosen_by = _chosen_by(search)
    if rule.needs and given.get(rule.needs) is None:
        raise ValueError(
            f"{rule.needs}: expected some in fit(X, y, {rule.needs}=...) with "
            f"{argument}={chosen_by!r}, got None."
        )


def _check_rule(search: Search, rule: SelectionRule, given: Mapping[str, Any]) -> None:
    """Check the rule when the kind of data, which states the default one, is known."""
    _check_needs(search, rule, given)
    argument, chosen_by = _chosen_by(search)
    if is_regressor(search.estimator) and rule.by_agreement:
        raise ValueError(
            f"{argument}: expected a rule that does not look at the agreement, which regressors "
            f"do not have, got {chosen_by!r}."
        )


def _check_unseen_sites(search: Search, needed: int, n: int, made_by_groups: bool) -> None:
    """Check that there are the sites that the rule needs, which no fitted model has seen."""
    if n < needed:
        argument, chosen_by = _chosen_by(search)
        advice = ""
        if made_by_groups:
            advice = " The groups made the splits: without them the environments make them."
        raise ValueError(
            f"{argument}: expected at least {needed} environments that no training rows are from, "
            f"as with fit(X, y, environments=...) and cv=LeaveOneGroupOut(), or pairs of {needed} "
            f"sites, with {chosen_by!r}, got {n}.{advice}"
        )


def _check_scorers(scorers: object, refit: object) -> None:
    """Check that the score that guards the agreement is not an agreement."""
    scorers = getattr(scorers, "_scorers", {"score": scorers})
    first = next(iter(scorers))
    if isinstance(scorers.get(refit if isinstance(refit, str) else first), PAScorer):
        raise ValueError(
            "scoring: expected a score such as 'accuracy' that guards the agreement, got a "
            "PAScorer. This search computes the agreement itself: leave scoring and a "
            "GuardedSelection out."
        )


def _check_site_parameters(search: Search, paired: PairedRows | None) -> None:
    """Check the parameters that only pairs of two sites use."""
    adapter, reference = search.adapter, search.reference
    named = isinstance(reference, str)
    if named and reference not in ("self", "ensemble"):
        raise ValueError(
            f"reference: expected 'self', 'ensemble' or a fitted estimator, got {reference!r}."
        )
    if paired is not None:
        return
    if adapter is not None:
        raise ValueError("adapter: expected pairs, fit(X, y, paired=(X_a, X_b)), got none.")
    if not named:
        raise ValueError(
            "reference: expected 'self' or 'ensemble' without fit(X, y, paired=...), got a "
            f"{type(reference).__name__}."
        )


def _check_data(
    search: Search, X: Rows, y: Labels | None, paired: PairedRows | None
) -> tuple[Any, Any]:
    """Check that the estimator is a classifier, or a regressor with pairs, and the labels."""
    of_regressors = is_regressor(search.estimator)
    if not is_classifier(search.estimator) and not (of_regressors and paired is not None):
        *_, inside = unwrapped(search.estimator)
        kind = "a regressor, " if of_regressors else ""
        raise ValueError(
            f"estimator: expected a classifier, got {kind}{type(inside).__name__}. A regressor "
            "needs pairs: fit(X, y, paired=(X_a, X_b)), or GridSearchCV with "
            "scoring=expected_scorer(X_a, X_b). Without pairs "
            "PACommittee(GridSearchCV(...)) keeps the regressors that the data cannot tell apart, "
            "and new_site_interval says what their scores at several sites mean for a new one. To "
            "predict classes by a regressor, wrap it as a classifier that has a decision_function."
        )
    if y is None:
        raise ValueError(
            f"y: {type(search).__name__} requires y to be passed, but the target y is None"
        )
    refuse_no_rows(X, "X", may_be_dataset=False)
    X, y = indexable(X, y)
    if not of_regressors:
        check_column(y, _num_samples(X), "y")
        check_classification_targets(y)
        return X, y
    values = np.asarray(y)
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"y: expected numbers for regressors, got dtype {values.dtype}. Classes need a "
            "classifier."
        )
    if not np.isfinite(values).all():
        raise ValueError("y: expected finite numbers for regressors, got nan or inf.")
    if values.dtype.kind != "f":
        distinct = np.unique(values).tolist()
        if len(distinct) <= _MOST_CLASSES and distinct == list(range(len(distinct))):
            warn_caller(
                f"y: expected numbers for the regressor {type(search.estimator).__name__}, got "
                f"the integers {distinct}, which look like classes. Give a classifier, or y as "
                "floats if they are numbers."
            )
    return X, y
