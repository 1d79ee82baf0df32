"""Pickles that load only with the minor versions with which they were saved."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

import sklearn

from pa_select._version import __version__


class SavedWithVersions:
    """Mixin for estimators and scorers that hold scikit-learn estimators.

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
    return {"scikit-learn": sklearn.__version__, "pa_select": __version__}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
