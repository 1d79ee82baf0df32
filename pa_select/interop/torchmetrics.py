"""Posterior agreement as a torchmetrics metric."""

from __future__ import annotations

from typing import Any

import torch

from pa_select.agreement import PosteriorAgreement as Result
from pa_select.agreement import posterior_agreement
from pa_select.agreement.inputs.problem import check_pair
from pa_select.agreement.inputs.validation import check_prior, check_weight
from pa_select.utils.arrays import check_tol
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Axes, Prior

_Metric: Any = optional_import("torchmetrics", "metrics").Metric


class PosteriorAgreement(_Metric):
    """Posterior agreement of paired scores that arrive in batches.

    The maximum over the inverse temperature needs all pairs at once. So the scores are kept
    until `reset`, without a copy, in their type and on their device. In a distributed run they
    stay on their rank; the ranks exchange a few numbers per evaluation. ``forward`` also
    maximises the agreement of each batch; if you only need the agreement of all pairs, call
    `update`.

    Parameters
    ----------
    prior, tol, certify
        As in `pa_select.posterior_agreement`.
    **kwargs
        Arguments of `torchmetrics.Metric`: ``process_group``, ``dist_sync_on_step``,
        ``sync_on_compute``, ``compute_on_cpu`` and others. The scores of all ranks are
        gathered only if ``dist_sync_fn`` is given.

    Attributes
    ----------
    result_ : pa_select.PosteriorAgreement or None
        The full result of the last `compute` in double precision: inverse temperature,
        certificate, standard error and more.

    Raises
    ------
    TypeError, ValueError
        For the same reasons as in `pa_select.posterior_agreement`.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (the metric).

    Examples
    --------
    >>> import torch
    >>> from pa_select.interop.torchmetrics import PosteriorAgreement
    >>> metric = PosteriorAgreement(prior="marginal")
    >>> random = torch.Generator().manual_seed(0)
    >>> for _ in range(4):
    ...     logits = 3 * torch.randn(100, 5, generator=random)
    ...     metric.update(logits, logits + torch.randn(100, 5, generator=random))
    >>> metric.compute()
    tensor(1.1924, dtype=torch.float64)
    >>> print(f"beta = {metric.result_.beta:.2f}, {metric.result_.n_pairs} pairs")
    beta = 2.50, 400 pairs
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0

    scores_a: list[torch.Tensor]
    scores_b: list[torch.Tensor]
    weight: list[torch.Tensor]
    _cache: Any
    _is_synced: bool

    def __init__(
        self,
        prior: Prior = "uniform",
        tol: float = 1e-6,
        certify: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_tol(tol)
        if isinstance(prior, str):
            check_prior(prior, 2)
        self.prior = prior
        self.tol = tol
        self.certify = certify
        self.result_: Result | None = None
        self._ranks: Any = None
        for name in ("scores_a", "scores_b", "weight"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(
        self, scores_a: torch.Tensor, scores_b: torch.Tensor, weight: torch.Tensor | None = None
    ) -> None:
        """Add pairs.

        Parameters
        ----------
        scores_a, scores_b : tensors of shape (n_pairs, n_classes)
            Logits or log-probabilities of the first and the second sample, row by row.
        weight : tensor of shape (n_pairs,), default=None
            Non-negative weights of the pairs; None: equal weights.
        """
        a, b = check_pair(scores_a, scores_b, shard=True)
        if self.scores_a and a.shape[1] != self.scores_a[0].shape[1]:
            raise ValueError(
                f"scores_a: expected {self.scores_a[0].shape[1]} classes, as before, got shape "
                f"{tuple(a.shape)}."
            )
        check_prior(self.prior, a.shape[1])
        checked = torch.tensor(check_weight(weight, len(a), "weight", shard=True))
        self.scores_a.append(a)
        self.scores_b.append(b)
        self.weight.append(checked.to(a.device))

    def compute(self) -> torch.Tensor:
        """Maximise the agreement of all pairs; in a distributed run, of the pairs of all ranks.

        Returns
        -------
        torch.Tensor of shape (), float64
            Agreement in nats per pair: `score` of `result_`, whatever the type of the scores or
            of the metric.
        """
        # After dist_sync_fn the cache holds the local scores, and the state all scores.
        together = self._is_synced and not self._cache
        self.result_ = posterior_agreement(
            _joined(self.scores_a, torch.zeros(0, 0)),
            _joined(self.scores_b, torch.zeros(0, 0)),
            prior=self.prior,
            sample_weight=_joined(self.weight, torch.zeros(0)),
            tol=self.tol,
            certify=self.certify,
            process_group=self._ranks if together else None,
        )
        return torch.tensor(self.result_.score, dtype=torch.float64, device=self.device)

    def sync(
        self,
        dist_sync_fn: Any = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Any = None,
    ) -> None:
        """Let `compute` use the scores of all ranks; scores stay on their rank.

        Parameters
        ----------
        dist_sync_fn : callable, default=None
            If given, this function gathers the scores on every rank.
        process_group, should_sync, distributed_available
            As in `torchmetrics.Metric`.
        """
        if dist_sync_fn is not None or self._is_synced:
            super().sync(dist_sync_fn, process_group, should_sync, distributed_available)
        elif should_sync and (distributed_available or self.distributed_available_fn)():
            self._ranks = process_group or self.process_group or "world"
            self._cache, self._is_synced = {}, True

    def reset(self) -> None:
        """Forget all pairs and the last result."""
        super().reset()
        self.result_ = None

    def plot(self, val: Any = None, ax: Axes | None = None) -> Any:
        """Plot values of `compute` or ``forward``, as ``plot`` of torchmetrics does."""
        return self._plot(val, ax)


def _joined(batches: torch.Tensor | list[torch.Tensor], empty: torch.Tensor) -> torch.Tensor:
    if isinstance(batches, torch.Tensor):
        return batches
    return torch.cat(batches) if batches else empty
