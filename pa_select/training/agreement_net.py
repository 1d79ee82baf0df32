"""Learning from few labels and many unlabelled pairs, by their posterior agreement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import chi2_contingency
from sklearn.utils import check_random_state
from skorch import NeuralNetClassifier
from skorch.callbacks import PassthroughScoring
from skorch.dataset import unpack_data

from pa_select.training.pair_batches import LEAST_PAIRS, PairBatches
from pa_select.training.posterior_agreement_loss import PosteriorAgreementLoss
from pa_select.utils.arrays import look_like_probabilities
from pa_select.utils.estimators import first_output
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Net, RandomState

# Class shares that differ by more than chance at this level give a warning.
_LEVEL = 1e-3
# Share of the steps in which the weight rises: outputs of the first ones agree by chance.
_RAMP = 0.2
# The columns of the history.
_COLUMNS = ("train_label_loss", "train_agreement", "beta")


class _WithPairs(NamedTuple):
    """The inputs of labelled rows, and of both rows of pairs."""

    X: Any
    pairs: tuple[Any, Any]


class AgreementNet(NeuralNetClassifier):
    """A classifier that learns from labelled rows and from unlabelled pairs.

    It minimises the loss of the labelled rows minus `weight` times the posterior agreement of the
    pairs: two views of the same unlabelled row should be given the same class. This is worth most
    with few labels and many unlabelled rows, if the views show the nuisance that the net will
    meet.

    Parameters
    ----------
    module : torch.nn.Module class or instance
        A module that returns logits.
    pairs : tuple (rows, rows) or (rows, view)
        Unlabelled rows, and the same rows measured again or what makes a view of them: a
        function, a shift of `pa_select.shifts` or a transformer. Row i of both is the same
        object. Rows are arrays, tensors or a `pa_select.training.SharedEnvironment`, which
        searches do not copy. A view is drawn anew in each step, with another `random_state` if it
        has one.
    weight : float, default=1.0
        Weight of the agreement, in nats per pair; at least 0. It is reached after a fifth of the
        steps.
    pair_batch_size : int, default=64
        Number of pairs in each step.
    prior : {"marginal", "uniform"}, default="marginal"
        As in `PosteriorAgreementLoss`. With the uniform prior the net may give all rows one class.
    beta : "learn" or float, default="learn"
        As in `PosteriorAgreementLoss`. If learnt, it has a rate of 0.03 and no weight decay.
    augment : bool, default=True
        Whether the loss of the labels is the mean over the labelled rows and their views. Only if
        `pairs` has a view.
    criterion : class or instance, default=torch.nn.CrossEntropyLoss
        The loss of the labels, which takes logits.
    random_state : int, RandomState instance or None, default=None
        Draws the pairs and the views; None draws always the same. The weights at the start come
        from torch's generator.
    **kwargs
        Parameters of `skorch.NeuralNetClassifier`.

    Attributes
    ----------
    agreement_loss_ : PosteriorAgreementLoss
        The loss of the pairs; ``agreement_loss_.beta`` is the inverse temperature.
    pair_classes_ : ndarray of shape (n_classes,)
        Share of each predicted class among the pairs of the last epoch.

    Warns
    -----
    UserWarning
        If a batch has fewer than 16 pairs, or if after training the net predicts other shares of
        the classes for the pairs than the labelled rows have, by more than chance.

    Notes
    -----
    ``net.history`` has three more columns: ``train_label_loss``, ``train_agreement`` (nats per
    pair, before its weight) and ``beta``. ``train_loss`` is the sum that is minimised.

    It is not for every shift. Views of labelled rows are better used by a consistency loss, and
    a hundred pairs of two sites by an adapter (`SiteAdapter`). If the classes are rarer or more
    frequent among the unlabelled rows than among the labelled ones, it helps less or does harm,
    and the labelled rows do not show it. The warning may not come then, because the marginal
    prior rewards a net that gives the pairs more classes than they have.

    The weight rises over the first steps after ``initialize``, which ``fit`` calls and
    ``partial_fit`` does not. ``save_params(f_agreement_loss=...)`` saves the inverse temperature.
    Rows and views go through the module one after the other, so that layers such as BatchNorm
    average over all of them. ``set_params(lr=...)`` on a net that is initialised sets the rate of
    the inverse temperature, too. With LBFGS, which takes one group of parameters, give a number
    as `beta`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.utils import shuffle
    >>> from pa_select.shifts import GaussianNoise
    >>> from pa_select.training import AgreementNet
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = (X / 16).astype("float32")
    >>> _ = torch.manual_seed(0)
    >>> net = AgreementNet(
    ...     lambda: torch.nn.Sequential(
    ...         torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    ...     ),
    ...     pairs=(X[100:1000], GaussianNoise(0.3)),
    ...     optimizer=torch.optim.Adam,
    ...     lr=0.01,
    ...     max_epochs=60,
    ...     train_split=None,
    ...     verbose=0,
    ... )
    >>> _ = net.fit(X[:50], y[:50])
    >>> bool(net.history[-1, "train_agreement"] > 1)
    True
    >>> net.score(X[1000:], y[1000:]) > 0.7
    True
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        pairs: tuple[Any, Any] | None = None,
        weight: float = 1.0,
        pair_batch_size: int = 64,
        prior: str = "marginal",
        beta: float | str = "learn",
        augment: bool = True,
        criterion: Any = torch.nn.CrossEntropyLoss,
        random_state: RandomState = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, criterion=criterion, **kwargs)
        self.pairs = pairs
        self.weight = weight
        self.pair_batch_size = pair_batch_size
        self.prior = prior
        self.beta = beta
        self.augment = augment
        self.random_state = random_state

    def initialize(self) -> Any:
        """Forget all training, unless a parameter does not fit."""
        PosteriorAgreementLoss(self.prior, self.beta)  # refuses what does not fit
        if self.pair_batch_size < LEAST_PAIRS:
            warn_caller(
                f"pair_batch_size: expected at least {LEAST_PAIRS} pairs in a batch, got "
                f"{self.pair_batch_size}. The marginal prior of so few rows is mostly chance."
            )
        self._step = 0
        self.random_ = check_random_state(0 if self.random_state is None else self.random_state)
        return super().initialize()

    def initialize_criterion(self) -> AgreementNet:
        """Make both losses; the inverse temperature is trained with the module."""
        super().initialize_criterion()
        # The optimiser keeps the inverse temperature made here: a later change has no effect.
        self._made_for = repr((self.prior, self.beta))
        self.agreement_loss_ = PosteriorAgreementLoss(self.prior, self.beta)
        return self

    def get_params_for_optimizer(self, prefix: str, named_parameters: Iterable[Any]) -> Any:
        """Give the inverse temperature its own group, without weight decay."""
        own = {id(p) for p in self.agreement_loss_.parameters()}
        others = [(name, p) for name, p in named_parameters if id(p) not in own]
        (groups, *rest), kwargs = super().get_params_for_optimizer(prefix, others)
        # An optimiser that takes one group alone, such as LBFGS, works if beta is a number.
        if own:
            groups = [*groups, self.agreement_loss_.parameter_group()]
        return (groups, *rest), kwargs

    def fit_loop(self, X: Any, y: Any = None, epochs: Any = None, **fit_params: Any) -> Any:
        """Run the epochs, and let go of the pairs afterwards."""
        if self._made_for != repr((self.prior, self.beta)):
            raise ValueError(
                "beta: expected the prior and the inverse temperature that the net was "
                "initialised with, got others. Call initialize first; it forgets all training."
            )
        self._pair_counts: Any = 0
        self._batches = PairBatches(self, self.pairs, self.pair_batch_size, self.random_)
        self._n_pairs = len(self._batches)
        try:
            return super().fit_loop(X, y, epochs, **fit_params)
        finally:
            del self._batches  # it holds the rows

    def on_epoch_begin(
        self, net: Net, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Count the steps of the ramp, and forget the classes of the epoch before."""
        super().on_epoch_begin(net, dataset_train, dataset_valid, **kwargs)
        # The number of batches is known only here, after the split into training and validation.
        n_steps = len(self.get_iterator(dataset_train, training=True))
        self._n_ramp = _RAMP * self.max_epochs * n_steps
        self._pair_counts = 0

    def on_train_end(self, net: Net, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Compare the classes of the pairs with those of the labelled rows."""
        if np.any(self._pair_counts):
            n_seen = self._pair_counts.sum()
            self.pair_classes_ = self._pair_counts / n_seen
            if y is not None:
                self._warn_of_other_classes(np.asarray(y), min(self._n_pairs, n_seen))
        super().on_train_end(net, X=X, y=y, **kwargs)

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        """Take a step on a batch of labelled rows and one of pairs."""
        X, y = unpack_data(batch)
        if self.augment and self._batches.view is not None:
            # The labels hold for the views of their rows, too.
            X, y = torch.cat([X, self._batches.seen(X)]), torch.cat([y, y])
        self._step += 1
        return super().train_step((_WithPairs(X, self._batches.draw()), y), **fit_params)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the module's logits, for labelled rows alone."""
        rows = x.X if isinstance(x, _WithPairs) else x
        return first_output(super().infer(rows, **fit_params))

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return the sum of both losses; in validation that of the labels."""
        if not isinstance(X, _WithPairs):
            return super().get_loss(y_pred, y_true, X=X, training=training)
        of_labels = super().get_loss(y_pred, y_true, X=X.X, training=training)
        first, second = (self.infer(rows) for rows in X.pairs)
        # Modules for skorch's default criterion end in a softmax.
        if self._step == 1 and any(look_like_probabilities(first.detach())):
            raise ValueError(
                "module: expected one that returns logits, got rows of non-negative numbers that "
                "sum to 1. Leave out the softmax at its end."
            )
        of_pairs = self.agreement_loss_(first, second)
        counts = torch.bincount(first.detach().argmax(1), minlength=first.shape[1])
        self._pair_counts = self._pair_counts + counts.cpu().numpy()
        found = of_labels.item(), -of_pairs.item(), self.agreement_loss_.beta
        for name, value in zip(_COLUMNS, found, strict=True):
            self.history.record_batch(name, value)
        return of_labels + self.weight * min(self._step / self._n_ramp, 1.0) * of_pairs

    def _get_predict_nonlinearity(self) -> Callable[..., Any]:
        """Return what makes probabilities of the outputs."""
        # skorch guesses it from the criterion, but not if there are two.
        if self.predict_nonlinearity == "auto" and isinstance(
            self.criterion_, torch.nn.CrossEntropyLoss
        ):
            return partial(torch.softmax, dim=-1)
        return super()._get_predict_nonlinearity()

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        columns = [(name, PassthroughScoring(name=name, on_train=True)) for name in _COLUMNS]
        return [*super()._default_callbacks, *columns]

    def _warn_of_other_classes(self, y: Array, n_pairs: int) -> None:
        labelled = np.bincount(y.astype(np.intp), minlength=len(self.pair_classes_))
        # A pair that was drawn several times is one observation.
        table = np.stack([labelled, np.round(self.pair_classes_ * n_pairs)])
        table = table[:, table.any(0)]
        if table.shape[1] < 2 or chi2_contingency(table).pvalue > _LEVEL:
            return
        k = int(np.argmax(np.abs(self.pair_classes_ - labelled / labelled.sum())))
        warn_caller(
            "pairs: expected the classes to be as frequent as among the labelled rows, got class "
            f"{k} for {self.pair_classes_[k]:.0%} of the pairs and {labelled[k] / len(y):.0%} of "
            "the labels. Either the pairs are of another class mix, or the net is nearly "
            "constant. Which of the two it is cannot be told without labels."
        )
