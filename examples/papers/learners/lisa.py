"""Learning invariant predictors by selective augmentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from skorch.dataset import unpack_data

from pa_select.utils.typing import Index
from papers.learners.erm import ERMNet, InEnvironment


class _Mixed(NamedTuple):
    X: Any
    y_partner: torch.Tensor
    weight: float


class LISANet(ERMNet):
    """A classifier trained on mixtures of rows that share the label or the environment.

    One of two strategies is drawn for each batch, and each row is mixed with a random
    partner from the batch. With LISA-D the partner has the same label and another
    environment, so that the net learns what environments have in common. With LISA-L it has
    the same environment and another label. A row without such a partner stays unchanged.

    Parameters
    ----------
    module : torch.nn.Module class or instance
        A module that takes one tensor of floats and returns logits.
    p_select : float, default=0.5
        Probability of LISA-L; 0: always LISA-D.
    alpha : float, default=2.0
        The row's own weight in the mixture is drawn from Beta(alpha, alpha), once for each
        batch.
    mix : {"mixup", "cutmix"}, default="mixup"
        "mixup" interpolates between partners. "cutmix" copies a box from the partner's image
        (rows of shape (..., height, width)) and weights labels by their shares of the pixels.
    criterion : class or instance, default=torch.nn.CrossEntropyLoss
        A loss that takes logits. The loss of a mixture is the weighted mean of the losses
        with both labels; for the cross-entropy this equals the loss with the mixed label.
    random_state, **kwargs
        As in `ERMNet`; the random state also mixes the rows.

    Notes
    -----
    The names follow [2]_. The authors of LISA [1]_ use them the other way round:
    "intra-label LISA (LISA-L)" has partners of the same label, "intra-domain LISA (LISA-D)"
    of the same domain. Their p_sel, the probability of intra-label LISA, is 1 - `p_select`.

    Partners come from the same batch. With many classes or environments use batches large
    enough to hold some rows of each class in each environment.

    References
    ----------
    .. [1] H. Yao, Y. Wang, S. Li, L. Zhang, W. Liang, J. Zou, C. Finn, "Improving
       Out-of-Distribution Robustness via Selective Augmentation", ICML 2022, section 3.
    .. [2] Master's thesis on posterior agreement, section 3.5 (LISA).
    .. [3] H. Zhang, M. Cisse, Y. Dauphin, D. Lopez-Paz, "mixup: Beyond Empirical Risk
       Minimization", ICLR 2018.
    .. [4] S. Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with
       Localizable Features", ICCV 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from papers.learners import LISANet
    >>> X, y = load_iris(return_X_y=True)
    >>> _ = torch.manual_seed(0)
    >>> net = LISANet(lambda: torch.nn.Linear(4, 3), max_epochs=20, lr=0.1, verbose=0)
    >>> _ = net.fit(X.astype("float32"), y, environments=np.arange(150) % 2)
    >>> net.predict(X[:2].astype("float32"))
    array([0, 0])
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        p_select: float = 0.5,
        alpha: float = 2.0,
        mix: str = "mixup",
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, **kwargs)
        self.p_select = p_select
        self.alpha = alpha
        self.mix = mix

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        """Take a step on a batch, which is mixed once even if it is evaluated several times."""
        X, y = unpack_data(batch)
        return super().train_step((self._mixed(X, y), y), **fit_params)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the module's outputs."""
        return super().infer(x.X if isinstance(x, _Mixed) else x, **fit_params)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return the weighted loss of both labels; in validation the loss of the label."""
        if not isinstance(X, _Mixed):
            return super().get_loss(y_pred, y_true, X=X, training=training)
        # Two losses, and not one mixed label, so that any criterion works.
        row, partner = (super(LISANet, self).get_loss(y_pred, y) for y in (y_true, X.y_partner))
        return X.weight * row + (1 - X.weight) * partner

    def _mixed(self, X: InEnvironment, y: torch.Tensor) -> _Mixed:
        labels, environments = y.cpu().numpy(), X.environment.cpu().numpy()
        # One strategy and one weight for the whole batch, as in the authors' code.
        within = self.random_.uniform() < self.p_select
        weight = self.random_.beta(self.alpha, self.alpha)
        same, other = (environments, labels) if within else (labels, environments)
        partner = torch.from_numpy(partners(same, other, self.random_))
        rows = next(iter(X.X.values())) if isinstance(X.X, Mapping) and len(X.X) == 1 else X.X
        if not isinstance(rows, torch.Tensor):
            raise TypeError(f"X: expected one tensor to mix, got {type(rows).__name__}.")
        if self.mix == "mixup":
            mixed = mixup(rows, partner, weight)
        else:
            mixed, weight = cutmix(rows, partner, weight, self.random_)
        whole = dict.fromkeys(X.X, mixed) if isinstance(X.X, Mapping) else mixed
        return _Mixed(whole, y[partner], weight)

    def _check_parameters(self) -> None:
        if not 0 <= self.p_select <= 1:
            raise ValueError(f"p_select: expected a probability, got {self.p_select!r}.")
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha: expected a finite positive number, got {self.alpha!r}.")
        if self.mix not in ("mixup", "cutmix"):
            raise ValueError(f"mix: expected 'mixup' or 'cutmix', got {self.mix!r}.")


def partners(
    same: NDArray[np.generic], other: NDArray[np.generic], rng: np.random.RandomState
) -> Index:
    """Draw a partner for each row that is equal in `same` and different in `other`.

    A row for which there is none is its own partner.
    """
    partner = np.arange(len(same))
    for value in np.unique(same):
        group = np.flatnonzero(same == value)
        for excluded in np.unique(other[group]):
            members = other[group] == excluded
            candidates = group[~members]
            if len(candidates):
                partner[group[members]] = rng.choice(candidates, members.sum())
    return partner


def mixup(X: torch.Tensor, partner: torch.Tensor, weight: float) -> torch.Tensor:
    """Interpolate between each row, with weight `weight`, and its partner."""
    if not X.is_floating_point():
        raise TypeError(f"X: expected floats to mix, got {X.dtype}.")
    return weight * X + (1 - weight) * X[partner]


def cutmix(
    X: torch.Tensor, partner: torch.Tensor, weight: float, rng: np.random.RandomState
) -> tuple[torch.Tensor, float]:
    """Replace a box of each image, about 1 - `weight` of the area, by its partner's.

    The box is the same for all images, and is cut at the border. Return the images, and the share
    of each image that is not replaced.
    """
    if X.ndim < 3:
        raise ValueError(
            "mix: expected images of shape (n, ..., height, width) for 'cutmix', got shape "
            f"{tuple(X.shape)}."
        )
    box = []
    for length in X.shape[-2:]:
        half, middle = int(length * np.sqrt(1 - weight)) // 2, rng.randint(length)
        box.append(slice(max(middle - half, 0), min(middle + half, length)))
    mixed = X.clone()
    mixed[..., box[0], box[1]] = X[partner][..., box[0], box[1]]
    area = np.prod([side.stop - side.start for side in box]) / np.prod(X.shape[-2:])
    return mixed, float(1 - area)
