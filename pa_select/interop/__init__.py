"""Adapters for other libraries, each imported only with its extra."""
