"""Outputs that skorch keeps of the validation rows while it scores an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def cached_for_only(rows: Any, net: Any) -> Iterator[None]:
    """Let a net return outputs that skorch has cached for these rows, and compute all others.

    skorch's ``EpochScoring`` gives a scorer a net that returns the outputs of the validation
    rows once, whatever rows it is asked for. A scorer that asks for other rows, too, needs this.

    Parameters
    ----------
    rows : object
        The rows that were given to the scorer.
    net : object
        A skorch net, or another estimator, which is left as it is.
    """
    cached = getattr(net, "__dict__", {}).get("forward_iter")
    if cached is None:
        yield
        return
    batches = list(cached())

    def forward_iter(X: Any, *args: Any, **kwargs: Any) -> Any:
        return iter(batches) if X is rows else type(net).forward_iter(net, X, *args, **kwargs)

    net.forward_iter = forward_iter
    try:
        yield
    finally:
        net.forward_iter = lambda *_, **__: iter(batches)
