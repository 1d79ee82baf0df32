"""Exact torch copies (twins) of scikit-learn models, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectorMixin
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

Function = Callable[[torch.Tensor], torch.Tensor]

_ACTIVATIONS: dict[str, Function] = {
    "identity": lambda z: z,
    "logistic": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
}


def classifier_twin(model: Any, device: torch.device) -> Function | None:
    """Return the outputs of a fitted classifier before the link function, or None if unsupported.

    The returned function maps (n, n_features) to (n, n_classes), or to (n, 1) margins of the
    second of two classes.
    """
    if isinstance(model, MLPClassifier):
        if model.out_activation_ == "logistic" and model.n_outputs_ > 1:
            return None  # multilabel
        layers = [
            (_tensor(weight.T, device), _tensor(intercept, device))
            for weight, intercept in zip(model.coefs_, model.intercepts_, strict=True)
        ]
        return _perceptron(layers, _ACTIVATIONS[model.activation])
    if not all(hasattr(model, name) for name in ("classes_", "coef_", "decision_function")):
        return None
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    weight = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    n_classes = len(model.classes_)
    # A support vector machine has a row for each pair of classes.
    pairs = hasattr(model, "decision_function_shape") and n_classes > 2
    if pairs or len(weight) != (1 if n_classes == 2 else n_classes):
        return None
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(weight))
    return _perceptron([(_tensor(weight, device), _tensor(intercept, device))], torch.relu)


def step_twin(step: Any, device: torch.device) -> Function | None:
    """Return the function of an affine pipeline step, or None if the step is not affine."""
    if step is None or step == "passthrough":
        return lambda x: x
    if isinstance(step, SelectorMixin):
        kept = torch.as_tensor(step.get_support(indices=True), device=device)
        return lambda x: x[:, kept]
    if isinstance(step, (PCA, TruncatedSVD)):
        components = step.components_
        if getattr(step, "whiten", False):
            deviation = np.sqrt(step.explained_variance_)
            # scikit-learn guards components without variance in the same way.
            components = components / np.maximum(deviation, np.finfo(deviation.dtype).eps)[:, None]
        return _affine(getattr(step, "mean_", None), components, None, device)
    if getattr(step, "clip", False):
        return None
    if isinstance(step, MinMaxScaler):
        return _affine(None, step.scale_, step.min_, device)
    if isinstance(step, MaxAbsScaler):
        return _affine(None, _inverse(step), None, device)
    if isinstance(step, StandardScaler):
        # mean_ exists even if it is not subtracted.
        return _affine(step.mean_ if step.with_mean else None, _inverse(step), None, device)
    if isinstance(step, RobustScaler):
        return _affine(step.center_, _inverse(step), None, device)
    return None


def _inverse(scaler: Any) -> Any:
    return None if scaler.scale_ is None else 1 / scaler.scale_


def _affine(before: Any, factor: Any, after: Any, device: torch.device) -> Function:
    """Return ``(x - before) * factor + after``; the factor may be a matrix (outputs, inputs)."""
    shift = _tensor(0 if before is None else before, device)
    scale = _tensor(1 if factor is None else factor, device)
    add = _tensor(0 if after is None else after, device)

    def function(x: torch.Tensor) -> torch.Tensor:
        centred = x - shift.to(x.dtype)
        matrix = scale.to(x.dtype)
        return (centred @ matrix.T if matrix.ndim == 2 else centred * matrix) + add.to(x.dtype)

    return function


def _perceptron(layers: list[tuple[torch.Tensor, torch.Tensor]], activation: Function) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        for depth, (weight, intercept) in enumerate(layers):
            x = torch.nn.functional.linear(activation(x) if depth else x, weight, intercept)
        return x

    return function


def _tensor(values: Any, device: torch.device) -> torch.Tensor:
    return torch.tensor(np.array(values, dtype=np.float64), device=device)
