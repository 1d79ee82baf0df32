"""Environments, features and pairs of WILDS data, or of any data with labels and metadata."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from copy import copy
from importlib import import_module
from typing import Any

import numpy as np

from pa_select.pairing import NearestPairing, Pairs, pair_environments
from pa_select.training.shared_environment import SharedEnvironment
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import refuse_iterable_dataset
from pa_select.utils.typing import Array, Device, HasItems, Labels, Rows
from papers.datasets.lazy_inputs import ComputedFeatures, LazyInputs, extract_features

#: The metadata fields that define the environments of each data set.
_FIELDS = {"camelyon17": ("hospital",), "celebA": ("male",), "waterbirds": ("background",)}


class WILDSData(SharedEnvironment):
    """Rows with labels and metadata, such as a WILDS subset, with environments and pairs.

    This is a torch Dataset of (input, label). An input is read only when its item is
    requested; labels and environments are arrays.

    Parameters
    ----------
    dataset : Dataset of n rows
        A labelled WILDS dataset or subset, or any Dataset whose items are tuples with the
        input first.
    fields : str or sequence of str, default=None
        Metadata whose values, or combinations of values, are the environments. None:
        "background" for waterbirds, "male" for celebA, "hospital" for camelyon17.
    y : array-like of shape (n,), default=None
        Class labels; None: ``dataset.y_array``.
    metadata : DataFrame or dict of n rows, default=None
        A column for each field. None: ``dataset.metadata_array``, with the column names
        ``dataset.metadata_fields``.
    transform : callable, default=None
        Function applied to each input when it is read, for example to convert an image to a
        tensor. A WILDS subset may already have a transform.

    Attributes
    ----------
    X, y : sequence of n inputs, ndarray of shape (n,)
        The inputs, which an array of row numbers or a slice does not read, and their labels.
    environments : ndarray of shape (n,)
        The environment of each row: its name in the metadata map of the dataset, or its value
        if the map has no name. With several fields, a text such as "place 1, year 2".

    Raises
    ------
    TypeError, ValueError
        If labels or metadata are missing or invalid; the message names the argument.

    Notes
    -----
    The thesis pairs the validation rows of two domains by nearest neighbours of equal class,
    in the features of the net after its first epoch [1]_. For celebA it uses the label as the
    domain, but then two domains have no label in common. Here, as in [2]_, it is `male`.

    References
    ----------
    .. [1] V. Jiménez Rodríguez, "Improved robustness of deep learning models through
       posterior agreement based model selection", Master's thesis, ETH Zurich, 2024,
       section 5.3 (waterbirds, celebA and camelyon17).
    .. [2] S. Sagawa, P. W. Koh, T. B. Hashimoto and P. Liang, "Distributionally robust neural
       networks for group shifts", ICLR 2020 (groups of waterbirds and celebA).
    .. [3] P. W. Koh et al., "WILDS: a benchmark of in-the-wild distribution shifts", ICML 2021
       (camelyon17; the form of the data).

    Examples
    --------
    >>> import torch
    >>> from papers.datasets import WILDSData
    >>> pixels, y = torch.arange(6.0).reshape(6, 1), torch.tensor([0, 0, 1, 1, 0, 1])
    >>> site = ["u", "u", "u", "v", "v", "v"]
    >>> dataset = torch.utils.data.TensorDataset(pixels, y)
    >>> data = WILDSData(dataset, "site", y=y, metadata={"site": site})
    >>> data
    WILDSData(6 rows, environments 'u', 'v')
    >>> pairs = data.pairs(data.features(torch.nn.Identity()))
    >>> pairs.a, pairs.b
    (array([0, 1, 2]), array([4, 4, 3]))
    """

    def __init__(
        self,
        dataset: HasItems,
        fields: Any = None,
        *,
        y: Labels | None = None,
        metadata: Any = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a function of an input, got {transform!r}.")
        refuse_iterable_dataset(dataset, "dataset")
        n = len(dataset)
        labels = _labels(dataset, y, n)
        self.environments = _environments(dataset, fields, metadata, n)
        super().__init__(LazyInputs(dataset, np.arange(n), transform), labels)

    @classmethod
    def load(
        cls,
        name: str,
        root_dir: str | os.PathLike[str],
        *,
        split: str | None = None,
        fields: Any = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> WILDSData:
        """Read a data set from this disk with the package wilds; nothing is downloaded.

        Parameters
        ----------
        name : str
            The WILDS name of the data set.
        root_dir : str or path
            The folder with the data, as in ``wilds.get_dataset``.
        split : str, default=None
            As in ``get_subset``; None: all rows. In camelyon17 the split "val" has one
            hospital, and "id_val" has three.
        fields, transform
            As in `WILDSData`.

        Returns
        -------
        WILDSData

        Raises
        ------
        ImportError, FileNotFoundError, ValueError
            If wilds is not installed, the data are not in the folder, or there is no such data
            set, split or field.
        """
        try:
            wilds = import_module("wilds")
        except ImportError as error:
            raise ImportError(
                "This needs wilds, which cannot be imported: pip install wilds."
            ) from error
        dataset = wilds.get_dataset(name, root_dir=os.fspath(root_dir), download=False)
        if split is not None:
            if split not in dataset.split_dict:
                raise ValueError(
                    f"split: expected one of {list(dataset.split_dict)}, got {split!r}."
                )
            dataset = dataset.get_subset(split)
        return cls(dataset, fields, transform=transform)

    @property
    def names(self) -> list[Any]:
        """The sorted names of the environments."""
        return np.unique(self.environments).tolist()

    def take(self, rows: Any) -> WILDSData:
        """Select rows without reading them.

        Parameters
        ----------
        rows : array of row numbers, mask of shape (n,) or slice
            A row may be taken several times.

        Returns
        -------
        WILDSData
        """
        taken = copy(self)
        taken.X, taken.y = self.X[rows], self.y[rows]
        taken.environments = self.environments[rows]
        return taken

    def by_environment(self) -> list[WILDSData]:
        """Split the rows by environment.

        Returns
        -------
        list of WILDSData
            In the order of `names`. `pa_select.PAScoring` accepts this list.
        """
        return [self.take(self.environments == name) for name in self.names]

    def features(
        self, extractor: Any, *, batch_size: int = 256, device: Device = None, num_workers: int = 0
    ) -> Array:
        """Read all rows in batches and compute their features.

        Parameters
        ----------
        extractor : torch.nn.Module, fitted skorch net, fitted transformer or callable
            A module runs in evaluation mode without gradients and is left unchanged. A
            transformer gets arrays with one row for each input. A callable gets the batch as
            torch collates it (a tensor, a list of texts). `papers.layer_features.LayerFeatures`
            extracts a layer of a module.
        batch_size : int, default=256
            Number of rows per call.
        device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
            Device of the module, or of the tensors that a callable gets. None: the current
            device of the module.
        num_workers : int, default=0
            Number of processes that read the inputs. 0: the current process reads them.

        Returns
        -------
        ndarray of shape (n, n_features)
            In single precision for a module, otherwise in double precision. The features of a
            classifier are its scores.

        Raises
        ------
        TypeError, ValueError
            If the inputs cannot be stacked, or the features are not finite numbers with one
            row for each input.
        """
        return extract_features(self.X, extractor, batch_size, device, num_workers)

    def pairs(
        self,
        features: Rows,
        *,
        pairing: Callable[..., Any] | None = None,
        reference: object = None,
    ) -> Pairs:
        """Pair rows of every two environments: nearest neighbours of equal label.

        Parameters
        ----------
        features : array-like of shape (n, n_features)
            The features in which distances are measured, for example from `features`.
        pairing : callable, default=None
            The pairing of two environments by these features. None:
            ``NearestPairing(within_label=True)``.
        reference : object, default=None
            The environment with which all others are paired. None: all pairs of environments.

        Returns
        -------
        Pairs
            Row numbers of these data.

        Raises
        ------
        ValueError
            If there is only one environment, or no two environments have a label in common.
        """
        self._check_features(features)
        if len(self.names) < 2:
            raise ValueError(
                f"environments: expected at least two among the rows, got only {self.names}."
            )
        pairing = NearestPairing(within_label=True) if pairing is None else pairing
        found = pair_environments(
            self.environments, self.y, X=features, pairing=pairing, reference=reference
        )
        if not len(found.a):
            raise ValueError(
                f"environments: expected rows of equal label in two of {self.names}, got none."
            )
        return found

    def nearest_pairing(self, features: Rows, **options: Any) -> NearestPairing:
        """Return a pairing of two environments that looks features up instead of computing them.

        Parameters
        ----------
        features : array-like of shape (n, n_features)
            The features of all rows, for example from `features`.
        **options
            Other parameters of `pa_select.pairing.NearestPairing`, such as
            ``backend="faiss"``.

        Returns
        -------
        NearestPairing
            A pairing within labels, for callbacks that get `by_environment` and for searches
            that get `X`. It pairs only rows of these data.
        """
        self._check_features(features)
        options = {"within_label": True} | options
        return NearestPairing(features=ComputedFeatures(np.asarray(features), self.X), **options)

    def _check_features(self, features: Any) -> None:
        shape = np.shape(features)
        if len(shape) != 2 or shape[0] != len(self):
            raise ValueError(
                f"features: expected shape ({len(self)}, n_features), got {shape}; "
                "features(extractor) computes them."
            )

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.names[:5])) + ", ..." * (len(self.names) > 5)
        return f"{type(self).__name__}({len(self)} rows, environments {names})"


def _labels(dataset: Any, y: Labels | None, n: int) -> Array:
    given = getattr(dataset, "y_array", None) if y is None else y
    if given is None:
        raise ValueError(
            "y: expected class labels, or a dataset with y_array, got None and "
            f"{type(dataset).__name__}."
        )
    labels = check_column(given, n, "y")
    if labels.dtype.kind == "f":
        raise ValueError(f"y: expected class labels, got dtype {labels.dtype}.")
    return labels


def _environments(dataset: Any, fields: Any, metadata: Any, n: int) -> Array:
    """The environment of each row."""
    maps: Any = {}
    if metadata is None:
        columns = getattr(dataset, "metadata_array", None)
        if columns is None:
            raise ValueError(
                "metadata: expected a table, or a dataset with metadata_array, got None and "
                f"{type(dataset).__name__}."
            )
        columns = np.asarray(columns).reshape(n, -1)
        metadata = dict(zip(dataset.metadata_fields, columns.T, strict=True))
        maps = getattr(dataset, "metadata_map", None) or {}
    values = {}
    for field in _fields(dataset, fields, list(metadata)):
        column = check_column(metadata[field], n, f"metadata[{field!r}]")
        values[field] = _names_of_codes(column, maps[field]) if field in maps else column
    if len(values) == 1:
        return next(iter(values.values()))
    rows = zip(*(column.tolist() for column in values.values()), strict=True)
    return np.array([", ".join(f"{f} {v}" for f, v in zip(values, r, strict=True)) for r in rows])


def _fields(dataset: Any, fields: Any, known: list[Any]) -> list[Any]:
    name = getattr(dataset, "dataset_name", None)
    chosen = _FIELDS.get(str(name), ()) if fields is None else fields
    chosen = [chosen] if isinstance(chosen, str) else list(chosen)
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(
            f"fields: expected some of {known}, got {fields!r} for data set {name!r}."
        )
    return chosen


def _names_of_codes(codes: Array, names: Iterable[object]) -> Array:
    """Replace numbers by names; a number without a name becomes text."""
    known = [str(name).strip() for name in names]  # WILDS pads names with spaces
    values, inverse = np.unique(codes, return_inverse=True)
    found = [known[int(v)] if 0 <= v < len(known) else str(v) for v in values.tolist()]
    return np.array(found)[inverse]
