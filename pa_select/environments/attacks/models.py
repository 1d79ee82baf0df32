"""Classifiers as differentiable torch functions of their inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pa_select.environments.attacks.twins import Function, classifier_twin, step_twin
from pa_select.scores.modules import _columns
from pa_select.utils.estimators import is_instance, is_pipeline, unwrapped
from pa_select.utils.modules import first_output

_EXPECTED = (
    "estimator: expected a torch module, a skorch net or a differentiable scikit-learn "
    "classifier (linear, an MLPClassifier, or a pipeline of affine steps before one)"
)


class Differentiable(NamedTuple):
    """A classifier as a function that torch can differentiate.

    Parameters
    ----------
    logits : callable Tensor of shape (n, ...) -> Tensor of shape (n, n_classes)
        The scores, always in the precision and on the device of the model; a binary margin m
        becomes (-m / 2, m / 2). The mode of the modules is not changed: enter
        `pa_select.scores.modules.evaluation` with ``parts`` first.
    classes : ndarray of shape (n_classes,), or None
        The classes of the columns. None: 0, 1, ..., if only the outputs give their number.
    device : torch.device
        The device of the computations.
    parts : tuple of torch.nn.Module
        The modules to put into evaluation mode.
    """

    logits: Function
    classes: NDArray[Any] | None
    device: torch.device
    parts: tuple[torch.nn.Module, ...] = ()


# Tensors made in inference mode cannot be differentiated.
@torch.inference_mode(False)
def differentiable(estimator: Any, device: Any = None) -> Differentiable:
    """Convert a fitted classifier to a differentiable function of its inputs.

    Parameters
    ----------
    estimator : torch module, fitted skorch net or scikit-learn classifier
        A scikit-learn classifier is computed by an exact torch copy in double precision.
        Pipelines, searches and frozen estimators that end in one of the three also work.
    device : torch.device or str, default=None
        Device of the torch copy. None: the CPU. Modules and nets stay on their device.

    Returns
    -------
    Differentiable

    Raises
    ------
    TypeError
        If the estimator has another type.
    ValueError
        If the device is invalid.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    """
    before, final = _steps(estimator)
    if isinstance(final, torch.nn.Module):
        model = _of_module(final)
    elif is_instance(final, "skorch", "NeuralNet"):
        if is_instance(final, "skorch", "NeuralNetRegressor"):
            raise TypeError(f"{_EXPECTED}, got a NeuralNetRegressor.")
        model = _of_net(final)
    else:
        model = _of_classifier(final, device)
    functions = []
    for step in before:
        function = step_twin(step, model.device)
        if function is None:
            raise TypeError(f"{_EXPECTED}, got a pipeline with the step {step!r}.")
        functions.append(function)
    n_features = getattr(estimator, "n_features_in_", None)

    def logits(x: torch.Tensor) -> torch.Tensor:
        if n_features is not None and (x.ndim != 2 or x.shape[1] != n_features):
            raise ValueError(f"X: expected shape ({len(x)}, {n_features}), got {tuple(x.shape)}.")
        # The model must see the rows in its own precision.
        x = x.to(model.device, model.dtype)
        for function in functions:
            x = function(x)
        return _columns(model.outputs(x), type(final).__name__)[0]

    return Differentiable(logits, model.classes, model.device, model.parts)


class _Model(NamedTuple):
    outputs: Function
    classes: NDArray[Any] | None
    device: torch.device
    dtype: torch.dtype | None
    parts: tuple[torch.nn.Module, ...] = ()


def _steps(estimator: Any) -> tuple[list[Any], Any]:
    """Return the steps before the classifier, and the classifier itself."""
    before: list[Any] = []
    final = estimator
    for final in unwrapped(estimator):
        if is_pipeline(final):
            before += [step for _, step in final.steps[:-1]]
    return before, final


def _of_module(module: torch.nn.Module) -> _Model:
    device, dtype = _device_and_dtype(module)
    return _Model(lambda x: first_output(module(x)), None, device, dtype, (module,))


def _of_net(net: Any) -> _Model:
    net.check_is_fitted()
    device, dtype = _device_and_dtype(net.module_)
    parts = [getattr(net, f"{name}_") for name in (*net._modules, *net._criteria)]
    probabilities = isinstance(net.criterion_, torch.nn.NLLLoss)

    def outputs(x: torch.Tensor) -> torch.Tensor:
        result = first_output(net.infer(x))
        # By skorch's convention a module with NLLLoss returns probabilities. The clip is as
        # small as possible, because there is no gradient below it.
        return result.clamp_min(torch.finfo(result.dtype).tiny).log() if probabilities else result

    known = getattr(net, "classes_", None)
    classes = None if known is None or not len(known) else np.asarray(known)
    modules = tuple(part for part in parts if isinstance(part, torch.nn.Module))
    return _Model(outputs, classes, device, dtype, modules)


def _of_classifier(model: Any, device: Any) -> _Model:
    if hasattr(model, "fit"):
        check_is_fitted(model)
    try:
        home = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device: expected a torch device or None, got {device!r}.") from error
    outputs = classifier_twin(model, home)
    if outputs is None:
        if model is None:
            raise TypeError(f"{_EXPECTED} to aim the attack at, got None.")
        raise TypeError(f"{_EXPECTED}, got {type(model).__name__}.")
    return _Model(outputs, np.asarray(model.classes_), home, torch.float64)


def _device_and_dtype(module: torch.nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Return the device of a module and the precision of its inputs; None: any precision."""
    parameter = next((p for p in module.parameters() if p.is_floating_point()), None)
    if parameter is None:
        return torch.device("cpu"), None
    return parameter.device, parameter.dtype
