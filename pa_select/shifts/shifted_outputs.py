"""Outputs of classifiers before and after a shift, and the table that compares them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, rel_entr

from pa_select.agreement import PosteriorAgreement
from pa_select.agreement.inputs.validation import is_raise
from pa_select.agreement.posterior_agreement import agreements
from pa_select.agreement.standard_errors import standard_error
from pa_select.scores.class_scores import comparable_scores
from pa_select.shifts.shift import Shift, Shifted
from pa_select.utils.arrays import look_like_probabilities
from pa_select.utils.messages import named_error, warn_caller
from pa_select.utils.typing import Array, Floats, Index, Ints, Mask, Prior, Rows

# Largest number of scores that are solved at once, which bounds the memory.
_SCORES_AT_ONCE = 1 << 23

#: Estimator, power and ratio of one row of the table.
Key = tuple[str, float, float]


class Outputs(NamedTuple):
    """The scores of one sample, with what is derived from them.

    `log_posterior` has the logs of the posteriors at inverse temperature 1, `predicted` the
    columns of the predicted classes.
    """

    scores: Floats
    log_posterior: Floats
    predicted: Index

    @classmethod
    def of(cls, scores: Any) -> Outputs:
        """Derive posteriors and predictions from scores of any type."""
        if hasattr(scores, "detach"):
            scores = scores.detach().cpu().double().numpy()
        values: Floats = np.asarray(scores, dtype=np.float64)
        return cls(values, log_softmax(values, axis=1), values.argmax(1))

    def losses(self, y: Index) -> Floats:
        """Return the log-loss of each row in nats; `y` has the columns of the labels."""
        losses: Floats = -self.log_posterior[np.arange(len(y)), y]
        return losses

    def mixed(self, other: Outputs, replaced: Mask) -> Outputs:
        """Return the outputs with some rows replaced by those of another sample."""
        rows = replaced[:, None]
        return Outputs(
            np.where(rows, other.scores, self.scores),
            np.where(rows, other.log_posterior, self.log_posterior),
            np.where(replaced, other.predicted, self.predicted),
        )


@dataclass(frozen=True)
class Samples:
    """Each estimator's outputs before and after shifts, with the settings of their comparison."""

    before: dict[str, Outputs]
    #: The rows in the order in which the shift reaches them; None: by their norm.
    order: Index | None
    prior: Prior
    #: Other arguments of `posterior_agreement`, among them ``error_score`` and ``groups``.
    options: dict[str, Any]
    after: dict[tuple[str, float], Outputs] = field(default_factory=dict)
    #: Results of the shift, without the rows.
    shifted: dict[tuple[str, float], Shifted] = field(default_factory=dict)
    #: Why an estimator has no outputs or no agreement at a power.
    failures: dict[tuple[str, float], Exception] = field(default_factory=dict)

    def compute(
        self,
        estimators: Mapping[str, Any],
        X: Rows,
        y: Array | None,
        shift: Shift,
        powers: Sequence[float],
        verbose: int,
    ) -> None:
        """Shift the rows for every estimator at every power, and keep the outputs."""
        start = time.perf_counter()
        n_done = 0
        for power in powers:
            moved = None if shift._aimed else shift(X, y, power=power)
            for name, estimator in estimators.items():
                with self.isolated(name, [power]):
                    result = moved or shift(X, y, estimator=estimator, power=power)
                    scores, _ = comparable_scores(estimator, result.X)
                    self.after[name, power] = Outputs.of(scores)
                    self.shifted[name, power] = result._replace(X=None)
                n_done += 1
                if verbose:
                    print(
                        f"[{n_done}/{len(estimators) * len(powers)}] {name}, power "
                        f"{power:g}: {time.perf_counter() - start:.1f} s"
                    )

    @contextmanager
    def isolated(
        self, name: str, powers: Sequence[float], raised: tuple[type[Exception], ...] = ()
    ) -> Iterator[None]:
        """Keep an error in the context as an estimator's failure, unless errors are raised."""
        try:
            yield
        except raised as error:
            error.args = (f"estimators: {name}: {error}",)
            raise
        except Exception as error:
            if is_raise(self.options["error_score"]):
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

    def replaced(self, name: str, power: float, ratio: float) -> Mask:
        """Return which rows the shift reaches at a ratio, and at every higher one."""
        shifted, rows = self.shifted[name, power], self.order
        if rows is None:
            norm = shifted.norm
            if shifted.success is not None:
                # A failed attack leaves the row where it was; such rows come last.
                norm = np.where((norm == 0) & ~shifted.success, np.inf, norm)
            rows = np.argsort(norm, kind="stable")
        reached = np.zeros(len(rows), dtype=bool)
        reached[rows[: round(ratio * len(rows))]] = True
        return reached

    def pair(self, name: str, power: float, ratio: float) -> tuple[Outputs, Outputs]:
        """Return one estimator's outputs before the shift and under it."""
        before = self.before[name]
        replaced = self.replaced(name, power, ratio)
        return before, before.mixed(self.after[name, power], replaced)

    def solve(
        self, pairs: Sequence[tuple[Outputs, Outputs]], prior: Prior
    ) -> list[PosteriorAgreement]:
        """Compute the agreements of pairs of outputs, in batches."""
        results: list[PosteriorAgreement] = []
        at_once = max(_SCORES_AT_ONCE // max(a.scores.size for a, _ in pairs), 1)
        for i in range(0, len(pairs), at_once):
            sides = zip(*((a.scores, b.scores) for a, b in pairs[i : i + at_once]), strict=True)
            results += agreements(*map(list, sides), prior=prior, **self.options)
        return results

    def agreement_columns(self, keys: Sequence[Key]) -> list[dict[str, float]]:
        """Return the columns of the agreement, for each estimator, power and ratio."""
        _warn_of_probabilities(self.before)
        pairs = [self.pair(*key) for key in keys]
        # "pa_change" is measured from each estimator's agreement with itself.
        same = [(outputs, outputs) for outputs in self.before.values()]
        results = self.solve(same + pairs, self.prior)
        unshifted = dict(zip(self.before, results, strict=False))
        results = uniform = results[len(same) :]
        for (name, power, _), result in zip(keys, results, strict=True):
            if result.failure is not None:
                self.failures[name, power] = RuntimeError(result.failure)
        if not (isinstance(self.prior, str) and self.prior == "uniform"):
            uniform = self.solve(pairs, "uniform")
        rows = []
        for (name, *_), result, papers in zip(keys, results, uniform, strict=True):
            # The standard error of a change is of first order.
            terms = {"pa_change": result.terms - unshifted[name].terms}
            change = with_errors(terms, self.options["groups"])
            rows.append({
                "pa": result.score,
                "pa_uniform": papers.score,
                "beta": result.beta,
                "standard_error": result.standard_error,
                "standard_error_uniform": papers.standard_error,
                "gap": result.gap,
                "pa_change": result.score - unshifted[name].score,
                "pa_change_se": change["pa_change_se"],
            })  # fmt: skip
        return rows


def curve_table(
    samples: Samples, keys: list[Key], labels: Mapping[str, Any], chosen: Sequence[str], n: int
) -> dict[str, Array]:
    """Return the columns of the chosen metrics, with nan where an estimator failed.

    `labels` has the column of each row's label in an estimator's scores; `n` rows were shifted.
    """
    samples.check_some_are_left(samples.after)
    scored = [key for key in keys if key[:2] in samples.after]
    agreement: list[dict[str, float]] = [{}] * len(scored)
    if "agreement" in chosen:
        agreement = samples.agreement_columns(scored)
    rows = {
        key: _measures(samples, key, labels[key[0]], chosen, measures)
        for key, measures in zip(scored, agreement, strict=True)
    }
    names = next(iter(rows.values()))
    for key in keys:
        if key[:2] in samples.failures:
            known = dict(zip(("estimator", "power", "ratio"), key, strict=True)) | {"n_pairs": n}
            rows[key] = dict.fromkeys(names, np.nan) | known
    return {name: np.array([rows[key][name] for key in keys]) for name in names}


def _measures(
    samples: Samples, key: Key, y: Index, chosen: Sequence[str], agreement: Mapping[str, float]
) -> dict[str, Any]:
    """Return one row of the table."""
    name, power, ratio = key
    replaced = samples.replaced(*key)
    shifted = samples.shifted[name, power]
    before, after = samples.pair(*key)
    of_rows: dict[str, Floats] = {}
    if "agreement" in chosen:
        of_rows["afr_pred"] = 1.0 * (before.predicted == after.predicted)
    if "accuracy" in chosen:
        right, still = (1.0 * (outputs.predicted == y) for outputs in (before, after))
        of_rows |= {"clean_accuracy": right, "shifted_accuracy": still}
        of_rows["accuracy_drop"] = right - still
    if "log_loss" in chosen:
        with np.errstate(invalid="ignore"):
            gap = after.losses(y) - before.losses(y)
        of_rows |= {"log_loss": after.losses(y), "log_loss_gap": gap}
    if "posterior" in chosen:
        p, q = np.exp(before.log_posterior), np.exp(after.log_posterior)
        of_rows |= {"kl": rel_entr(p, q).sum(1), "wasserstein": np.abs(p - q).sum(1) / 2}
    means = with_errors(of_rows, samples.options["groups"])
    if "accuracy" in chosen:
        means["afr_true"] = means["shifted_accuracy"]
        relative = quotient(means["accuracy_drop"], means["clean_accuracy"])
        means["relative_accuracy_drop"] = relative
    if "log_loss" in chosen:
        relative = quotient(means["log_loss_gap"], float(before.losses(y).mean()))
        means["relative_log_loss_gap"] = relative
    # A reader looks for the accuracies first.
    first = [column for column in ("clean_accuracy", "shifted_accuracy") if column in means]
    return {
        "estimator": name,
        "power": power,
        "ratio": ratio,
        **{column: means[column] for column in first},
        "n_pairs": len(replaced),
        "mean_norm": _mean(shifted.norm[replaced]),
        "success_rate": np.nan if shifted.success is None else _mean(shifted.success[replaced]),
        **agreement,
        **means,
    }


def _mean(values: Floats | Mask) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def with_errors(values: Mapping[str, Floats], groups: Ints | None) -> dict[str, float]:
    """Return the mean of one value for each row, and its standard error as ``<name>_se``.

    Rows of one group are not taken as independent.
    """
    objects = None if groups is None else (groups, groups)
    columns = {}
    for name, of_rows in values.items():
        weight = np.full(len(of_rows), 1 / len(of_rows))
        columns[name] = float(of_rows.mean())
        with np.errstate(invalid="ignore"):  # an infinite log-loss has the error nan
            columns[f"{name}_se"] = standard_error(of_rows, weight, objects)
    return columns


def quotient(part: float, whole: float) -> float:
    """Return a quotient, or nan if there is nothing to divide by."""
    return part / whole if whole else float("nan")


def _warn_of_probabilities(before: Mapping[str, Outputs]) -> None:
    """Warn of modules that return probabilities, which would be read as logits."""
    names = [name for name, of in before.items() if any(look_like_probabilities(of.scores))]
    if names:
        warn_caller(
            f"estimators: {', '.join(names)}: expected logits or log-probabilities, got rows of "
            "non-negative numbers that sum to 1. They look like probabilities, but are read as "
            "logits. Let the module return the logits, or the logarithm of its probabilities."
        )
