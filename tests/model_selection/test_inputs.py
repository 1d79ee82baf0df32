"""Bad input is refused before any fit."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pa_select import PARandomizedSearchCV, PASearchCV, pa_scorer
from pa_select.model_selection import GuardedSelection
from pa_select.shifts import FGSM, GaussianNoise
from pa_select.utils.estimators import takes_infinite, takes_missing

X, Y = load_iris(return_X_y=True)
HALVES = np.arange(150) % 2
FRAME = pd.DataFrame(X, columns=list("abcd"))
LATER, TWICE = (pd.Series(HALVES, index) for index in (range(1, 151), np.arange(150) // 2))
MANY = pd.DataFrame(np.zeros((9, 700)), columns=[f"s{i}" for i in range(700)])


def with_value(frame, value):
    """Return rows with this value in one place."""
    changed = frame.astype({"c": object})
    changed.loc[7, "c"] = value
    return changed if isinstance(value, str) else changed.astype({"c": float})


GAP = with_value(FRAME, np.nan)
BOTH = {"pa": pa_scorer, "score": "accuracy"}


class Unfittable(ClassifierMixin, BaseEstimator):
    def __init__(self, depth=1):
        self.depth = depth

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("a fit before the check")


class Imputer(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.nan_to_num(X)


class NoPairs:
    def pairs(self, splits, X, y, **context):
        return []


def search(**params):
    return PASearchCV(Unfittable(), {"depth": [1]}, error_score="raise", **params)


@pytest.mark.filterwarnings("ignore:paired.*expected at least 20 pairs:UserWarning")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": None}, "y: PASearchCV requires y to be passed"),
        ({"y": Y[:9]}, "inconsistent numbers of samples"),
        ({"y": np.linspace(0, 1, 150)}, "Unknown label type: continuous"),
        ({"X": Y, "y": FRAME}, r"y: expected shape .150,., got .150, 4."),
        ({"y": np.arange(150) // 2}, "cv: expected no more folds than .*, 2, got 5"),
        ({"environments": HALVES[:9]}, r"environments: expected shape .150,., got .9,."),
        ({"environments": (X, X + 1)}, "one value for each of 150 .* a tuple of 2.*views=..."),
        ({"environments": {"a": X}}, "one value for each of 150 rows of X, got a dict of 1"),
        ({"environments": np.zeros(150)}, "environments: expected at least two, got only .*0.0"),
        ({"environments": [None] * 150}, "environments: expected a value for each row"),
        ({"X": FRAME, "environments": LATER}, r"environments: .* none for 0 .*Give env.*numpy"),
        ({"X": FRAME, "environments": TWICE}, "environments: expected a unique index, got 0"),
        ({"X": FRAME, "y": pd.Series(Y)[::-1]}, "y: expected the rows of X in their order"),
        ({"X": FRAME, "groups": pd.Series(HALVES)[::-1]}, "groups: .* got another order"),
        ({"X": FRAME, "sample_weight": pd.Series(HALVES)[::-1]}, "sample_weight: .*another"),
        ({"environments": np.arange(150)}, "expected groups of rows, got 150 of .* 150 rows"),
        ({"environments": Y}, "a class with rows in at least two environments"),
        ({"views": X[:9]}, "views: expected a view of each of 150 rows of X, got 9 rows"),
        ({"views": X[:, :2]}, r"views: expected rows of shape .4,. like those of X, got .2,."),
        ({"views": []}, "views: expected at least one"),
        ({"views": GaussianNoise()(X)}, "views: .*got a Shifted; give .* or its rows, `.X`"),
        ({"views": [GaussianNoise()(X)]}, "views: expected .*got a Shifted"),
        ({"views": FGSM()}, "views: an attack needs a fitted model, got FGSM"),
        ({"views": lambda X: X / "2"}, "^views: .*ufunc"),
        ({"views": X}, "views: expected rows that differ from X, got the values of X"),
        ({"views": [lambda X: X + 1, lambda X: X]}, r"views\[1\]: expected rows that differ from"),
        ({"views": [X + 1, lambda X: X[:3]]}, r"views\[1\]: expected a view of each of 150 rows"),
        ({"X": FRAME, "views": FRAME[list("dcba")]}, "views: expected the columns of X"),
        ({"X": FRAME, "views": FRAME.iloc[:9]}, "views: expected a row for each index of X"),
        ({"X": FRAME, "views": FRAME.assign(e=1)}, "the columns of X, got also 'e'[.]$"),
        ({"X": FRAME, "views": FRAME[["a", "c"]]}, "of X, got all but 'b', 'd'[.]$"),
        ({"X": FRAME, "paired": (MANY, MANY + 1)}, "columns of X, .*697 more inst.* and 1 more"),
        ({"X": FRAME, "paired": (FRAME + 1, GAP)}, r"paired\[1\]: .* Unfittable .* row 7, column"),
        ({"paired": {"b": (X + 1, GAP.to_numpy())}}, r"paired\['b'\]\[1\]: .* nan in row 7, colu"),
        ({"environments": pd.Series(np.zeros(150))}, "at least two, got only 0.0[.]$"),
        ({"domains": HALVES}, "of Unfittable.fit, got 'domains'[.] Did you mean 'environments'"),
        ({"paired": (X, X), "views": X}, "paired: expected None if views is given, got both[.]$"),
        ({"target": X}, r"target: .*, fit\(X, y, paired=.*Such rows alone do not choose:"),
        ({"views": "later"}, "views: expected rows like X, got the text 'later'"),
        ({"environments": "b"}, "environments: expected one value .*, got the text 'b'[.]$"),
        ({"X": FRAME, "environments": "b"}, r"X has .*X.drop.columns='b'., y, environments=X\['b"),
        ({"X": FRAME, "groups": "b"}, r"groups: expected one value .* groups=X\['b'\]"),
        ({"view": X}, "fit: expected environments, views, .*got 'view'. Did you mean 'views'"),
        ({"sample_weights": Y}, "got 'sample_weights'. Did you mean 'sample_weight'"),
        ({"nothing": 1}, "a parameter of Unfittable.fit, got 'nothing'[.]$"),
        ({"views": {"dim": X}}, "views: expected one view or a list of them, got a dict"),
        ({"groups": np.arange(9)}, r"groups: expected shape .150,., got .9,."),
        ({"sample_weight": -np.ones(150)}, "sample_weight: expected finite non-negative"),
        ({"scoring": pa_scorer}, "scoring: expected a score .* got a PAScorer"),
        ({"scoring": BOTH, "refit": "pa"}, "got a PAScorer"),
        ({"scoring": BOTH, "refit": GuardedSelection("pa")}, "leave scoring and a GuardedSelec"),
        ({"cv": 51}, "cv: expected no more folds than there are rows .*, 50, got 51"),
        ({"cv": 1}, "'cv' parameter of PASearchCV must be"),
        ({"cv": LeaveOneGroupOut()}, "^environments or groups: expected .*cv=LeaveOneGroup.*None"),
        ({"selection": "score_views"}, "views: expected some .*selection='score_views', got"),
        ({"refit": len, "selection": "score"}, "selection: .*guarded.*callable refit.*got 'score"),
        ({"selection": GuardedSelection}, r"selection: .* such as GuardedSelection\(\), got the"),
        ({"refit": GuardedSelection}, r"refit: expected .* such as GuardedSelection\(\), got the"),
        ({"pairing": "nearest"}, "'pairing' parameter of PASearchCV must be"),
        ({"selection": "best"}, "'selection' parameter of PASearchCV must be"),
        ({"prior": [0.5, 0.5]}, "prior"),
        ({"prior": "flat"}, "'prior' parameter of PASearchCV must be"),
        ({"tol": 0}, "'tol' parameter of PASearchCV must be"),
        ({"device": "abacus"}, "device"),
        ({"memory": 3}, "'memory' parameter of PASearchCV must be"),
        (
            {"environments": HALVES, "sample_weight": (np.asarray(HALVES) == HALVES[0]) * 1.0},
            "sample_weight: expected a pair of two rows of positive weight, got none",
        ),
        ({"selection": "worst_environment", "views": X}, "environments: .*worst_env.*, got None"),
        ({"pairing": "split-half", "views": X}, "views: expected None with pairing='split-half'"),
        ({"pairing": "views", "views": X}, "'pairing' parameter of PASearchCV must be"),
        ({"pairing": NoPairs(), "views": X}, "views: expected None with a pairing object"),
    ],
)
def test_refused_before_any_fit(given, message):
    params = {name: given[name] for name in given.keys() & signature(PASearchCV).parameters}
    data = {"X": X, "y": Y} | {name: given[name] for name in given.keys() - params.keys()}
    with pytest.raises((TypeError, ValueError), match=message):
        search(**params).fit(data.pop("X"), data.pop("y"), **data)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (PASearchCV(Unfittable(), [{"depth": [1]}, {"width": [2]}]), "Invalid parameter 'width'"),
        (PASearchCV(Unfittable(), []), "param_grid: expected at least one candidate, got none"),
        (PASearchCV(Unfittable(), {"depth": []}), "non-empty sequence"),
        (PASearchCV(Ridge(), {"alpha": [1]}), "got a regressor, Ridge. A regressor needs pairs"),
        (PARandomizedSearchCV(Unfittable(), {"depth": [1]}, n_iter=0), "'n_iter' parameter"),
    ],
)
def test_wrong_candidates_are_refused_before_any_fit(made, message):
    with pytest.raises(ValueError, match=message):
        made.set_params(error_score="raise").fit(X, Y)


def test_a_parameter_of_the_estimator_may_be_called_target():
    class TakesTarget(Unfittable):
        def fit(self, X, y, target):
            raise AssertionError(f"a fit with {target}")

    with pytest.raises(AssertionError, match="a fit with 3"):
        PASearchCV(TakesTarget(), {"depth": [1]}, error_score="raise").fit(X, Y, target=3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"domains": HALVES}, "got 'domains'[.] Did you mean 'environments'"),
        ({"enviroments": HALVES}, "got 'enviroments'. Did you mean 'environments'"),
        ({"model__domains": HALVES}, "got 'model__domains'[.]$"),
        ({"modle__sample_weight": np.ones(150)}, "got 'modle__sample_weight'"),
        ({"sample_weight": np.ones(150)}, "Did you mean 'model__sample_weight'[?]"),
    ],
)
def test_a_pipeline_passes_nothing_on_that_no_step_takes(given, message):
    model = Pipeline([("scale", StandardScaler()), ("none", None), ("model", Unfittable())])
    with pytest.raises(TypeError, match=message):
        PASearchCV(model, {}, error_score="raise").fit(X, Y, **given)
    # A search inside, too, passes on what it is given.
    inside = GridSearchCV(model, {"model__depth": [1]})
    with pytest.raises(TypeError, match="got '"):
        PASearchCV(inside, {}, error_score="raise").fit(X, Y, **given)
    with pytest.raises(AssertionError, match="a fit before the check"):
        PASearchCV(model, {}, error_score="raise").fit(X, Y, model__sample_weight=np.ones(150))


def test_what_is_not_x_or_y_is_given_by_name():
    with pytest.raises(TypeError, match="^fit: expected X, y, and env.*got 3 arguments"):
        search().fit(X, Y, HALVES)
    with pytest.raises(TypeError, match=r"^fit\(\) missing 1 required positional argument: 'X'"):
        search().fit()
    assert list(signature(PASearchCV.fit).parameters)[:4] == ["self", "X", "y", "environments"]


@pytest.mark.parametrize(
    ("estimator", "missing", "infinite"),
    [
        (LogisticRegression(), 0, 0),
        (HistGradientBoostingClassifier(), 1, 1),
        (Unfittable(), 0, 1),
        (make_pipeline(StandardScaler(), LogisticRegression()), 0, 0),
        (make_pipeline(StandardScaler(), SimpleImputer(), LogisticRegression()), 1, 0),
        (make_pipeline(StandardScaler(), "passthrough", HistGradientBoostingClassifier()), 1, 0),
        (make_pipeline(ColumnTransformer([("i", SimpleImputer(), [0])]), GaussianNB()), 1, 1),
        (make_pipeline(StandardScaler(), Imputer(), LogisticRegression()), 1, 0),
        (make_pipeline(Imputer(), LogisticRegression()), 1, 1),
        (make_pipeline(FunctionTransformer(np.nan_to_num), LogisticRegression()), 1, 1),
        (GridSearchCV(LogisticRegression(), {}), 1, 1),
        (object(), 1, 1),
    ],
)
def test_who_may_take_missing_and_infinite_values(estimator, missing, infinite):
    assert (takes_missing(estimator), takes_infinite(estimator)) == (missing, infinite)


@pytest.mark.filterwarnings("ignore:paired:UserWarning")
@pytest.mark.filterwarnings("ignore:The chosen candidate may:UserWarning")
def test_missing_values_that_are_taken_are_no_error():
    rows, there = FRAME[::2], GAP[1::2].set_axis(FRAME.index[1::2])
    model = HistGradientBoostingClassifier(max_iter=2)
    found = PASearchCV(model, {}, cv=3).fit(rows, Y[::2], paired=(FRAME[1::2] + 1, there))
    assert np.isfinite(found.expected_score_)
    # Where labelled rows have some, an estimator must cope.
    gaps = make_pipeline(FunctionTransformer(np.nan_to_num, validate=False), GaussianNB())
    gone, twice = GAP[1::2], FRAME[::2]
    pairs = (twice + 1, twice.mask(twice > 7))
    assert PASearchCV(gaps, {}, cv=3).fit(gone, Y[1::2], paired=pairs).expected_score_ > 0


def test_text_labels_with_a_missing_one_are_named():
    y = np.array(["a", "b", "c"], dtype=object)[Y]
    y[7] = np.nan
    with pytest.raises(ValueError, match="^y: expected a value for each row, got nan in row 7"):
        search().fit(X, y, environments=HALVES)
