"""A search that was killed or interrupted goes on from where it was."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pa_select import PASearchCV

X, Y = load_iris(return_X_y=True)
CV = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
GRID = {"var_smoothing": [1e-9, 1e-3, 1e-1]}
TIMES = ("fit_time", "score_time")


class Counting(ClassifierMixin, BaseEstimator):
    """Naive Bayes that leaves a mark for each fit."""

    def __init__(self, folder=None, var_smoothing=1e-9, stop_at=None, pause=0):
        self.folder = folder
        self.pause = pause
        self.var_smoothing = var_smoothing
        self.stop_at = stop_at

    def fit(self, X, y, sample_weight=None):
        time.sleep(self.pause)
        marks = len(os.listdir(self.folder))
        if marks == self.stop_at:
            raise KeyboardInterrupt
        (Path(self.folder) / f"{os.getpid()}_{marks}").touch()
        self.inner_ = GaussianNB(var_smoothing=self.var_smoothing).fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def n_fits(marks):
    return len(os.listdir(marks))


def same_results(one, two):
    assert set(one) == set(two)
    for name, column in one.items():
        if name != "params":
            np.testing.assert_array_equal(np.ma.asarray(column), np.ma.asarray(two[name]))


def test_finished_parts_are_not_fitted_again(tmp_path, marks):
    search = PASearchCV(Counting(str(marks)), GRID, cv=CV, memory=tmp_path / "memory")
    first = search.fit(X, Y).cv_results_
    assert n_fits(marks) == 12 + 1
    same_results(search.fit(X, Y).cv_results_, first)  # times, too
    assert n_fits(marks) == 12 + 2  # only the refit
    wider = search.set_params(param_grid={"var_smoothing": [1e-9, 1e-3, 1e-1, 1.0]})
    wider.set_params(memory=joblib.Memory(str(tmp_path / "memory"), verbose=0)).fit(X, Y)
    assert n_fits(marks) == 12 + 2 + 4 + 1
    without = PASearchCV(Counting(str(marks)), GRID, cv=CV).fit(X, Y).cv_results_
    timed = [name for name in first if name.endswith(TIMES)]
    same_results(
        {k: v for k, v in without.items() if k not in timed},
        {k: v for k, v in first.items() if k not in timed},
    )


def test_whatever_changes_is_computed_anew(tmp_path, marks):
    memory = str(tmp_path / "memory")

    def added(data=X, labels=Y, model=None, **changes):
        before = n_fits(marks)
        fit = {name: changes.pop(name) for name in ("sample_weight", "views") if name in changes}
        search = PASearchCV(
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
    assert added(dtype=np.float32) == 4
    assert added(views=changed) == 4
    # How the agreement is computed changes no fit.
    assert added(prior="uniform", tol=1e-3, selection="score", return_fold_scores=True) == 0


def test_changed_code_of_an_estimator_is_another_one(tmp_path):
    code = """
import sys
sys.path.insert(0, {folder!r})
from own import Own
from sklearn.datasets import load_iris
from pa_select import PASearchCV
search = PASearchCV(Own(), {{"var_smoothing": [1e-9]}}, memory={memory!r}, scoring="accuracy")
print(search.fit(*load_iris(return_X_y=True)).best_score_)
"""
    own = "from sklearn.naive_bayes import GaussianNB\nclass Own(GaussianNB):\n"
    scores = []
    for body in (
        "    pass\n",
        "    def predict(self, X):\n        return super().predict(X) * 0\n",
    ):
        (tmp_path / "own.py").write_text(own + body)
        run = code.format(folder=str(tmp_path), memory=str(tmp_path / "memory"))
        found = subprocess.run(
            [sys.executable, "-c", run], capture_output=True, text=True, check=True
        )
        scores.append(float(found.stdout))
    assert scores[0] > 0.9
    assert scores[1] < 0.4


def test_what_cannot_be_told_apart_is_refused(tmp_path):
    model = make_pipeline(FunctionTransformer(lambda X: X), GaussianNB())
    search = PASearchCV(model, {"gaussiannb__var_smoothing": [1e-9]}, memory=str(tmp_path))
    with pytest.raises(
        ValueError, match="memory: expected Pipeline with its parameters to be pic"
    ):
        search.fit(X, Y)


SCRIPT = """
import numpy as np
from test_memory import CV, Counting, X, Y
from pa_select import PASearchCV

if __name__ == "__main__":
    grid = {{"var_smoothing": np.geomspace(1e-9, 1, 4).tolist()}}
    model = Counting({marks!r}, pause=0.1)
    search = PASearchCV(model, grid, cv=CV, memory={memory!r}, n_jobs={n_jobs}).fit(X, Y)
    kept = ("agreement", "beta", "split")
    np.savez({out!r}, **{{k: v for k, v in search.cv_results_.items() if k.startswith(kept)}})
"""


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_search_goes_on(tmp_path, marks, n_jobs):
    def script(memory, out):
        names = {"memory": str(tmp_path / memory), "out": str(tmp_path / out)}
        text = SCRIPT.format(marks=str(marks), n_jobs=n_jobs, **names)
        path = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        return subprocess.Popen([sys.executable, "-c", text], start_new_session=True, env=path)

    killed = script("memory", "never.npz")
    deadline = time.monotonic() + 120
    while n_fits(marks) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    done = n_fits(marks)
    assert 5 <= done < 16
    assert script("memory", "resumed.npz").wait() == 0
    # At most what was in flight is fitted again, and the refit comes last.
    assert n_fits(marks) <= 16 + 2 * n_jobs + 1
    assert script("another", "undisturbed.npz").wait() == 0
    resumed, undisturbed = (
        np.load(tmp_path / f"{name}.npz") for name in ("resumed", "undisturbed")
    )
    assert set(resumed) == set(undisturbed)
    for name in undisturbed:
        np.testing.assert_array_equal(resumed[name], undisturbed[name])


def test_an_interrupted_search_keeps_what_is_finished(tmp_path, marks):
    search = PASearchCV(
        Counting(str(marks), stop_at=9), GRID, cv=CV, memory=str(tmp_path / "memory")
    )
    with (
        pytest.warns(UserWarning, match="has the 2 of 3 candidates that were fin") as caught,
        pytest.raises(KeyboardInterrupt),
    ):
        search.fit(X, Y)
    assert caught[-1].filename == __file__
    assert len(search.cv_results_["params"]) == 2
    assert np.isfinite(search.cv_results_["agreement"]).all()
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")
    assert search.n_fits_ == 8
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(search, method)(X)
    with pytest.raises(NotFittedError):
        search.score(X, Y)
    assert search.compare(0, 1).p_value >= 0
    full = PASearchCV(GaussianNB(), GRID, cv=CV).fit(X, Y)
    np.testing.assert_array_equal(
        full.cv_results_["agreement"][:2], search.cv_results_["agreement"]
    )
    assert n_fits(marks) == 9
    # Interrupted before anything was finished: nothing is kept.
    early = PASearchCV(Counting(str(marks), stop_at=9), GRID, cv=CV)
    with pytest.raises(KeyboardInterrupt):
        early.fit(X, Y)
    assert not hasattr(early, "cv_results_")


def test_an_old_memory_of_another_estimator_does_no_harm(tmp_path):
    for model in (GaussianNB(), LogisticRegression(max_iter=1000)):
        name = "var_smoothing" if isinstance(model, GaussianNB) else "tol"
        search = PASearchCV(model, {name: [1e-4]}, memory=str(tmp_path)).fit(X, Y)
        alone = PASearchCV(model, {name: [1e-4]}).fit(X, Y)
        assert search.best_score_ == alone.best_score_
