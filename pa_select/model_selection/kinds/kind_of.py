"""Which kind of data a search has, by its ``pairing`` and by what its ``fit`` was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from pa_select.model_selection.kinds.custom import CustomPairs
from pa_select.model_selection.kinds.environments import Environments
from pa_select.model_selection.kinds.folds import RepeatedFolds, SplitHalves
from pa_select.model_selection.kinds.kind import DataKind, RowsOfX
from pa_select.model_selection.kinds.pairs import PairedObjects
from pa_select.model_selection.kinds.views import Views
from pa_select.utils.typing import HasPairs, Search

#: The kinds that need no other data than X and y, and that ``pairing`` names.
PairingName: TypeAlias = Literal["repeated", "split-half"]
#: What ``pairing`` may be.
Pairing: TypeAlias = PairingName | HasPairs | Callable[..., Any]
PAIRINGS: tuple[PairingName, ...] = get_args(PairingName)
DEFAULT_PAIRING: PairingName = "repeated"

_NAMED: dict[str, type[DataKind]] = {kind.pairing: kind for kind in (RepeatedFolds, SplitHalves)}

# By the argument of ``fit``, how a kind is made of the rows, the argument's value and the search.
_GIVEN: dict[str, Callable[[RowsOfX, Any, Search], DataKind]] = {
    "environments": lambda rows, environments, _: Environments(rows, environments),
    "views": lambda rows, views, _: Views(rows, views),
    "paired": PairedObjects,
}
#: The arguments of ``fit`` that are data, beside X and y.
ARGUMENTS = tuple(_GIVEN)


def kind_of(rows: RowsOfX, search: Search, given: Mapping[str, Any]) -> DataKind:
    """Check what ``fit`` was given, by name, and return it as an object of its kind."""
    given = {name: value for name, value in given.items() if value is not None}
    pairing = search.pairing
    if not isinstance(pairing, str):
        return _of_pairing(rows, pairing, given)
    if len(given) > 1:
        first, second, *_ = given
        raise ValueError(f"{second}: expected None if {first} is given, got both.")
    for name, value in given.items():
        if pairing != DEFAULT_PAIRING:
            raise ValueError(f"{name}: expected None with pairing={pairing!r}.")
        return _GIVEN[name](rows, value, search)
    return _NAMED[pairing](rows)


def _of_pairing(rows: RowsOfX, pairing: Any, given: Mapping[str, Any]) -> DataKind:
    """Return the kind of a search whose `pairing` is an object or a function."""
    if callable(pairing) and "environments" not in given:
        raise ValueError(
            "environments: expected some in fit(X, y, environments=...) with a pairing of two "
            "samples, got None."
        )
    for name in [name for name in given if name != "environments"]:
        raise ValueError(
            f"{name}: expected None with a pairing object, which gets X, y, groups and "
            f"environments, got {type(given[name]).__name__}."
        )
    if callable(pairing):
        return Environments(rows, given["environments"], pairing)
    environments = Environments(rows, given["environments"]) if given else None
    return CustomPairs(rows, pairing, environments)
