"""Searches and the rules by which they select."""

from pa_select.search.selection import GuardedSelection

__all__ = ["GuardedSelection"]
