"""Empirical risk minimisation over environments, the base of the other learners."""

from __future__ import annotations

from typing import Any

import torch
from skorch.utils import to_tensor

from pa_select.training.learners.base import LearnerNet
from pa_select.training.learners.environments import (
    EnvironmentDataset,
    EnvironmentSampler,
    InEnvironment,
    environment_numbers,
    numbers_of,
    plain,
    without_environments,
)
from pa_select.utils.typing import Labels


class ERMNet(LearnerNet):
    """A classifier that minimises the mean of its risks in several environments.

    Each environment counts equally, however many rows it has, and every batch holds rows of
    every environment. This is the baseline of `IRMNet` and `LISANet`; a skorch
    `NeuralNetClassifier` counts each row equally and ignores environments.

    Parameters
    ----------
    module : torch.nn.Module class or instance
        A module that returns logits.
    criterion : class or instance, default=torch.nn.CrossEntropyLoss
        A loss that takes logits, unlike skorch's default.
    random_state : int, RandomState instance or None, default=None
        Orders the rows; with None the order is the same in each fit. Initial weights and
        dropout use torch's random state (``torch.manual_seed``), as with any skorch net.
    **kwargs
        Other parameters of `skorch.NeuralNetClassifier`. ``iterator_train__shuffle=False``
        keeps the rows of an environment in their order.

    Notes
    -----
    ``fit(X, y, environments=...)`` and ``partial_fit`` take the environment of each row,
    array-like of shape (n,) of any values. `GridSearchCV` and `cross_validate` split it with
    the rows. For a function that passes on only X, such as `pa_select.PASearchCV`, give X as
    a `skorch.helper.SliceDict` with a key "environments" next to the arguments of the
    module's forward. Prediction and validation ignore environments.

    References
    ----------
    .. [1] V. Vapnik, "Principles of risk minimization for learning theory", 1991.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from pa_select.training import ERMNet
    >>> X, y = load_iris(return_X_y=True)
    >>> _ = torch.manual_seed(0)
    >>> net = ERMNet(lambda: torch.nn.Linear(4, 3), max_epochs=20, lr=0.1, verbose=0)
    >>> _ = net.fit(X.astype("float32"), y, environments=np.arange(150) % 2)
    >>> net.predict(X[:2].astype("float32"))
    array([0, 0])
    """

    def fit(
        self, X: Any, y: Any = None, environments: Labels | None = None, **fit_params: Any
    ) -> ERMNet:
        """Train from the start.

        Parameters
        ----------
        X, y, **fit_params
            As in skorch.
        environments : array-like of shape (n,)
            The environment of each row, at least two.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the environments do not fit; the message names them.
        """
        numbers = environment_numbers(X, environments)
        return super().fit(X, y, environments=numbers, **fit_params)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Labels | None = None,
        environments: Labels | None = None,
        **fit_params: Any,
    ) -> ERMNet:
        """Continue training.

        Parameters
        ----------
        X, y, classes, **fit_params
            As in skorch.
        environments : array-like of shape (n,)
            As in `fit`.

        Returns
        -------
        self
        """
        numbers = environment_numbers(X, environments)
        return super().partial_fit(X, y, classes, environments=numbers, **fit_params)

    def fit_loop(
        self, X: Any, y: Any = None, epochs: Any = None, environments: Any = None, **kwargs: Any
    ) -> ERMNet:
        """Run the epochs, on rows that carry their environment."""
        numbers = environment_numbers(X, environments)
        return super().fit_loop(
            EnvironmentDataset(self.get_dataset(X, y), numbers), y, epochs, **kwargs
        )

    def get_dataset(self, X: Any, y: Any = None) -> Any:
        """Return a dataset of the rows without environments, as the module takes them."""
        return super().get_dataset(without_environments(X), y)

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> tuple[Any, Any]:
        """Return training rows with their environment and validation rows without."""
        train, valid = super().get_split_datasets(X, y, **fit_params)
        return train, plain(valid)

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return batches; in training each has rows of every environment."""
        if not training:
            return super().get_iterator(dataset)
        numbers = numbers_of(dataset)
        options = {"batch_size": self.batch_size, **self.get_params_for("iterator_train")}
        if options["batch_size"] == -1:
            options["batch_size"] = len(dataset)
        shuffle = options.pop("shuffle", True)
        if "sampler" not in options:
            options["sampler"] = EnvironmentSampler(numbers, self.random_, shuffle)
        if "generator" not in options:
            # A loader draws a seed even without shuffling; spare the global random state.
            seed = int(self.random_.randint(2**31))
            options["generator"] = torch.Generator().manual_seed(seed)
        return self.iterator_train(dataset, **options)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the module's outputs, which do not depend on the environment."""
        return super().infer(x.X if isinstance(x, InEnvironment) else x, **fit_params)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return the mean of the environments' risks; in validation the risk of all rows."""
        if not isinstance(X, InEnvironment):
            return super().get_loss(y_pred, y_true, X=X, training=training)
        return self._risks(y_pred, y_true, X.environment).mean()

    def _risks(self, y_pred: torch.Tensor, y_true: Any, environment: torch.Tensor) -> torch.Tensor:
        """Return the risk in each environment of a batch."""
        y_true = to_tensor(y_true, device=y_pred.device)
        environment = environment.to(y_pred.device)
        parts = [environment == number for number in torch.unique(environment)]
        return torch.stack(
            [super(ERMNet, self).get_loss(y_pred[rows], y_true[rows]) for rows in parts]
        )
