"""The scorer wherever scikit-learn takes one."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pa_select import PAScorer, PASearchCV, class_scores, pa_scorer, posterior_agreement
from pa_select.pairing import pair_within_label
from pa_select.shifts import FGSM, GaussianNoise

X, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=list("abcd"), index=[f"flower {i}" for i in range(150)])
SITES = pd.Series(np.arange(150) % 3, index=FRAME.index)
GAPS, TWICE = SITES.where(SITES > 0), pd.concat([FRAME, FRAME])
MODEL = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def shrunk(X):
    return 0.9 * X + 0.1


SCORERS = {
    "label": PAScorer(),
    "label, uniform": PAScorer(prior="uniform"),
    "a view": PAScorer(views=shrunk),
    "a transformer": PAScorer(views=FunctionTransformer(shrunk)),
    "two views": PAScorer(views=[shrunk, FunctionTransformer(shrunk)]),
    "views by index": PAScorer(views=shrunk(FRAME.iloc[::-1])),
    "environments": PAScorer(environments=SITES),
    "paired": PAScorer(paired=(FRAME[::5], shrunk(FRAME[::5][::-1]))),
}


@pytest.fixture(params=[False, True], ids=["", "routing"])
def routing(request):
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_is_finite_in_cross_validation(name):
    scorer, given = SCORERS[name], (MODEL, FRAME, Y)
    found = cross_val_score(*given, scoring=scorer, cv=3, error_score="raise")
    assert np.isfinite(found).all()
    for prepare in (clone, copy.deepcopy):
        again = cross_val_score(*given, scoring=prepare(scorer), cv=3)
        np.testing.assert_array_equal(again, found)
    with joblib.parallel_config(backend="multiprocessing"):  # forks, which start at once
        again = cross_val_score(*given, scoring=scorer, cv=3, n_jobs=2)
    np.testing.assert_array_equal(again, found)
    assert (again >= 0).all()


def test_the_score_is_the_agreement_of_the_pairs():
    model = MODEL.fit(X, Y)
    scores, _ = class_scores(model, X)
    others, _ = class_scores(model, shrunk(X))
    expected = posterior_agreement(scores, others, prior="marginal")
    assert PAScorer(views=shrunk)(model, X) == pytest.approx(expected.score)
    agreement = PAScorer(views=shrunk).agreement(model, X)
    assert agreement.score == pytest.approx(PAScorer(views=shrunk)(model, X))
    assert agreement.beta == pytest.approx(expected.beta)
    assert agreement.agreement_rate == pytest.approx(expected.agreement_rate)
    assert agreement.n_pairs == 150
    pooled = PAScorer(views=[shrunk, lambda X: X], prior="uniform")(model, X)
    both = posterior_agreement(np.concatenate([scores, scores]), np.concatenate([others, scores]))
    assert pooled == pytest.approx(both.score, abs=1e-9)
    # Labels are not needed, nor looked at.
    assert PAScorer(views=shrunk)(model, X, None) == pytest.approx(expected.score)
    unlabelled = cross_val_score(
        Unsupervised(FrozenEstimator(model)), X, scoring=PAScorer(views=shrunk), cv=3
    )
    assert np.isfinite(unlabelled).all()


def test_paired_objects_are_scored_whatever_else_is_given():
    model = MODEL.fit(X, Y)
    a, b = X[:100], shrunk(X[:100])
    expected = posterior_agreement(
        class_scores(model, a)[0], class_scores(model, b)[0], prior="marginal"
    )
    scorer = PAScorer(paired=(a, b))
    for arguments in ((X, Y), (X[:3], Y[:3]), (X[:1], None), (None,)):
        assert scorer(model, *arguments) == pytest.approx(expected.score)
    assert scorer(model, X, Y, sample_weight=np.arange(150)) == pytest.approx(expected.score)
    assert PAScorer(paired=[a, b]).agreement(model, X).n_pairs == 100
    # Frames are aligned by their index.
    model = MODEL.fit(FRAME, Y)
    frames = PAScorer(paired=(FRAME[:100], shrunk(FRAME[:100])[::-1]))
    assert frames(model, FRAME) == pytest.approx(expected.score)


class Unsupervised(ClassifierMixin, BaseEstimator):
    """Fits without labels: it has been fitted before."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y=None):
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)


def test_label_pairs_are_fixed_seeded_and_counted():
    model = MODEL.fit(X, Y)
    assert pa_scorer(model, X, Y) == pa_scorer(model, X, Y)
    assert PAScorer(random_state=0)(model, X, Y) == pa_scorer(model, X, Y)
    assert PAScorer(random_state=1)(model, X, Y) != pa_scorer(model, X, Y)
    few = np.r_[0:10, 60, 120:130]
    assert pa_scorer.agreement(model, X[few], Y[few]).n_pairs == 20  # and one row is alone


def test_weights():
    model = MODEL.fit(X, Y)
    weight = np.where(np.arange(150) % 5 == 0, 0.0, 1.0)
    kept = weight > 0
    for scorer, arguments in (
        (PAScorer(), {}),
        (PAScorer(views=shrunk), {}),
        (PAScorer("environments"), {"environments": SITES.to_numpy()}),
    ):
        part = {k: v[kept] for k, v in arguments.items()}
        expected = scorer(model, X[kept], Y[kept], **part)
        found = scorer(model, X, Y, sample_weight=weight, **arguments)
        assert found == pytest.approx(expected, abs=1e-9)
        uneven = scorer(model, X, Y, sample_weight=1 + np.arange(150), **arguments)
        assert uneven != pytest.approx(expected, abs=1e-9)
    (a, b, *_), weight = pair_within_label(Y, 0), 1.0 + np.arange(150)
    scores = model.decision_function(X)
    of_pairs = {"sample_weight": np.sqrt(weight[a] * weight[b]), "prior": "marginal"}
    by_hand = posterior_agreement(scores[a], scores[b], **of_pairs).score
    assert pa_scorer(model, X, Y, sample_weight=weight) == pytest.approx(by_hand, abs=1e-5)


def test_metadata_is_routed_where_asked_for():
    weight = np.where(np.arange(150) % 5 == 0, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = PAScorer("environments").set_score_request(environments=True, sample_weight=True)
        by_index = PAScorer(environments=SITES).set_score_request(sample_weight=True)
        model = GaussianNB().set_fit_request(sample_weight=False)
        search = GridSearchCV(model, {}, scoring=scorer)
        search.fit(X, Y, environments=SITES.to_numpy(), sample_weight=weight)
        other = GridSearchCV(model, {}, scoring=by_index).fit(FRAME, Y, sample_weight=weight)
        assert search.best_score_ == pytest.approx(other.best_score_)
        requests = clone(scorer).get_metadata_routing().score.requests
        assert requests == {"environments": True, "sample_weight": True}
        requests = PAScorer().get_metadata_routing().score.requests
        assert requests == {"environments": None, "sample_weight": None}
        message = r"\[sample_weight\] are passed but are not explicitly"
        with pytest.raises(Exception, match=message):
            GridSearchCV(GaussianNB(), {}, scoring=PAScorer()).fit(X, Y, sample_weight=weight)


def test_constant_classifiers_score_zero():
    for strategy in ("most_frequent", "prior"):
        model = DummyClassifier(strategy=strategy).fit(X, Y)
        assert pa_scorer(model, X, Y) == pytest.approx(0, abs=1e-12)
    one_class = DummyClassifier().fit(X[:50], Y[:50])
    assert pa_scorer(one_class, X, Y) == 0
    with pytest.raises(ValueError, match="at least 2 classes"):
        pa_scorer.agreement(one_class, X, Y)


def test_sparse_data_and_string_labels():
    names = np.array(["u", "v", "w"])[Y]
    model = RandomForestClassifier(10, random_state=0).fit(sparse.csr_matrix(X), names)
    assert 0 < pa_scorer(model, sparse.csr_matrix(X), names) < np.log(3)
    views = PAScorer(views=lambda X: X * 1.1)
    assert 0 < views(model, sparse.csr_matrix(X)) <= np.log(3)


MODELS = {"model": GaussianNB().fit(X, Y)}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"pairing": "nearest"}, r"pairing: expected one of .*got 'nearest'"),
        ({"pairing": "views"}, "views: expected some with pairing='views', got None"),
        ({"pairing": "paired", "views": shrunk}, "views: expected None with pairing="),
        ({"views": [FGSM()]}, "views: an attack needs a fitted model, got FGSM"),
        ({"environments": [1, 2]}, "environments: expected a Series to look up by the index of X"),
        ({"views": shrunk, "environments": SITES}, "environments: expected None if views is give"),
        ({"paired": (X, X[1:])}, r"paired\[1\]: expected the 150 objects of paired\[0\]"),
        ({"paired": (X, X + 1), "environments": SITES}, "paired: expected None if environments i"),
    ],
)
def test_wrong_parameters_are_named_before_any_search(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PAScorer(**params)


@pytest.mark.parametrize(
    ("pairing", "data"),
    [
        ("views", {"views": shrunk}),
        ("environments", {"environments": SITES}),
        # In each fit few pairs cause no warning.
        ("paired", {"paired": (FRAME[:5], shrunk(FRAME[:5]))}),
    ],
)
def test_the_pairing_follows_from_what_is_given(pairing, data):
    model = GaussianNB().fit(FRAME, Y)
    expected = PAScorer(pairing, **data)(model, FRAME, Y)
    assert PAScorer(**data)(model, FRAME, Y) == expected != pa_scorer(model, FRAME, Y)
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, scoring=PAScorer(**data))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(FRAME, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_environments_of_a_call_select_their_pairing():
    given = {"environments": SITES.to_numpy()}
    expected = PAScorer("environments")(MODELS["model"], X, Y, **given)
    assert PAScorer()(MODELS["model"], X, Y, **given) == pytest.approx(expected)
    with pytest.raises(ValueError, match="environments: expected None if views is given, got bo"):
        PAScorer(views=shrunk)(MODELS["model"], X, Y, **given)


@pytest.mark.parametrize(
    ("scorer", "data", "message"),
    [
        (PAScorer(views=lambda X: X[1:]), (X, Y), "views: expected a view of each of 150 rows of"),
        (PAScorer(views=FRAME[1:]), (FRAME, Y), r"none for 'flower 0' \(1 of 150"),
        (PAScorer(views=TWICE), (FRAME, Y), "views: expected a unique index, got 'flower 0'"),
        (PAScorer(), (X, None), "y: expected labels with pairing='label', got None"),
        (PAScorer(), (X[:1], Y[:1]), "y: expected a class with at least two rows"),
        (PAScorer("environments"), (X, Y), "environments: expected one for each row"),
        (PAScorer(environments=0 * SITES), (FRAME, Y), "at least two .*, got only .*0.* in 150 r"),
        (PAScorer(environments=GAPS), (FRAME, Y), "environments: .* got nan in row 0"),
        (PAScorer(), (X, Y[:10]), r"y: expected shape \(150,\), got \(10,\)"),
        (PAScorer(views=lambda X: X[::-1]), (FRAME, Y), "views: expected the rows of X in their"),
        (PAScorer(), (X, Y, SITES[:3]), r"environments: expected shape \(150,\), got \(3,\)"),
        (PAScorer(), (X, Y, None, -X[:, 0]), "sample_weight: .* non-negative weights, got -5.1"),
    ],
)
def test_wrong_parameters_and_data_are_named(scorer, data, message):
    X, y, *metadata = data
    given = dict(zip(("environments", "sample_weight"), metadata, strict=False))
    model = GaussianNB().fit(X, Y[: len(X)]) if len(X) > 1 else MODELS["model"]
    with pytest.raises((TypeError, ValueError), match=message):
        scorer(model, X, y, **given)


def test_labels_in_a_column_are_labels():
    expected = pa_scorer(MODELS["model"], X, Y)
    for column in (Y[:, None], pd.DataFrame(Y), Y.tolist()):
        assert pa_scorer(MODELS["model"], X, column) == pytest.approx(expected)


@pytest.mark.parametrize("kind", [np.array, pd.DataFrame, sparse.csr_matrix])
def test_a_view_in_place_changes_nothing_else(kind):
    def in_place(X):
        X *= 3.0
        return X

    data = kind(X.copy())
    model = RandomForestClassifier(5, random_state=0).fit(data, Y)
    twice = PAScorer(views=[in_place, in_place])(model, data)
    assert twice == pytest.approx(PAScorer(views=lambda X: 3.0 * X)(model, data))
    back = data.toarray() if sparse.issparse(data) else np.asarray(data)
    np.testing.assert_array_equal(back, X)


def test_a_shift_is_a_view():
    shift = GaussianNoise(0.5, random_state=1)
    rows = shift(X).X
    expected = PAScorer(views=lambda _: rows)(MODELS["model"], X)
    assert PAScorer(views=shift)(MODELS["model"], X) == pytest.approx(expected)
    search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, cv=3)
    by_shift = search.fit(X, Y, views=shift).cv_results_["agreement"].copy()
    by_rows = search.fit(X, Y, views=rows).cv_results_["agreement"]
    np.testing.assert_allclose(by_rows, by_shift, atol=1e-9)


def test_it_is_an_estimator_in_form():
    scorer = PAScorer(views=shrunk, prior="uniform")
    assert clone(scorer).get_params() == scorer.get_params()
    assert scorer.__name__ == "posterior_agreement"
    assert "views" in repr(scorer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pickle.loads(pickle.dumps(scorer)).views is shrunk


def test_torch_modules_and_skorch_nets_are_scored():
    skorch = pytest.importorskip("skorch")
    torch.manual_seed(0)
    X32 = X.astype(np.float32)
    by_views = PAScorer(views=[lambda X: X + np.float32(0.1), lambda X: X * 1])
    module = torch.nn.Linear(4, 3)
    assert 0 <= by_views(module, X32) <= np.log(3)
    scoring = skorch.callbacks.EpochScoring(by_views, lower_is_better=False, use_caching=False)
    options = {"criterion": torch.nn.CrossEntropyLoss, "max_epochs": 3, "verbose": 0}
    net = skorch.NeuralNetClassifier(module, callbacks=[scoring], **options).fit(X32, Y)
    assert np.isfinite(net.history[:, "posterior_agreement"]).all()
    scores = cross_val_score(net, X32, Y, scoring=pa_scorer, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


def test_torch_tensors_with_the_array_api_of_scikit_learn(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rows, labels = torch.tensor(X), torch.tensor(Y)
    with sklearn.config_context(array_api_dispatch=True):
        model = LinearDiscriminantAnalysis().fit(rows, labels)
        score = pa_scorer(model, rows, labels)
    assert isinstance(model.scalings_, torch.Tensor)
    expected = pa_scorer(LinearDiscriminantAnalysis().fit(X, Y), X, Y)
    assert score == pytest.approx(expected, abs=1e-4)


def test_a_scorer_that_cannot_score_raises_as_any_other_one():
    search = GridSearchCV(Ridge(), {}, scoring=pa_scorer, cv=2)
    message = "estimator: expected a classifier, got Ridge, a regressor; to choose"
    with pytest.warns(UserWarning, match=f"TypeError: {message}"):
        search.fit(X, Y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(TypeError, match=f"^{message}"):
        search.set_params(error_score="raise").fit(X, Y)
