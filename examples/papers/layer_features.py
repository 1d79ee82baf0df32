"""Features of rows: the outputs of a layer of a net."""

from __future__ import annotations

from typing import Any

import torch

from pa_select.scores.modules import in_batches
from pa_select.utils.estimators import first_output, module_of
from pa_select.utils.typing import Floats, Module, Rows


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
    >>> from papers.layer_features import LayerFeatures
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
