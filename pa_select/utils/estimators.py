"""Estimators inside estimators, the output of torch modules, and pickles of estimators.

Torch is not imported: a module not yet imported has no instances.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from pa_select._version import __version__
from pa_select.utils.typing import Estimators

if TYPE_CHECKING:
    import torch


def is_instance(estimator: object, module: str, name: str) -> bool:
    """Call `isinstance` without an import: a module not yet imported has no instances."""
    home = sys.modules.get(module)
    return home is not None and isinstance(estimator, getattr(home, name))


def is_pipeline(estimator: object) -> bool:
    """Whether the estimator is a `sklearn.pipeline.Pipeline`."""
    return is_instance(estimator, "sklearn.pipeline", "Pipeline")


def is_torch_model(estimator: object) -> bool:
    """Whether the estimator is a torch module or a skorch net."""
    is_module = is_instance(estimator, "torch.nn", "Module")
    return is_module or is_instance(estimator, "skorch", "NeuralNet")


def unwrapped(estimator: Any) -> list[Any]:
    """List the estimator, then the one inside it (last step, best, frozen), and so on."""
    found = []
    while True:
        found.append(estimator)
        if is_pipeline(estimator) and len(estimator.steps):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif is_instance(estimator, "sklearn.frozen", "FrozenEstimator"):
            estimator = estimator.estimator
        else:
            return found


def named_estimators(estimators: Estimators) -> dict[str, Any]:
    """Return a dict of the estimators by name."""
    if hasattr(estimators, "__array__"):  # rows in their place
        raise TypeError(
            "estimators: expected a fitted estimator, or a list or dict of them, got "
            f"{type(estimators).__name__}."
        )
    if isinstance(estimators, Mapping):
        named = {str(name): estimator for name, estimator in estimators.items()}
    else:
        several = estimators if isinstance(estimators, (list, tuple)) else [estimators]
        kinds = [type(estimator).__name__ for estimator in several]
        named = {
            kind if kinds.count(kind) == 1 else f"{kind} {kinds[:i].count(kind) + 1}": estimator
            for i, (kind, estimator) in enumerate(zip(kinds, several, strict=True))
        }
    if not named:
        raise ValueError("estimators: expected at least one, got none.")
    return named


def module_of(net: object) -> Any:
    """Return the module of a fitted skorch net; other objects are returned as they are."""
    return getattr(net, "module_", net)


def refuse_iterable_dataset(dataset: object, name: str) -> None:
    """Raise a TypeError for a Dataset whose rows can only be read one after the other."""
    if is_instance(dataset, "torch.utils.data", "IterableDataset"):
        raise TypeError(
            f"{name}: expected a Dataset whose rows have numbers, since pairs are made by these, "
            f"got the IterableDataset {type(dataset).__name__}; read it into a TensorDataset or "
            "a list first."
        )


def refuse_loader(rows: object, name: str) -> None:
    """Raise a TypeError for a torch DataLoader, which has batches and no rows."""
    if is_instance(rows, "torch.utils.data", "DataLoader"):
        raise TypeError(
            f"{name}: expected rows, got a {type(rows).__name__}, which has batches in an order "
            "of its own; give its Dataset, loader.dataset."
        )


def first_output(outputs: object, name: str = "estimator") -> torch.Tensor:
    """Return the scores that a module returns, a tensor; else an error begins with `name`.

    These are its output, the first of several outputs, or what is called ``logits``: a key of a
    mapping, or an attribute, as of the outputs of transformers of Hugging Face.
    """
    result: Any
    if isinstance(outputs, Mapping):
        result = outputs.get("logits")
    elif isinstance(outputs, (tuple, list)) and not hasattr(outputs, "logits"):
        result = outputs[0]
    else:
        result = getattr(outputs, "logits", outputs)
    if not is_instance(result, "torch", "Tensor"):
        raise TypeError(
            f"{name}: expected a module that returns a tensor, several tensors with the scores "
            f"first, or a mapping or an object with the scores as logits, got "
            f"{type(outputs).__name__}."
        )
    tensor: torch.Tensor = result
    return tensor


class SavedWithVersions:
    """Mixin for estimators that hold scikit-learn estimators.

    Another version may have renamed attributes: the pickle would load, but fail later.
    """

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, "_saved_with": _versions()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        for package, saved in state.pop("_saved_with", {}).items():
            current = _versions()[package]
            if _minor(saved) != _minor(current):
                raise UnpicklingError(
                    f"{type(self).__name__} was saved with {package} {saved} and cannot be "
                    f"loaded with {current}: load it with {package} {_minor(saved)}, or fit it "
                    "anew."
                )
        super().__setstate__(state)  # type: ignore[misc]


def _versions() -> dict[str, str]:
    import sklearn  # here, since the command line needs no scikit-learn

    return {"scikit-learn": sklearn.__version__, "pa_select": __version__}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
