"""A search that was killed or interrupted goes on from where it was."""

import os
import shutil

import joblib
import numpy as np
import pytest
from helpers.counting import Counting
from helpers.search_tables import same_tables
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import RepeatedStratifiedKFold

from pa_select import PASearchCV
from pa_select.model_selection import work

X, Y = load_iris(return_X_y=True)
CV = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
GRID = {"var_smoothing": [1e-9, 1e-3, 1e-1]}


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def n_fits(marks):
    return len(os.listdir(marks))


def test_finished_parts_are_not_fitted_again(tmp_path, marks):
    search = PASearchCV(Counting(str(marks)), GRID, cv=CV, memory=tmp_path / "memory")
    first = search.fit(X, Y).cv_results_
    assert n_fits(marks) == 12 + 1
    same_tables(search.fit(X, Y).cv_results_, first, names=list(first))  # times, too
    assert n_fits(marks) == 12 + 2  # only the refit
    wider = search.set_params(param_grid={"var_smoothing": [1e-9, 1e-3, 1e-1, 1.0]})
    wider.set_params(memory=joblib.Memory(str(tmp_path / "memory"), verbose=0)).fit(X, Y)
    assert n_fits(marks) == 12 + 2 + 4 + 1
    without = PASearchCV(Counting(str(marks)), GRID, cv=CV).fit(X, Y).cv_results_
    same_tables(without, first)


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
    assert added(views=changed) == 4
    # How the agreement is computed changes no fit.
    assert added(prior="uniform", pre_dispatch="all", device="cpu") == 0


def test_another_version_of_the_package_is_computed_anew(tmp_path, marks, monkeypatch):
    search = PASearchCV(Counting(str(marks)), {}, cv=CV, memory=tmp_path, refit=False).fit(X, Y)
    monkeypatch.setattr(work, "__version__", "another")
    search.fit(X, Y)
    assert n_fits(marks) == 4 + 4


def test_an_interrupted_search_has_no_results_and_goes_on(tmp_path, marks):
    search = PASearchCV(Counting(str(marks)), GRID, cv=CV, memory=tmp_path / "memory").fit(X, Y)
    first = search.cv_results_
    shutil.rmtree(tmp_path / "memory")
    n = n_fits(marks)
    search.set_params(estimator__stop_at=n + 9)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
    # Nor has it those of the fit before.
    assert not hasattr(search, "cv_results_")
    with pytest.raises(NotFittedError):
        search.predict(X)
    assert n_fits(marks) == n + 9
    # The marks tell when to stop, and are part of what is kept.
    (marks / "one more").touch()
    same_tables(search.fit(X, Y).cv_results_, first)
    assert n_fits(marks) == n + 10 + 3 + 1
