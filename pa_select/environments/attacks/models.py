"""Classifiers as torch functions of their inputs, to take gradients of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pa_select.environments.attacks.twins import Function, classifier_twin, step_twin
from pa_select.scores.class_scores import _is_instance
from pa_select.scores.modules import _columns

_EXPECTED = (
    "estimator: expected a torch module, a skorch net or a differentiable scikit-learn "
    "classifier (linear, an MLPClassifier, or a pipeline of affine steps before one)"
)


class Differentiable(NamedTuple):
    """A classifier as a function that torch can differentiate.

    Parameters
    ----------
    logits : callable Tensor of shape (n, ...) -> Tensor of shape (n, n_classes)
        The scores, in the model's precision on the model's device whatever the input's; a
        binary margin m as (-m / 2, m / 2). Parts are in the mode that they are in: enter
        `pa_select.scores.modules.evaluation` with them first.
    classes : ndarray of shape (n_classes,), or None
        The classes of the columns; None for 0, 1, ... where only outputs tell how many.
    device : torch.device
        Where it computes.
    parts : tuple of torch.nn.Module
        The modules whose mode counts.
    """

    logits: Function
    classes: NDArray[Any] | None
    device: torch.device
    parts: tuple[torch.nn.Module, ...] = ()


# Nothing that is made in inference mode can be differentiated.
@torch.inference_mode(False)
def differentiable(estimator: Any, device: Any = None) -> Differentiable:
    """Take a fitted classifier as a function of its inputs.

    Parameters
    ----------
    estimator : torch module, fitted skorch net or scikit-learn classifier
        A scikit-learn classifier is computed by an exact twin in double precision; also
        pipelines, searches and frozen estimators that end in one of the three.
    device : torch.device or str, default=None
        Where the twin computes, None: on the CPU. Modules and nets stay where they are.

    Returns
    -------
    Differentiable

    Raises
    ------
    TypeError
        If the estimator is none of these.
    ValueError
        If the device is none.
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    """
    before, final = _steps(estimator)
    if isinstance(final, torch.nn.Module):
        model = _of_module(final)
    elif _is_instance(final, "skorch", "NeuralNet"):
        if _is_instance(final, "skorch", "NeuralNetRegressor"):
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
        # In the model's own precision, as it would see the rows.
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
    """The steps before the classifier, and the classifier that makes the decision."""
    before: list[Any] = []
    while True:
        if isinstance(estimator, Pipeline) and len(estimator.steps):
            before += [step for _, step in estimator.steps[:-1]]
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            return before, estimator


def _of_module(module: torch.nn.Module) -> _Model:
    device, dtype = _home(module)
    return _Model(lambda x: _first(module(x)), None, device, dtype, (module,))


def _of_net(net: Any) -> _Model:
    net.check_is_fitted()
    device, dtype = _home(net.module_)
    parts = [getattr(net, f"{name}_") for name in (*net._modules, *net._criteria)]
    probabilities = isinstance(net.criterion_, torch.nn.NLLLoss)

    def outputs(x: torch.Tensor) -> torch.Tensor:
        result = _first(net.infer(x))
        # skorch's convention: such a module returns probabilities. Clipped as little as can
        # be: below the clip there is no gradient.
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


def _home(module: torch.nn.Module) -> tuple[torch.device, torch.dtype | None]:
    """Device of a module, and the precision of what it takes; None: of any."""
    parameter = next((p for p in module.parameters() if p.is_floating_point()), None)
    if parameter is None:
        return torch.device("cpu"), None
    return parameter.device, parameter.dtype


def _first(outputs: Any) -> torch.Tensor:
    """The scores of a module that returns several tensors come first."""
    result = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    if not isinstance(result, torch.Tensor):
        raise TypeError(
            "estimator: expected a module that returns a tensor, or several of which the first "
            f"holds the scores, got {type(result).__name__}."
        )
    return result
