"""Environments: the same things as others would show them."""

from pa_select.environments.shared import SharedEnvironment

__all__ = ["SharedEnvironment"]
