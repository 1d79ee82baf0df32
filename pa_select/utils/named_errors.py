"""Errors that say which of several candidates they are about."""

from __future__ import annotations

from pa_select.utils.score_checks import BadScoresError

# Other types may take other arguments than a message.
_KEPT = (TypeError, ValueError, RuntimeError)


def named_error(error: Exception, name: str) -> Exception:
    """Return an error whose message begins with a name; its type is kept if it is common."""
    kind = next((kind for kind in _KEPT if isinstance(error, kind)), RuntimeError)
    if type(error) is kind or isinstance(error, BadScoresError):
        return kind(f"{name}: {error}")
    return kind(f"{name}: {type(error).__name__}: {error}")
