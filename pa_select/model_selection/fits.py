"""Fits of an estimator inside another one: what is passed on, halves of rows, parallel jobs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import parallel

from pa_select.utils.estimators import is_pipeline
from pa_select.utils.typing import Groups, Ints, Labels

# What others call environments, without an s at the end.
_SAID_FOR_ENVIRONMENTS = {
    *("site", "domain", "group", "batch", "batche", "env", "centre", "center", "hospital"),
    *("sensor", "device", "instrument", "scanner", "subject", "metadata"),
}
#: Training rows and test rows.
Split = tuple[Ints, Ints]


def check_fit_params(estimator: Any, params: dict[str, Any], arguments: Sequence[str]) -> None:
    """Refuse parameters that the estimator's ``fit`` does not take.

    `arguments` are those that the caller's ``fit`` has itself, beside X and y.
    """
    if get_config()["enable_metadata_routing"]:
        return  # scikit-learn checks it
    expected = (*arguments, "sample_weight")  # with the parameter that most estimators take
    for name in params:
        close = get_close_matches(name, expected, 1)
        if "environments" in arguments and name.lower().rstrip("s") in _SAID_FOR_ENVIRONMENTS:
            close = ["environments"]
        if takes_parameter(estimator, name, likely=name in expected or not close):
            continue
        if is_pipeline(estimator) and not set(close) - {name}:
            close = [
                f"{step}__{name}"
                for step, inside in reversed(estimator.steps)
                if hasattr(inside, "fit") and takes_parameter(inside, name, likely=False)
            ]
        meant = f" Did you mean {close[0]!r}?" if close and close[0] != name else ""
        raise TypeError(
            f"fit: expected {', '.join(arguments)} or a parameter of "
            f"{type(estimator).__name__}.fit, got {name!r}.{meant}"
        )


def takes_parameter(estimator: Any, name: str, likely: bool) -> bool:
    """Whether ``fit`` of an estimator takes a parameter; `likely` if it takes any."""
    if is_pipeline(estimator):
        step, _, rest = name.partition("__")
        inside = estimator.named_steps.get(step)
        return hasattr(inside, "fit") and takes_parameter(inside, rest, likely)
    known = signature(estimator.fit).parameters
    if name in known or not any(p.kind is Parameter.VAR_KEYWORD for p in known.values()):
        return name in known
    inside = getattr(estimator, "estimator", None)
    return takes_parameter(inside, name, likely) if hasattr(inside, "fit") else likely


def halves(splits: Sequence[Split], y: Labels, groups: Groups, seed: int) -> list[Split]:
    """Make two splits of each: one for each half of the training rows, same test rows."""
    y = np.asarray(y)
    out = []
    for train, test in splits:
        if groups is None:
            splitter = StratifiedKFold(2, shuffle=True, random_state=seed)
            parts = splitter.split(train, y[train])
        else:
            splitter = StratifiedGroupKFold(2, shuffle=True, random_state=seed)
            parts = splitter.split(train, y[train], np.asarray(groups)[train])
        out += [(train[half], test) for half, _ in parts]
    return out


class Parallel(parallel.Parallel):
    """scikit-learn's `Parallel` without the warning filters that torch has set in this process.

    scikit-learn sends all filters to the workers. One of torch's is for a class of its own, so
    each worker would import torch to read it, which takes seconds.
    """

    def __call__(self, iterable: Iterable[Any]) -> Any:
        """Start the jobs, as `joblib.Parallel` does."""
        with warnings.catch_warnings():
            warnings.filters = [
                kept
                for kept in warnings.filters
                if getattr(kept[2], "__module__", "").split(".")[0] != "torch"
            ]
            return super().__call__(iterable)
