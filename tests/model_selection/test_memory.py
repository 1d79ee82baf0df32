"""A search that was killed or interrupted goes on from where it was."""

import os
import pickle
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from helpers.counting import Counting
from helpers.search_tables import same_tables
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pa_select import PASearchCV
from pa_select.model_selection import evaluation

X, Y = load_iris(return_X_y=True)
CV = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
GRID = {"var_smoothing": [1e-9, 1e-3, 1e-1]}


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def quick_search(*arguments, **params):
    """Most of an agreement's time goes into its last digits, which no test here looks at."""
    return PASearchCV(*arguments, **{"tol": 0.1} | params)


def n_fits(marks):
    return len(os.listdir(marks))


def test_finished_parts_are_not_fitted_again(tmp_path, marks):
    search = quick_search(Counting(str(marks)), GRID, cv=CV, memory=tmp_path / "memory")
    first = search.fit(X, Y).cv_results_
    assert n_fits(marks) == 12 + 1
    same_tables(search.fit(X, Y).cv_results_, first, names=list(first))  # times, too
    assert n_fits(marks) == 12 + 2  # only the refit
    wider = search.set_params(param_grid={"var_smoothing": [1e-9, 1e-3, 1e-1, 1.0]})
    wider.set_params(memory=joblib.Memory(str(tmp_path / "memory"), verbose=0)).fit(X, Y)
    assert n_fits(marks) == 12 + 2 + 4 + 1
    without = quick_search(Counting(str(marks)), GRID, cv=CV).fit(X, Y).cv_results_
    same_tables(without, first)


def test_whatever_changes_is_computed_anew(tmp_path, marks):
    memory = str(tmp_path / "memory")

    def added(data=X, labels=Y, model=None, **changes):
        before = n_fits(marks)
        fit = {name: changes.pop(name) for name in ("sample_weight", "views") if name in changes}
        search = quick_search(
            model or Counting(str(marks)),
            {"var_smoothing": [1e-9]},
            **{"cv": CV, "memory": memory, "refit": False} | changes,
        )
        search.fit(data, labels, **fit)
        return n_fits(marks) - before

    assert added() == 4
    assert added() == 0
    changed = X.copy()
    changed[0, 0] += 1e-9
    assert added(data=changed) == 4
    assert added(labels=np.roll(Y, 1)) == 4
    assert added(sample_weight=np.arange(1, 151)) == 4
    assert added(scoring="neg_log_loss") == 4
    assert added(model=Counting(str(marks), stop_at=10**6)) == 4
    assert added(cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=1)) == 4
    assert added(views=changed) == 4
    # How the agreement is computed changes no fit.
    assert added(prior="uniform", tol=1e-3, selection="score", return_fold_scores=True) == 0


GRID_OF_FOUR = {"var_smoothing": np.geomspace(1e-9, 1, 4).tolist()}
SCRIPT = """
import joblib
import sys
from helpers.counting import Counting
from helpers.search_tables import same_tables
from sklearn.datasets import load_iris
from sklearn.model_selection import RepeatedStratifiedKFold
from pa_select import PASearchCV

if __name__ == "__main__":
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    model = Counting({marks!r}, pause=0.1)
    search = PASearchCV(model, {grid!r}, cv=cv, memory={memory!r}, n_jobs={n_jobs}, tol=0.1)
    with joblib.parallel_config(backend="multiprocessing"):
        joblib.dump(search.fit(*load_iris(return_X_y=True)).cv_results_, {results!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_search_goes_on(tmp_path, marks, n_jobs):
    script = SCRIPT.format(
        marks=str(marks),
        grid=GRID_OF_FOUR,
        memory=str(tmp_path / "memory"),
        n_jobs=n_jobs,
        results=str(tmp_path / "results"),
    )
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = {"args": [sys.executable, "-c", script], "env": os.environ | path}
    killed = subprocess.Popen(**program, start_new_session=True)
    deadline = time.monotonic() + 600
    while n_fits(marks) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert 5 <= n_fits(marks) < 16
    # Another process goes on where this one was.
    subprocess.run(**program, check=True)
    # At most what was in flight is fitted again, and the refit comes last.
    assert n_fits(marks) <= 16 + 2 * n_jobs + 1
    resumed = joblib.load(tmp_path / "results")
    undisturbed = quick_search(Counting(str(marks)), GRID_OF_FOUR, cv=CV).fit(X, Y).cv_results_
    same_tables(resumed, undisturbed)


def test_what_cannot_be_pickled_is_an_error_before_any_fit(tmp_path, marks):
    step = FunctionTransformer(lambda X: X)
    model = make_pipeline(step, Counting(str(marks)))
    with pytest.raises(pickle.PicklingError, match="lambda"):
        quick_search(model, {}, cv=CV, memory=tmp_path).fit(X, Y)
    assert n_fits(marks) == 0


def test_another_version_of_the_package_is_computed_anew(tmp_path, marks, monkeypatch):
    search = quick_search(Counting(str(marks)), {}, cv=CV, memory=tmp_path, refit=False).fit(X, Y)
    monkeypatch.setattr(evaluation, "__version__", "another")
    search.fit(X, Y)
    assert n_fits(marks) == 4 + 4


def test_an_interrupted_search_keeps_what_is_finished(tmp_path, marks):
    counting = Counting(str(marks), stop_at=9)
    search = quick_search(counting, GRID, cv=CV, memory=tmp_path / "memory")
    with (
        pytest.warns(UserWarning, match="has the 2 of 3 candidates that were fin") as caught,
        pytest.raises(KeyboardInterrupt),
    ):
        search.fit(X, Y)
    assert caught[-1].filename == __file__
    assert len(search.cv_results_["params"]) == 2
    assert "Interrupted after 2 of 3 candidates." in search.report()
    assert np.isfinite(search.cv_results_["agreement"]).all()
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")
    assert search.n_fits_ == 8
    for call in (search.predict, search.predict_proba, lambda X: search.score(X, Y)):
        with pytest.raises(NotFittedError):
            call(X)
    assert search.compare(0, 1).p_value >= 0
    full = quick_search(GaussianNB(), GRID, cv=CV).fit(X, Y)
    assert "Interrupted" not in full.report()
    np.testing.assert_array_equal(
        full.cv_results_["agreement"][:2], search.cv_results_["agreement"]
    )
    assert n_fits(marks) == 9
    # Interrupted before anything was finished: nothing is kept.
    early = quick_search(Counting(str(marks), stop_at=9), GRID, cv=CV)
    with pytest.raises(KeyboardInterrupt):
        early.fit(X, Y)
    assert not hasattr(early, "cv_results_")
