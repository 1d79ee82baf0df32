"""Several processes, a cluster, progress: the same numbers."""

import gc
import importlib.util
import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers.recorder import Recorder
from helpers.search_tables import same_tables
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import delayed
from torch.jit import TracerWarning

import pa_select
from pa_select import PASearchCV
from pa_select.model_selection.checks import check_given
from pa_select.model_selection.data import Extra, Task
from pa_select.utils.messages import parallel
from pa_select.utils.sklearn_private import SUPPORTS_CALLBACKS

X, Y = load_iris(return_X_y=True)
MODEL = make_pipeline(StandardScaler(), LogisticRegression())
GRID = {"logisticregression__C": [0.01, 1, 100]}


NEEDS_CALLBACKS = pytest.mark.skipif(not SUPPORTS_CALLBACKS, reason="callbacks came with 1.9")


def numbers(search):
    return {
        name: column
        for name, column in search.cv_results_.items()
        if name.startswith(("split", "agreement", "beta", "mean_test", "expected", "disagree"))
    }


def of_pairs():
    """The numbers of a search with objects that were measured twice."""
    search = PASearchCV(MODEL, GRID, adapter="ridge")
    return numbers(search.fit(X[::2], Y[::2], paired=(X[1::2], X[1::2] + 0.3)))


@pytest.fixture(scope="module")
def alone():
    return numbers(PASearchCV(MODEL, GRID).fit(X, Y))


# What is said of the workers: whether they are others, and what they have imported.
FIRST_SEARCH = """
import os, sys
import joblib, torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from pa_select import PASearchCV

X, y = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=500)
PASearchCV(model, {"C": [0.1, 1]}, n_jobs=2).fit(X, y, paired=(X, X + 0.1))

def modules():
    return os.getpid(), {"torch", "skorch", "pandas", "pa_select"} & sys.modules.keys()

for worker, found in joblib.Parallel(n_jobs=2)(joblib.delayed(modules)() for _ in range(4)):
    print(worker != os.getpid(), *sorted(found))
"""


@pytest.mark.slow
def test_workers_of_scikit_learns_estimators_import_no_torch():
    def said(script):
        run = [sys.executable, "-W", "ignore", "-c", script]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout

    # scikit-learn itself may import pandas.
    alone = said("import sys, sklearn.model_selection; print(*{'pandas'} & sys.modules.keys())")
    lines = said(FIRST_SEARCH).splitlines()
    assert len(lines) == 4
    assert set(lines) == {f"True pa_select {alone}".strip()}


def test_jobs_see_no_warning_filter_of_torch():
    def categories():
        return {category.__module__.split(".")[0] for _, _, category, *_ in warnings.filters}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)  # as torch does when it is imported
        warnings.simplefilter("ignore", pd.errors.PerformanceWarning)
        assert {"torch", "pandas"} <= categories()
        (in_job,) = parallel((delayed(categories)() for _ in range(1)), n_jobs=1)
        assert "torch" not in in_job
        assert "pandas" in in_job
        assert {"torch", "pandas"} <= categories()


def test_the_rows_of_a_split_are_sent_as_bits():
    train, test = np.arange(0, 80_000, 2), np.arange(1, 80_000, 2)
    few, none = np.array([5, 3, 3, 70_000]), np.arange(0)
    task = Task(train, test, {0: test, 1: few}, [Extra("views", 1, few), Extra("x", 0, none)])
    sent = pickle.dumps(task)
    assert len(sent) < 3 * 80_000 / 8 + 2000
    assert sys.getsizeof(task) > 600_000  # so that a cluster sends it once for all candidates
    came = pickle.loads(sent)  # noqa: S301 - our own
    np.testing.assert_equal(vars(came), vars(task))


@pytest.mark.slow
def test_two_processes(alone):
    same_tables(numbers(PASearchCV(MODEL, GRID, n_jobs=2).fit(X, Y)), alone)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        same_tables(numbers(PASearchCV(MODEL, GRID).fit(X, Y)), alone)
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        # A backend that returns all results at once.
        same_tables(numbers(PASearchCV(MODEL, GRID).fit(X, Y)), alone)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster(alone):
    distributed = pytest.importorskip("distributed")
    pairs_alone = of_pairs()
    assert "expected_score" in pairs_alone
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        same_tables(numbers(PASearchCV(MODEL, GRID).fit(X, Y)), alone)
        same_tables(of_pairs(), pairs_alone)


ON_RAY = """
import os

import joblib
import numpy as np
import ray
from ray.util.joblib import register_ray
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from pa_select import PASearchCV

X, y = load_iris(return_X_y=True)
HERE = os.getpid()


class Elsewhere(GaussianNB):
    def fit(self, X, y):
        assert os.getpid() != HERE and ray.get_runtime_context().get_actor_id()
        return super().fit(X, y)


def columns(model, **options):
    grid = {"var_smoothing": [1e-9, 1e-3, 1.0]}
    search = PASearchCV(model, grid, refit=False, error_score="raise")
    table = search.fit(X[::2], y[::2], **options).cv_results_
    return {k: v for k, v in table.items() if "time" not in k and k != "params"}


ray.init(num_cpus=2, include_dashboard=False)
register_ray()
for options in ({}, {"paired": (X[1::2], X[1::2] + 0.3)}):
    alone = columns(GaussianNB(), **options)
    with joblib.parallel_config(backend="ray", n_jobs=2):
        on_ray = columns(Elsewhere(), **options)
    assert set(on_ray) == set(alone)
    for name, column in alone.items():
        np.testing.assert_array_equal(on_ray[name], column, err_msg=name)
print(len(alone), "columns are equal")
"""


@pytest.mark.slow
def test_a_ray_cluster(tmp_path):
    """In a process of its own, since ray changes joblib's pools for good.

    ray has 200 MB and is not in the extra `test`: `pip install ".[ray]"`.
    """
    if importlib.util.find_spec("ray") is None:
        pytest.skip("could not find 'ray'")
    paths = [str(Path(pa_select.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    said = subprocess.run(
        [sys.executable, "-c", ON_RAY],
        # What ray keeps goes to a folder of the test; it reports nothing to anybody.
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(tmp_path)}
        | {"RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert said.returncode == 0, said.stderr
    assert "columns are equal" in said.stdout


def test_data_weigh_what_they_hold():
    search = PASearchCV(GaussianNB(), {})
    given = {"environments": None, "views": X + 1, "paired": None, "groups": None}
    assert sys.getsizeof(check_given(search, X, Y, {}, **given)) >= 2 * X.nbytes


@NEEDS_CALLBACKS
@pytest.mark.filterwarnings("ignore:The estimator GaussianNB does not support callbacks")
def test_callbacks_hear_of_every_candidate_and_split(tmp_path):
    for memory in (None, str(tmp_path)):
        recorder = Recorder()
        search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=3, memory=memory)
        search.set_callbacks(recorder).fit(X, Y)
        assert recorder.begun.count("candidate-split-evaluation") == 12
        assert recorder.ended.count("candidate-split-evaluation") == 12
        for name in ("fit", "search", "refit-with-best-params"):
            assert recorder.begun.count(name) == recorder.ended.count(name) == 1
        assert recorder.ended[-1] == "teardown"


def test_verbose_says_how_many_fits_and_shows_the_progress_in_one_line(capsys):
    PASearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, verbose=1).fit(X, Y)
    printed, line = capsys.readouterr()
    assert "Fitting 10 folds for each of 1 candidates, totalling 10 fits" in printed
    assert line.strip().count("\n") == 0
    assert "10/10" in line


class Heavy(ClassifierMixin, BaseEstimator):
    """A model of 8 MB that does nothing."""

    def __init__(self, number=0):
        self.number = number

    def fit(self, X, y):
        self.weight_ = np.zeros(1 << 20)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], dtype=int)

    def predict_proba(self, X):
        return np.tile([0.7] + [0.3 / 9] * 9, (X.shape[0], 1))


@pytest.mark.filterwarnings("ignore:The chosen candidate may be no better than chance")
@pytest.mark.slow
def test_memory_grows_by_score_matrices_only():
    data, labels = load_digits(return_X_y=True)

    def peak(n_candidates):
        search = PASearchCV(Heavy(), {"number": list(range(n_candidates))}, refit="score")
        gc.collect()
        tracemalloc.start()
        try:
            search.fit(data, labels)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    matrices = 2 * len(labels) * 10 * 8
    terms = len(labels) * 8
    # The models would be 80 MB for each candidate.
    assert (peak(8) - peak(2)) / 6 < 1.5 * (matrices + 3 * terms) + 50_000
