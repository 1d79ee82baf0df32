"""Choosing the epoch to keep, in any training loop."""

from __future__ import annotations

import math
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import NotFittedError

from pa_select.agreement import PosteriorAgreement
from pa_select.agreement.inputs.validation import as_scores
from pa_select.agreement.posterior_agreement import agreements
from pa_select.utils.arrays import BadScoresError, look_like_probabilities
from pa_select.utils.messages import named_error, warn_caller
from pa_select.utils.typing import Device, Matrix, Prior, Vector

#: Agreements closer than this, in nats, are tied.
TIE_TOL = 1e-7
#: Largest certified gap of an epoch's agreement by default, in nats: less than the standard error
#: of the agreement of a thousand pairs, and saturated epochs need a single evaluation.
EPOCH_TOL = 0.01
# Share of predictions of one class that is worth a warning.
_ONE_CLASS = 0.9
# Layers whose outputs differ in training mode.
_OTHER_IN_TRAINING = (
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.modules.dropout._DropoutNd,
)


class _Epoch(NamedTuple):
    number: int
    agreement: float
    score: float
    state: Any
    concerns: tuple[str, ...] = ()


class EpochSelector:
    """Keep the state of the epoch with the best agreement, and decide when to stop.

    Use it in your own training loop; for skorch there is `PAEarlyStopping`. In each epoch
    pass the scores of the two environments and the module to `update`.

    Parameters
    ----------
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of `posterior_agreement`. With the marginal prior a module that predicts
        one class everywhere scores 0; with the uniform prior such an epoch may be kept.
    patience : int, default=10
        Number of epochs in a row without improvement after which to stop. An epoch is an
        improvement if the guard allows it and its agreement exceeds the agreement of the last
        improvement. The count starts again when the guard excludes the last improvement.
    min_delta : float, default=0.0
        Smallest lead, in nats, that counts as an improvement. The epoch kept is the best
        one, however small its lead; the first of those that tie (within 1e-7 nats).
    min_epochs : int, default=1
        Epochs before this one are neither kept nor counted.
    keep_state : bool, default=True
        Whether to copy states.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed; None: where the scores are.
    tol : float, default=0.01
        Largest certified gap, in nats: the agreement at any inverse temperature exceeds the one
        found by at most this. The one found is a local maximum or a limit, and is usually much
        closer to the global maximum.

    Attributes
    ----------
    epoch : int
        Number of the last epoch.
    best_epoch, best_score, best_state : int, float, dict
        The epoch kept, its agreement in nats per pair, and its state on the CPU. Before the
        first epoch that can be kept the first two are None, and the state is an error, also if
        `update` was given none.
    concerns : tuple of str
        Reasons to doubt the epoch kept: it predicts hardly more than one class, or its
        agreement is 0. Empty if there are none.
    should_stop : bool
        Whether `patience` is exhausted.
    last : PosteriorAgreement
        The result of the last update.

    Warns
    -----
    UserWarning
        If both environments are the same data, if the scores look like probabilities, if a
        module with Dropout or BatchNorm is in training mode, or if the scores of an epoch
        cannot be compared, for example because the training diverged. Such an epoch is not
        kept, and counts as one without improvement.

    Notes
    -----
    If `update` is given a validation score, the epoch kept has the best agreement among the
    epochs within one standard error of the best score so far. States are kept only of
    epochs that can still be chosen, because no other epoch has both a better agreement and
    a better score.

    Examples
    --------
    >>> import torch
    >>> from pa_select.training import EpochSelector
    >>> _ = torch.manual_seed(0)
    >>> X = torch.randn(200, 4)
    >>> y = (X[:, 0] > 0).long()
    >>> module = torch.nn.Linear(4, 2)
    >>> optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    >>> selector = EpochSelector(patience=3)
    >>> for epoch in range(50):
    ...     optimiser.zero_grad()
    ...     torch.nn.functional.cross_entropy(module(X), y).backward()
    ...     optimiser.step()
    ...     with torch.no_grad():
    ...         better = selector.update(module(X), module(X + 0.5), module)
    ...     if selector.should_stop:
    ...         break
    >>> _ = module.load_state_dict(selector.best_state)
    >>> selector.best_epoch <= selector.epoch <= 50
    True
    """

    def __init__(
        self,
        *,
        prior: Prior = "marginal",
        patience: int = 10,
        min_delta: float = 0.0,
        min_epochs: int = 1,
        keep_state: bool = True,
        device: Device = None,
        tol: float = EPOCH_TOL,
    ) -> None:
        self.prior = prior
        self.patience = patience
        self.min_delta = min_delta
        self.min_epochs = min_epochs
        self.keep_state = keep_state
        self.device = device
        self.tol = tol
        self.epoch = 0
        self.last: PosteriorAgreement | None = None
        self._kept: list[_Epoch] = []  # not dominated by another, in the order of epochs
        self._lowest = -math.inf  # score that the guard requires
        self._best: _Epoch | None = None
        self._to_beat = (-math.inf, -math.inf)  # agreement and score of the last improvement
        self._misses = 0
        self._compared_before = False

    @property
    def best_epoch(self) -> int | None:
        """The epoch kept."""
        return None if self._best is None else self._best.number

    @property
    def best_score(self) -> float | None:
        """Agreement of the epoch kept, in nats per pair."""
        return None if self._best is None else self._best.agreement

    @property
    def best_state(self) -> Any:
        """State of the epoch kept, on the CPU."""
        if self._best is None:
            raise NotFittedError(
                f"best_state: expected an epoch that is kept, got none of {self.epoch}."
            )
        if self.keep_state and self._best.state is None:
            raise ValueError(
                f"best_state: update was given no state for epoch {self._best.number}; pass the "
                "module as its third argument."
            )
        return self._best.state

    @property
    def concerns(self) -> tuple[str, ...]:
        """Reasons to doubt the epoch kept."""
        return () if self._best is None else self._best.concerns

    @property
    def should_stop(self) -> bool:
        """Whether the last `patience` epochs brought no improvement."""
        return self._misses >= self.patience

    def update(
        self,
        scores_a: Matrix,
        scores_b: Matrix,
        state: Any = None,
        *,
        score: float | None = None,
        score_error: float = 0.0,
        sample_weight: Vector | None = None,
        epoch: int | None = None,
    ) -> bool:
        """Take the scores of one more epoch.

        Parameters
        ----------
        scores_a, scores_b : array-like of shape (n_pairs, n_classes)
            Logits or log-probabilities of the two environments, row by row.
        state : torch.nn.Module or dict, default=None
            What to keep if this is the best epoch; copied to the CPU.
        score : float, default=None
            A validation score (higher is better) that guards the agreement; in all epochs or
            in none.
        score_error : float, default=0.0
            Standard error of the score. With 0 only an epoch with the best score so far can be
            kept; so for an accuracy add two successes and two failures, since its usual error
            is 0 at 1.
        sample_weight : array-like of shape (n_pairs,), default=None
            Weights of the pairs.
        epoch : int, default=None
            Number of the epoch; None: one more than the last.

        Returns
        -------
        bool
            Whether this epoch is the one to keep.

        Raises
        ------
        TypeError, ValueError
            If the scores have a wrong shape or type, or another argument is wrong; the message
            names the epoch. What is kept stays.
        """
        number = self.epoch + 1 if epoch is None else epoch
        try:
            _refuse_function(state)
            value, score_error = self._checked(score, score_error)
            # `agreements` does not warn of one class, which is common in early epochs;
            # `concerns` reports it for the epoch kept.
            result = agreements(
                scores_a,
                scores_b,
                prior=self.prior,
                sample_weight=sample_weight,
                tol=self.tol,
                device=self.device,
            )
        # A training that diverges for one epoch may recover, so the loop goes on.
        except (BadScoresError, RuntimeError) as error:
            self._lose(number, str(error))
            return False
        except (TypeError, ValueError) as error:
            raise named_error(error, f"epoch {number}") from error
        # Do not keep the epoch's scores in memory.
        self.last = result = replace(result, source=None)
        self.epoch = int(number)
        if number < self.min_epochs:
            return False
        a, b = as_scores(scores_a, "scores_a"), as_scores(scores_b, "scores_b")
        # The mistakes that it looks for are there from the first epoch on.
        self._warn_at_first(a, b, state)
        concerns = _concerns(number, a, b, result)
        new = _Epoch(self.epoch, float(result.score), value, None, concerns)
        return self._decide(new, score_error, state)

    def _checked(self, score: Any, score_error: Any) -> tuple[float, float]:
        """Return the score for the guard and its standard error; -inf if there is no guard."""
        if score is not None:
            return float(score), float(score_error)
        if score_error:
            raise ValueError(
                f"score: expected a validation score with score_error={score_error!r}, got None."
            )
        if self._lowest > -math.inf:
            raise ValueError("score: expected one, as in the epochs before, got None.")
        return -math.inf, 0.0

    def _decide(self, new: _Epoch, score_error: float, state: Any = None) -> bool:
        """Return whether the epoch is the one to keep, and count it if it is no improvement."""
        self._lowest = max(self._lowest, new.score - score_error)
        better = self._take(new, state)
        assert self._best is not None
        # The last improvement is the mark, not the best epoch: otherwise many small leads, each
        # below `min_delta`, would never count, however much they add up to.
        agreement, its_score = self._to_beat
        improved = new.score >= self._lowest and (
            new.agreement - agreement > max(self.min_delta, TIE_TOL)
        )
        # If the guard now excludes the mark, patience so far was measured against nothing.
        if improved or its_score < self._lowest:
            self._to_beat = self._best.agreement, self._best.score
            self._misses = 0
        else:
            self._misses += 1
        return better

    def _lose(self, number: int, reason: str) -> None:
        """Count an epoch that cannot be compared."""
        warn_caller(f"Epoch {number} cannot be compared and is not kept: {reason}")
        self.epoch = number
        # `last` never shows an earlier epoch's result as this one's.
        self.last = PosteriorAgreement.failed(reason)
        if number >= self.min_epochs:
            self._misses += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the epochs so far as numbers and tensors, for a checkpoint of the training."""
        return {
            "epoch": self.epoch,
            "prior": _plain(self.prior),
            "kept": [epoch._asdict() for epoch in self._kept],
            "best": self.best_epoch,
            "lowest": self._lowest,
            "to_beat": self._to_beat,
            "misses": self._misses,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after the epochs of a `state_dict`.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned. Save it with the module and the optimiser.
        """
        if state_dict["epoch"]:
            refuse_other_prior(state_dict["prior"], self.prior)
        self.epoch = state_dict["epoch"]
        self._kept = [_Epoch(**epoch) for epoch in state_dict["kept"]]
        chosen = [epoch for epoch in self._kept if epoch.number == state_dict["best"]]
        self._best = chosen[0] if chosen else None
        self._lowest = state_dict["lowest"]
        agreement, score = state_dict["to_beat"]
        self._to_beat = agreement, score
        self._misses = state_dict["misses"]

    def _replay(self, number: int, agreement: float, score: float | None, error: float) -> None:
        """Decide again on an earlier epoch, of which no state is known."""
        self.epoch = int(number)
        if number >= self.min_epochs:
            value = -math.inf if score is None else score
            self._decide(_Epoch(self.epoch, agreement, value, None), error)

    def _go_on(self, state: Any = None) -> None:
        """Begin another training; `state` becomes the best state if there is none."""
        self._misses = 0
        if self.keep_state and self._best is not None and self._best.state is None:
            # Only the numbers of the epochs before a crash are known, so none of them can be
            # chosen any more but the best, whose weights the module has.
            self._best = self._best._replace(state=self._copy(state))
            self._kept = [self._best]

    def _best_state(self) -> Any:
        """Return the state of the epoch kept, or None if it is not known."""
        return None if self._best is None else self._best.state

    def _without_states(self) -> EpochSelector:
        """Return a copy without states, for pickling."""
        light = copy(self)
        light._kept = [epoch._replace(state=None) for epoch in self._kept]
        light._best = None if self._best is None else self._best._replace(state=None)
        return light

    def _take(self, new: _Epoch, state: Any) -> bool:
        """Add an epoch, drop those that cannot be chosen, and return whether it is the best."""
        # The first of epochs that tie is kept.
        if not any(_beats(old, new, wins_ties=True) for old in self._kept):
            still = [old for old in self._kept if not _beats(new, old, wins_ties=False)]
            self._kept = [*still, new._replace(state=self._copy(state))]
        # The score that the guard requires never falls, so these cannot be chosen later.
        self._kept = [epoch for epoch in self._kept if epoch.score >= self._lowest] or self._kept
        best = max(epoch.agreement for epoch in self._kept)
        self._best = next(epoch for epoch in self._kept if epoch.agreement >= best - TIE_TOL)
        return self._best.number == new.number

    def _copy(self, state: Any) -> Any:
        if not self.keep_state or state is None:
            return None
        return _copied(state.state_dict() if isinstance(state, torch.nn.Module) else state)

    def _warn_at_first(self, a: torch.Tensor, b: torch.Tensor, state: object) -> None:
        if self._compared_before:
            return
        self._compared_before = True
        if any(look_like_probabilities(a, b)):
            warn_caller(
                "scores_a and scores_b: expected logits or log-probabilities, got rows of "
                "non-negative numbers that sum to 1. They look like probabilities, but are read "
                "as logits. Remove the module's softmax, or convert them with "
                "pa_select.scores.log_probabilities."
            )
        parts = state.modules() if isinstance(state, torch.nn.Module) else ()
        if any(part.training and isinstance(part, _OTHER_IN_TRAINING) for part in parts):
            warn_caller(
                "state: expected a module in evaluation mode, got one in training mode with "
                "Dropout or BatchNorm, whose scores vary by chance. Call eval() before the scores "
                "are computed, and train() after update."
            )
        # A constant module has the same scores for any data.
        if a.shape == b.shape and bool((a == b).all()) and bool((a != a[:1]).any()):
            warn_caller("The two environments are the same data: every module agrees with itself.")


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return deepcopy(value)


def refuse_other_prior(before: Prior, prior: Prior) -> None:
    """Raise if epochs were scored with another prior: their agreements cannot be compared."""
    if _plain(before) != _plain(prior):
        raise ValueError(
            f"prior: expected {before!r}, as in the epochs before, got {_plain(prior)!r}."
        )


def _plain(prior: Prior) -> Prior:
    """Return a prior as text or as numbers, which a checkpoint can hold."""
    return prior if isinstance(prior, str) else np.asarray(prior, dtype=np.float64).tolist()


def _refuse_function(state: object) -> None:
    """Refuse ``module.state_dict`` without the call: it would return the last epoch's state."""
    if callable(state) and not isinstance(state, torch.nn.Module):
        got = getattr(state, "__qualname__", type(state).__name__)
        raise TypeError(f"state: expected a torch.nn.Module or a dict, got the function {got}.")


def _concerns(
    number: int, a: torch.Tensor, b: torch.Tensor, result: PosteriorAgreement
) -> tuple[str, ...]:
    """Return reasons to doubt an epoch."""
    predicted = torch.cat([x.argmax(1).flatten() for x in (a, b)])
    share = float(torch.bincount(predicted).max()) / len(predicted)
    # The surest reason comes first: the agreement of a constant module is also 0.
    if share >= _ONE_CLASS:
        return (
            f"The module of epoch {number} predicts one class for {share:.0%} of the rows. Its "
            "predictions agree because they hardly vary.",
        )
    if result.score <= TIE_TOL:
        return (
            f"The agreement of epoch {number} is 0: the predictions for the two rows of a pair "
            "agree no more than by chance. Either the rows of the environments are not in the "
            "same order (without objects in common use pairing='label'), or the module fails in "
            "one of the environments.",
        )
    return ()


def _beats(one: _Epoch, two: _Epoch, wins_ties: bool) -> bool:
    """Return whether `one` is at least as good as `two` in score, and better in agreement."""
    lead = one.agreement - two.agreement
    return one.score >= two.score and (lead >= -TIE_TOL if wins_ties else lead > TIE_TOL)
