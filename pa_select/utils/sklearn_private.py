"""The private names of scikit-learn that this package uses, in one place.

Tested with scikit-learn 1.7.2 and 1.9.1. A comment says what each name does that no public
name does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Self

from sklearn.base import (
    _fit_context,  # validates parameters and ends callbacks, as in scikit-learn's own `fit`
)
from sklearn.metrics._scorer import (
    _MultimetricScorer,  # combines several scorers, as searches do
    _PassthroughScorer,  # the scorer that searches make of scoring=None
)
from sklearn.model_selection._search import (
    BaseSearchCV,  # gives a search its delegation, tags, routing and representation
    _search_estimator_has,  # tells whether a search has a method that it delegates
)
from sklearn.model_selection._validation import (
    _fit_and_score,  # fits, times and scores one split exactly as GridSearchCV does
    _insert_error_scores,
    _score,  # scores other rows of a split and handles errors in the same way
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split  # selects rows, also those of a kernel matrix
from sklearn.utils.parallel import _threadpool_controller_decorator  # limits the threads of BLAS
from sklearn.utils.validation import _check_method_params, _num_samples

__all__ = [
    "BaseSearchCV",
    "CallbackSupport",
    "Callbacks",
    "HasMethods",
    "Interval",
    "NotesOfFits",
    "StrOptions",
    "_MultimetricScorer",
    "_PassthroughScorer",
    "_check_method_params",
    "_fit_and_score",
    "_fit_context",
    "_insert_error_scores",
    "_num_samples",
    "_safe_split",
    "_score",
    "_search_estimator_has",
    "_threadpool_controller_decorator",
    "_warn_or_raise_about_fit_failures",
    "wrapped_scorer",
]

SUPPORTS_CALLBACKS = hasattr(BaseSearchCV, "set_callbacks")
#: The base class of estimators that call callbacks; it has nothing before scikit-learn 1.9.
CallbackSupport: Any = type("CallbackSupport", (), {})
if SUPPORTS_CALLBACKS:
    CallbackSupport = import_module("sklearn.callback").CallbackSupportMixin


@dataclass(eq=False, repr=False)
class Callbacks:
    """One task of a fit, for the callbacks that are set on the estimator.

    Callbacks are experimental in scikit-learn 1.9. Without them this class does nothing.
    """

    context: Any
    estimator: BaseSearchCV
    metadata: dict[str, Any] | None

    @classmethod
    def of_fit(
        cls, estimator: BaseSearchCV, n_subtasks: int, metadata: dict[str, Any] | None
    ) -> Callbacks:
        """Return the task of the whole fit of an estimator."""
        context = None
        if SUPPORTS_CALLBACKS:
            context = estimator._init_callback_context(max_subtasks=n_subtasks)
        return cls(context, estimator, metadata)

    def subtask(self, name: str, **options: Any) -> Callbacks:
        """Return a part of the task."""
        context = None
        if self.context is not None:
            context = self.context.subcontext(task_name=name, **options)
        return Callbacks(context, self.estimator, self.metadata)

    def begin(self, X: Any = None, y: Any = None) -> None:
        """Notify the callbacks that the task begins."""
        if self.context is not None:
            self.context.call_on_fit_task_begin(
                estimator=self.estimator, X=X, y=y, metadata=self.metadata
            )

    def end(self, X: Any = None, y: Any = None) -> None:
        """Notify the callbacks that the task has ended."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, X=X, y=y, metadata=self.metadata
            )

    def passed_on_to(self, estimator: Any) -> AbstractContextManager[Any]:
        """Return a context that passes the callbacks on to the estimator's own fit."""
        if self.context is None:
            return nullcontext()
        return self.context.propagate_callback_context(estimator)

    def of_worker(self) -> dict[str, Any]:
        """Return the arguments that `_fit_and_score` needs."""
        if self.context is None:
            return {}
        return {"caller": self.estimator, "callback_ctx": self.context}


class _Score(float):
    """A score that carries what was noted of its model."""

    note: Any


class _WrappedScorer:
    """A scorer in the place of another one; what it is asked about itself, the other one says."""

    def __init__(self, scorer: Any, score: Callable[..., Any]) -> None:
        self.__wrapped__ = scorer  # where `inspect.signature` looks for what a scorer takes
        self._instead = score

    def __call__(self, estimator: Any, X: Any, *y: Any, **params: Any) -> Any:
        return self._instead(self.__wrapped__, estimator, X, *y, **params)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a copy asks before it has a scorer
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def wrapped_scorer(scorer: Any, score: Callable[..., Any]) -> Any:
    """Return a scorer, or all of several, that calls ``score(scorer, estimator, X, y)``."""
    if not isinstance(scorer, _MultimetricScorer):
        return _WrappedScorer(scorer, score)
    several = copy(scorer)
    several._scorers = {name: _WrappedScorer(one, score) for name, one in scorer._scorers.items()}
    return several


def _with_note(note: Any, scorer: Any, estimator: Any, X: Any, *y: Any, **params: Any) -> Any:
    """Return scores, the first of which carries what is noted of the model."""
    scores, noted = note(partial(scorer, **params), estimator, X, *y)
    name, score = next(iter(scores.items())) if isinstance(scores, dict) else (None, scores)
    try:
        carrying = _Score(score)
    except (TypeError, ValueError):  # the search says what it expects
        return scores
    carrying.note = noted
    return carrying if name is None else scores | {name: carrying}


class NotesOfFits:
    """What a function notes of each model of a search, which itself throws the models away.

    The function takes a scorer, a model, its test rows and their labels, and returns the score and
    the note. Within the context of this object the scorer of the search, which sees every model,
    calls it, and each score carries the note from whatever process to where the search makes its
    table.
    """

    def __init__(self, search: Any = None, note: Callable[..., Any] | None = None) -> None:
        self.search, self.note = search, note
        self._scores: list[Any] = []
        self._n_splits = 1

    def __enter__(self) -> Self:
        search, note = self.search, self.note
        noting = partial(_with_note, note)
        # What searches of scikit-learn and their kin have; of others there are no notes.
        self._notes = hasattr(search, "_get_scorers") and hasattr(search, "_format_results")
        if self._notes:
            scorers, refit_metric = search._get_scorers()
            self._scorer, self._format_results = scorers, search._format_results
            if isinstance(scorers, _MultimetricScorer):  # one of them is enough
                self._scorer = dict(scorers._scorers)
                first, scorer = next(iter(self._scorer.items()))
                scorers._scorers = self._scorer | {first: wrapped_scorer(scorer, noting)}
            else:
                scorers = wrapped_scorer(scorers, noting)
            search._get_scorers = partial(tuple, (scorers, refit_metric))
            search._format_results = self
        return self

    def __call__(self, params: Any, n_splits: int, out: Any, *more: Any) -> Any:
        """Make the search's table, and keep the scores that it is made of."""
        self._scores, self._n_splits = [one["test_scores"] for one in out], n_splits
        return self._format_results(params, n_splits, out, *more)

    def __exit__(self, *error: object) -> None:
        if self._notes:
            del self.search._get_scorers, self.search._format_results
            self.search.scorer_ = self._scorer

    def __reduce__(self) -> Any:
        return NotesOfFits, ()  # a search goes to its workers, which need none of this

    def of(self, candidate: int) -> list[Any]:
        """Return the notes of a candidate's models, one for each split; None: there is none."""
        start, found = candidate * self._n_splits, []
        for scores in self._scores[start : start + self._n_splits]:
            every = scores.values() if isinstance(scores, dict) else [scores]
            found.append(next((x.note for x in every if isinstance(x, _Score)), None))
        return found
