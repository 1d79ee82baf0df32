"""What ``fit`` of a search is called with, checked before any work is done."""

from __future__ import annotations

import multiprocessing
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from sklearn import get_config

from pa_select.utils.warn_caller import warn_caller

#: What ``fit`` takes beside X and y, and what estimators most often take.
DATA = ("environments", "views", "target", "groups")
_KNOWN = (*DATA, "sample_weight")

_suggested = False


def check_fit_params(estimator: Any, params: dict[str, Any]) -> None:
    """Check that the estimator's ``fit`` takes the parameters that are passed on to it.

    Raises
    ------
    TypeError
        If it does not, which every fit would find out anew.
    """
    if get_config()["enable_metadata_routing"]:
        return  # scikit-learn says it itself
    known = signature(estimator.fit).parameters
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
    for name in params:
        close = get_close_matches(name, _KNOWN, 1)
        # A pipeline takes the parameters of its steps, and says so by taking any.
        if name in known or takes_any and ("__" in name or name in _KNOWN or not close):
            continue
        meant = f" Did you mean {close[0]!r}?" if close and close[0] != name else ""
        raise TypeError(
            f"fit: expected {', '.join(DATA)} or a parameter of {type(estimator).__name__}.fit, "
            f"got {name!r}.{meant}"
        )


def check_text(value: Any, name: str, X: Any) -> None:
    """Refuse the name of a column where one value for each row, or rows, are expected.

    Raises
    ------
    TypeError
        With the call that gives the column, where X has it.
    """
    if not isinstance(value, str):
        return
    how = ""
    if value in list(getattr(X, "columns", [])):
        how = (
            f" X has a column of this name: call fit(X.drop(columns={value!r}), y, "
            f"{name}=X[{value!r}]), which does not let the model see it."
        )
    rows = "one value for each row of X" if name in ("environments", "groups") else "rows like X"
    raise TypeError(f"{name}: expected {rows}, got the text {value!r}.{how}")


def check_selection(selection: Any, given: dict[str, Any]) -> None:
    """Check that a rule that is named has the data that it looks at.

    Raises
    ------
    ValueError
        If ``fit`` was not given them.
    """
    for rule, name in (("score_views", "views"), ("worst_environment", "environments")):
        if isinstance(selection, str) and selection == rule and given[name] is None:
            raise ValueError(
                f"{name}: expected some in fit(X, y, {name}=...) with selection={rule!r}, got "
                "None."
            )


def suggest_more_data(n_splits: int) -> None:
    """Say once what a search without views, environments or a target can be expected to do."""
    global _suggested
    if _suggested or multiprocessing.current_process().name != "MainProcess":
        return
    _suggested = True
    warn_caller(
        "fit was given no views, environments or target: the search compares the models of "
        f"repeated cross-validation ({n_splits} fits of each candidate). Expect a model as good "
        "as GridSearchCV's, and not a better one under a shift. fit(X, y, views=...), with the "
        "rows as the shifted world would show them, gained most in our studies. This is said once."
    )
