"""Bad input is refused before any fit."""

from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris

from pa_select import PASearchCV, pa_scorer
from pa_select.shifts import FGSM

X, Y = load_iris(return_X_y=True)
HALVES = np.arange(150) % 2
FRAME = pd.DataFrame(X, columns=list("abcd"))
MANY = pd.DataFrame(np.zeros((9, 700)), columns=[f"s{i}" for i in range(700)])


class Unfittable(ClassifierMixin, BaseEstimator):
    def __init__(self, depth=1):
        self.depth = depth

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("a fit before the check")


class NoPairs:
    def pairs(self, splits, X, y, **context):
        return []


def search(**params):
    return PASearchCV(Unfittable(), {"depth": [1]}, error_score="raise", **params)


@pytest.mark.filterwarnings("ignore:paired.*expected at least 20 pairs:UserWarning")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        # Labels, rows and their weights.
        ({"X": Y, "y": FRAME}, r"y: expected shape .150,., got .150, 4."),
        ({"X": FRAME, "y": pd.Series(Y)[::-1]}, "y: expected the rows of X in their order"),
        ({"X": FRAME, "groups": pd.Series(HALVES)[::-1]}, "groups: .* got another order"),
        ({"sample_weight": -np.ones(150)}, "sample_weight: expected finite non-negative"),
        # Environments.
        ({"environments": HALVES[:9]}, r"environments: expected shape .150,., got .9,."),
        ({"environments": np.zeros(150)}, "environments: expected at least two, got only .*0.0"),
        ({"environments": Y}, "a class with rows in at least two environments"),
        ({"environments": HALVES, "sample_weight": HALVES * 1.0},
         "sample_weight: expected a pair of two rows of positive weight, got none"),
        # Views.
        ({"views": X[:9]}, "views: expected 150 rows as X, got 9 rows"),
        ({"views": X[:, :2]}, r"views: expected rows of shape .4,. like those of X, got .2,."),
        ({"views": FGSM()}, "views: an attack needs a fitted model, got FGSM"),
        ({"views": X}, "views: expected rows that differ from X, got the values of X"),
        ({"views": [lambda X: X + 1, lambda X: X]}, r"views\[1\]: expected rows that differ from"),
        ({"views": [X + 1, lambda X: X[:3]]}, r"views\[1\]: expected a view of each of 150 rows"),
        ({"X": FRAME, "views": FRAME[list("dcba")]}, "views: expected the columns of X"),
        ({"X": FRAME, "views": FRAME.iloc[:9]}, "views: expected a row for each index of X"),
        # Pairs; more of them are in test_paired.py.
        ({"X": FRAME, "paired": (MANY, MANY + 1)}, "columns of X, .*697 more inst.* and 1 more"),
        # What goes together.
        ({"paired": (X, X), "views": X}, "paired: expected None if views is given, got both[.]$"),
        ({"pairing": len}, "environments: expected some with pairing=<built-in .*, got None"),
        ({"pairing": NoPairs()}, "pairing: expected pairs of the test rows, got none"),
        ({"refit": "expected", "views": X + 1}, "paired: expected pairs, .*refit='expected', got"),
        ({"adapter": "ridge"}, "paired: expected pairs, .* with an adapter, got None"),
        ({"scoring": pa_scorer}, "scoring: expected a score .* got a PAScorer"),
        ({"prior": [0.5, 0.5]}, "prior: expected one probability for each of 3 classes"),
    ],
)  # fmt: skip
def test_refused_before_any_fit(given, message):
    params = {name: given[name] for name in given.keys() & signature(PASearchCV).parameters}
    data = {"X": X, "y": Y} | {name: given[name] for name in given.keys() - params.keys()}
    with pytest.raises((TypeError, ValueError), match=message):
        search(**params).fit(data.pop("X"), data.pop("y"), **data)


def test_data_are_given_by_name():
    assert list(signature(PASearchCV.fit).parameters)[:4] == ["self", "X", "y", "environments"]
    with pytest.raises(TypeError, match="positional arguments but 4 were given"):
        search().fit(X, Y, HALVES)
