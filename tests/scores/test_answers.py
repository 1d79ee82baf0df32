"""Models are asked once about each row, whatever looks at their answers."""

import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PACommittee, PASearchCV, expected_score
from pa_select.scores.answers import Answers
from pa_select.scores.precomputed import RecordedClassifier

X, Y = load_iris(return_X_y=True)
X = X + 0.01 * np.arange(len(X))[:, None] / len(X)  # no row is there twice
SITES = np.arange(len(X)) % 5
ASKED = Counter()


def counted(name):
    def method(self, rows):
        ASKED.update((id(self.coef_), name, row.tobytes()) for row in rows)
        return getattr(LogisticRegression, name)(self, rows)

    return method


class Counted(LogisticRegression):
    """Counts how often each fit is asked about each row by each method."""

    predict, predict_proba = counted("predict"), counted("predict_proba")
    decision_function = counted("decision_function")
    fits = ()

    def fit(self, X, y):
        super().fit(X, y)
        Counted.fits = (*Counted.fits, self.coef_)  # so that no other one gets its id
        return self


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({}, {}),
        ({"scoring": ["accuracy", "neg_log_loss"], "refit": "accuracy"}, {}),
        ({}, {"environments": SITES}),
        ({"cv": LeaveOneGroupOut()}, {"environments": SITES, "groups": SITES}),
        ({}, {"views": [X + 0.1, X - 0.1]}),
        ({"scoring": "neg_log_loss"}, {"paired": (X[::3] + 0.3, X[::3] - 0.3)}),
    ],
)
def test_a_search_asks_each_model_once_about_each_row(options, given):
    ASKED.clear()
    model = make_pipeline(StandardScaler(), Counted(max_iter=500))
    PASearchCV(model, {"counted__C": [0.1, 1]}, **options).fit(X, Y, **given)
    assert set(ASKED.values()) == {1}


def test_a_committee_asks_the_models_of_its_search_once_about_each_row():
    ASKED.clear()
    model = make_pipeline(StandardScaler(), Counted(max_iter=500))
    PACommittee(GridSearchCV(model, {"counted__C": [0.1, 1]}, cv=3)).fit(X, Y)
    assert set(ASKED.values()) == {1}


def test_trained_models_are_asked_once_about_each_row():
    ASKED.clear()
    models = [Counted(C=C, max_iter=500).fit(X[::2], Y[::2]) for C in (0.1, 1)]
    sites = X[::3] + 0.3, X[::3] - 0.3
    expected_score(models, *sites, X[1::2], Y[1::2], scoring="neg_log_loss")
    assert set(ASKED.values()) == {1}


def test_rows_are_answered_in_any_order_and_in_part():
    model, n = LogisticRegression(max_iter=500).fit(X, Y), len(X)
    some, more = np.arange(0, n, 3), np.random.default_rng(0).permutation(n)
    with Answers(lambda _, sample, rows: X[rows]) as answers:
        twin = answers.of(model)
        for rows in (some, more, some[::-2], more[:9], np.repeat(some, 2)):
            shown = answers.rows(twin, 0, rows)
            np.testing.assert_array_equal(twin.predict(shown), model.predict(X[rows]))
            probabilities = model.predict_proba(X[rows])
            np.testing.assert_allclose(twin.predict_proba(shown), probabilities, rtol=1e-12)
    assert vars(twin).keys() == vars(model).keys()


def test_a_model_that_remembers_is_a_model_to_its_scorer():
    def scorer(model, X, y):
        assert type(model.predict(X)) is np.ndarray
        again = pickle.loads(pickle.dumps(model))
        assert isinstance(again, RandomForestClassifier)
        return again.score(X, y)

    grid = {"max_depth": [1, 3]}
    search = PASearchCV(RandomForestClassifier(9, random_state=0), grid, scoring=scorer).fit(X, Y)
    plain = PASearchCV(search.estimator, grid).fit(X, Y)
    scores = (one.cv_results_["mean_test_score"] for one in (search, plain))
    np.testing.assert_array_equal(*scores)


def test_recorded_outputs_are_those_of_the_model():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    recorded = RecordedClassifier.of(model, X)
    np.testing.assert_array_equal(recorded.scores, model.decision_function(X))
    np.testing.assert_array_equal(recorded.probabilities, model.predict_proba(X))
    np.testing.assert_array_equal(recorded.predicted, model.predict(X))
