"""Which environments have a score that can be trusted.

The choice of the worst environment leaves out the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from pa_select.model_selection.worker import Data, SplitTask
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _check_method_params, _num_samples, _score

#: With fewer test rows the score of an environment is unreliable: for one row it is 0 or 1.
FEWEST_ROWS = 5


class Judged(NamedTuple):
    """The environments whose scores can be compared.

    Parameters
    ----------
    defined : dict of str to ndarray of shape (n_environments, n_splits) of bool
        For each metric, whether it is defined on the test rows of an environment in a split.
    left_out : dict of str to dict
        For each metric, the environments that the worst one is not chosen from, with the
        reasons.
    """

    defined: dict[str, NDArray[np.bool_]]
    left_out: dict[str, dict[Any, str]]


def judge_environments(
    splits: Sequence[SplitTask], data: Data, environments: Sequence[Any]
) -> Judged:
    """Find the environments that can be scored, and warn of those that are left out.

    A metric is not defined on rows on which even perfect predictions score 0 or nan, if they
    score more on all rows. An example is the recall if no row is positive.
    """
    if not environments:
        return Judged({}, {})
    y = np.asarray(data.y)
    perfect = _Perfect(y)
    reference = _by_metric(_scored(perfect, np.arange(len(y)), data))
    rows = {e: np.unique(np.concatenate(_test_rows(splits, e))) for e in environments}
    shape = len(environments), len(splits)
    defined = {name: np.ones(shape, dtype=bool) for name in reference}
    for i, environment in enumerate(environments):
        for s, here in enumerate(_test_rows(splits, environment)):
            found = _by_metric(_scored(perfect, here, data)) if len(here) else {}
            for name, best in reference.items():
                if np.isfinite(best) and abs(best) > 1e-6:
                    value = found.get(name, np.nan)
                    defined[name][i, s] = np.isfinite(value) and abs(value) > 1e-6
                elif np.isfinite(best):  # a loss is 0 for perfect predictions
                    defined[name][i, s] = np.isfinite(found.get(name, np.nan))
    left_out: dict[str, dict[Any, str]] = {}
    for name, known in defined.items():
        left_out[name] = {}
        for i, environment in enumerate(environments):
            n = len(rows[environment])
            if n < FEWEST_ROWS:
                left_out[name][environment] = f"{n} test row{'' if n == 1 else 's'}"
            elif not known[i].any():
                lacking = np.setdiff1d(y, y[rows[environment]]).tolist()
                lacks = f", since no row has class {', '.join(map(repr, lacking))}"
                left_out[name][environment] = f"{name} is not defined{lacks if lacking else ''}"
    _warn(left_out)
    return Judged(defined, left_out)


def _warn(left_out: dict[str, dict[Any, str]]) -> None:
    reasons = {e: why for found in left_out.values() for e, why in found.items()}
    if reasons:
        named = "; ".join(f"{e!r} ({why})" for e, why in reasons.items())
        warn_caller(
            f"environments: the choice of the worst environment leaves out {len(reasons)} of "
            f"them, whose scores are unreliable: {named}."
        )


def _test_rows(splits: Sequence[SplitTask], environment: Any) -> list[NDArray[np.int64]]:
    """Return the test rows of an environment in each split."""
    suffix = f"environment_{environment}"
    return [next(x.rows for x in split.extras if x.suffix == suffix) for split in splits]


def _scored(perfect: _Perfect, rows: NDArray[np.int64], data: Data) -> Any:
    """Return the search's score of perfect predictions on some rows."""
    n = _num_samples(data.sources[0])
    params = _check_method_params(np.zeros((n, 1)), params=data.score_params, indices=rows)
    labels = np.asarray(data.y)[rows]
    with warnings.catch_warnings():
        # A metric that is not defined on these rows warns each time.
        warnings.simplefilter("ignore")
        return _score(perfect, rows[:, None], labels, data.scorer, params, np.nan)


def _by_metric(scores: Any) -> dict[str, float]:
    return dict(scores) if isinstance(scores, dict) else {"score": scores}


class _Perfect(ClassifierMixin, BaseEstimator):
    """A classifier that always predicts the label; its only feature is the row number."""

    def __init__(self, y: Any) -> None:
        self.y = y
        self.classes_, self._codes = np.unique(y, return_inverse=True)

    def fit(self, X: Any, y: Any = None) -> _Perfect:
        return self

    def predict(self, X: Any) -> Any:
        return self.y[X[:, 0]]

    def predict_proba(self, X: Any) -> Any:
        return np.eye(len(self.classes_))[self._codes[X[:, 0]]]
