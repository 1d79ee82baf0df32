"""Studies of Optuna: the same numbers as a search, pruning, resuming, failures."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import FitFailedWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

optuna = pytest.importorskip("optuna")

from optuna.distributions import (  # noqa: E402
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages.journal import JournalFileBackend, JournalStorage  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

from pa_select import GuardedSelection, PASearchCV, class_scores, posterior_agreement  # noqa: E402
from pa_select.interop.optuna import agreement_objective  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)

# The pairs of these tests are made of rows of X.
pytestmark = pytest.mark.filterwarnings("ignore:paired.*not among the rows of X:UserWarning")

X, Y = load_wine(return_X_y=True)
ENVIRONMENTS = np.arange(len(Y)) % 2
GRID = {"var_smoothing": [1e-9, 1e-2, 1.0]}
SPACE = {"var_smoothing": CategoricalDistribution(GRID["var_smoothing"])}
LOG = {"var_smoothing": FloatDistribution(1e-9, 1.0, log=True)}


def drift(rows):
    return 1.1 * rows


def study_of(n_directions=1, seed=0, **options):
    options = {"sampler": optuna.samplers.RandomSampler(seed=seed)} | options
    return optuna.create_study(directions=["maximize"] * n_directions, **options)


def over_grid(objective, n_directions=1, grid=GRID):
    study = study_of(n_directions, sampler=optuna.samplers.GridSampler(grid, seed=0))
    study.optimize(objective)
    return study


class Failing(GaussianNB):
    """Naive Bayes that may fail, and counts its fits."""

    fits = 0
    killed_at = None

    def __init__(self, var_smoothing=1e-9, fails=False):
        super().__init__(var_smoothing=var_smoothing)
        self.fails = fails

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits == self.killed_at:
            raise KeyboardInterrupt
        if self.fails:
            raise ValueError("no fit today")
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def _no_fits_yet(monkeypatch):
    monkeypatch.setattr(Failing, "fits", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"groups": np.arange(len(Y)) // 2}, {"cv": 2, "random_state": 1}),
        ({}, {"pairing": "split-half", "cv": 2, "selection": "agreement"}),
        ({"views": [drift, np.sqrt]}, {"cv": 2, "scoring": ["accuracy", "f1_macro"]}),
        ({"environments": ENVIRONMENTS}, {"cv": 2, "prior": "uniform"}),
        ({"views": 1.1 * X}, {"cv": 2, "selection": GuardedSelection(n_se=1)}),
    ],
)
def test_the_numbers_are_those_of_a_search(given, options):
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, **given, **options)
    study = over_grid(objective)
    several = "accuracy" if "scoring" in options else False
    search = PASearchCV(GaussianNB(), GRID, refit=several, **options).fit(X, Y, **given)
    compare(objective.cv_results(study), search)
    best = objective.best_trial(study)
    assert best.params == search.best_params_
    value = search.cv_results_["agreement"][search.best_index_]
    assert best.value == best.user_attrs["agreement"] == pytest.approx(value, abs=1e-6)
    assert best.user_attrs["score"] == pytest.approx(search.best_score_)


def compare(table, search):
    """Check that the table of a study is that of a search of the same grid."""
    order = [search.cv_results_["params"].index(p) for p in table["params"]]
    # The gap depends on which candidates are solved together, and contend; a study has no weights.
    of_other_kinds = ("split", "rank", "param", "std_fit", "mean_sc", "std_sc", "n_failed", "gap")
    for name, column in search.cv_results_.items():
        if name.startswith((*of_other_kinds, "mean_fit_time", "not_told_apart", "weight")):
            continue
        if name == "reason":  # a study does not know what the pairs' terms are
            column = np.array([reason.partition("; chosen")[0] for reason in column])
        if column.dtype.kind != "f":
            assert list(table[name]) == list(column[order]), name
        elif np.isfinite(column).any():  # what is nan is not kept
            np.testing.assert_allclose(table[name], column[order], atol=1e-6, err_msg=name)
    assert sorted(table["trial"]) == list(range(3))


NOISE = X.std(0) * np.random.default_rng(0).normal(size=(30, X.shape[1]))
TWICE = X[::6], 1.5 * X[::6] + 0.7 * NOISE
TWICE_ELSEWHERE = X[::6], np.sqrt(X[::6]) * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paired", "options"),
    [
        (TWICE, {}),
        ({"b": TWICE, "c": TWICE_ELSEWHERE}, {"adapter": "ridge"}),
        (TWICE, {"scoring": ["neg_log_loss", "accuracy"], "selection": "agreement"}),
        (TWICE, {"selection": "expected", "random_state": 3, "adapter": "ridge"}),
        ((TWICE[0], TWICE[1][:, :2]), {"adapter": "ridge"}),  # a site of fewer columns
    ],
)
def test_expected_scores_are_those_of_a_search(paired, options):
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, paired=paired, cv=3, **options)
    study = over_grid(objective)
    metric = "neg_log_loss" if "scoring" in options else "score"
    refit = metric if "scoring" in options else True
    search = PASearchCV(GaussianNB(), GRID, refit=refit, cv=3, reference="self", **options)
    search.fit(X, Y, paired=paired)
    table = objective.cv_results(study)
    compare(table, search)
    expected, rank = search.cv_results_[f"expected_{metric}"], f"rank_expected_{metric}"
    assert sorted(table[rank]) == sorted(search.cv_results_[rank])
    for trial in study.trials:
        value = expected[search.cv_results_["params"].index(trial.params)]
        assert trial.value == trial.user_attrs["expected_score"] == pytest.approx(value, abs=1e-6)
        assert trial.user_attrs["agreement"] == trial.user_attrs["cv_results"]["agreement"]
        assert trial.intermediate_values == {}
    best = objective.best_trial(study)
    assert best.params == search.best_params_
    assert best.user_attrs["score"] == pytest.approx(search.best_score_)
    two = over_grid(objective, 2)
    for trial in two.trials:
        assert trial.values == [trial.user_attrs["expected_score"], trial.user_attrs["score"]]


def test_the_best_trial_has_the_best_expected_score():
    grid = {"var_smoothing": [1e-9, 1e-4, 1e6]}
    space = {"var_smoothing": CategoricalDistribution(grid["var_smoothing"])}
    objective = agreement_objective(GaussianNB(), space, X, Y, paired=TWICE, cv=3)
    study = over_grid(objective, grid=grid)
    table = objective.cv_results(study)
    learnt = [params["var_smoothing"] < 1 for params in table["params"]]
    assert table["eligible"].tolist() == learnt
    values = [trial.value for trial in study.trials]
    assert objective.best_trial(study).value == max(values)
    assert values == pytest.approx(table["expected_score"])
    assert "expected at the other site 0." in table["reason"][learnt.index(True)]
    assert "is not 2 standard errors above chance" in table["reason"][learnt.index(False)]


def accuracy_of_certain_labels(y, predicted, sample_weight=None):
    """A metric that fails where labels are uncertain."""
    if sample_weight is not None and len(np.unique(sample_weight)) > 1:
        raise ValueError("no luck")
    return float(np.mean(y == predicted))


@pytest.mark.filterwarnings("ignore:1 expected scores could not be computed:UserWarning")
def test_a_trial_without_an_expected_score_fails_alone():
    params = {"scoring": make_scorer(accuracy_of_certain_labels), "cv": 3, "error_score": -1.0}
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, paired=TWICE, **params)
    study = study_of()
    with pytest.warns(FitFailedWarning, match="no expected score: expected_score is nan"):
        study.optimize(objective, n_trials=1)
    assert study.trials[0].value == -1
    failure = study.trials[0].user_attrs["failure"]
    assert failure.startswith("expected_score is nan: score: ")
    assert "no luck" in failure


def undefined_for_blind(y, predicted):
    return np.ptp(predicted) and float(np.mean(y == predicted)) or 1 // 0


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("given", [{"paired": TWICE}, {"views": drift}])
@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:paired", "ignore:Trial")
def test_a_trial_without_a_score_says_why(several, given):
    scoring = make_scorer(undefined_for_blind)
    options = {
        "cv": 3,
        "scoring": {"own": scoring, "accuracy": "accuracy"} if several else scoring,
    }
    if "paired" in given:
        options["scoring"] = {"own": "roc_auc", "accuracy": "accuracy"} if several else "roc_auc"
    grid = {"var_smoothing": [1e-9, 1e30]}
    space = {"var_smoothing": CategoricalDistribution(grid["var_smoothing"])}
    study = over_grid(
        agreement_objective(GaussianNB(), space, X, Y, **given, **options), grid=grid
    )
    failed = [trial for trial in study.trials if trial.state == TrialState.FAIL]
    message = f"{'own' if several else 'score'} is not finite in split 0: "
    message += "ValueError: multi_class" if "paired" in given else "ZeroDivisionError: integer div"
    assert len(failed) == (2 if "paired" in given else 1)
    for trial in failed:
        assert trial.user_attrs["failure"].startswith(message)
    if "paired" in given:
        objective = agreement_objective(GaussianNB(), space, X, Y, **given, **options)
        with pytest.raises(ValueError, match=f"among 2. Trial 0 failed: {message}"):
            objective.best_trial(study)


def test_expected_scores_cannot_be_pruned():
    pruner = optuna.pruners.ThresholdPruner(lower=10.0)
    study = study_of(pruner=pruner)
    study.optimize(agreement_objective(Failing(), {}, X, Y, paired=TWICE, cv=3), n_trials=1)
    assert study.trials[0].state == TrialState.COMPLETE


def test_warnings_about_pairs_are_those_of_a_search():
    same = X[:60:2], X[:60:2] + 1e-9
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, paired=same, cv=3)
    study = over_grid(objective)
    with pytest.warns(UserWarning, match="No candidate predicts another class"):
        objective.best_trial(study)


def test_sample_weight_is_passed_on():
    weight = np.where(Y == 0, 0.2, 1.0)
    options = {"fit_params": {"sample_weight": weight}}
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, views=drift, cv=2, **options)
    value = objective(optuna.trial.FixedTrial({"var_smoothing": 1e-2}))
    search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-2]}, cv=2)
    search.fit(X, Y, views=drift, sample_weight=weight)
    assert value == pytest.approx(search.cv_results_["agreement"][0], abs=1e-6)
    plain = agreement_objective(GaussianNB(), SPACE, X, Y, views=drift, cv=2)
    assert abs(value - plain(optuna.trial.FixedTrial({"var_smoothing": 1e-2}))) > 1e-4


def test_ask_and_tell():
    space = LOG | {"priors": CategoricalDistribution([None])}
    objective = agreement_objective(GaussianNB(), space, X, Y, views=drift, cv=2)
    study = study_of()
    for options in ({}, {"fixed_distributions": space}):
        trial = study.ask(**options)
        study.tell(trial, objective(trial))
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 2
    assert set(study.trials[1].params) == {"var_smoothing", "priors"}

    def space(trial):
        return {"var_smoothing": trial.suggest_float("var_smoothing", 1e-9, 1.0, log=True)}

    by_function = agreement_objective(GaussianNB(), space, X, Y, views=drift, cv=2)
    other = study_of()
    other.optimize(by_function, n_trials=1)
    assert other.trials[0].value == study.trials[0].value
    assert by_function.best_estimator(other).var_smoothing == other.best_params["var_smoothing"]


def test_distributions():
    space = {
        "C": FloatDistribution(0.5, 2.0, step=0.5),
        "n": IntDistribution(1, 64, log=True),
        "m": IntDistribution(0, 10, step=5),
        "kind": CategoricalDistribution(["a", None]),
    }
    objective = agreement_objective(GaussianNB(), space, X, Y, views=drift, cv=2)
    trial = study_of().ask()
    found = objective._parameters(trial)
    assert found == trial.params
    assert trial.distributions == space
    assert objective._parameters(optuna.trial.FixedTrial(found)) == found


def test_reports_the_agreement_of_the_pairs_so_far():
    folds = list(StratifiedKFold(3).split(X, Y))
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, views=drift, cv=3)
    study = study_of()
    study.optimize(objective, n_trials=1)
    trial = study.trials[0]
    assert set(trial.intermediate_values) == {0, 1}
    # The largest fold comes first.
    train, test = max(folds, key=lambda fold: len(fold[1]))
    model = GaussianNB(**trial.params).fit(X[train], Y[train])
    a, b = (class_scores(model, rows)[0] for rows in (X[test], drift(X[test])))
    expected = posterior_agreement(a, b, prior="marginal", certify=False).score
    assert trial.intermediate_values[0] == pytest.approx(expected, abs=1e-6)
    # Models of two repetitions alternate, so that there are pairs to report on.
    objective = agreement_objective(GaussianNB(), SPACE, X, Y, cv=3)
    study = study_of()
    study.optimize(objective, n_trials=1)
    trial = study.trials[0]
    assert set(trial.intermediate_values) == {1, 2, 3, 4}
    assert trial.intermediate_values[4] != trial.value


def test_pruning_saves_the_other_fits():
    pruner = optuna.pruners.ThresholdPruner(lower=10.0, n_warmup_steps=1)
    objective = agreement_objective(Failing(), {}, X, Y, views=drift, cv=4)
    study = study_of(pruner=pruner)
    study.optimize(objective, n_trials=2)
    assert Failing.fits == 4
    assert [t.state for t in study.trials] == [TrialState.PRUNED] * 2
    assert set(study.trials[0].intermediate_values) == {0, 1}
    with pytest.raises(ValueError, match="expected a finished trial of this objective, got none"):
        objective.best_trial(study)
    # Studies of several values are never pruned.
    Failing.fits = 0
    study_of(2, pruner=pruner).optimize(objective, n_trials=1)
    assert Failing.fits == 4


def test_resumes_from_a_journal(tmp_path, monkeypatch):
    def start():
        """All that a new process would do."""
        objective = agreement_objective(Failing(), SPACE, X, Y, views=drift, cv=3)
        study = study_of(
            storage=JournalStorage(JournalFileBackend(str(tmp_path / "journal.log"))),
            study_name="resumed",
            load_if_exists=True,
            sampler=optuna.samplers.GridSampler(GRID, seed=0),
        )
        return study, objective

    study, objective = start()
    monkeypatch.setattr(Failing, "killed_at", 5)  # in the second trial
    study.optimize(objective, n_trials=1)
    with pytest.raises(KeyboardInterrupt):
        objective(study.ask())
    monkeypatch.setattr(Failing, "killed_at", None)
    Failing.fits = 0
    study, objective = start()
    study.optimize(objective)
    assert Failing.fits == 6
    assert study.trials[1].state == TrialState.RUNNING
    complete = [t for t in study.trials if t.state == TrialState.COMPLETE]
    assert [t.number for t in complete] == list(objective.cv_results(study)["trial"]) == [0, 2, 3]
    # A copy of the objective gives the same, also in threads.
    whole = study_of(sampler=optuna.samplers.GridSampler(GRID, seed=0))
    whole.optimize(pickle.loads(pickle.dumps(objective)), n_jobs=2)
    values = [{t.params["var_smoothing"]: t.value for t in x} for x in (complete, whole.trials)]
    assert values[0] == values[1]
    assert objective.best_trial(study).params == objective.best_trial(whole).params


def test_goes_on_with_the_same_problem_only():
    settings = {"X": X, "y": Y, "views": drift, "cv": 2}
    study = study_of()
    study.optimize(agreement_objective(GaussianNB(), SPACE, **settings), n_trials=1)
    # Other rounding errors and parameters are no other problem.
    alike = settings | {"views": lambda rows: drift(rows) * (1 + 1e-12)}
    space = SPACE | {"priors": CategoricalDistribution([None])}
    study.optimize(agreement_objective(GaussianNB(), space, **alike), n_trials=1)
    changes = [
        *({"views": np.sqrt}, {"views": None}, {"views": None, "paired": TWICE}),
        *({"prior": "uniform"}, {"cv": 4}, {"scoring": "neg_log_loss"}),
        *({"X": X + 1}, {"y": np.roll(Y, 1)}),
    ]
    of_pairs = settings | {"views": None, "paired": {"b": TWICE}}
    with_pairs = study_of()
    with_pairs.optimize(agreement_objective(GaussianNB(), SPACE, **of_pairs), n_trials=1)
    begun = [(study, settings | change) for change in changes]
    begun += [(with_pairs, of_pairs | x) for x in ({"paired": {"c": TWICE}}, {"adapter": "ridge"})]
    for study, given in begun:
        other = agreement_objective(Failing(), SPACE, **given)
        with pytest.raises(ValueError, match="study: expected a study of this problem, got one"):
            study.optimize(other, n_trials=1)
    assert Failing.fits == 0


@pytest.mark.parametrize(("error_score", "state"), [(np.nan, "FAIL"), (0.0, "COMPLETE")])
@pytest.mark.parametrize("n_directions", [1, 2])
def test_failures(error_score, state, n_directions):
    space = {"fails": CategoricalDistribution([True, False])}
    objective = agreement_objective(
        Failing(), space, X, Y, views=drift, cv=2, error_score=error_score
    )
    study = study_of(n_directions)
    for fails in (True, False):
        study.enqueue_trial({"fails": fails})
    with pytest.warns(FitFailedWarning, match="Trial 0 has no agreement: ValueError: no fit"):
        study.optimize(objective, n_trials=2)
    assert Failing.fits == 1 + 2
    failed, good = study.trials
    assert failed.state.name == state
    assert failed.user_attrs == {"failure": "ValueError: no fit today"}
    if state == "COMPLETE":
        assert failed.values == [0.0] * n_directions
    assert good.state == TrialState.COMPLETE
    assert good.values == [good.user_attrs[x] for x in ("agreement", "score")[:n_directions]]
    assert objective.best_trial(study).number == 1
    assert list(objective.cv_results(study)["trial"]) == [1]


def test_failures_raise_when_asked():
    space = {"fails": CategoricalDistribution([True])}
    objective = agreement_objective(Failing(), space, X, Y, views=drift, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="no fit today"):
        study_of().optimize(objective, n_trials=1)


def no_score(estimator, X, y):
    raise RuntimeError("no score today")


class WithoutScores(GaussianNB):
    """Naive Bayes whose probabilities fail."""

    def predict_proba(self, X):
        raise RuntimeError("no probabilities today")

    predict_log_proba = predict_proba


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("arguments", "failure", "raised"),
    [
        ({"scoring": no_score}, "score is not finite in split 0", "no score today"),
        ({"estimator": WithoutScores()}, "no probabilities", "candidate .*: no probabilities"),
        ({"prior": "uniform", "tol": 1e-11}, "be certified", "trial 1: .* be certified"),
    ],
)
def test_a_trial_without_a_score_or_an_agreement_fails(arguments, failure, raised, monkeypatch):
    monkeypatch.setattr("pa_select.agreement.solver.branch_and_bound.MAX_EVALUATIONS", 8)
    given = {"estimator": GaussianNB(), "space": {}, "X": X, "y": Y, "views": drift, "cv": 2}
    study = study_of()
    study.optimize(agreement_objective(**given | arguments), n_trials=1)
    assert study.trials[0].state == TrialState.FAIL
    assert failure in study.trials[0].user_attrs["failure"]
    objective = agreement_objective(**given | arguments, error_score="raise")
    with pytest.raises(RuntimeError, match=raised):
        study.optimize(objective, n_trials=1)


def test_the_rule_of_the_user_chooses_by_the_parameters_of_a_function():
    def space(trial):
        return {"var_smoothing": 10.0 ** trial.suggest_int("power", -9, 0)}

    given = {"selection": lambda table: int(np.argmin(table["agreement"])), "views": drift}
    given["fit_params"] = {"sample_weight": np.where(Y == 0, 0.2, 1.0)}
    objective = agreement_objective(GaussianNB(), space, X, Y, cv=2, **given)
    study = over_grid(objective, grid={"power": [-9, -2, 0]})
    best = objective.best_trial(study)
    assert best.value == min(trial.value for trial in study.trials)
    made = [{"var_smoothing": 10.0 ** trial.params["power"]} for trial in study.trials]
    assert objective.cv_results(study)["params"] == made
    weighted = GaussianNB(**made[best.number]).fit(X, Y, **given["fit_params"])
    found = objective.best_estimator(study).class_prior_
    np.testing.assert_allclose(found, weighted.class_prior_)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"space": [1]}, TypeError, "space: expected a dict of Optuna's distributions or a"),
        ({"space": {"a": [1]}}, TypeError, r"space\['a'\]: expected one of Optuna's distrib"),
        ({"pairing": "nothing"}, ValueError, "The 'pairing' parameter"),
        ({"adapter": "ridge"}, ValueError, "adapter: expected pairs"),
        ({"selection": "expected"}, ValueError, r"paired: expected some"),
        ({"y": np.zeros(len(Y))}, ValueError, "y: expected at least two classes, got only 0.0"),
    ],
)
def test_bad_arguments(arguments, error, message):
    settings = {"estimator": GaussianNB(), "space": SPACE, "X": X, "y": Y} | arguments
    with pytest.raises(error, match=message):
        agreement_objective(**settings)


def test_bad_studies_and_spaces():
    objective = agreement_objective(Failing(), lambda trial: None, X, Y, views=drift)
    for directions in (["minimize"], ["maximize", "minimize"], ["maximize"] * 3):
        study = optuna.create_study(directions=directions)
        with pytest.raises(ValueError, match=r"study: expected directions \['maximize'\]"):
            study.optimize(objective, n_trials=1)
    with pytest.raises(TypeError, match="space: expected a function that returns a dict"):
        study_of().optimize(objective, n_trials=1)
    unknown = agreement_objective(Failing(), {"smoothing": LOG["var_smoothing"]}, X, Y)
    with pytest.raises(ValueError, match="Invalid parameter 'smoothing' for estimator Failing"):
        study_of().optimize(unknown, n_trials=1)
    assert Failing.fits == 0


def test_the_chosen_net_learns_targets_in_a_column():
    skorch, torch = pytest.importorskip("skorch"), pytest.importorskip("torch")
    rows = (X / X.std(axis=0)).astype(np.float32)
    net = skorch.NeuralNetRegressor(torch.nn.Linear(13, 1), max_epochs=2, verbose=0)
    pairs = rows[:20], rows[:20] + np.float32(0.1)
    objective = agreement_objective(
        net, {"lr": FloatDistribution(0.01, 0.02)}, rows[20:], rows[20:, :1], cv=2, paired=pairs
    )
    study = study_of()
    study.optimize(objective, n_trials=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Using a target size")
        objective.best_estimator(study)


@pytest.mark.filterwarnings("ignore")
def test_a_trial_that_does_not_take_missing_values_fails_alone():
    shifted = drift(X[:60])
    paired = X[:60] + 1e-3, np.where(shifted > np.quantile(shifted, 0.9), np.nan, shifted)
    model = Pipeline([("imputer", "passthrough"), ("model", GaussianNB())])
    kinds = ["passthrough", "impute"]

    def steps(trial):
        impute = trial.suggest_categorical("imputer", kinds) == "impute"
        return {"imputer": SimpleImputer() if impute else "passthrough"}

    objective = agreement_objective(model, steps, X[60:], Y[60:], paired=paired, cv=3)
    study = over_grid(objective, grid={"imputer": kinds})
    assert [t.state for t in sorted(study.trials, key=lambda t: t.params["imputer"])] == [
        TrialState.COMPLETE,
        TrialState.FAIL,
    ]
    # Here no trial takes them.
    space = {"model__var_smoothing": FloatDistribution(1e-9, 1.0, log=True)}
    with pytest.raises(ValueError, match=r"paired\[1\]: expected no missing values"):
        agreement_objective(model, space, X[60:], Y[60:], paired=paired, cv=3)
