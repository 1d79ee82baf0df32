"""Helpers for all other packages; they import nothing else of pa_select."""
