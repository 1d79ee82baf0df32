"""Checks of the parameters that are passed on to the ``fit`` of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from sklearn import get_config


def check_fit_params(estimator: Any, params: dict[str, Any], own: Sequence[str]) -> None:
    """Check that the estimator's ``fit`` takes the parameters that are passed on to it.

    Parameters
    ----------
    estimator : object
        The estimator.
    params : dict
        The parameters, by name.
    own : sequence of str
        The arguments that the caller's ``fit`` has itself, beside X and y.

    Raises
    ------
    TypeError
        If it does not.
    """
    if get_config()["enable_metadata_routing"]:
        return  # scikit-learn checks it
    known = signature(estimator.fit).parameters
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
    expected = (*own, "sample_weight")  # with the parameter that most estimators take
    for name in params:
        close = get_close_matches(name, expected, 1)
        # A pipeline takes any keyword, since it passes on the parameters of its steps.
        if name in known or takes_any and ("__" in name or name in expected or not close):
            continue
        meant = f" Did you mean {close[0]!r}?" if close and close[0] != name else ""
        raise TypeError(
            f"fit: expected {', '.join(own)} or a parameter of {type(estimator).__name__}.fit, "
            f"got {name!r}.{meant}"
        )
