"""Short names of candidates, their values with errors, and their table in notebooks."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pa_select.model_selection.summary import (
    candidate_names,
    class_name,
    some_names,
    with_error,
)

MODEL = make_pipeline(StandardScaler(), SVC())


def names_of(grid):
    return candidate_names(list(ParameterGrid(grid)), MODEL)


@pytest.mark.parametrize(
    ("grid", "names"),
    [
        ({"svc__C": [1, 10], "svc__kernel": ["rbf"]}, ["C=1", "C=10"]),
        ({"svc__C": [1e-4, 1 / 3, np.float64(1e5)]}, ["C=0.0001", "C=0.333", "C=1e+05"]),
        # Of parameters of the same name the whole name.
        (
            {"a__k": [1, 2], "b__k": [3, 4]},
            [f"a__k={i}, b__k={j}" for i in (1, 2) for j in (3, 4)],
        ),
        ({"metric": [np.mean, np.median]}, ["metric=mean", "metric=median"]),
        ({}, ["SVC"]),
    ],
)
def test_parameters_that_vary(grid, names):
    assert names_of(grid) == names


def test_estimators_by_what_they_say_of_themselves():
    grid = [
        {"model": [LogisticRegression()], "model__C": [1.0]},
        {"model": [SVC()], "model__C": [1.0, 10.0], "model__kernel": ["rbf"]},
    ]
    names = ["LogisticRegression(), C=1", "SVC(), C=1, kernel=rbf", "SVC(), C=10, kernel=rbf"]
    assert names_of(grid) == names
    pipelines = [make_pipeline(PCA(n), SVC()) for n in (2, 5)]
    names = ["PCA(n_components=2) + SVC()", "PCA(n_components=5) + SVC()"]
    assert names_of({"model": pipelines}) == names
    # A parameter that only some have tells where nothing else does.
    params = [{"C": 1}, {"C": 1, "gamma": 0.1}, {"C": 2}]
    assert candidate_names(params, SVC()) == ["C=1", "C=1, gamma=0.1", "C=2"]


def test_equal_names_have_the_number_of_the_candidate_and_names_are_short():
    both = [make_pipeline(StandardScaler(with_mean=False), SVC(C=c, tol=1)) for c in (1, 2)]
    assert candidate_names([{"model": x} for x in both], MODEL)[1] == "… + SVC(C=2, tol=1)"
    long = [{"weights": [*range(999), n]} for n in (1, 2)]
    assert candidate_names(long, MODEL) == ["SVC #0", "SVC #1"]
    long = [{"model": LogisticRegression(C=c), "weights": c * np.eye(3)} for c in (1, 2)]
    for name in candidate_names(long, MODEL):
        assert len(name) <= 60
        assert name.endswith("…")
        assert "\n" not in name


def test_the_class_of_a_model_is_that_of_its_last_step():
    outer = Pipeline([("scale", StandardScaler()), ("inner", MODEL)])
    assert [class_name(x) for x in (SVC(), MODEL, outer, None)] == ["SVC"] * 3 + [""]


def test_some_names_and_the_number_of_the_others():
    names = ["a", "b, c", "d", "e", "f"]
    assert some_names(names[1:3]) == "b, c and d"
    assert some_names(names) == "a; b, c; d and 2 more"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.97713, 0.00549, "0.9771 ± 0.0055"),
        (1.5e-18, 1.2e-17, "1.5e-18 ± 1.2e-17"),
        (0.97713, 0.0996, "0.98 ± 0.10"),
        (54.168, np.nan, "54.2"),
        (-3054.168, 123.4, "-3050 ± 120"),
        (-0.0001, 0.1, "0.00 ± 0.10"),
        (np.nan, np.nan, "nan"),
    ],
)
def test_a_value_has_its_standard_error(value, error, text):
    assert with_error(value, error) == text
