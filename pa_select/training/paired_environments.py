"""Environments of a skorch net: datasets, the pairs of their rows, the net's outputs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, RandomSampler, Subset

from pa_select.agreement.inputs.validation import check_prior
from pa_select.pairing.one_sample import check_rows, pair_environments
from pa_select.scores.modules import check_classifies, net_scores
from pa_select.scores.precomputed import one_column
from pa_select.utils.arrays import (
    OF_LABELS,
    as_numpy,
    is_slice_dataset,
    shape_of,
    stacked,
)
from pa_select.utils.estimators import module_of
from pa_select.utils.typing import Array, HasItems, Index, Net, Prior

# Losses of several labels of a row, or of classes that exclude each other.
_OF_SEVERAL_LABELS = (
    *(torch.nn.BCELoss, torch.nn.BCEWithLogitsLoss),
    *(torch.nn.MultiLabelSoftMarginLoss, torch.nn.MultiLabelMarginLoss),
)


@dataclass
class PairedEnvironments:
    """Environments and the pairs of their rows that are compared."""

    #: A dataset for each environment, of the rows that are in some pair.
    datasets: list[Any]
    #: The rows compared, for every two environments (i, j).
    pairs: dict[tuple[int, int], tuple[Index, Index]]

    def gather(self, scores: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores of the first and of the second row of all pairs."""
        sides = []
        for side in (0, 1):
            parts = []
            for which, rows in self.pairs.items():
                # All pairs are one problem with one inverse temperature, so that maxima are not
                # averaged.
                index = torch.from_numpy(rows[side]).to(scores[0].device)
                parts.append(scores[which[side]][index])
            sides.append(torch.cat(parts))
        return sides[0], sides[1]


def pair_up(net: Net, environments: Any, pairing: Any, prior: Prior) -> PairedEnvironments:
    """Check the environments of a net and pair their rows."""
    if not isinstance(environments, (list, tuple)) or len(environments) < 2:
        raise ValueError(
            "environments: expected two or more, in a tuple or list, got "
            f"{type(environments).__name__}"
            + (f" of {len(environments)}." if isinstance(environments, (list, tuple)) else ".")
        )
    check_classifies(net)
    # The result of a shift has its rows in X.
    environments = [getattr(e, "X", e) if hasattr(e, "norm") else e for e in environments]
    for i, environment in enumerate(environments):
        # Datasets and lazy inputs may be callable, but have a length.
        if callable(environment) and not hasattr(environment, "__len__"):
            raise TypeError(
                f"environments[{i}]: expected rows, got the function or shift {environment!r}; "
                "call it first."
            )
    refuse_labels(environments)
    datasets = [_dataset(net, e) for e in environments]
    _refuse_shuffling(net, datasets[0])
    for i, dataset in enumerate(datasets):
        # Now and not after the first epoch, which may take hours.
        _try_out(net, dataset, f"environments[{i}]", prior)
    pairs: dict[tuple[int, int], tuple[Index, Index]] = {}
    for i, j in combinations(range(len(datasets)), 2):
        pairs[i, j] = _rows(pairing, environments, datasets, i, j)
        if not len(pairs[i, j][0]):
            raise ValueError(f"pairing: expected pairs of environments {i} and {j}, got none.")
    return _with_used_rows(datasets, pairs)


def refuse_labels(environments: Sequence[Any]) -> None:
    """Raise if (X, y) of one environment is given in the place of two environments."""
    for i, environment in enumerate(environments):
        axes, expected = (len(shape_of(x) or ()) for x in (environment, environments[0]))
        if not isinstance(environment, Mapping) and axes == 1 < expected:
            raise ValueError(
                f"environments[{i}]: expected rows, got one number for each; this looks like "
                "labels. Give the rows of both environments."
            )


def _dataset(net: Net, environment: Any) -> Any:
    if isinstance(environment, Dataset):
        return environment
    if isinstance(environment, tuple) and len(environment) == 2:
        rows, labels = environment
        return net.get_dataset(rows, _flat(labels))
    return net.get_dataset(environment)


def _flat(labels: Any) -> Any:
    """Return labels of shape (n, 1) as (n,); others are returned as they are."""
    return one_column(as_numpy(labels)) if np.shape(labels)[1:] == (1,) else labels


def _rows(
    pairing: Any, environments: Sequence[Any], datasets: list[Any], i: int, j: int
) -> tuple[Index, Index]:
    """Return the rows of both environments that are pairs."""
    lengths = len(datasets[i]), len(datasets[j])
    if isinstance(pairing, str) and pairing == "identity":
        if lengths[0] != lengths[1]:
            raise ValueError(
                f"environments: expected as many rows in each with pairing='identity', got "
                f"{lengths[0]} in environment {i} and {lengths[1]} in environment {j}; without "
                "objects in common give (X, y) of each and pairing='label'."
            )
        return np.arange(lengths[0]), np.arange(lengths[0])
    if isinstance(pairing, str) and pairing == "label":
        labels = [_labels(environments[k], datasets[k], k) for k in (i, j)]
        which = np.repeat([0, 1], lengths)
        # With a fixed seed all epochs, and all candidates of a search, compare the same pairs.
        found = pair_environments(which, np.concatenate(labels), 0)
        return found.a, found.b - lengths[0]
    if not callable(pairing):
        raise ValueError(
            "pairing: expected 'identity', 'label' or a pairing of two samples, such as "
            f"NearestPairing(), got {pairing!r}."
        )
    samples = [_features(environments[k], datasets[k]) for k in (i, j)]
    known = [_known_labels(environments[k], datasets[k]) for k in (i, j)]
    names = f"environment {i}", f"environment {j}"
    found = check_rows(pairing(*samples, *known), lengths, names)
    return found.a, found.b


def _labels(environment: object, dataset: HasItems, k: int) -> Array:
    """Return the labels of an environment."""
    known = _known_labels(environment, dataset)
    if known is None:
        of_slice = " Give (SliceDataset(data, 0), SliceDataset(data, 1)), or data, the Dataset."
        raise ValueError(
            f"environments[{k}]: expected (X, y) or a Dataset of rows and labels with "
            f"pairing='label', got {type(environment).__name__}."
            f"{of_slice if is_slice_dataset(environment) else ''}"
        )
    return _array_of(known)


def _array_of(labels: Any) -> Array:
    """Return labels, also of shape (n, 1) or in tensors, as an array."""
    of_rows = [int(label) if isinstance(label, torch.Tensor) else label for label in labels]
    return one_column(of_rows)


def _known_labels(environment: Any, dataset: Any) -> Any:
    known = environment[1] if isinstance(environment, tuple) else getattr(environment, "y", None)
    if known is None and isinstance(environment, Dataset) and not hasattr(environment, "X"):
        # Only reading every item shows its label; arrays and skorch datasets need not be read.
        known = [as_numpy(item[1]) for item in dataset]
    return _flat(known)


def _features(environment: object, dataset: HasItems) -> Any:
    """Return the rows of an environment, for a pairing that compares them."""
    rows = environment[0] if isinstance(environment, tuple) else environment
    if isinstance(rows, Dataset):
        rows = getattr(rows, "X", None)
        if rows is None or isinstance(rows, Dataset):
            return stacked(dataset, "environments")
    return rows


def _try_out(net: Net, dataset: Any, name: str, prior: Prior) -> None:
    """Score one or two rows, so that errors appear before the first epoch."""
    try:
        scores = scores_on(net, Subset(dataset, range(min(len(dataset), 2))))
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0]  # torch's further lines list the types of all elements
        raise ValueError(f"{name}: the net cannot score its rows: {reason}") from error
    check_prior(prior, scores.shape[1])


def _refuse_shuffling(net: Net, dataset: HasItems) -> None:
    with untouched_random_states(net):
        iterator = net.get_iterator(dataset, training=False)
    if isinstance(getattr(iterator, "sampler", None), RandomSampler):
        raise ValueError(
            "iterator_valid__shuffle: expected False, since the rows of environments are "
            "paired by their order, got True."
        )


def check_exclusive(net: Net, y: Any) -> None:
    """Refuse several labels of a row for a loss that takes them.

    One-hot and mixed labels sum to 1, and of smoothed ones one is above 0.5.
    """
    if not isinstance(net.criterion_, _OF_SEVERAL_LABELS):
        return
    labels: Array = np.asarray(as_numpy(y) if shape_of(y) else ())
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return
    exclusive = np.isclose(labels.sum(axis=1), 1) | ((labels > 0.5).sum(axis=1) == 1)
    if not exclusive.all():
        raise ValueError(f"y: expected a label for each row, got shape {labels.shape}.{OF_LABELS}")


def _with_used_rows(
    datasets: list[Any], pairs: dict[tuple[int, int], tuple[Index, Index]]
) -> PairedEnvironments:
    """Leave out rows that are in no pair, to save their forward passes."""
    used: list[Index] = []
    for k, dataset in enumerate(datasets):
        mine = [rows[side] for which, rows in pairs.items() for side in (0, 1) if which[side] == k]
        used.append(np.unique(np.concatenate(mine)))
        if len(used[k]) < len(dataset):
            datasets[k] = Subset(dataset, used[k].tolist())
    compact = {
        (i, j): (np.searchsorted(used[i], a), np.searchsorted(used[j], b))
        for (i, j), (a, b) in pairs.items()
    }
    return PairedEnvironments(datasets, compact)


def scores_on(net: Net, dataset: HasItems) -> torch.Tensor:
    """Return the net's scores of a dataset, on the net's device; random states are restored."""
    with untouched_random_states(net):
        return net_scores(net, dataset)[0]


@contextmanager
def untouched_random_states(net: Net) -> Iterator[None]:
    """Restore the global random states afterwards, since loaders and datasets draw from them.

    Of devices only the net's is looked at: a look at others would initialise them.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    device = next((p.device for p in module_of(net).parameters()), torch.device("cpu"))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
