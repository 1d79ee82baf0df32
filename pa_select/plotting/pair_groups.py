"""Groups of pairs: how confident a classifier is in each, and what each contributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pa_select.plotting.axes import (
    DOTTED,
    GREY,
    Display,
    named_results,
    number,
    pyplot,
    style_of,
    text_colour,
)
from pa_select.utils.typing import Axes, Floats, Labels, Matrix

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement
    from pa_select.agreement.posteriors import Confidence

_WORDS = {
    "agree_right": "agree, right",
    "agree_wrong": "agree, wrong",
    "right": "right before",
    "wrong": "wrong before",
}


@dataclass(eq=False, repr=False, kw_only=True)
class ConfidenceDisplay(Display):
    """Average confidence where predictions agree and where not, as trained and at the optimum.

    Create it with `from_result`. A line leads from the hollow mark at inverse temperature 1, as
    trained, to the filled mark at the optimum. Error bars are one standard error. Lines that fall
    mean that the classifier was over-confident. As in the thesis, the averages are of the second
    sample for pairs that disagree or are misled, and of the first sample for the others. Keywords
    of `plot` go to ``ax.errorbar``.

    Parameters
    ----------
    groups : sequence of n_groups str
        The groups of pairs.
    trained, best : array-like of shape (n_models, n_groups)
        Average posterior at inverse temperature 1 and at the optimum; nan for no pairs.
    trained_errors, best_errors : array-like of shape (n_models, n_groups)
        Standard errors of `trained` and `best`; nan for fewer than two pairs.
    betas : sequence of n_models float
        The optimal inverse temperatures, in [0, inf].
    n_pairs : sequence of n_groups int, default=None
        The number of pairs in each group.
    n_classes : int, default=None
        The number of classes, for the line of uniform posteriors.
    names : sequence of n_models str, default=None
        Names of the models.

    Attributes
    ----------
    trained_, best_ : list of matplotlib ErrorbarContainer
        The hollow and the filled marks of each model.
    lines_ : list of matplotlib Line2D
        The lines from the hollow to the filled marks.
    uniform_ : matplotlib Line2D or None
        The line at the confidence of uniform posteriors.
    ax_, figure_ : matplotlib Axes, Figure

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       Figures 4 and 6.
    .. [2] Master's thesis on posterior agreement, Figures 4.8 and 4.11.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import ConfidenceDisplay, posterior_agreement
    >>> rng = np.random.default_rng(0)
    >>> logits = 5 * np.eye(3)[rng.integers(0, 3, 200)]
    >>> noisy = logits + 3 * rng.normal(size=logits.shape)
    >>> display = ConfidenceDisplay.from_result(posterior_agreement(logits, noisy))
    >>> display.groups  # over-confident, both where predictions agree and where not
    ['agree', 'disagree']
    >>> [f"{was:.2f} -> {now:.2f}" for was, now in zip(display.trained[0], display.best[0])]
    ['0.99 -> 0.96', '0.74 -> 0.69']
    """

    groups: Sequence[str]
    trained: Floats
    best: Floats
    trained_errors: Floats
    best_errors: Floats
    betas: Sequence[float]
    n_pairs: Sequence[int] | None = None
    n_classes: int | None = None
    names: Sequence[str] | None = None

    _shapes = {"n_pairs": ("groups",), "names": ("betas",)} | dict.fromkeys(
        ("trained", "best", "trained_errors", "best_errors"), ("betas", "groups")
    )

    @classmethod
    def from_result(
        cls,
        result: PosteriorAgreement | Mapping[str, PosteriorAgreement],
        y: Labels | None = None,
        *,
        misled: bool = False,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw `pa_select.PosteriorAgreement.confidence` of a result, or of several.

        Parameters
        ----------
        result : PosteriorAgreement or dict of str to PosteriorAgreement
            A result of `pa_select.posterior_agreement`, because those of searches and callbacks
            do not hold their scores; or results for the same rows by the name of the model, which
            are drawn side by side.
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes. None: agreeing pairs are not split into right and
            wrong.
        misled : bool, default=False
            Whether the groups are right before, wrong before and misled, as in the thesis.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        from pa_select.agreement import PosteriorAgreement

        results, names = named_results(result, PosteriorAgreement)
        averages = {}
        for name, beta in (("trained", 1.0), ("best", None)):
            groups = [one.confidence(y, beta=beta, misled=misled) for one in results]
            averages[name], averages[f"{name}_errors"] = _averages(groups)
        n_pairs = [group.n_pairs for group in groups[0].values()] if names is None else None
        n_classes = {one.n_classes for one in results}
        return cls(
            groups=list(groups[0]),
            **averages,
            betas=[one.beta for one in results],
            n_pairs=n_pairs,
            n_classes=n_classes.pop() if len(n_classes) == 1 else None,
            names=names,
        ).plot(ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        n_models, n_groups = np.shape(self.best)
        slot = 0.8 / max(n_models, 2)
        self.trained_: list[Any] = []
        self.best_: list[Any] = []
        self.lines_: list[Any] = []
        for i in range(n_models):
            middle = np.arange(n_groups) + slot * (i - (n_models - 1) / 2)
            self._draw_model(ax, i, middle - slot / 4, middle + slot / 4, kwargs)
        self.uniform_ = None
        if self.n_classes:
            self.uniform_ = ax.axhline(1 / self.n_classes, label="uniform posterior", **DOTTED)
        for between in range(n_groups - 1):
            ax.axvline(between + 0.5, color=GREY, lw=0.5, zorder=0)
        _name_groups(ax, self.groups, self.n_pairs)
        ax.set(xlim=(-0.5, n_groups - 0.5), ylim=(0, 1.04))
        ax.set_ylabel("average posterior of the predicted class")
        style = {"color": text_colour(ax), "marker": "o", "mfc": "none", "ls": "none"}
        hollow = pyplot().Line2D([], [], label=r"at $\beta = 1$, as trained", **style)
        self._legend(ax, [*self.best_, hollow, self.uniform_], handlelength=1.5)

    def _draw_model(
        self, ax: Axes, i: int, left: Floats, right: Floats, kwargs: dict[str, Any]
    ) -> None:
        """Draw the two marks of one model in each group, and the lines between them."""
        style: dict[str, Any] = {"ls": "none", "elinewidth": 1, "markersize": 6}
        style |= {"color": style_of(i).color, "marker": style_of(i).marker} | kwargs
        name = "at " if self.names is None else f"{self.names[i]}: "
        trained, best = self.trained[i], self.best[i]
        ends = [left, right], [trained, best]
        self.lines_ += ax.plot(*ends, color=style["color"], lw=1, alpha=0.6, zorder=1)
        hollow = style | {"mfc": ax.get_facecolor(), "label": "_nolegend_"}
        filled = style | {"label": rf"{name}$\beta^*$ = {number(self.betas[i])}"}
        self.trained_.append(ax.errorbar(left, trained, self.trained_errors[i], **hollow))
        self.best_.append(ax.errorbar(right, best, self.best_errors[i], **filled))


@dataclass(eq=False, repr=False, kw_only=True)
class DecompositionDisplay(Display):
    """Contributions of agreeing and disagreeing pairs to an agreement, as bars.

    Create it with `from_result`. The bars are exact and add up to the agreement, the last bar.
    Marks show the thesis's approximations, if there are any. Keywords of `plot` go to ``ax.bar``.

    Parameters
    ----------
    groups : sequence of n_groups str
        The groups of pairs.
    contributions : array-like of shape (n_models, n_groups)
        Contribution of each group to each model's agreement, in nats per pair of all groups.
    approximations : array-like of shape (n_models, n_groups), default=None
        The thesis's approximations of the contributions; nan where there is none.
    n_pairs : sequence of n_groups int, default=None
        The number of pairs in each group.
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
    .. [1] Master's thesis on posterior agreement, section 4.2 and appendix B (approximations).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import DecompositionDisplay, posterior_agreement
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 200)
    >>> logits = 2 * np.eye(3)[y] + rng.normal(size=(200, 3))
    >>> result = posterior_agreement(logits, logits + rng.normal(size=(200, 3)))
    >>> display = DecompositionDisplay.from_result(result, y)
    >>> [round(float(bar.get_height()), 3) for bar in display.bars_[0]]  # the last: result.score
    [0.668, 0.024, -0.054, 0.638]
    """

    groups: Sequence[str]
    contributions: Matrix
    approximations: Matrix | None = None
    n_pairs: Sequence[int] | None = None
    names: Sequence[str] | None = None

    _shapes = dict.fromkeys(("contributions", "approximations"), ("contributions", "groups")) | {
        "n_pairs": ("groups",),
        "names": ("contributions",),
    }

    @classmethod
    def from_result(
        cls,
        result: PosteriorAgreement | Mapping[str, PosteriorAgreement],
        y: Labels | None = None,
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw `pa_select.PosteriorAgreement.decompose` of a result, or of several.

        Parameters
        ----------
        result : PosteriorAgreement or dict of str to PosteriorAgreement
            As in `ConfidenceDisplay.from_result`.
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes. None: agreeing pairs are not split into right and
            wrong, and there is no approximation.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        from pa_select.agreement import PosteriorAgreement
        from pa_select.agreement.result import source_of

        results, names = named_results(result, PosteriorAgreement)
        parts = [one.decompose(y) for one in results]
        weights = np.array([[source_of(one).weight.sum()] for one in results])
        total, approximate = (
            np.array([[getattr(part, name) for part in groups.values()] for groups in parts])
            for name in ("total", "approximate")
        )
        n_pairs = [part.n_pairs for part in parts[0].values()] if names is None else None
        return cls(
            groups=list(parts[0]),
            contributions=total / weights,
            approximations=approximate / weights,
            n_pairs=n_pairs,
            names=names,
        ).plot(ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        exact = _with_sum(self.contributions)
        n_models, n_bars = exact.shape
        width = 0.8 / n_models if n_models > 1 else 0.6
        places = np.arange(n_bars) + width * (np.arange(n_models)[:, None] - (n_models - 1) / 2)
        self.bars_ = []
        for i, (x, heights) in enumerate(zip(places, exact, strict=True)):
            style = {
                "color": style_of(i).color,
                "hatch": style_of(i).hatch,
                "edgecolor": text_colour(ax),
            }
            style |= {"label": "exact" if self.names is None else self.names[i], "lw": 0.8}
            self.bars_.append(ax.bar(x, heights, width, **style | kwargs))
        self.approximations_ = None
        if self.approximations is not None and np.isfinite(self.approximations).any():
            # The sum is nan if an approximation is missing.
            heights = _with_sum(self.approximations).ravel()
            style = {"color": "white", "mec": "black", "markersize": 7, "ls": "none"}
            style |= {"marker": "D", "label": "approximation of the thesis"}
            (self.approximations_,) = ax.plot(places.ravel(), heights, **style)
        ax.axhline(0, color=text_colour(ax), lw=0.8)
        ax.axvline(n_bars - 1.5, **DOTTED)
        n_pairs = None if self.n_pairs is None else [*self.n_pairs, sum(self.n_pairs)]
        _name_groups(ax, [*self.groups, "sum"], n_pairs)
        ax.set_ylabel("contribution to the agreement\n(nats per pair)")
        if n_models > 1 or self.approximations_ is not None:
            self._legend(ax, [*self.bars_, self.approximations_])


def _averages(models: Sequence[Mapping[str, Confidence]]) -> tuple[Floats, Floats]:
    """Return the average to draw for each model and group, and its standard error."""

    def average(group: str, confidence: Confidence) -> tuple[float, float]:
        if group in ("disagree", "misled"):
            return confidence.second, confidence.standard_errors[1]
        return confidence.first, confidence.standard_errors[0]

    table = np.array([[average(*item) for item in groups.items()] for groups in models])
    return table[..., 0], table[..., 1]


def _name_groups(ax: Axes, groups: Sequence[str], n_pairs: Sequence[int] | None) -> None:
    """Write the groups below the axes, with their numbers of pairs."""
    ticks = [_WORDS.get(group, group) for group in groups]
    if n_pairs is not None:
        ticks = [f"{tick}\n{n} pairs" for tick, n in zip(ticks, n_pairs, strict=True)]
    ax.set_xticks(range(len(ticks)), ticks)
    ax.tick_params(axis="x", length=0)


def _with_sum(values: Matrix) -> Floats:
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return np.column_stack([table, table.sum(1)])
