"""Minus the kernel of posterior agreement, as a loss to train torch modules with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from pa_select.utils.typing import Prior, Vector

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
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        The class prior of the kernel. "marginal": the mean posterior of both batches. With the
        uniform prior, or another fixed one, a net that always predicts the same class has the
        smallest loss.
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
    With logits :math:`F', F''` of two views, posteriors :math:`p', p''` and weights :math:`w` that
    sum to 1 the loss is

    .. math:: -\sum_i w_i \log \sum_j \frac{p'_i(j)\, p''_i(j)}{\pi_j} \quad \text{nats}.

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
    marginal prior a class that is masked in all rows has no effect on the loss. A fixed prior
    keeps the probability that it gives to this class. If the two rows of a pair have no unmasked
    class in common, the loss is infinite, and this pair does not contribute to the gradients.

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
    _log_prior: torch.Tensor | None

    def __init__(self, prior: Prior = "marginal", beta: float | str = "learn") -> None:
        super().__init__()
        log_prior = None
        if isinstance(prior, str):
            if prior not in ("marginal", "uniform"):
                raise ValueError(
                    "prior: expected 'marginal', 'uniform' or positive probabilities of the "
                    f"classes, got {prior!r}."
                )
        else:
            log_prior = _logs(prior)
        self.prior = prior if isinstance(prior, str) else "given"
        self.register_buffer("_log_prior", log_prior)
        if isinstance(beta, str):
            if beta != "learn":
                raise ValueError(f"beta: expected 'learn' or a positive number, got {beta!r}.")
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

    def forward(
        self, logits_a: torch.Tensor, logits_b: torch.Tensor, sample_weight: Vector | None = None
    ) -> torch.Tensor:
        """Compute the loss.

        Parameters
        ----------
        logits_a, logits_b : torch.Tensor of shape (n, n_classes)
            Logits of two views; row i of both is the same row of data. -inf masks a class.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights of the pairs.

        Returns
        -------
        torch.Tensor of shape ()
            Minus the kernel, in nats per pair.

        Raises
        ------
        TypeError
            If the logits are no tensors.
        ValueError
            If the shapes do not fit, there is no pair, or a weight is negative or not finite, or
            all are 0.
        """
        weight = _check(logits_a, logits_b, sample_weight, self._log_prior)
        with torch.autocast(logits_a.device.type, enabled=False):
            return self._loss(_exact(logits_a), _exact(logits_b), weight)

    def extra_repr(self) -> str:
        """Return the parameters, for ``print``."""
        learnt = isinstance(self.log_beta, torch.nn.Parameter)
        return f"prior={self.prior!r}, beta={'learn' if learnt else format(self.beta, '.4g')!r}"

    def _loss(self, a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        if isinstance(self.log_beta, torch.nn.Parameter):
            with torch.no_grad():  # a clamp inside the graph would stop its gradient
                self.log_beta.clamp_(math.log(_LOWEST), math.log(_HIGHEST))
        beta = self.log_beta.exp().to(a.dtype)
        log_p, log_q = _log_posteriors(a, beta), _log_posteriors(b, beta)
        if weight is None:
            share = torch.full((len(a),), 1 / len(a), dtype=a.dtype, device=a.device)
        else:
            share = (weight / weight.sum()).to(a.device, a.dtype)
        if self.prior == "marginal":
            log_share = share.log()[:, None]
            log_prior = _log_sums(torch.cat([log_p + log_share, log_q + log_share]), 0)
            log_prior = log_prior - math.log(2)
        elif self.prior == "uniform":
            log_prior = torch.full_like(log_p[0], -math.log(a.shape[1]))
        elif self._log_prior is not None:
            log_prior = self._log_prior.to(a.dtype)
        joint, unused = log_p + log_q, share == 0
        fixed = joint.isneginf() | unused[:, None]
        terms = _log_sums(torch.where(fixed, joint.detach(), joint - log_prior), 1)
        return -(share * terms.masked_fill(unused, 0.0)).sum()


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


def _logs(prior: Vector) -> torch.Tensor:
    values = torch.as_tensor(np.asarray(prior, dtype=np.float64))
    if values.ndim != 1 or not bool((values > 0).all()) or abs(float(values.sum()) - 1) > 1e-6:
        raise ValueError(
            "prior: expected 'marginal', 'uniform' or positive probabilities of the classes that "
            f"sum to 1, got {prior!r}."
        )
    return values.log()


def _check(
    a: torch.Tensor, b: torch.Tensor, weight: Any, log_prior: torch.Tensor | None
) -> torch.Tensor | None:
    """Raise if something does not fit, and return the weights of the pairs."""
    for name, logits in (("logits_a", a), ("logits_b", b)):
        if not isinstance(logits, torch.Tensor):
            raise TypeError(f"{name}: expected a tensor of logits, got {type(logits).__name__}.")
    if a.ndim != 2 or a.shape != b.shape or not len(a) or a.shape[1] < 2:
        raise ValueError(
            "logits_b: expected logits of two views, both of shape (n, n_classes), got "
            f"{tuple(a.shape)} and {tuple(b.shape)}."
            + (" With skorch use AgreementNet." if b.ndim == 1 else "")
        )
    if log_prior is not None and len(log_prior) != a.shape[1]:
        raise ValueError(f"prior: expected {a.shape[1]} probabilities, got {len(log_prior)}.")
    if weight is None:
        return None
    weight = torch.as_tensor(weight)
    if tuple(weight.shape) != (len(a),):
        raise ValueError(f"sample_weight: expected shape ({len(a)},), got {tuple(weight.shape)}.")
    wrong = ~(weight.isfinite() & (weight >= 0))
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        raise ValueError(
            f"sample_weight: expected finite non-negative weights, got {weight[row].item()} in "
            f"row {row}."
        )
    total = float(weight.sum())
    if not 0 < total < math.inf:
        raise ValueError(f"sample_weight: expected a positive and finite sum, got {total}.")
    return weight
