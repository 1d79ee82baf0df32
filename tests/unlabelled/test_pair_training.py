"""Training by pairs: its rows, labels and weights; its contract; its worth; bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle
from sklearn.utils.estimator_checks import check_estimator

from pa_select import PairTrainingClassifier, PASearchCV, expected_score

X, Y = make_classification(120, 4, n_informative=3, n_redundant=0, random_state=0)
A, B = X[80:], 2 * X[80:] + 1
X, Y = X[:80], Y[:80]
PAIRS = A, B
RNG = np.random.default_rng(0)
WEIGHT = RNG.uniform(0.5, 2, 80)


class Kept(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what it was fitted to."""

    def fit(self, X, y, sample_weight=None):
        self.rows_, self.labels_, self.weight_ = X, y, sample_weight
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        first = np.asarray(X).reshape(len(X), -1)[:, 0]
        return self.classes_[first.astype(int) % len(self.classes_)]


class NoFit(BaseEstimator):
    """A classifier that nobody may fit."""

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("fitted")

    def predict(self, X):
        raise AssertionError("asked")


def kept(pairs=PAIRS, sample_weight=None, rows=X, labels=Y, **params):
    model = PairTrainingClassifier(Kept(), **{"teacher": LogisticRegression()} | params)
    return model.fit(rows, labels, sample_weight, pairs=pairs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_estimator_checks():
    checked = PairTrainingClassifier(LogisticRegression(tol=0.1))
    found = check_estimator(checked, on_fail=None, on_skip=None)
    assert [c["check_name"] for c in found if c["status"] == "failed"] == []
    assert len(found) > 50


def test_the_three_kinds_of_rows():
    model = kept()
    rows, labels, weight = (
        getattr(model.estimator_, f"{x}_") for x in ("rows", "labels", "weight")
    )
    assert weight is None
    np.testing.assert_array_equal(rows[:80], X)
    np.testing.assert_array_equal(rows[160:], B)
    votes = LogisticRegression().fit(X, Y).predict(A)
    np.testing.assert_array_equal(labels, np.concatenate([Y, Y, votes]))
    np.testing.assert_array_equal(model.votes_, votes)
    # Each labelled row is moved by the difference of a pair, and the pairs take turns.
    moves = (rows[80:160] - X)[:, None] - (B - A)
    pair = np.abs(moves).sum(-1).argmin(1)
    assert np.abs(moves).sum(-1).min(1).max() < 1e-9
    assert np.bincount(pair).tolist() == [2] * 40
    other = kept(random_state=1).estimator_.rows_[80:160]
    assert not np.allclose(other, rows[80:160])
    np.testing.assert_array_equal(kept().estimator_.rows_, rows)
    alone = kept(augment=False).estimator_
    np.testing.assert_array_equal(alone.rows_, np.concatenate([X, B]))


@pytest.mark.parametrize("augment", [False, True])
def test_soft_votes_are_weights(augment):
    params = {"voting": "soft", "weight": 3.0, "augment": augment}
    model = kept(sample_weight=WEIGHT, **params)
    n, seen = 160 if augment else 80, model.estimator_
    np.testing.assert_array_equal(seen.weight_[:80], WEIGHT)
    np.testing.assert_array_equal(seen.weight_[80:n], WEIGHT[: n - 80])
    teacher = LogisticRegression().fit(X, Y, WEIGHT)
    np.testing.assert_allclose(model.votes_, teacher.predict_proba(A))
    np.testing.assert_array_equal(seen.rows_[n:], np.repeat(B, 2, axis=0))
    np.testing.assert_array_equal(seen.labels_[n:], np.tile([0, 1], 40))
    expected = 3 * WEIGHT.mean() * teacher.predict_proba(A)
    np.testing.assert_allclose(seen.weight_[n:], expected.ravel())
    # A class of probability 0 has no row.
    certain = kept(teacher=DecisionTreeClassifier(random_state=0), **params).estimator_
    assert len(certain.rows_) == n + 40


def test_the_weight_of_votes_is_in_units_of_the_labelled_rows():
    assert kept(sample_weight=WEIGHT).estimator_.weight_[160:] == pytest.approx(WEIGHT.mean())
    assert kept(weight=0.5).estimator_.weight_[159:161].tolist() == [1, 0.5]


def test_weights_reach_the_steps_of_a_pipeline():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    found = PairTrainingClassifier(model, weight=5.0).fit(X, Y, pairs=PAIRS)
    seen = kept(weight=5.0, teacher=model).estimator_
    names = ("standardscaler", "logisticregression")
    by_hand = clone(model).fit(
        seen.rows_, seen.labels_, **{f"{name}__sample_weight": seen.weight_ for name in names}
    )
    np.testing.assert_allclose(found.predict_proba(B), by_hand.predict_proba(B))


def test_without_pairs_it_is_the_plain_classifier():
    model = PairTrainingClassifier(LogisticRegression(), voting="soft", weight=2)
    plain = LogisticRegression().fit(X, Y, WEIGHT)
    model.fit(X, Y, pairs=PAIRS)
    assert np.abs(model.estimator_.coef_ - plain.coef_).max() > 0.1
    model.fit(X, Y, WEIGHT)
    np.testing.assert_array_equal(model.estimator_.coef_, plain.coef_)
    assert not hasattr(model, "teacher_")
    assert not hasattr(model, "votes_")


def test_who_votes():
    fitted = LogisticRegression().fit(X, 1 - Y)
    np.testing.assert_array_equal(kept(teacher=FrozenEstimator(fitted)).votes_, fitted.predict(A))
    several = VotingClassifier([("a", LogisticRegression()), ("b", DecisionTreeClassifier())])
    assert kept(teacher=several).votes_.shape == (40,)
    folds = CalibratedClassifierCV(LinearSVC(), cv=3)
    assert kept(teacher=folds, voting="soft").votes_.shape == (40, 2)
    own = PairTrainingClassifier(KNeighborsClassifier(1)).fit(X, Y, pairs=PAIRS)
    np.testing.assert_array_equal(own.votes_, KNeighborsClassifier(1).fit(X, Y).predict(A))
    # A frozen teacher need not know every class, but may know no other one.
    three = np.where(X[:, 0] > 1, 2, Y)
    found = kept(labels=three, teacher=FrozenEstimator(fitted), voting="soft").votes_
    assert found.shape == (40, 3)
    assert not found[:, 2].any()
    for voting in ("hard", "soft"):
        foreign = FrozenEstimator(LogisticRegression().fit(X, Y + 7))
        with pytest.raises(ValueError, match="teacher: expected classes of the labelled rows"):
            kept(teacher=foreign, voting=voting)


def test_labels_may_be_texts():
    names = np.array(["no", "certainly"])
    model = PairTrainingClassifier(LogisticRegression()).fit(X, names[Y], pairs=PAIRS)
    assert model.classes_.tolist() == ["certainly", "no"]
    plain = PairTrainingClassifier(LogisticRegression()).fit(X, Y, pairs=PAIRS)
    np.testing.assert_array_equal(model.predict(B), names[plain.predict(B)])
    objects = PairTrainingClassifier(LogisticRegression(), voting="soft")
    assert objects.fit(X, names[Y].astype(object), pairs=PAIRS).score(B, names[Y[:40]]) < 1


@pytest.mark.parametrize("convert", [csr_array, csr_matrix])
def test_sparse_rows(convert):
    for voting in ("hard", "soft"):
        dense = kept(voting=voting).estimator_
        for b in (convert(B), B):
            seen = kept((convert(A), b), rows=convert(X), voting=voting).estimator_
            np.testing.assert_allclose(seen.rows_.toarray(), dense.rows_)
        mixed = kept((convert(A), convert(B)), voting=voting).estimator_
        np.testing.assert_allclose(mixed.rows_, dense.rows_)


@pytest.mark.parametrize("augment", [False, True])
def test_the_floating_type_stays(augment):
    for convert in (np.asarray, csr_array):
        rows = convert(X.astype("float32"))
        seen = kept((A, B), rows=rows, augment=augment).estimator_
        assert seen.rows_.dtype == "float32"
    whole = (16 * np.abs(X)).astype("uint8")
    seen = kept((whole[:9], whole[9:18]), rows=whole, augment=augment).estimator_
    assert (seen.rows_.min() < 0) == augment  # differences do not wrap around


def test_frames():
    rows, a, b = (pd.DataFrame(x, columns=list("pqrs")) for x in (X, A, B))
    seen = kept((a, b.iloc[::-1]), rows=rows).estimator_
    assert list(seen.rows_.columns) == list("pqrs")
    np.testing.assert_allclose(seen.rows_, kept().estimator_.rows_)
    by_arrays = kept(PAIRS, rows=rows).estimator_.rows_
    pd.testing.assert_frame_equal(by_arrays, seen.rows_)
    model = PairTrainingClassifier(LogisticRegression()).fit(rows, Y, pairs=(a, b))
    assert model.feature_names_in_.tolist() == list("pqrs")
    assert model.n_features_in_ == 4
    model.fit(X, Y)
    assert not hasattr(model, "feature_names_in_")


def test_polars_frames():
    pl = pytest.importorskip("polars")
    rows, a, b = (pl.DataFrame(x, schema=list("pqrs")) for x in (X, A, B))
    seen = kept((a, b), rows=rows, voting="soft").estimator_
    np.testing.assert_allclose(seen.rows_.to_numpy(), kept(voting="soft").estimator_.rows_)


def test_rows_that_are_no_numbers_have_votes():
    rows = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "x", "y")})
    a, b = rows.iloc[:20], rows.iloc[20:40].set_axis(range(20))
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]))
    model = make_pipeline(encoder, LogisticRegression())
    found = PairTrainingClassifier(model, augment=False).fit(rows, Y, pairs=(a, b))
    assert found.predict(b).shape == (20,)
    with pytest.raises(ValueError, match="augment: expected rows of numbers.*augment=False"):
        PairTrainingClassifier(NoFit()).fit(rows, Y, pairs=(a, b))


def test_images_are_rows():
    images = X.reshape(-1, 2, 2)
    seen = kept((A.reshape(-1, 2, 2), B.reshape(-1, 2, 2)), rows=images, teacher=Kept())
    assert seen.estimator_.rows_.shape == (200, 2, 2)


def test_tags_clone_pickle_and_delegation():
    model = PairTrainingClassifier(LogisticRegression(), weight=2.0)
    assert is_classifier(model)
    assert clone(model).get_params()["weight"] == 2
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, Y, pairs=PAIRS)
    again = pickle.loads(pickle.dumps(model))
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, method)(B), getattr(model, method)(B))
    assert not hasattr(PairTrainingClassifier(LinearSVC()), "predict_proba")
    assert not hasattr(PairTrainingClassifier(KNeighborsClassifier()), "decision_function")


def test_searches_and_groups():
    model = PairTrainingClassifier(LogisticRegression())
    groups = np.arange(80) // 4
    grid = {"estimator__C": [1e-6, 1], "weight": [0.5, 1]}
    search = GridSearchCV(model, grid, cv=GroupKFold(4)).fit(X, Y, groups=groups, pairs=PAIRS)
    assert search.best_params_["estimator__C"] == 1
    assert search.best_estimator_.votes_.shape == (40,)
    scores = cross_val_score(model, X, Y, params={"pairs": PAIRS})
    assert scores.mean() > 0.6


def test_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = LogisticRegression().set_fit_request(sample_weight=True)
        model = PairTrainingClassifier(weighted, weight=2.0, teacher=LogisticRegression())
        found = model.fit(X, Y, pairs=PAIRS)
        plain = PairTrainingClassifier(LogisticRegression())
        with pytest.raises(ValueError, match="sample_weight.*not explicitly set"):
            plain.fit(X, Y, WEIGHT, pairs=PAIRS)
        not_weighted = LogisticRegression().set_fit_request(sample_weight=False)
        with pytest.raises(TypeError, match="weight: expected an estimator that requests"):
            PairTrainingClassifier(not_weighted, weight=2.0).fit(X, Y, pairs=PAIRS)
        nested = GridSearchCV(
            PairTrainingClassifier(not_weighted).set_fit_request(pairs=True, sample_weight=True),
            {"augment": [True, False]},
        )
        assert nested.fit(X, Y, pairs=PAIRS).best_estimator_.votes_.shape == (40,)
    same = PairTrainingClassifier(LogisticRegression(), weight=2.0).fit(X, Y, pairs=PAIRS)
    np.testing.assert_array_equal(found.estimator_.coef_, same.estimator_.coef_)


@pytest.mark.parametrize(
    ("error", "params", "fit", "message"),
    [
        (TypeError, {}, {"pairs": (A, B, B)}, "pairs: expected a tuple of the rows"),
        (TypeError, {}, {"pairs": A}, "pairs: expected a tuple of the rows.*got ndarray of 40"),
        (ValueError, {}, {"pairs": (A, B[:3])}, r"pairs\[1\]: expected the 40 objects"),
        (ValueError, {}, {"pairs": (A, A)}, r"pairs\[1\]: .*got the same values"),
        (ValueError, {}, {"pairs": (A[:, :2], B[:, :2])}, r"pairs\[0\]: expected rows of shape"),
        (TypeError, {"voting": "soft"}, {}, "voting: expected 'hard' for a teacher without pred"),
        (ValueError, {"voting": "both"}, {}, "The 'voting' parameter"),
        (ValueError, {"weight": 0}, {}, "The 'weight' parameter"),
        (ValueError, {}, {"sample_weight": -WEIGHT}, "sample_weight: expected finite non-neg"),
    ],
)
def test_bad_input_is_refused_before_any_fit(error, params, fit, message):
    with pytest.raises(error, match=message):
        PairTrainingClassifier(NoFit(), **params).fit(X, Y, **{"pairs": PAIRS} | fit)


@pytest.mark.parametrize(
    ("params", "weight", "name"),
    [
        ({"weight": 2.0}, None, "weight"),
        ({"voting": "soft"}, None, "voting='soft'"),
        ({}, WEIGHT, "sample_weight"),
    ],
)
def test_an_estimator_without_weights_is_named(params, weight, name):
    for model in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        with pytest.raises(TypeError, match=f"^{name}: expected an estimator.*KNeighborsClass"):
            PairTrainingClassifier(model, **params).fit(X, Y, weight, pairs=PAIRS)
    if weight is not None:
        model = PairTrainingClassifier(Kept(), teacher=KNeighborsClassifier())
        with pytest.raises(TypeError, match="^sample_weight: expected a teacher"):
            model.fit(X, Y, weight, pairs=PAIRS)
        with pytest.raises(TypeError, match="^sample_weight: expected an estimator"):
            PairTrainingClassifier(KNeighborsClassifier()).fit(X, Y, weight)


def moved_digits(seed):
    X, y = shuffle(*load_digits(return_X_y=True), random_state=seed)
    moved = np.roll(X.reshape(-1, 8, 8), 1, axis=2).reshape(X.shape)
    return X, moved, y


def digits_model():
    return make_pipeline(StandardScaler(), SVC(C=10, gamma=0.01))


def test_pairs_are_worth_what_rows_without_partners_are_not():
    X, moved, y = moved_digits(0)
    labelled, pairs, test = slice(0, 400), slice(400, 460), slice(460, None)
    plain = digits_model().fit(X[labelled], y[labelled])
    trained = PairTrainingClassifier(digits_model())
    trained.fit(X[labelled], y[labelled], pairs=(X[pairs], moved[pairs]))
    forest = RandomForestClassifier(50, random_state=0)
    both, half = np.concatenate([X[labelled], moved[pairs]]), np.full(60, -1)
    alone = SelfTrainingClassifier(forest).fit(both, np.concatenate([y[labelled], half]))
    by_pairs = PairTrainingClassifier(forest)
    by_pairs.fit(X[labelled], y[labelled], pairs=(X[pairs], moved[pairs]))
    assert trained.score(moved[test], y[test]) > plain.score(moved[test], y[test]) + 0.2
    assert by_pairs.score(moved[test], y[test]) > alone.score(moved[test], y[test]) + 0.1
    # The labelled site is not forgotten.
    assert trained.score(X[test], y[test]) > plain.score(X[test], y[test]) - 0.03


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X_a. expected objects of the classes:UserWarning")
def test_pairs_that_trained_must_not_judge():
    away = {"other pairs": [], "the same pairs": []}
    for seed in range(12):
        X, moved, y = moved_digits(seed)
        labelled, held, test = slice(0, 300), slice(300, 600), slice(700, None)
        first, second = ((X[s], moved[s]) for s in (slice(600, 650), slice(650, 700)))
        model = PairTrainingClassifier(digits_model()).fit(X[labelled], y[labelled], pairs=first)
        truth = model.score(moved[test], y[test])
        for name, judges in (("other pairs", second), ("the same pairs", first)):
            found = expected_score(model, *judges, X[held], y[held])
            away[name].append(found.score - truth)
    error = np.std(away["other pairs"]) / np.sqrt(11)
    assert abs(np.mean(away["other pairs"])) < 3 * error < 0.06
    assert np.mean(away["the same pairs"]) > 0.08


def test_a_search_trains_by_pairs_and_judges_by_others():
    X, moved, y = moved_digits(1)
    labelled, test = slice(0, 300), slice(400, None)
    first, second = ((X[s], moved[s]) for s in (slice(300, 350), slice(350, 400)))
    search = PASearchCV(PairTrainingClassifier(digits_model()), {}, cv=3)
    search.fit(X[labelled], y[labelled], pairs=first, paired=second)
    assert len(search.best_estimator_.votes_) == 50
    low, high = search.expected_interval_
    assert low < search.score(moved[test], y[test]) < high
