"""Bars of what agreeing and disagreeing pairs contribute to an agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import GREY, axes_for, ink, look, pyplot

if TYPE_CHECKING:
    from pa_select.agreement import Part, PosteriorAgreement

_WORDS = {"agree_right": "agree, right", "agree_wrong": "agree, wrong"}


class DecompositionDisplay:
    """Contributions of agreeing and disagreeing pairs to an agreement, as bars.

    Create it with `from_result`, or with `from_decomposition` or `from_decompositions` from
    what `PosteriorAgreement.decompose` returns. The bars are exact and add up to the
    agreement, the last bar. Marks show the thesis's approximations, where there are any.

    Parameters
    ----------
    groups : sequence of n_groups str
        The groups of pairs.
    contributions : array-like of shape (n_models, n_groups)
        Contribution of each group to each model's agreement, in nats per pair of all groups.
    approximations : array-like of shape (n_models, n_groups), default=None
        The thesis's approximations of the contributions; nan where there is none.
    n_pairs : sequence of n_groups int, default=None
        The number of pairs in each group, which is written below the group.
    names : sequence of n_models str, default=None
        Names of the models.

    Attributes
    ----------
    bars_ : list of matplotlib BarContainer
        For each model the bars of the groups and of their sum.
    approximations_ : matplotlib Line2D or None
        The marks of the approximations.
    ax_, figure_ : matplotlib Axes, Figure

    References
    ----------
    .. [1] Master's thesis on posterior agreement, section 4.2 and appendix B (the
       approximated contributions).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> from pa_select.plotting import DecompositionDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 200)
    >>> logits = 2 * np.eye(3)[y] + rng.normal(size=(200, 3))
    >>> result = posterior_agreement(logits, logits + rng.normal(size=(200, 3)))
    >>> display = DecompositionDisplay.from_result(result, y)
    >>> [round(float(bar.get_height()), 3) for bar in display.bars_[0]]
    [0.668, 0.024, -0.054, 0.638]
    >>> round(result.score, 3)
    0.638
    """

    def __init__(
        self,
        *,
        groups: Sequence[str],
        contributions: Any,
        approximations: Any = None,
        n_pairs: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.groups = groups
        self.contributions = contributions
        self.approximations = approximations
        self.n_pairs = n_pairs
        self.names = names

    @classmethod
    def from_result(
        cls, result: PosteriorAgreement, y: Any = None, *, ax: Any = None, **kwargs: Any
    ) -> DecompositionDisplay:
        """Decompose a result of `pa_select.posterior_agreement`, and draw it.

        Parameters
        ----------
        result : PosteriorAgreement
            A result that holds its scores, so not one of a search or a callback.
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes; without them agreeing pairs are not split into
            right and wrong, and there is no approximation.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to ``ax.bar``.

        Returns
        -------
        DecompositionDisplay

        Raises
        ------
        TypeError, ValueError
            If `y` is invalid, or the result does not hold its scores.
        """
        pyplot()
        if not hasattr(result, "decompose"):
            raise TypeError(f"result: expected a PosteriorAgreement, got {type(result).__name__}.")
        parts = result.decompose(y)
        weight = float(result.known_source().weight.sum())
        return cls.from_decomposition(parts, total_weight=weight, ax=ax, **kwargs)

    @classmethod
    def from_decomposition(
        cls,
        parts: Mapping[str, Part],
        *,
        total_weight: float | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> DecompositionDisplay:
        """Draw what `PosteriorAgreement.decompose` returns.

        Parameters
        ----------
        parts : dict of str to Part
            The groups.
        total_weight : float, default=None
            Sum of the pairs' weights. None: the number of pairs.
        ax, **kwargs
            As in `from_result`.

        Returns
        -------
        DecompositionDisplay

        Raises
        ------
        TypeError, ValueError
            If `parts` is not a decomposition, or `total_weight` is not positive.
        """
        pyplot()
        table = _table({"parts": parts}, total_weight)
        n_pairs = [part.n_pairs for part in parts.values()]
        return cls(**table, n_pairs=n_pairs).plot(ax, **kwargs)

    @classmethod
    def from_decompositions(
        cls,
        parts: Mapping[str, Mapping[str, Part]],
        *,
        total_weight: float | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> DecompositionDisplay:
        """Draw the decompositions of several models side by side.

        Parameters
        ----------
        parts : dict of str to (dict of str to Part)
            What `PosteriorAgreement.decompose` returns, by the name of the model.
        total_weight : float, default=None
            Sum of the pairs' weights, the same for all models. None: the number of pairs.
        ax, **kwargs
            As in `from_result`.

        Returns
        -------
        DecompositionDisplay

        Raises
        ------
        TypeError, ValueError
            If `parts` are not decompositions into the same groups, or `total_weight` is not
            positive.
        """
        pyplot()
        if not isinstance(parts, Mapping) or not parts:
            raise TypeError(
                "parts: expected a decomposition for each name of a model, got "
                f"{'none' if isinstance(parts, Mapping) else type(parts).__name__}."
            )
        table = _table({f"parts[{name!r}]": part for name, part in parts.items()}, total_weight)
        return cls(**table, names=[str(name) for name in parts]).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> DecompositionDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to ``ax.bar``.

        Returns
        -------
        DecompositionDisplay
            This display.
        """
        ax = axes_for(ax)
        exact = _with_sum(self.contributions)
        n_models, n_bars = exact.shape
        width = 0.8 / n_models if n_models > 1 else 0.6
        places = np.arange(n_bars) + width * (np.arange(n_models)[:, None] - (n_models - 1) / 2)
        self.bars_ = []
        for i, (x, heights) in enumerate(zip(places, exact, strict=True)):
            own = look(i)
            style = {"color": own.color, "hatch": own.hatch, "edgecolor": ink(ax), "lw": 0.8}
            label = "exact" if self.names is None else self.names[i]
            self.bars_.append(ax.bar(x, heights, width, label=label, **style | kwargs))
        self.approximations_ = None
        if self.approximations is not None and np.isfinite(self.approximations).any():
            # The sum is nan if an approximation is missing.
            (self.approximations_,) = ax.plot(
                places.ravel(),
                _with_sum(self.approximations).ravel(),
                "D",
                color="white",
                markeredgecolor="black",
                markersize=7,
                label="approximation of the thesis",
            )
        ax.axhline(0, color=ink(ax), lw=0.8)
        ax.axvline(n_bars - 1.5, color=GREY, lw=1, ls=(0, (1, 3)))
        ax.set_xticks(range(n_bars), self._ticks())
        ax.tick_params(axis="x", length=0)
        ax.set_ylabel("contribution to the agreement\n(nats per pair)")
        if n_models > 1 or self.approximations_ is not None:
            marks = [] if self.approximations_ is None else [self.approximations_]
            ax.legend(handles=[*self.bars_, *marks])
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _ticks(self) -> list[str]:
        ticks = [*(_WORDS.get(group, group) for group in self.groups), "sum"]
        if self.n_pairs is None:
            return ticks
        counts = [*self.n_pairs, sum(self.n_pairs)]
        return [f"{tick}\n{n} pairs" for tick, n in zip(ticks, counts, strict=True)]


def _with_sum(values: Any) -> Any:
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return np.column_stack([table, table.sum(1)])


def _table(decompositions: dict[str, Any], total_weight: float | None) -> dict[str, Any]:
    """Return the display's parameters, from decompositions by their names in errors."""
    first: list[str] = []
    for name, parts in decompositions.items():
        if not isinstance(parts, Mapping) or not all(hasattr(p, "total") for p in parts.values()):
            raise TypeError(
                f"{name}: expected what PosteriorAgreement.decompose returns, a dict of Part, "
                f"got {type(parts).__name__}."
            )
        first = first or list(parts)
        if list(parts) != first:
            raise ValueError(f"{name}: expected the groups {first}, got {list(parts)}.")
    if total_weight is not None and not total_weight > 0:
        raise ValueError(f"total_weight: expected a positive number, got {total_weight!r}.")
    groups = [list(parts.values()) for parts in decompositions.values()]
    weights = [total_weight or sum(part.n_pairs for part in parts) for parts in groups]

    def per_pair(of: str) -> Any:
        totals = np.array([[getattr(part, of) for part in parts] for parts in groups])
        return totals / np.array(weights)[:, None]

    return {
        "groups": first,
        "contributions": per_pair("total"),
        "approximations": per_pair("approximate"),
    }
