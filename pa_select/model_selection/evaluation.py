"""Interim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn import get_config

from pa_select.model_selection.work import with_parameters  # noqa
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import is_pipeline
from pa_select.utils.sklearn_private import _check_method_params, _num_samples
from pa_select.utils.typing import Array, Ints, Rows

ARGUMENTS = ("environments", "views", "paired")
_SAID_FOR_ENVIRONMENTS = {
    *("site", "domain", "group", "batch", "batche", "env", "centre", "center", "hospital"),
    *("sensor", "device", "instrument", "scanner", "subject", "metadata"),
}


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


def params_of_rows(X: Rows, params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of ``fit`` as arrays that splits can index, as GridSearchCV does.

    Weights may have the shape (n, 1), as labels may. Estimators would refuse it at each fit.
    """
    params = _check_method_params(X, params=params)
    for name, value in params.items():
        if name.endswith("sample_weight") and np.ndim(value) > 1:
            params[name] = check_column(value, _num_samples(X), name)
    return params


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


#: The metrics of a search that has a single one.
ONE_METRIC = ["score"]


def metrics_of(scoring: Any) -> list[str] | None:
    """Return the names of a search's metrics; None if only the results of a function tell."""
    if isinstance(scoring, (list, tuple, Mapping, set)):
        return list(scoring)
    # A scorer that `make_scorer` made returns a number; a function may return several.
    return None if callable(scoring) and not hasattr(scoring, "_score_func") else ONE_METRIC


def check_only_metric(metric: str | None) -> None:
    """Refuse the name of a metric that a search of a single one does not have."""
    if metric not in [*ONE_METRIC, None]:
        raise ValueError(
            f"metric: expected {ONE_METRIC[0]!r} or None, since the search has a single metric, "
            f"got {metric!r}."
        )


def undefined(
    metric: str, split: int, why: str, test: Ints | None = None, sites: Array | None = None
) -> str:
    """Say that a metric is not finite in a split, at which site, and why if that is known."""
    where = ""
    if test is not None and sites is not None:
        held_out = np.unique(np.asarray(sites)[test]).tolist()
        where = f", which holds out {held_out[0]!r}" if len(held_out) == 1 else ""
    return f"{metric} is not finite in split {split}{where}{why and ': '}{why}"


def class_of_rows(y: Array) -> str:
    """Say that test rows are all of one class, and what to do; an empty text if they are not."""
    classes = np.unique(y).tolist()
    if len(classes) > 1:
        return ""
    return (
        f"its {len(y)} test rows are all of class {classes[0]!r}, and a metric such as roc_auc is "
        "not defined without rows of the other class. Leave such rows out, join sites, or choose "
        "by another metric, such as 'accuracy'"
    )
