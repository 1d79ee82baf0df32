"""What all learners share: logits, a random state of their own, and labels that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from skorch import NeuralNetClassifier

from pa_select.utils.estimators import first_output
from pa_select.utils.typing import Labels, RandomState


class LearnerNet(NeuralNetClassifier):
    """Base class of learners; parameters as in `ERMNet`."""

    def __init__(
        self,
        module: Any,
        *args: Any,
        criterion: Any = torch.nn.CrossEntropyLoss,
        random_state: RandomState = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, criterion=criterion, **kwargs)
        self.random_state = random_state

    def initialize(self) -> Any:
        """Forget all training."""
        self.random_ = check_random_state(0 if self.random_state is None else self.random_state)
        return super().initialize()

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Train from the start."""
        # All is checked before the net forgets what it has learnt, and not again by
        # `partial_fit`, which `fit` calls: warnings would come twice.
        self._check(y)
        self._is_checked = True
        return super().fit(X, y, **fit_params)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Labels | None = None, **fit_params: Any
    ) -> Any:
        """Continue training."""
        if not self.__dict__.pop("_is_checked", False):
            self._check(y)
        return super().partial_fit(X, y, classes, **fit_params)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the module's outputs; of a mapping or an object its logits."""
        outputs = super().infer(x, **fit_params)
        are_several = isinstance(outputs, (tuple, list)) and not hasattr(outputs, "logits")
        return outputs if are_several else first_output(outputs)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return the loss of a batch, of which the labels are checked."""
        _check_labels(y_true, first_output(y_pred), getattr(self.criterion_, "ignore_index", None))
        return super().get_loss(y_pred, y_true, X=X, training=training)

    def _check(self, y: Any) -> None:
        """Raise if a parameter does not fit, or labels are texts."""
        self._check_parameters()
        if y is not None and np.asarray(y).dtype.kind in "OUS":
            first = np.asarray(y).ravel().tolist()[0]
            raise ValueError(f"y: expected numbers of classes from 0 on, got {first!r}.")

    def _check_parameters(self) -> None:
        """Raise if a parameter of the learner does not fit."""

    def _refuse_probabilities(self) -> None:
        """Refuse NLLLoss, with which a skorch module returns probabilities, not logits."""
        kind = self.criterion if isinstance(self.criterion, type) else type(self.criterion)
        if issubclass(kind, torch.nn.NLLLoss):
            raise ValueError(
                "criterion: expected one that takes logits, such as CrossEntropyLoss, got "
                f"{kind.__name__}."
            )


def _check_labels(labels: torch.Tensor, outputs: torch.Tensor, ignored: int | None) -> None:
    """Refuse classes that the module has no output for; torch's own errors name neither."""
    labels = torch.as_tensor(labels)
    if outputs.ndim != 2 or labels.ndim != 1 or labels.is_floating_point():
        return
    n_classes = outputs.shape[1]
    wrong = (labels < 0) | (labels >= n_classes)
    if ignored is not None:
        wrong &= labels != ignored
    if bool(wrong.any()):
        raise ValueError(
            f"y: expected numbers of classes from 0 to {n_classes - 1}, since the module has "
            f"{n_classes} outputs, got {int(labels[wrong][0])}."
        )
