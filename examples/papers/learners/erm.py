"""Empirical risk minimisation over environments; rows carry theirs from the data to the loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from skorch.dataset import Dataset, get_len, unpack_data
from skorch.utils import to_tensor
from torch.utils.data import Sampler, Subset

from pa_select.utils.arrays import check_column
from pa_select.utils.typing import Ints, Labels
from papers.learners.learner import LearnerNet

#: The key of a dict X that holds environments.
KEY = "environments"


class InEnvironment(NamedTuple):
    """The inputs of the module and their environment; loaders stack both."""

    X: Any
    environment: torch.Tensor


class EnvironmentDataset(Dataset):
    """A dataset whose rows carry a number for their environment.

    It is a skorch Dataset, since callbacks read rows and labels only from those.
    """

    def __init__(self, dataset: Any, environments: Ints) -> None:
        self.dataset = dataset
        self.environments = environments

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> tuple[InEnvironment, Any]:
        X, y = unpack_data(self.dataset[index])
        return InEnvironment(X, self.environments[index]), y

    @property
    def X(self) -> Any:
        """The rows without their environments."""
        return self.dataset.X

    @property
    def y(self) -> Any:
        """The labels."""
        return self.dataset.y


class EnvironmentSampler(Sampler[int]):
    """Every row once, in an order that spreads each environment evenly.

    Batches of any size then hold about the same share of every environment.
    """

    def __init__(
        self, environments: Ints, random_state: np.random.RandomState, shuffle: bool
    ) -> None:
        self.environments = environments
        self.random_state = random_state
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.environments)

    def __iter__(self) -> Iterator[int]:
        position = np.empty(len(self))
        for environment in np.unique(self.environments):
            rows = np.flatnonzero(self.environments == environment)
            start = 0.5
            if self.shuffle:
                # A start of its own keeps environments of equal size from taking turns in one
                # order.
                rows, start = self.random_state.permutation(rows), self.random_state.uniform()
            position[rows] = (np.arange(len(rows)) + start) / len(rows)
        yield from np.argsort(position, kind="stable").tolist()


def environment_numbers(X: Any, environments: Labels | None) -> Ints:
    """Return a number for each row's environment, from the argument or else from a dict X.

    At least two environments are needed, and none may be missing.
    """
    if environments is None and isinstance(X, Mapping):
        environments = X.get(KEY)
    if environments is None:
        raise ValueError(
            "environments: expected the environment of each row, in fit(X, y, "
            f"environments=...) or as X[{KEY!r}] of a dict X, got None."
        )
    if isinstance(environments, torch.Tensor):
        environments = environments.cpu()
    names, numbers = np.unique(
        check_column(environments, get_len(X), "environments"), return_inverse=True
    )
    if len(names) < 2:
        raise ValueError(f"environments: expected at least two, got only {names.tolist()[0]!r}.")
    # Loaders stack numbers to tensors; names of any type they cannot stack.
    return numbers.astype(np.int64)


def without_environments(X: Any) -> Any:
    """Return X without environments, as the module takes it."""
    if isinstance(X, Mapping) and KEY in X:
        return {name: values for name, values in X.items() if name != KEY}
    return X


def numbers_of(dataset: Any) -> Ints:
    """Return the environments of the training rows, at least two."""
    numbers = _numbers_of(dataset)
    if len(np.unique(numbers)) < 2:
        raise ValueError(
            "train_split: expected training rows of at least two environments, got one."
        )
    return numbers


def _numbers_of(dataset: Any) -> Ints:
    if isinstance(dataset, EnvironmentDataset):
        return dataset.environments
    if isinstance(dataset, Subset):
        return _numbers_of(dataset.dataset)[np.asarray(dataset.indices)]
    raise ValueError(
        "train_split: expected training rows that are a torch Subset of those given, got "
        f"{type(dataset).__name__}."
    )


def plain(dataset: Any) -> Any:
    """Return a subset for validation without environments."""
    if isinstance(dataset, Subset) and isinstance(dataset.dataset, EnvironmentDataset):
        return Subset(dataset.dataset.dataset, dataset.indices)
    return dataset


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
    >>> from papers.learners import ERMNet
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
        # Before skorch forgets the training so far.
        numbers = environment_numbers(X, environments)
        return super().fit(X, y, environments=numbers, **fit_params)

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
        # skorch's sign for all rows, which it resolves in a method that is not called here.
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
        # An environment without rows in this batch has no risk, rather than the risk nan.
        parts = [environment == number for number in torch.unique(environment)]
        return torch.stack(
            [super(ERMNet, self).get_loss(y_pred[rows], y_true[rows]) for rows in parts]
        )
