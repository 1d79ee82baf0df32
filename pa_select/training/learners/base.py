"""What all learners share: logits, a random state of their own, and labels that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from skorch import NeuralNetClassifier


class LearnerNet(NeuralNetClassifier):
    """Base class of learners; parameters as in `ERMNet`."""

    def __init__(
        self,
        module: Any,
        *args: Any,
        criterion: Any = torch.nn.CrossEntropyLoss,
        random_state: Any = None,
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
        self._check_parameters()
        self._is_checked = True
        if y is not None and np.asarray(y).dtype.kind in "OUS":
            first = np.asarray(y).ravel().tolist()[0]
            raise ValueError(f"y: expected numbers of classes from 0 on, got {first!r}.")
        return super().fit(X, y, **fit_params)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, **fit_params: Any) -> Any:
        """Continue training."""
        if not self.__dict__.pop("_is_checked", False):  # `fit` calls this method
            self._check_parameters()
        return super().partial_fit(X, y, classes, **fit_params)

    def _check_parameters(self) -> None:
        """Raise if a parameter of the learner does not fit."""
