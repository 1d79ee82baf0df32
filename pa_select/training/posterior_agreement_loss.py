"""Minus the kernel of posterior agreement, as a loss to train torch modules with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

# The inverse temperature that is learnt stays in this range.
_LOWEST, _HIGHEST = 0.05, 20.0
# A given one is used in the type of the logits, of which float32 has the smallest range.
_FLOAT32 = torch.finfo(torch.float32)


class PosteriorAgreementLoss(torch.nn.Module):
    r"""Minus the posterior agreement of two batches of logits, at an inverse temperature.

    It trains a net to predict the same for two views of the same rows, without their labels. With
    the marginal prior a net that predicts one class everywhere gains nothing, so that this term
    needs no other one against collapse.

    Parameters
    ----------
    prior : {"marginal", "uniform"}, default="marginal"
        The class prior of the kernel. "marginal": the mean posterior of both batches. With the
        uniform prior a net that always predicts the same class has the smallest loss.
    beta : "learn" or float, default="learn"
        The inverse temperature. "learn": its logarithm is a parameter of this module, which starts
        at 0. Otherwise a positive number that float32 can hold.

    Attributes
    ----------
    log_beta : torch.nn.Parameter or torch.Tensor of shape ()
        Logarithm of the inverse temperature; a parameter if it is learnt. If so, each call puts it
        back into the range from log(0.05) to log(20).

    Raises
    ------
    ValueError
        If `prior` or `beta` is none of these.

    See Also
    --------
    pa_kernel : The same number for arrays, without the sign.
    posterior_agreement : The maximum over the inverse temperature, with a certificate.

    Notes
    -----
    With the posteriors :math:`p', p''` of the two views of n rows the loss is

    .. math:: -\frac{1}{n} \sum_i \log \sum_j \frac{p'_i(j)\, p''_i(j)}{\pi_j}
        \quad \text{nats}.

    With the marginal prior, minus the loss is, for many rows, at most the mutual information of
    the two views, and at most the log of the number of classes. Training maximises it over the
    net and the inverse temperature at once. At a maximum over the inverse temperature the
    gradient equals the gradient of the maximised agreement (envelope theorem), and it vanishes
    with respect to the scale of the logits.

    Give `log_beta` a rate of its own and no weight decay: `parameter_group` makes the group for an
    optimiser. A batch should have at least 16 pairs: the marginal prior of fewer is mostly
    chance. `AgreementNet` adds this loss with the weight 1, which it reaches after a fifth of the
    steps. Half precision is computed in float32, also under autocast.

    A logit of -inf masks a class: its posterior is 0, as in `posterior_agreement`. With the
    marginal prior a class that is masked in all rows has no effect on the loss. If the two rows of
    a pair have no unmasked class in common, the loss is infinite, and this pair does not
    contribute to the gradients.

    References
    ----------
    .. [1] Master's thesis on posterior agreement, future work (training by posterior agreement).

    Examples
    --------
    >>> import torch
    >>> from pa_select.training import PosteriorAgreementLoss
    >>> _ = torch.manual_seed(0)
    >>> X = torch.randn(200, 5)
    >>> y = X[:20, 0].gt(0).long()  # the other rows have no labels
    >>> net, loss = torch.nn.Linear(5, 2), PosteriorAgreementLoss()
    >>> rates = [{"params": net.parameters(), "lr": 0.05}, loss.parameter_group()]
    >>> optimiser = torch.optim.Adam(rates)
    >>> history = []
    >>> for _ in range(50):
    ...     optimiser.zero_grad()
    ...     value = loss(net(X), net(X + 0.3 * torch.randn_like(X)))
    ...     (torch.nn.functional.cross_entropy(net(X[:20]), y) + value).backward()
    ...     _ = optimiser.step()
    ...     history.append(value.item())
    >>> history[-1] < history[0] - 0.3
    True
    >>> loss.beta > 1
    True
    """

    log_beta: torch.Tensor

    def __init__(self, prior: str = "marginal", beta: float | str = "learn") -> None:
        super().__init__()
        if not isinstance(prior, str) or prior not in ("marginal", "uniform"):
            raise ValueError(f"prior: expected 'marginal' or 'uniform', got {prior!r}.")
        self.prior = prior
        if isinstance(beta, str):
            if beta != "learn":
                raise ValueError(f"beta: expected 'learn' or a positive number, got {beta!r}.")
            # Its logarithm is learnt: it stays positive, and a step changes it by a factor.
            self.log_beta = torch.nn.Parameter(torch.zeros(()))
        else:
            is_number = isinstance(beta, (int, float, np.number)) and not isinstance(beta, bool)
            if not is_number or not _FLOAT32.tiny <= beta <= _FLOAT32.max:
                raise ValueError(
                    "beta: expected 'learn' or a positive number that float32 can hold, got "
                    f"{beta!r}."
                )
            self.register_buffer("log_beta", torch.tensor(math.log(beta), dtype=torch.float64))

    @property
    def beta(self) -> float:
        """The inverse temperature."""
        return float(self.log_beta.detach().exp())

    def parameter_group(self, lr: float = 0.03) -> dict[str, Any]:
        """Return the group of the inverse temperature for an optimiser.

        Parameters
        ----------
        lr : float, default=0.03
            Its rate.

        Returns
        -------
        dict
            With "params", "lr" and "weight_decay", which is 0.
        """
        return {"params": list(self.parameters()), "lr": lr, "weight_decay": 0.0}

    def forward(self, logits_a: torch.Tensor, logits_b: torch.Tensor) -> torch.Tensor:
        """Compute the loss.

        Parameters
        ----------
        logits_a, logits_b : torch.Tensor of shape (n, n_classes)
            Logits of two views; row i of both is the same row of data. -inf masks a class.

        Returns
        -------
        torch.Tensor of shape ()
            Minus the kernel, in nats per pair.

        Raises
        ------
        ValueError
            If the shapes do not fit, or there is no pair.
        """
        _check(logits_a, logits_b)
        # Sums of small posteriors need more than half precision, also inside of an autocast.
        with torch.autocast(logits_a.device.type, enabled=False):
            return self._loss(_exact(logits_a), _exact(logits_b))

    def _loss(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if isinstance(self.log_beta, torch.nn.Parameter):
            with torch.no_grad():  # a clamp inside the graph would stop its gradient
                self.log_beta.clamp_(math.log(_LOWEST), math.log(_HIGHEST))
        beta = self.log_beta.exp().to(a.dtype)
        log_p, log_q = _log_posteriors(a, beta), _log_posteriors(b, beta)
        if self.prior == "marginal":
            # Both views have a part in the prior, so that the loss is the same if they are
            # swapped.
            log_prior = _log_sums(torch.cat([log_p, log_q]), 0) - math.log(2 * len(a))
        else:
            log_prior = torch.full_like(log_p[0], -math.log(a.shape[1]))
        joint = log_p + log_q
        # The prior of a class that is masked in all rows is -inf: the difference would be nan.
        terms = _log_sums(torch.where(joint.isneginf(), joint.detach(), joint - log_prior), 1)
        return -terms.mean()


def _log_posteriors(logits: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """Return the logarithms of Gibbs posteriors, which are -inf for masked classes."""
    masked = logits.isneginf()
    # Without the mask beta's gradient would be 0 * inf, and without the shift it might overflow.
    distances = (logits - logits.detach().amax(1, keepdim=True)).masked_fill(masked, 0.0)
    return torch.log_softmax((beta * distances).masked_fill(masked, -math.inf), 1)


def _log_sums(logs: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the logarithms of sums; a sum of zeros has no gradient, rather than nan."""
    none = logs.isneginf().all(dim)
    return logs.masked_fill(none.unsqueeze(dim), 0.0).logsumexp(dim).masked_fill(none, -math.inf)


def _exact(logits: torch.Tensor) -> torch.Tensor:
    """Return logits in a type in which their sums are exact enough."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raise unless these are logits of two views of the same rows."""
    if a.ndim != 2 or a.shape != b.shape or not len(a) or a.shape[1] < 2:
        raise ValueError(
            "logits_b: expected logits of two views, both of shape (n, n_classes), got "
            f"{tuple(a.shape)} and {tuple(b.shape)}."
            + (" With skorch use AgreementNet." if b.ndim == 1 else "")
        )
