"""Checks of the arguments of a search's ``fit``, made before any work is done."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import wraps
from typing import Any

from pa_select.utils.messages import warn_caller

#: The arguments of ``fit`` beside X and y.
DATA = ("environments", "views", "target", "paired", "groups")

_suggested = False


def by_name(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``fit``: what is given beside X and y is given by name."""
    fit.__qualname__ = "fit"  # Python's own messages would name a base class

    @wraps(fit)
    def checked(self: Any, *given: Any, **params: Any) -> Any:
        if len(given) > 2:
            raise TypeError(
                f"fit: expected X, y, and {', '.join(DATA)} by name, such as fit(X, y, "
                f"environments=...), got {len(given)} arguments without a name."
            )
        return fit(self, *given, **params)

    return checked


def check_text(value: Any, name: str, X: Any) -> None:
    """Refuse the name of a column where one value for each row, or rows, are expected.

    Raises
    ------
    TypeError
        If value is a text; if X has that column, the message has the right call.
    """
    if not isinstance(value, str):
        return
    how = ""
    if value in list(getattr(X, "columns", [])):
        how = (
            f" X has a column of this name: call fit(X.drop(columns={value!r}), y, "
            f"{name}=X[{value!r}]), so that the model does not see this column."
        )
    rows = "one value for each row of X" if name in ("environments", "groups") else "rows like X"
    raise TypeError(f"{name}: expected {rows}, got the text {value!r}.{how}")


def check_selection(selection: Any, given: dict[str, Any]) -> None:
    """Check that ``fit`` was given the data that the selection rule needs.

    Raises
    ------
    ValueError
        If it was not.
    """
    needed = {"score_views": "views", "worst_environment": "environments", "expected": "paired"}
    for rule, name in needed.items():
        if isinstance(selection, str) and selection == rule and given.get(name) is None:
            raise ValueError(
                f"{name}: expected some in fit(X, y, {name}=...) with selection={rule!r}, got "
                "None."
            )


def check_site_parameters(adapter: Any, reference: Any, paired: Any) -> None:
    """Check the parameters that only pairs of two sites use.

    Raises
    ------
    ValueError
        If they are given without pairs, or `reference` is an unknown name.
    """
    named = isinstance(reference, str)
    if named and reference not in ("self", "ensemble"):
        raise ValueError(
            f"reference: expected 'self', 'ensemble' or a fitted estimator, got {reference!r}."
        )
    if paired is not None:
        return
    if adapter is not None:
        raise ValueError("adapter: expected None without fit(X, y, paired=...), got one.")
    if not named:
        raise ValueError(
            "reference: expected 'self' or 'ensemble' without fit(X, y, paired=...), got a "
            f"{type(reference).__name__}."
        )


def suggest_more_data(n_splits: int) -> None:
    """Warn once that a search without pairs, views, environments or a target gains little."""
    global _suggested
    if _suggested or multiprocessing.current_process().name != "MainProcess":
        return
    _suggested = True
    warn_caller(
        "fit was given no pairs, views, environments or target: the search compares the models "
        f"of repeated cross-validation ({n_splits} fits of each candidate). Expect a model as "
        "good as GridSearchCV's, but not better under a shift. In our studies "
        "fit(X, y, paired=...), with objects measured at both sites, and fit(X, y, views=...), "
        "with views that show the rows as the shift would, gained most. This warning is given "
        "once."
    )
