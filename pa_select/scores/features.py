"""Features of rows: the rows themselves, a transformer's output or a layer's output."""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.utils.arrays import as_numpy
from pa_select.utils.typing import Floats, Module, Rows


def features_of(X: Rows, features: Any, name: str) -> Floats:
    """Return the features of rows, finite numbers of shape (n, n_features)."""
    # Not at the top: importing pa_select.scores must not import scikit-learn.
    from sklearn.utils.validation import _num_samples

    if features is not None:
        transform = features.transform if hasattr(features, "transform") else features
        if not callable(transform):
            raise TypeError(
                "features: expected None, a fitted transformer or a function of the rows, got "
                f"{type(features).__name__}."
            )
        X = transform(X)
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        points = np.asarray(as_numpy(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected numbers to measure distances by: {error}.") from error
    points = points.reshape(_num_samples(points), -1)
    wrong = ~np.isfinite(points).all(1)
    if wrong.any():
        raise ValueError(
            f"{name}: expected finite features, got {points[wrong.argmax()]} in row "
            f"{wrong.argmax()}."
        )
    return points


class LayerFeatures:
    """Features of rows: the outputs of a layer of a torch module.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        The module; its training modes stay unchanged.
    layer : str
        Name of the layer, as in ``module.named_modules()``.
    batch_size : int, default=256
        Rows in each forward pass.

    Raises
    ------
    ValueError
        If there is no such layer.

    Examples
    --------
    >>> import torch
    >>> from pa_select.scores import LayerFeatures
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    >>> LayerFeatures(net, "1")(torch.ones(4, 3)).shape
    (4, 5)
    """

    def __init__(self, module: Module, layer: str, batch_size: int = 256) -> None:
        self.module = module
        self.layer = layer
        self.batch_size = batch_size

    def __call__(self, X: Rows) -> Floats:
        """Compute the features of rows.

        Parameters
        ----------
        X : array-like or tensor of shape (n, ...)
            Rows that the module takes.

        Returns
        -------
        ndarray of shape (n, n_features)
        """
        import torch

        from pa_select.scores.modules import in_batches
        from pa_select.utils.estimators import first_output, module_of

        module = module_of(self.module)
        layers = dict(module.named_modules())
        if self.layer not in layers:
            raise ValueError(
                f"layer: expected one of {[name for name in layers if name]}, got {self.layer!r}."
            )
        seen: list[Any] = []
        hook = layers[self.layer].register_forward_hook(
            lambda _module, _inputs, output: seen.append(
                first_output(output, "layer").detach().flatten(1).cpu()
            )
        )
        try:
            in_batches(module, torch.as_tensor(X), self.batch_size, keep=lambda output: None)
        finally:
            hook.remove()
        features: Floats = torch.cat(seen).double().numpy()
        return features
