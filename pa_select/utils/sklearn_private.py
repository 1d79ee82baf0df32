"""The private names of scikit-learn that this package uses, in one place.

Tested with scikit-learn 1.7.2 and 1.9.1. A comment says what each name does that no public
name does.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

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
from sklearn.utils.validation import _check_method_params, _num_samples

__all__ = [
    "BaseSearchCV",
    "CallbackSupport",
    "Callbacks",
    "HasMethods",
    "Interval",
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
    "_warn_or_raise_about_fit_failures",
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
