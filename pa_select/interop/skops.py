"""The types that skops must trust to load fitted searches and scorers."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import skorch
import torch
from scipy import stats
from sklearn import metrics, model_selection
from sklearn.base import BaseEstimator
from skorch import callbacks

from pa_select import pairing, shifts, training
from pa_select.model_selection import rules


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


_OWN = [
    "pa_select.agreement.solved_problems.PooledPairs",
    "pa_select.scores.candidate_posterior.CandidatePosterior",
    "pa_select.model_selection.committee.PACommittee",
    "pa_select.model_selection.pa_scorer.PAScorer",
    "pa_select.model_selection.pa_search.PARandomizedSearchCV",
    "pa_select.model_selection.pa_search.PASearchCV",
]
# Rules that a search holds as its ``refit``; what is in a partial function must be trusted, too.
_RULES = ["functools.partial", _name(rules.GuardedSelection), _name(rules._simplest)]
# Public shifts and pairings. Attacks are not among them: a scorer has no model to attack.
_SHIFTS_AND_PAIRINGS = [
    _name(value)
    for room in (shifts, pairing)
    for value in map(vars(room).get, room.__all__)
    if inspect.isclass(value) and issubclass(value, BaseEstimator)
    if not inspect.isabstract(value) and not getattr(value, "_aimed", False)
]
# A scikit-learn scorer holds its class and a public metric.
_SCORERS = [
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    *(
        _name(metric)
        for metric in map(vars(metrics).get, metrics.__all__)
        if inspect.isfunction(metric) and "y_true" in inspect.signature(metric).parameters
    ),
]
_SPLITTERS = [
    _name(splitter)
    for splitter in map(vars(model_selection).get, model_selection.__all__)
    if hasattr(splitter, "get_n_splits")
]
# Distributions of random searches.
_DISTRIBUTIONS = [
    _name(type(distribution))
    for distribution in (
        stats.loguniform,
        stats.loguniform(1, 2),
        stats.uniform,
        stats.randint,
        stats.randint(1, 2),
    )
]

#: Names of the types and functions that fitted searches and scorers may hold and that skops
#: does not trust by itself, for ``skops.io.load(file, trusted=TRUSTED_TYPES)``. They are
#: this package's searches, scorers, rules, pairings and shifts; scikit-learn's scorers,
#: metrics and splitters; and scipy's ``loguniform``, ``uniform`` and ``randint``.
TRUSTED_TYPES = [*_OWN, *_RULES, *_SHIFTS_AND_PAIRINGS, *_SCORERS, *_SPLITTERS, *_DISTRIBUTIONS]

#: Names of what fitted nets of skorch hold beside these: nets, callbacks, optimisers, losses and
#: layers, for ``trusted=[*TRUSTED_TYPES, *NET_TYPES]``. skorch keeps weights in a pickle, which
#: runs the code that is in it. So this list is apart: use it only for files whose origin you know.
NET_TYPES = [
    *(
        _name(value)
        for room in (skorch, callbacks, torch.optim, torch.nn, training)
        for value in vars(room).values()
        if inspect.isclass(value)
    ),
    *map(_name, (print, functools.partial, torch.utils.data.DataLoader)),
    "pa_select.agreement.result.PosteriorAgreement",
    "pa_select.training.epoch_selector._Epoch",
    "skorch.dataset.Dataset",
    "skorch.dataset.ValidSplit",
    "skorch.setter.optimizer_setter",
    "skorch.utils._indexing_other",
    "skorch.utils.to_numpy",
]
