"""WILDS data, or any with labels and metadata: environments, features, pairs."""

from __future__ import annotations

import os
from copy import copy
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.environments.lazy import ComputedFeatures, LazyInputs, extract_features
from pa_select.environments.shared import SharedEnvironment
from pa_select.pairing import NearestPairing, Pairs, pair_environments
from pa_select.scoring.columns import check_column

#: The metadata that tell the environments of a data set apart.
_FIELDS = {
    "camelyon17": ("hospital",),
    "celebA": ("male",),
    "waterbirds": ("background",),
}


class WILDSData(SharedEnvironment):
    """Rows with labels and metadata, as of a WILDS subset: environments, features, pairs.

    A torch Dataset of (input, label). Inputs are read when an item is asked for, not
    before; labels and environments are arrays.

    Parameters
    ----------
    dataset : Dataset of n rows
        A labelled WILDS dataset or subset, or any Dataset whose items are tuples that begin
        with the input.
    fields : str or sequence of str, default=None
        Metadata whose values, or combinations of values, are the environments. None:
        "background" of waterbirds, "male" of celebA, "hospital" of camelyon17.
    y : array-like of shape (n,), default=None
        Class labels; None: ``dataset.y_array``.
    metadata : DataFrame or dict of n rows, default=None
        A column for each field; None: ``dataset.metadata_array``, whose columns
        ``dataset.metadata_fields`` names.
    transform : callable, default=None
        Applied to each input that is read: it makes a tensor of an image. A WILDS subset may
        have one already.

    Attributes
    ----------
    X : sequence of n inputs
        They are read one by one; an array of row numbers or a slice gives fewer of them
        and reads none.
    y : ndarray of shape (n,)
        Labels.
    environments : ndarray of shape (n,)
        The environment of each row: the name that the metadata map of the dataset has for
        it, or else the value; of several fields all of them, in words.

    Raises
    ------
    TypeError, ValueError
        If labels or metadata are missing or do not fit; the message names the argument.

    Notes
    -----
    The thesis pairs the validation rows of two domains by nearest neighbours of equal class
    in the features that the net has after its first epoch [1]_. It takes the label for the
    domain of celebA, where rows of two domains have no label in common; here, as in [2]_,
    it is the other attribute.

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
    >>> from pa_select.environments import WILDSData
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
        dataset: Any,
        fields: Any = None,
        *,
        y: Any = None,
        metadata: Any = None,
        transform: Any = None,
    ) -> None:
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a function of an input, got {transform!r}.")
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
        transform: Any = None,
    ) -> WILDSData:
        """Read a data set that is on this disk with the package wilds; nothing is downloaded.

        Parameters
        ----------
        name : str
            As WILDS calls it.
        root_dir : str or path
            The folder with the data, as in ``wilds.get_dataset``.
        split : str, default=None
            As in ``get_subset``; None: all rows. The split "val" of camelyon17 has one
            hospital, "id_val" three.
        fields, transform
            As in `WILDSData`.

        Returns
        -------
        WILDSData

        Raises
        ------
        ImportError
            If wilds is not installed.
        FileNotFoundError
            If the data are not there.
        ValueError
            If there is no such data set, split or field.
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
        """The environments, each once, sorted."""
        return np.unique(self.environments).tolist()

    def take(self, rows: Any) -> WILDSData:
        """Select rows, without reading them.

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
        """Part the rows by their environments.

        Returns
        -------
        list of WILDSData
            In the order of `names`; what `pa_select.PAScoring` compares.
        """
        return [self.take(self.environments == name) for name in self.names]

    def features(
        self, extractor: Any, *, batch_size: int = 256, device: Any = None, num_workers: int = 0
    ) -> NDArray[Any]:
        """Compute features of all rows, which are read in batches.

        Parameters
        ----------
        extractor : torch.nn.Module, fitted skorch net, fitted transformer or callable
            A module works in evaluation mode without gradients and is left as it was. A
            transformer is given arrays with one row for each input, a callable what torch
            makes of a batch (a tensor, a list of texts). `pa_select.pairing.LayerFeatures`
            takes a layer of a module.
        batch_size : int, default=256
            Rows for each call.
        device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
            Where a module works, and the tensors lie that a callable is given. None: where
            the module is.
        num_workers : int, default=0
            Processes that read the inputs; 0: this one.

        Returns
        -------
        ndarray of shape (n, n_features)
            In single precision of a module, else in double. Of a classifier they are its
            scores.

        Raises
        ------
        TypeError, ValueError
            If inputs cannot be stacked, or features are not finite numbers, as many rows as
            inputs.
        """
        return extract_features(self.X, extractor, batch_size, device, num_workers)

    def pairs(self, features: Any, *, pairing: Any = None, reference: Any = None) -> Pairs:
        """Pair rows of every two environments: nearest neighbours of equal label.

        Parameters
        ----------
        features : array-like of shape (n, n_features)
            What distances are measured by, as `features` computes them.
        pairing : callable, default=None
            How two environments are paired by these features; None: by
            ``NearestPairing(within_label=True)``.
        reference : object, default=None
            An environment that all others are compared with; None: every two are.

        Returns
        -------
        Pairs
            Row numbers of these data.

        Raises
        ------
        ValueError
            If there is one environment only, or no two of them have a label in common.
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

    def nearest_pairing(self, features: Any, **options: Any) -> NearestPairing:
        """Pairing of two environments that looks features up instead of computing them.

        Parameters
        ----------
        features : array-like of shape (n, n_features)
            Of all rows, as `features` computes them.
        **options
            Other parameters of `pa_select.pairing.NearestPairing`, such as
            ``backend="faiss"``.

        Returns
        -------
        NearestPairing
            Within labels. For callbacks that are given `by_environment`, and for searches
            of `X`; it pairs rows of these data only.
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


def _labels(dataset: Any, y: Any, n: int) -> NDArray[Any]:
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


def _environments(dataset: Any, fields: Any, metadata: Any, n: int) -> NDArray[Any]:
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
        values[field] = _named(column, maps[field]) if field in maps else column
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


def _named(codes: NDArray[Any], names: Any) -> NDArray[Any]:
    """Names in the place of numbers; a number without a name stays, as text."""
    known = [str(name).strip() for name in names]  # WILDS pads them
    values, inverse = np.unique(codes, return_inverse=True)
    found = [known[int(v)] if 0 <= v < len(known) else str(v) for v in values.tolist()]
    return np.array(found)[inverse]
