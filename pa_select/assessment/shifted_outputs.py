"""Outputs of classifiers for rows before and after a shift."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.agreement import PosteriorAgreement
from pa_select.agreement.inputs.suspicious_scores import share_of_one_class
from pa_select.agreement.inputs.validation import is_raise
from pa_select.agreement.posterior_agreement import agreements
from pa_select.assessment.measures import Outputs, with_errors
from pa_select.environments import Shift, Shifted, shifted_rows
from pa_select.scores.class_scores import comparable_scores
from pa_select.scores.features import features_of
from pa_select.utils.messages import named_error, warn_caller
from pa_select.utils.score_checks import look_like_probabilities
from pa_select.utils.typing import Floats

# Largest number of scores that are solved at once, which bounds the memory.
_SCORES_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class Samples:
    """Each estimator's outputs before and after shifts, with the settings of their comparison."""

    before: dict[str, Outputs]
    order: str
    random_state: Any
    prior: Any
    #: Other arguments of `posterior_agreement`, among them ``error_score`` and ``groups``.
    how: dict[str, Any]
    after: dict[tuple[str, float], Outputs] = field(default_factory=dict)
    #: Results of the shift, without the rows.
    shifted: dict[tuple[str, float], Shifted] = field(default_factory=dict)
    features: dict[str, Floats] = field(default_factory=dict)
    shifted_features: dict[tuple[str, float], Floats] = field(default_factory=dict)
    #: Why an estimator has no outputs or no agreement at a power.
    failures: dict[tuple[str, float], Exception] = field(default_factory=dict)

    def take(
        self,
        estimators: Mapping[str, Any],
        X: Any,
        y: Any,
        shift: Shift,
        powers: Sequence[float],
        features: Mapping[str, Any] | None,
        verbose: int,
    ) -> None:
        """Shift the rows for every estimator at every power, and keep the outputs."""
        start = time.perf_counter()
        if features is not None:
            for name in estimators:
                self.features[name] = features_of(X, features[name], "X")
        n_done = 0
        for power in powers:
            moved = None if shift._aimed else shift(X, y, power=power)
            for name, estimator in estimators.items():
                with self.isolated(name, [power]):
                    at = moved
                    if at is None:
                        at = shift(X, y, estimator=estimator, power=power)
                    look = None if features is None else features[name]
                    self._look(name, power, estimator, at, look)
                n_done += 1
                if verbose:
                    print(
                        f"[{n_done}/{len(estimators) * len(powers)}] {name}, power "
                        f"{power:g}: {time.perf_counter() - start:.1f} s"
                    )

    def _look(
        self, name: str, power: float, estimator: Any, moved: Shifted, features: Any
    ) -> None:
        key = name, power
        after = Outputs.of(comparable_scores(estimator, moved.X)[0])
        if features is not None:
            self.shifted_features[key] = features_of(moved.X, features, "X")
        self.after[key], self.shifted[key] = after, moved._replace(X=None)

    @contextmanager
    def isolated(
        self, name: str, powers: Sequence[float], raised: tuple[type[Exception], ...] = ()
    ) -> Iterator[None]:
        """Keep an error in the context as an estimator's failure, unless errors are raised."""
        try:
            yield
        except raised:
            raise
        except Exception as error:
            if is_raise(self.how["error_score"]):
                raise named_error(error, f"estimators: {name}") from error
            self.failures.update({(name, power): error for power in powers})

    def warn_of_failures(self, n_estimators: int) -> None:
        """Warn once if estimators failed."""
        if not self.failures:
            return
        (first, power), error = next(iter(self.failures.items()))
        n_failed = len({name for name, _ in self.failures})
        warn_caller(
            f"{n_failed} of {n_estimators} estimators failed, and their rows of the table are "
            f"nan. The first, {first} at power {power:g}: {type(error).__name__}: {error}"
        )

    def check_some_are_left(self, outputs: Mapping[Any, Outputs]) -> None:
        """Raise the first failure if no estimator has outputs."""
        if not outputs:
            (name, _), error = next(iter(self.failures.items()))
            raise named_error(error, f"estimators: {name}") from error

    def replaced(self, name: str, power: float, ratio: float) -> NDArray[np.bool_]:
        """Return which rows the shift reaches at a ratio."""
        shifted, norm = self.shifted[name, power], None
        if self.order == "norm":
            norm = shifted.norm
            if shifted.success is not None:
                # A failed attack leaves the row where it was; such rows come last.
                norm = np.where((norm == 0) & ~shifted.success, np.inf, norm)
        return shifted_rows(len(shifted.norm), ratio, norm, self.random_state)

    def pair(self, name: str, power: float, ratio: float) -> tuple[Outputs, Outputs]:
        """Return one estimator's outputs before the shift and under it."""
        before = self.before[name]
        replaced = self.replaced(name, power, ratio)
        return before, before.mixed(self.after[name, power], replaced)

    def feature_pair(self, name: str, power: float, ratio: float) -> tuple[Floats, Floats]:
        """Return one estimator's features before the shift and under it."""
        before, replaced = self.features[name], self.replaced(name, power, ratio)
        return before, np.where(replaced[:, None], self.shifted_features[name, power], before)

    def solve(
        self, pairs: Sequence[tuple[Outputs, Outputs]], prior: Any
    ) -> list[PosteriorAgreement]:
        """Compute the agreements of pairs of outputs, in batches."""
        results: list[PosteriorAgreement] = []
        at_once = max(_SCORES_AT_ONCE // max(a.scores.size for a, _ in pairs), 1)
        for i in range(0, len(pairs), at_once):
            sides = zip(*((a.scores, b.scores) for a, b in pairs[i : i + at_once]), strict=True)
            results += agreements(*map(list, sides), prior=prior, **self.how)
        return results

    def agreement_columns(
        self, keys: Sequence[tuple[str, float, float]]
    ) -> list[dict[str, float]]:
        """Return the columns of the agreement, for each estimator, power and ratio."""
        _warn_of_probabilities(self.before)
        pairs = [self.pair(*key) for key in keys]
        # "pa_change" is measured from each estimator's agreement with itself.
        own_pairs = [(outputs, outputs) for outputs in self.before.values()]
        results = self.solve(own_pairs + pairs, self.prior)
        own = dict(zip(self.before, results, strict=False))
        results = uniform = results[len(own) :]
        for (name, power, _), result in zip(keys, results, strict=True):
            if result.failure is not None:
                self.failures[name, power] = RuntimeError(result.failure)
        if isinstance(self.prior, str) and self.prior == "uniform":
            _warn_of_one_class([name for name, *_ in keys], results)
        else:
            uniform = self.solve(pairs, "uniform")
        return [
            {
                "pa": result.score,
                "pa_uniform": papers.score,
                "beta": result.beta,
                "standard_error": result.standard_error,
                "standard_error_uniform": papers.standard_error,
                "gap": result.gap,
                "pa_change": result.score - own[name].score,
                "pa_change_se": self._error_of_change(result, own[name]),
            }
            for (name, *_), result, papers in zip(keys, results, uniform, strict=True)
        ]

    def _error_of_change(self, result: PosteriorAgreement, own: PosteriorAgreement) -> float:
        """Return the standard error of a change of the agreement, to first order."""
        terms = result.terms - own.terms
        return with_errors({"change": terms}, self.how["groups"])["change_se"]


def _warn_of_probabilities(before: Mapping[str, Outputs]) -> None:
    """Warn of modules that return probabilities, which would be read as logits."""
    names = [
        name for name, outputs in before.items() if any(look_like_probabilities(outputs.scores))
    ]
    if names:
        warn_caller(
            f"estimators: {', '.join(names)}: expected logits or log-probabilities, got rows of "
            "non-negative numbers that sum to 1. They look like probabilities, but are read as "
            "logits. Let the module return the logits, or the logarithm of its probabilities."
        )


def _warn_of_one_class(names: Sequence[str], results: Sequence[PosteriorAgreement]) -> None:
    """Warn of estimators that score high because they predict nearly always the same class."""
    pairs = zip(names, results, strict=True)
    constant = [
        name
        for name, result in pairs
        if result.source is not None and share_of_one_class(result.source) is not None
    ]
    if constant:
        warn_caller(
            f"estimators: {', '.join(dict.fromkeys(constant))}: nearly all predictions, before "
            "and under the shift, are of one class. With prior='uniform' this gives the highest "
            "possible agreement, log(n_classes). Rank models with prior='marginal'."
        )
