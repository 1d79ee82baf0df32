"""The laboratory: what reproduces the papers' experiments, and is no part of the package."""
