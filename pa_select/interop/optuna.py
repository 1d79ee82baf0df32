"""An objective for studies of Optuna that ranks trials by agreement."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from pa_select.agreement.solved_problems import PooledPairs, pooled_agreement
from pa_select.model_selection import PASearchCV
from pa_select.model_selection.choice import choose, explain
from pa_select.model_selection.evaluation import undefined, with_parameters
from pa_select.model_selection.kinds.kind_of import DEFAULT_PAIRING, Pairing
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.rules import DEFAULT, Selection
from pa_select.model_selection.split_scores import Outcome, fit_and_score_split
from pa_select.model_selection.table_columns import metric_columns, ranks
from pa_select.utils.estimators import is_number
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import (
    Adapter,
    Array,
    CrossValidation,
    Device,
    ErrorScore,
    Estimator,
    Groups,
    Labels,
    PairedRows,
    Prior,
    RandomState,
    Rows,
    Scoring,
)

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    Space: TypeAlias = dict[str, BaseDistribution] | Callable[..., dict[str, Any]]


_optuna: Any = optional_import("optuna", "optuna")

#: The user attribute of a study that describes the problem of its trials.
_PROBLEM = "pa_select_problem"


def agreement_objective(
    estimator: Estimator,
    space: Space,
    X: Rows,
    y: Labels | None,
    *,
    environments: Labels | None = None,
    views: Any = None,
    paired: PairedRows | None = None,
    groups: Groups = None,
    pairing: Pairing = DEFAULT_PAIRING,
    scoring: Scoring = None,
    cv: CrossValidation = None,
    selection: Selection = DEFAULT,
    adapter: Adapter = None,
    prior: Prior = "marginal",
    fit_params: dict[str, Any] | None = None,
    error_score: ErrorScore = np.nan,
    random_state: RandomState = None,
    device: Device = None,
    tol: float = 1e-6,
) -> AgreementObjective:
    """Make an objective for Optuna: the agreement of a trial's cross-validated models.

    A trial is evaluated like a candidate of `pa_select.PASearchCV`, and the same rule chooses the
    best trial. With `paired` the objective is the score that is expected at the other site, at
    the worst one of several.

    Parameters
    ----------
    estimator : estimator object
        A classifier, or with `paired` a regressor.
    space : dict of str to distribution, or callable trial -> dict
        The distribution of each parameter of the estimator, or a function that asks the
        trial for parameters and returns them.
    X, y, environments, views, paired, groups
        As in ``fit`` of `pa_select.PASearchCV`.
    pairing, scoring, cv, selection, adapter, prior, random_state, device, tol
        As in `pa_select.PASearchCV`. With several metrics, the first one is the score. The
        posteriors of a trial's own models stand in for the labels of paired objects.
    fit_params : dict, default=None
        The ``**params`` of ``PASearchCV.fit``, for example ``sample_weight``.
    error_score : "raise" or float, default=nan
        The value of a trial in which a fit failed. With nan the trial fails and the study
        continues. A low number makes the sampler avoid such parameters. "raise" raises.

    Returns
    -------
    AgreementObjective
        Pass it to ``study.optimize``, or call it with a trial of ``study.ask``.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it.

    References
    ----------
    .. [1] T. Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization
       Framework", KDD 2019.

    Examples
    --------
    >>> import optuna
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.svm import SVC
    >>> from pa_select.interop.optuna import agreement_objective
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> X, y = load_wine(return_X_y=True)
    >>> space = {"C": optuna.distributions.FloatDistribution(0.1, 1e4, log=True)}
    >>> objective = agreement_objective(SVC(), space, X, y, views=lambda X: 1.1 * X)
    >>> sampler = optuna.samplers.TPESampler(seed=0)
    >>> study = optuna.create_study(direction="maximize", sampler=sampler)
    >>> study.optimize(objective, n_trials=8)
    >>> best = objective.best_trial(study)  # study.best_trial does not look at the score
    >>> print(f"{best.user_attrs['agreement']:.2f} nats, score {best.user_attrs['score']:.2f}")
    0.82 nats, score 0.91
    """
    search = PASearchCV(
        estimator,
        {},
        pairing=pairing,
        scoring=scoring,
        cv=cv,
        selection=selection,
        adapter=adapter,
        reference="self",  # the trials come one by one
        refit=False,
        prior=prior,
        error_score=error_score,
        random_state=random_state,
        device=device,
        tol=tol,
    )
    _check_space(space)
    search._validate_params()
    given = {"environments": environments, "views": views, "paired": paired}
    plan = Plan(search, X, y, dict(fit_params or {}), **given, groups=groups)
    if not plan.of_regressors and len(plan.labels) < 2:
        raise ValueError(f"y: expected at least two classes, got only {plan.labels[0]}.")
    if not callable(space) and all(map(_is_of_numbers, space.values())):
        plan.kind.check_candidates([estimator])  # no trial differs in what it takes
    return AgreementObjective(search, plan, space)


class AgreementObjective:
    """The objective that `agreement_objective` makes.

    In a study of one direction the value is the agreement, in nats per pair, or with `paired` the
    expected score, in the unit of the score. In a study of two directions the second value is the
    score. All directions must be "maximize".

    After each split the agreement of the pairs compared so far is reported to the pruner; at one
    step, all trials have the same pairs. An expected score is calibrated on the test rows of all
    splits together, so nothing is reported.

    Each finished trial has the user attributes "agreement", "score" and "cv_results" (the
    trial's row of ``cv_results_`` of `pa_select.PASearchCV`), and with `paired`
    "expected_score". A failed trial has "failure".
    """

    def __init__(self, search: PASearchCV, plan: Plan, space: Space) -> None:
        self.search, self.plan, self.space = search, plan, space
        chance = plan.chance[0][0]
        #: The metric of the selection rule; the first one if there are several.
        self.metric = next(iter(chance)) if isinstance(chance, dict) else "score"
        self.rule = plan.rule(self.metric)
        #: The splits in the order in which they are evaluated.
        self._order = _pairs_early(plan.pairs, len(plan.splits))
        self._value = "expected score" if plan.kind.sites else "agreement"
        self._problem = _description(search, plan)

    def __call__(self, trial: Trial) -> float | tuple[float, float]:
        """Evaluate a trial.

        Parameters
        ----------
        trial : optuna.trial.Trial
            It suggests the parameters, and gets intermediate values and user attributes.

        Returns
        -------
        float or tuple of two float
            The agreement, in nats per pair, or with `paired` the expected score; with two
            directions, also the score.

        Raises
        ------
        optuna.TrialPruned
            If the study's pruner stops the trial.
        ValueError
            If the study has other directions, or its trials are of another problem, with
            other data, splits, pairs, prior or scoring.
        """
        n_values = self._check_study(getattr(trial, "study", None))
        parameters = self._parameters(trial)
        order, plan = self._order, self.plan
        outcomes: list[Any] = [None] * len(order)
        for step, split in enumerate(order):
            estimator = clone(self.search.estimator)
            outcomes[split] = fit_and_score_split(
                estimator, parameters, plan.splits[split], plan.data
            )
            failure = self._failure(outcomes[split], split)
            if failure is not None:
                return self._failed(trial, failure, n_values)
            # Optuna prunes only trials of one value. The last step gives the value itself.
            if n_values == 1 and step < len(order) - 1 and not plan.kind.sites:
                agreement = self._agreement_so_far(outcomes, split)
                if agreement is not None:
                    trial.report(agreement, step)
                    if trial.should_prune():
                        raise _optuna.TrialPruned
        row, failure = self._row(outcomes)
        if failure is not None:
            if isinstance(self.search.error_score, str):  # "raise"
                raise RuntimeError(f"trial {trial.number}: {failure}")
            return self._failed(trial, failure, n_values)
        value = row.get("agreement", np.nan)
        attributes = {"score": row[f"mean_test_{self.metric}"]}
        if "agreement" in row:  # regressors have none
            attributes["agreement"] = value
        if plan.kind.sites:
            value = attributes["expected_score"] = row[f"expected_{self.metric}"]
        for name, attribute in (attributes | {"cv_results": row}).items():
            trial.set_user_attr(name, attribute)
        return value if n_values == 1 else (value, attributes["score"])

    def _parameters(self, trial: Trial | FrozenTrial) -> dict[str, Any]:
        """Return the estimator's parameters in a running or finished trial."""
        if not callable(self.space):
            return {name: _suggest(trial, name, d) for name, d in self.space.items()}
        parameters = self.space(trial)
        if not isinstance(parameters, dict):
            raise TypeError(
                "space: expected a function that returns a dict of parameters, got "
                f"{parameters!r}."
            )
        return parameters

    def cv_results(self, study: Study) -> dict[str, Any]:
        """Make a table of a study's finished trials, like ``cv_results_`` of PASearchCV.

        Parameters
        ----------
        study : optuna.study.Study

        Returns
        -------
        dict of ndarray
            The columns of ``cv_results_``, without single splits, and "trial", the
            numbers of the trials.

        Raises
        ------
        ValueError
            If no trial of this objective has finished.
        """
        complete = (_optuna.trial.TrialState.COMPLETE,)
        trials = [
            trial
            for trial in study.get_trials(deepcopy=False, states=complete)
            if "cv_results" in trial.user_attrs
        ]
        if not trials:
            raise ValueError(
                "study: expected a finished trial of this objective, got none among "
                f"{len(study.trials)}.{_first_failure(study)}"
            )
        rows = [trial.user_attrs["cv_results"] for trial in trials]
        # The rows lack values that are nan.
        names = dict.fromkeys(name for row in rows for name in row)
        table: dict[str, Any] = {
            name: np.array([row.get(name, np.nan) for row in rows]) for name in names
        }
        for name in ("agreement", f"expected_{self.metric}"):
            if name in table:
                table[f"rank_{name}"] = ranks(table[name])
        table["trial"] = np.array([trial.number for trial in trials])
        table["params"] = [self._parameters(trial) for trial in trials]
        return table | explain(self.rule, table, [None] * len(trials))

    def best_trial(self, study: Study) -> FrozenTrial:
        """Choose a finished trial by the selection rule; by default "guarded".

        ``study.best_trial`` has the best value, whatever the score. The rule does not see pruned
        trials: if the most accurate ones were pruned, less accurate ones are eligible.

        Parameters
        ----------
        study : optuna.study.Study

        Returns
        -------
        optuna.trial.FrozenTrial

        Raises
        ------
        ValueError
            If no trial of this objective has finished.
        """
        table = self.cv_results(study)
        chosen = choose(self.rule, table)
        self.plan.comparison.warn_of_table(table)
        number = table["trial"][chosen]
        return next(trial for trial in study.trials if trial.number == number)

    def best_estimator(self, study: Study) -> Estimator:
        """Fit an estimator with the parameters of `best_trial` to all rows.

        If the row of this trial says "adapted", rows of the other site must be mapped by a
        `pa_select.SiteAdapter`, fitted to the pairs, before the estimator predicts them.

        Parameters
        ----------
        study : optuna.study.Study

        Returns
        -------
        estimator object
        """
        parameters, data = self._parameters(self.best_trial(study)), self.plan.data
        estimator = with_parameters(self.search.estimator, parameters)
        return estimator.fit(data.samples[0], data.y_to_fit, **data.fit_params)

    def _failure(self, outcome: Outcome, split: int) -> str | None:
        """Return why there is no agreement or no score, or None."""
        error = outcome.fit_error or outcome.score_error
        if error is not None:
            return error.strip().splitlines()[-1]
        why = outcome.metric_errors.get(self.metric)
        return None if why is None else undefined(self.metric, split, why)

    def _agreement_so_far(self, outcomes: list[Outcome | None], split: int) -> float | None:
        """Return the agreement of the pairs that both models scored; None if none is new."""
        pairs = self.plan.pairs
        finished = np.array([outcome is not None for outcome in outcomes])
        used = finished[pairs.model_a] & finished[pairs.model_b]
        new = used & ((pairs.model_a == split) | (pairs.model_b == split))
        if not pairs.weight[new].any():
            return None
        filled = [
            outcome or _without_scores(rows, self.plan.labels)
            for outcome, rows in zip(outcomes, self.plan.layout.scored_rows, strict=True)
        ]
        some = PooledPairs(*(column[used] for column in pairs))
        result = next(pooled_agreement(self.plan.stacks([filled]), some, **self.plan.solver))
        return float(result.score) if result.failure is None else None

    def _row(self, outcomes: list[Outcome]) -> tuple[dict[str, Any], str | None]:
        """Return a candidate's row of ``cv_results_`` without nan values.

        Also return why the value of the trial is not in it, or None.
        """
        stacks = self.plan.stacks([outcomes])
        columns, metrics = self.plan.score_columns([outcomes], stacks)
        scores = [outcome.test_scores for outcome in outcomes]
        for name in metrics:
            values = [[x[name] if isinstance(x, dict) else x for x in scores]]
            columns |= metric_columns(name, np.array(values, dtype=np.float64))
        of_agreements, agreements = self.plan.agreement_columns(stacks)
        columns |= of_agreements
        expected = self.plan.comparison.expected(stacks, columns, self.metric)
        columns |= expected.columns
        columns["mean_fit_time"] = [np.mean([outcome.fit_time for outcome in outcomes])]
        row = {
            name: getattr(values[0], "tolist", lambda value=values[0]: value)()
            for name, values in columns.items()
            if not name.startswith(("split", "rank"))
        }
        known = {name: value for name, value in row.items() if value == value}
        if self.plan.kind.sites:
            name = f"expected_{self.metric}"
            why = f": {expected.errors[0]}" if expected.errors else ""
            return known, None if name in known else f"{name} is nan{why}"
        failure = agreements.failures.get(0, "no agreement")
        return known, None if "agreement" in known else failure

    def _check_study(self, study: Study | None) -> int:
        """Check the study; return the number of values of its trials."""
        if study is None:  # a FixedTrial has no study
            return 1
        directions = [direction.name.lower() for direction in study.directions]
        if directions not in (["maximize"], ["maximize"] * 2):
            raise ValueError(
                f"study: expected directions ['maximize'] for the {self._value}, or ['maximize', "
                f"'maximize'] for {self._value} and score, got {directions}."
            )
        known = study.user_attrs.get(_PROBLEM)
        if known is None:
            study.set_user_attr(_PROBLEM, self._problem)
        elif not _same_problem(known, self._problem):
            raise ValueError(
                "study: expected a study of this problem, got one with other data, splits, pairs, "
                "prior or scoring; its trials cannot be compared with new ones."
            )
        return len(directions)

    def _failed(self, trial: Trial, failure: str, n_values: int) -> float | tuple[float, float]:
        trial.set_user_attr("failure", failure)
        message = f"Trial {trial.number} has no {self._value}: {failure}"
        warnings.warn(message, FitFailedWarning, stacklevel=3)
        value = float(self.search.error_score)
        return value if n_values == 1 else (value, value)


def _first_failure(study: Study) -> str:
    failed = [trial for trial in study.trials if "failure" in trial.user_attrs]
    if not failed:
        return ""
    return (
        f" Trial {failed[0].number} failed: {failed[0].user_attrs['failure'].removesuffix('.')}."
    )


def _check_space(space: object) -> None:
    if callable(space):
        return
    if not isinstance(space, dict):
        raise TypeError(
            "space: expected a dict of Optuna's distributions or a function of a trial, got "
            f"{type(space).__name__}."
        )
    for name, distribution in space.items():
        if not isinstance(distribution, _optuna.distributions.BaseDistribution):
            raise TypeError(
                f"space[{name!r}]: expected one of Optuna's distributions, got {distribution!r}."
            )


def _is_of_numbers(distribution: Any) -> bool:
    return all(map(is_number, getattr(distribution, "choices", ())))


def _suggest(trial: Any, name: str, distribution: Any) -> Any:
    if isinstance(distribution, _optuna.distributions.CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    is_int = isinstance(distribution, _optuna.distributions.IntDistribution)
    suggest: Callable[..., Any] = trial.suggest_int if is_int else trial.suggest_float
    return suggest(
        name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
    )


def _description(search: PASearchCV, plan: Plan) -> dict[str, Any]:
    """Describe the problem of a study, for `_same_problem`."""
    given = search.scoring, search.prior
    plain = [value if isinstance(value, (str, list, tuple)) else None for value in given]
    splits = [(task.train, task.test) for task in plan.splits]
    sites = list(plan.kind.sites)  # the columns have these names
    exact = (np.asarray(plan.data.y), splits, tuple(plan.pairs), plain, sites)
    # Machines may compute views with different rounding errors.
    rows = [np.asarray(sample) for sample in plan.data.samples]
    numeric = [np.abs(x.astype(np.float64)) for x in rows if x.dtype.kind in "fiub"]
    means = [float(np.nanmean(values)) for values in numeric]
    return {"exact": joblib.hash(exact), "means": means}


def _same_problem(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two descriptions are of the same problem."""
    if one["exact"] != other["exact"] or len(one["means"]) != len(other["means"]):
        return False
    return bool(np.allclose(one["means"], other["means"], rtol=1e-5, atol=0))


def _pairs_early(pairs: PooledPairs, n_splits: int) -> list[int]:
    """Return an order of the splits in which each one adds as many pairs as it can."""
    counts = np.zeros((n_splits, n_splits))
    np.add.at(counts, (pairs.model_a, pairs.model_b), 1)
    counts += counts.T
    order: list[int] = []
    for _ in range(n_splits):
        gain = counts.diagonal() + counts[:, order].sum(1)
        gain[order] = -1
        order.append(int(gain.argmax()))
    return order


def _without_scores(rows: dict[int, Any], labels: Array) -> Outcome:
    """Make an outcome for a split that is not evaluated yet."""
    blank = {sample: np.zeros((len(x), len(labels))) for sample, x in rows.items()}
    return Outcome(0.0, 0.0, 0, None, matrices=blank, classes=labels)
