"""Training by pairs: its rows and labels; its contract; its worth; bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
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


class Kept(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what it was fitted to."""

    def fit(self, X, y):
        self.rows_, self.labels_ = X, y
        return self

    def predict(self, X):
        first = np.asarray(X).reshape(len(X), -1)[:, 0]
        return np.unique(self.labels_)[first.astype(int) % 2]


class NoFit(BaseEstimator):
    """A classifier that nobody may fit."""

    def fit(self, X, y):
        raise AssertionError("fitted")

    def predict(self, X):
        raise AssertionError("asked")


def kept(pairs=PAIRS, rows=X, labels=Y, teacher=None):
    model = PairTrainingClassifier(Kept(), teacher=teacher or LogisticRegression())
    return model.fit(rows, labels, pairs=pairs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_estimator_checks():
    checked = PairTrainingClassifier(LogisticRegression(tol=0.1))
    found = check_estimator(checked, on_fail=None, on_skip=None)
    assert [c["check_name"] for c in found if c["status"] == "failed"] == []
    assert len(found) > 50


def test_labelled_rows_and_rows_of_the_other_site_with_votes():
    model = kept()
    np.testing.assert_array_equal(model.estimator_.rows_, np.concatenate([X, B]))
    votes = LogisticRegression().fit(X, Y).predict(A)
    assert 0 < votes.sum() < 40
    np.testing.assert_array_equal(model.votes_, votes)
    np.testing.assert_array_equal(model.estimator_.labels_, np.concatenate([Y, votes]))
    assert model.classes_.tolist() == [0, 1]  # the estimator does not say which classes it knows


def test_without_pairs_it_is_the_plain_classifier():
    model = PairTrainingClassifier(LogisticRegression())
    plain = LogisticRegression().fit(X, Y)
    model.fit(X, Y, pairs=PAIRS)
    assert np.abs(model.estimator_.coef_ - plain.coef_).max() > 0.1
    model.fit(X, Y)
    np.testing.assert_array_equal(model.estimator_.coef_, plain.coef_)
    assert not hasattr(model, "teacher_")
    assert not hasattr(model, "votes_")


def test_who_votes():
    fitted = LogisticRegression().fit(X, 1 - Y)
    np.testing.assert_array_equal(kept(teacher=FrozenEstimator(fitted)).votes_, fitted.predict(A))
    several = VotingClassifier([("a", LogisticRegression()), ("b", DecisionTreeClassifier())])
    assert kept(teacher=several).votes_.shape == (40,)
    own = PairTrainingClassifier(KNeighborsClassifier(1)).fit(X, Y, pairs=PAIRS)
    np.testing.assert_array_equal(own.votes_, KNeighborsClassifier(1).fit(X, Y).predict(A))
    # A frozen teacher need not know every class, but may know no other one.
    three = np.where(X[:, 0] > 1, 2, Y)
    assert set(kept(labels=three, teacher=FrozenEstimator(fitted)).votes_) == {0, 1}
    foreign = FrozenEstimator(LogisticRegression().fit(X, Y + 7))
    with pytest.raises(ValueError, match="teacher: expected classes of the labelled rows"):
        kept(teacher=foreign)


@pytest.mark.parametrize("dtype", [str, object])
def test_labels_may_be_texts(dtype):
    names = np.array(["no", "certainly"]).astype(dtype)
    model = PairTrainingClassifier(LogisticRegression()).fit(X, names[Y], pairs=PAIRS)
    assert model.classes_.tolist() == ["certainly", "no"]
    plain = PairTrainingClassifier(LogisticRegression()).fit(X, Y, pairs=PAIRS)
    np.testing.assert_array_equal(model.predict(B), names[plain.predict(B)])


@pytest.mark.parametrize("convert", [csr_array, csr_matrix])
def test_sparse_rows(convert):
    dense = kept().estimator_.rows_
    for b in (convert(B), B):
        seen = kept((convert(A), b), rows=convert(X)).estimator_.rows_
        assert type(seen) is convert
        np.testing.assert_allclose(seen.toarray(), dense)
    mixed = kept((convert(A), convert(B))).estimator_
    np.testing.assert_allclose(mixed.rows_, dense)


def test_the_floating_type_stays():
    for convert in (np.asarray, csr_array):
        rows = convert(X.astype("float32"))
        assert kept((A, B), rows=rows).estimator_.rows_.dtype == "float32"


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
    seen = kept((a, b), rows=rows).estimator_
    np.testing.assert_allclose(seen.rows_.to_numpy(), kept().estimator_.rows_)


def test_categories():
    rows = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "x", "y")})
    a, b = rows.iloc[:20], rows.iloc[20:40].set_axis(range(20))
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]))
    model = PairTrainingClassifier(make_pipeline(encoder, LogisticRegression()))
    assert model.fit(rows, Y, pairs=(a, b)).predict(b).shape == (20,)


@pytest.mark.parametrize("convert", [list, np.array, pd.Series])
def test_texts(convert):
    words = np.where(Y, "colour of the harbour", "the labour theatre")
    other = ["color of the harbor", "the labor theater"] * 20
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    trained = PairTrainingClassifier(model)
    trained.fit(convert(words), Y, pairs=(convert(words[:40]), convert(other)))
    np.testing.assert_array_equal(trained.votes_, Y[:40])
    assert "harbor" in trained.estimator_[0].vocabulary_


def test_images_are_rows():
    images = X.reshape(-1, 2, 2)
    seen = kept((A.reshape(-1, 2, 2), B.reshape(-1, 2, 2)), rows=images, teacher=Kept())
    assert seen.estimator_.rows_.shape == (120, 2, 2)


def test_tags_clone_pickle_and_delegation():
    model = PairTrainingClassifier(LogisticRegression(C=3))
    assert is_classifier(model)
    assert clone(model).get_params()["estimator__C"] == 3
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
    grid = {"estimator__C": [1e-6, 1], "teacher": [None, SVC()]}
    search = GridSearchCV(model, grid, cv=GroupKFold(4)).fit(X, Y, groups=groups, pairs=PAIRS)
    assert search.best_params_["estimator__C"] == 1
    assert search.best_estimator_.votes_.shape == (40,)
    scores = cross_val_score(model, X, Y, params={"pairs": PAIRS})
    assert scores.mean() > 0.6


def test_metadata_routing_passes_the_pairs():
    with sklearn.config_context(enable_metadata_routing=True):
        model = PairTrainingClassifier(LogisticRegression()).set_fit_request(pairs=True)
        search = GridSearchCV(model, {"estimator__C": [1]}).fit(X, Y, pairs=PAIRS)
    assert search.best_estimator_.votes_.shape == (40,)


@pytest.mark.parametrize(
    ("error", "pairs", "message"),
    [
        (TypeError, (A, B, B), "pairs: expected a tuple of the rows"),
        (TypeError, A, "pairs: expected a tuple of the rows.*got ndarray of 40"),
        (ValueError, (A, B[:3]), r"pairs\[1\]: expected the 40 objects"),
        (ValueError, (A, A), r"pairs\[1\]: .*got the same values"),
        (ValueError, (A[:, :2], B[:, :2]), r"pairs\[0\]: expected rows of shape"),
    ],
)
def test_bad_input_is_refused_before_any_fit(error, pairs, message):
    with pytest.raises(error, match=message):
        PairTrainingClassifier(NoFit()).fit(X, Y, pairs=pairs)


def moved_digits(seed):
    X, y = shuffle(*load_digits(return_X_y=True), random_state=seed)
    moved = np.roll(X.reshape(-1, 8, 8), 1, axis=2).reshape(X.shape)
    return X, moved, y


def digits_model():
    return make_pipeline(StandardScaler(), SVC(C=10, gamma=0.01))


def test_pairs_are_worth_what_rows_without_partners_are_not():
    X, moved, y = moved_digits(0)
    labelled, pairs, test = slice(0, 400), slice(400, 500), slice(500, None)
    plain = digits_model().fit(X[labelled], y[labelled])
    trained = PairTrainingClassifier(digits_model())
    trained.fit(X[labelled], y[labelled], pairs=(X[pairs], moved[pairs]))
    forest = RandomForestClassifier(50, random_state=0)
    both, half = np.concatenate([X[labelled], moved[pairs]]), np.full(100, -1)
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
