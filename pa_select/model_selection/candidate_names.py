"""Short names of a search's candidates, from the parameters that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

# Largest numbers of characters of one value, and of a whole name.
_LONGEST_VALUE = 40
_LONGEST_NAME = 60


def candidate_names(params: Sequence[dict[str, Any]], estimator: Any = None) -> list[str]:
    """Return names such as "SVC, C=10", from the parameters that differ between candidates.

    Parameters
    ----------
    params : sequence of dict
        The parameters of each candidate, as in ``cv_results_["params"]``.
    estimator : object, default=None
        The estimator of the search; its class is the name of a candidate if no parameter
        differs.

    Returns
    -------
    list of str
        A name for each candidate, of at most 60 characters.
    """
    keys = list(dict.fromkeys(key for candidate in params for key in candidate))
    identities: dict[int, str] = {}  # by id, because the repr of an estimator takes long

    def identity(value: Any) -> str:
        if id(value) not in identities:
            identities[id(value)] = f"{type(value).__name__} {value!r}"
        return identities[id(value)]

    of_key: dict[str, list[str]] = {
        key: [identity(candidate[key]) for candidate in params if key in candidate] for key in keys
    }
    varying = [key for key in keys if len(set(of_key[key])) > 1]
    # A parameter with one value distinguishes candidates that have it from those that do not.
    sometimes = [key for key in keys if key in varying or len(of_key[key]) < len(params)]
    short, long = (_names(params, some, identity) for some in (varying, sometimes))
    times = Counter(short)
    names = [a if a and times[a] == 1 else b for a, b in zip(short, long, strict=True)]
    return [_cut(name or _class_name(estimator), _LONGEST_NAME) for name in names]


def _names(params: Sequence[dict[str, Any]], keys: list[str], identity: Any) -> list[str]:
    """Return a name for each candidate, from those of the keys that it has."""
    words = {key: key.rpartition("__")[2] for key in keys}
    times = Counter(words.values())
    parts: list[list[str]] = [[] for _ in params]
    for key in keys:
        word = words[key] if times[words[key]] == 1 else key
        having = [i for i, candidate in enumerate(params) if key in candidate]
        same_class: dict[str, set[str]] = {}
        for i in having:
            same_class.setdefault(_class_name(params[i][key]), set()).add(identity(params[i][key]))
        for i in having:
            value = params[i][key]
            parts[i].append(_part(word, value, len(same_class[_class_name(value)]) == 1))
    return [", ".join(own) for own in parts]


def _part(word: str, value: Any, only_one: bool) -> str:
    """Return a parameter's text; for an estimator its class, if there is one of that class."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _class_name(value) if only_one else _in_line(repr(_last_step(value)))
    if callable(value) and hasattr(value, "__name__"):
        text = str(value.__name__)
    elif isinstance(value, float):
        text = f"{value:.3g}"
    else:
        text = _in_line(str(value))
    return f"{word}={text}"


def _last_step(estimator: Any) -> Any:
    """Return the estimator, or that of the last step of a pipeline."""
    steps = getattr(estimator, "steps", None)
    return _last_step(steps[-1][1]) if isinstance(steps, list) and steps else estimator


def _class_name(value: Any) -> str:
    return "" if value is None else type(_last_step(value)).__name__


def _in_line(text: str) -> str:
    return _cut(" ".join(text.split()), _LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
