"""Classifiers as differentiable torch functions of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectorMixin
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from pa_select.scores.modules import _columns
from pa_select.utils.estimators import first_output, is_instance, is_pipeline, unwrapped
from pa_select.utils.typing import Array, Device, Floats, HasArray, Model, Net

_EXPECTED = (
    "estimator: expected a torch module, a skorch net or a differentiable scikit-learn "
    "classifier (linear, an MLPClassifier, or a pipeline of affine steps before one)"
)


class Differentiable(NamedTuple):
    """A classifier as a function that torch can differentiate.

    ``logits`` maps a tensor of shape (n, ...) to one of shape (n, n_classes), in the precision and
    on the device of the model; a binary margin m becomes (-m / 2, m / 2). The mode of the modules
    is not changed: enter `pa_select.scores.modules.evaluation` with ``parts`` first. ``classes``
    are those of the columns; None if only the outputs give their number. The precision ``dtype``
    is None if any will do.
    """

    logits: Function
    classes: Array | None
    device: torch.device
    dtype: torch.dtype | None = None
    parts: tuple[torch.nn.Module, ...] = ()


# Tensors made in inference mode cannot be differentiated.
@torch.inference_mode(False)
def differentiable(estimator: Model | None, device: Device = None) -> Differentiable:
    """Convert a fitted classifier to a differentiable function of its inputs.

    A module or a skorch net stays on its device. A scikit-learn classifier is computed by an exact
    torch copy in double precision on the given device, by default the CPU. Pipelines, searches and
    frozen estimators that end in one of the three also work.
    """
    before, final = _steps(estimator)
    if isinstance(final, torch.nn.Module):
        home, dtype = _device_and_dtype(final)
        classes = _known_classes(final)
        model = Differentiable(lambda x: first_output(final(x)), classes, home, dtype, (final,))
    elif is_instance(final, "skorch", "NeuralNet"):
        model = _of_net(final)
    else:
        model = _of_classifier(final, device)
    functions = []
    for step in before:
        function = step_twin(step, model.device)
        if function is None:
            raise TypeError(f"{_EXPECTED}, got a pipeline with the step {step!r}.")
        functions.append(function)

    def logits(x: torch.Tensor) -> torch.Tensor:
        # The model must see the rows in its own precision.
        x = x.to(model.device, model.dtype)
        for function in functions:
            x = function(x)
        return _columns(model.logits(x), final)[0]

    return model._replace(logits=logits)


def _steps(estimator: Model | None) -> tuple[list[Any], Any]:
    """Return the steps before the classifier, and the classifier itself."""
    before: list[Any] = []
    final = estimator
    for final in unwrapped(estimator):
        if is_pipeline(final):
            before += [step for _, step in final.steps[:-1]]
    return before, final


def _of_net(net: Net) -> Differentiable:
    net.check_is_fitted()
    device, dtype = _device_and_dtype(net.module_)
    parts = [getattr(net, f"{name}_") for name in (*net._modules, *net._criteria)]
    probabilities = isinstance(net.criterion_, torch.nn.NLLLoss)

    def outputs(x: torch.Tensor) -> torch.Tensor:
        result = first_output(net.infer(x))
        # By skorch's convention a module with NLLLoss returns probabilities. The clip is as
        # small as possible, because there is no gradient below it.
        return result.clamp_min(torch.finfo(result.dtype).tiny).log() if probabilities else result

    modules = tuple(part for part in parts if isinstance(part, torch.nn.Module))
    return Differentiable(outputs, _known_classes(net), device, dtype, modules)


def _known_classes(estimator: object) -> Array | None:
    known = getattr(estimator, "classes_", None)
    return None if known is None or not len(known) else np.asarray(known)


def _of_classifier(model: Any, device: Device) -> Differentiable:
    if hasattr(model, "fit"):
        check_is_fitted(model)
    home = torch.device("cpu" if device is None else device)
    outputs = classifier_twin(model, home)
    if outputs is None:
        got = "None" if model is None else type(model).__name__
        raise TypeError(f"{_EXPECTED}, got {got}.")
    return Differentiable(outputs, np.asarray(model.classes_), home, torch.float64)


def _device_and_dtype(module: torch.nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Return the device of a module and the precision of its inputs; None: any precision."""
    parameter = next((p for p in module.parameters() if p.is_floating_point()), None)
    if parameter is None:
        return torch.device("cpu"), None
    return parameter.device, parameter.dtype


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


def _inverse(scaler: Any) -> Floats | None:
    return None if scaler.scale_ is None else 1 / scaler.scale_


def _affine(
    before: Floats | None, factor: Floats | None, after: Floats | None, device: torch.device
) -> Function:
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


def _tensor(values: HasArray | float, device: torch.device) -> torch.Tensor:
    return torch.tensor(np.array(values, dtype=np.float64), device=device)
