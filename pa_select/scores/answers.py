"""What a fitted model says of rows: metrics, class scores and predictions share its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pa_select.utils.estimators import is_pipeline
from pa_select.utils.sklearn_private import wrapped_scorer
from pa_select.utils.typing import Array, Ints, Rows, Scorer

#: What metrics may look at besides the predicted classes.
METHODS = ("decision_function", "predict_proba")
# The numbers of all rows, which need not be told apart.
_ALL: Ints = np.empty(0, dtype=np.int64)


class Answers:
    """The answers of one fitted model about rows of some samples.

    A metric, the class scores and the predicted classes are mostly of the same rows, and
    ``predict`` may call ``predict_proba``. So within the context of this object `of` gives the
    model as a twin with the same attributes, which says again what it has said of the same rows.
    ``take(model, sample, rows)`` returns rows of a sample.
    """

    def __init__(self, take: Callable[[Any, int, Ints], Rows] | None = None) -> None:
        self._take: Any = take
        self._memory = _Memory()
        self._twins: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for twin in self._twins:  # each holds itself, and would be freed late
            for name in [x for x, value in vars(twin).items() if isinstance(value, _Remembering)]:
                del vars(twin)[name]

    def of(self, model: Any) -> Any:
        """Return the model that remembers; the first call says which model it is."""
        return self._twins[-1] if self._twins else self._twin(model, self._memory)

    def _twin(self, model: Any, memory: _Memory) -> Any:
        try:
            twin: Any = object.__new__(type(model))
            vars(twin).update(vars(model))
        except TypeError:  # it has no attributes of its own, and is asked each time
            return model
        if is_pipeline(twin):
            memory.inside = _Memory(memory.rows)  # the first step sees the same rows
            of_step, vars(twin)["steps"] = memory.inside, []
            for name, step in model.steps:
                is_asked = hasattr(step, "transform") or hasattr(step, "predict")
                twin.steps.append((name, self._twin(step, of_step) if is_asked else step))
                if is_asked:
                    of_step.following = of_step = _Memory()
        for name in ("predict", "transform", *METHODS):
            if hasattr(model, name):
                vars(twin)[name] = _Remembering(model, name, getattr(twin, name), memory)
        self._twins.append(twin)
        return twin

    def show(self, X: Rows, sample: int = 0, rows: Ints = _ALL) -> None:
        """Say which rows of a sample an object has."""
        self._memory.rows[sample] = X, rows

    def rows(self, model: Any, sample: int, rows: Ints) -> Rows:
        """Return rows of a sample, to be shown to the model."""
        shown = self._memory.rows.get(sample)
        if shown is None or not np.array_equal(shown[1], rows):
            self.show(self._take(model, sample, rows), sample, rows)
        return self._memory.rows[sample][0]

    def forget(self, sample: int) -> None:
        """Forget the rows of a sample, and what was said of them."""
        self._memory.forget(sample)

    def scorer(self, scorer: Scorer, sample: int, rows: Ints) -> Any:
        """Return a scorer of these rows of a sample, which asks the model that remembers."""

        def ask(one: Scorer, model: Any, X: Rows, *y: Any, **params: Any) -> Any:
            self.show(X, sample, rows)
            return one(self.of(model), X, *y, **params)

        return wrapped_scorer(scorer, ask)


@dataclass(eq=False)
class _Memory:
    """What a model, or a step of a pipeline, was asked about and said."""

    #: The rows of each sample that are shown now, and their numbers.
    rows: dict[int, tuple[Rows, Ints]] = field(default_factory=dict)
    #: What each method said, and of which rows.
    said: dict[tuple[int, str], tuple[Ints, Any]] = field(default_factory=dict)
    #: That of the first step of a pipeline, and of the step that follows this one.
    inside: _Memory | None = None
    following: _Memory | None = None

    def about(self, X: Rows, name: str, ask: Callable[[Rows], Any]) -> Any:
        """Return what a method says of rows, which is asked if it has not said it."""
        sample = next((i for i, (shown, _) in self.rows.items() if shown is X), None)
        if sample is None:  # a scorer may make rows of its own, and change them
            return ask(X)
        rows = self.rows[sample][1]
        known, said = self.said.get((sample, name), (rows, None))
        if said is not None and not np.array_equal(known, rows):
            is_known = isinstance(said, np.ndarray) and np.isin(rows, known).all()
            said = _part(said, known, rows) if is_known else None
        if said is None:
            said = ask(X)
            self.said[sample, name] = rows, said
        if name == "transform" and self.following is not None:
            self.following.rows[sample] = said, rows
        return said

    def forget(self, sample: int) -> None:
        """Forget the rows of a sample, here and in the steps of a pipeline."""
        self.rows.pop(sample, None)
        self.said = {key: value for key, value in self.said.items() if key[0] != sample}
        for other in (self.inside, self.following):
            if other is not None:
                other.forget(sample)


def _part(said: Array, known: Ints, rows: Ints) -> Array:
    order = np.argsort(known, kind="stable")
    part: Array = said[order[np.searchsorted(known, rows, sorter=order)]]
    return part


class _Remembering:
    """A method of a model that looks into its memory."""

    def __init__(self, model: Any, name: str, method: Callable[..., Any], memory: _Memory) -> None:
        self.model, self.__name__, self.method, self.memory = model, name, method, memory

    def __call__(self, X: Rows, *args: Any, **params: Any) -> Any:
        if args or params:
            return self.method(X, *args, **params)
        said = self.memory.about(X, self.__name__, self.method)
        if self.__name__ == "transform" or not isinstance(said, np.ndarray):
            return said  # the same object, so that the next step knows it, too
        return said.copy()  # its caller may work in place

    def __reduce__(self) -> Any:
        return getattr, (self.model, self.__name__)  # a scorer may save or copy its model
