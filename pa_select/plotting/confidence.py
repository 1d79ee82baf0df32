"""How confident a classifier is as trained and at the optimal inverse temperature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import GREY, axes_for, ink, legend_above, look, number, pyplot

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement

_WORDS = {"agree_right": "agree, right", "agree_wrong": "agree, wrong"}
_OF = {
    None: "average posterior of the predicted class",
    "first": "average posterior of the predicted class,\nfirst sample",
    "second": "average posterior of the predicted class,\nsecond sample",
    "kept": "average posterior of the first prediction,\nsecond sample",
}


class ConfidenceDisplay:
    """Average confidence where predictions agree and where not, as trained and at the optimum.

    Create it with `from_result` or `from_results`. A hollow mark shows the confidence at
    inverse temperature 1, as trained. A line leads from it to the filled mark at the optimum.
    Error bars are one standard error. The legend has the optimal inverse temperature. If it
    is below 1, the lines fall: the classifier was more confident than its agreement supports.

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
        The number of pairs in each group, which is written below the group.
    n_classes : int, default=None
        The number of classes, for the line of uniform posteriors.
    names : sequence of n_models str, default=None
        Names of the models.
    of : {"first", "second", "kept"}, default=None
        Which average is drawn, see `from_result`.

    Attributes
    ----------
    trained_, best_ : list of matplotlib ErrorbarContainer
        The hollow and the filled marks of each model.
    lines_ : list of matplotlib Line2D
        The lines from the hollow to the filled marks.
    uniform_ : matplotlib Line2D or None
        The line at the confidence of uniform posteriors.
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.PosteriorAgreement.confidence : Computes the numbers.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       Figures 4 and 6.
    .. [2] Master's thesis on posterior agreement, Figures 4.8 and 4.11.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pa_select import class_scores, posterior_agreement
    >>> from pa_select.environments import GaussianNoise
    >>> from pa_select.plotting import ConfidenceDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(
    ...     X, y, test_size=0.5, stratify=y, random_state=0
    ... )
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
    >>> noisy = GaussianNoise(2, relative=True)(X_test).X
    >>> before, after = (class_scores(model, rows)[0] for rows in (X_test, noisy))
    >>> result = posterior_agreement(before, after, prior="marginal")
    >>> display = ConfidenceDisplay.from_result(result)
    >>> print(f"beta* = {display.betas[0]:.2f}")
    beta* = 0.57
    >>> for group, was, now in zip(display.groups, display.trained[0], display.best[0]):
    ...     print(f"{group}: {was:.2f} -> {now:.2f}")
    agree: 0.96 -> 0.89
    disagree: 0.87 -> 0.78

    The inverse temperature is below 1: the model was too confident for noise this strong.
    """

    def __init__(
        self,
        *,
        groups: Sequence[str],
        trained: Any,
        best: Any,
        trained_errors: Any,
        best_errors: Any,
        betas: Sequence[float],
        n_pairs: Sequence[int] | None = None,
        n_classes: int | None = None,
        names: Sequence[str] | None = None,
        of: str | None = None,
    ) -> None:
        self.groups = groups
        self.trained = trained
        self.best = best
        self.trained_errors = trained_errors
        self.best_errors = best_errors
        self.betas = betas
        self.n_pairs = n_pairs
        self.n_classes = n_classes
        self.names = names
        self.of = of

    @classmethod
    def from_result(
        cls,
        result: PosteriorAgreement,
        y: Any = None,
        *,
        of: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ConfidenceDisplay:
        """Draw the confidence of a result of `pa_select.posterior_agreement`.

        Parameters
        ----------
        result : PosteriorAgreement
            A result that holds its scores, so not one of a search or a callback.
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes; without them agreeing pairs are not split into
            right and wrong.
        of : {"first", "second", "kept"}, default=None
            Which average of `Confidence` to draw. None, as in the thesis's figures: "first"
            if predictions agree, and "second", that of the misled prediction, if they do not.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to ``ax.errorbar``.

        Returns
        -------
        ConfidenceDisplay

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid, or the result does not hold its scores.
        """
        pyplot()
        table = _table({"result": result}, y, of)
        n_pairs = [group.n_pairs for group in result.confidence(y).values()]
        return cls(**table, n_pairs=n_pairs).plot(ax, **kwargs)

    @classmethod
    def from_results(
        cls,
        results: Mapping[str, PosteriorAgreement],
        y: Any = None,
        *,
        of: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ConfidenceDisplay:
        """Draw the confidence of several models side by side.

        Parameters
        ----------
        results : dict of str to PosteriorAgreement
            Results by the name of the model, of the same rows.
        y, of, ax, **kwargs
            As in `from_result`.

        Returns
        -------
        ConfidenceDisplay

        Raises
        ------
        TypeError, ValueError
            As `from_result`.
        """
        pyplot()
        if not isinstance(results, Mapping) or not results:
            raise TypeError(
                "results: expected a PosteriorAgreement for each name of a model, got "
                f"{'none' if isinstance(results, Mapping) else type(results).__name__}."
            )
        table = _table({f"results[{name!r}]": one for name, one in results.items()}, y, of)
        return cls(**table, names=[str(name) for name in results]).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ConfidenceDisplay:
        """Draw the marks.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to ``ax.errorbar``.

        Returns
        -------
        ConfidenceDisplay
            This display.
        """
        ax = axes_for(ax)
        n_models, n_groups = np.shape(self.best)
        slot = 0.8 / max(n_models, 2)
        self.trained_: list[Any] = []
        self.best_: list[Any] = []
        self.lines_: list[Any] = []
        for i in range(n_models):
            middle = np.arange(n_groups) + slot * (i - (n_models - 1) / 2)
            self._draw(ax, i, middle - slot / 4, middle + slot / 4, kwargs)
        self.uniform_ = None
        if self.n_classes is not None:
            self.uniform_ = ax.axhline(
                1 / self.n_classes,
                color=GREY,
                lw=1,
                ls=(0, (1, 3)),
                label="uniform posterior",
                zorder=0,
            )
        for between in range(n_groups - 1):
            ax.axvline(between + 0.5, color=GREY, lw=0.5, zorder=0)
        ax.set_xticks(range(n_groups), self._ticks())
        ax.tick_params(axis="x", length=0)
        ax.set(xlim=(-0.5, n_groups - 0.5), ylim=(0, 1.04), ylabel=_OF[self.of])
        hollow = pyplot().Line2D(
            [],
            [],
            color=ink(ax),
            marker="o",
            mfc="none",
            ls="none",
            label=r"at $\beta = 1$, as trained",
        )
        lines = [] if self.uniform_ is None else [self.uniform_]
        legend_above(ax, [*self.best_, hollow, *lines], handlelength=1.5)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, i: int, left: Any, right: Any, kwargs: dict[str, Any]) -> None:
        """Draw the two marks of one model in each group, and the lines between them."""
        own = look(i)
        style = {"color": own.color, "marker": own.marker, "ls": "none", "elinewidth": 1}
        style |= {"markersize": 6} | kwargs
        name = "" if self.names is None else f"{self.names[i]}: "
        beta = rf"{name or 'at '}$\beta^*$ = {number(self.betas[i])}"
        trained, best = np.asarray(self.trained)[i], np.asarray(self.best)[i]
        x = np.column_stack([left, right, np.full_like(left, np.nan)]).ravel()
        joined = np.column_stack([trained, best, np.full_like(best, np.nan)]).ravel()
        line = ax.plot(x, joined, color=style["color"], lw=1, alpha=0.6, zorder=1)
        self.lines_ += line
        hollow = style | {"mfc": ax.get_facecolor(), "label": "_nolegend_"}
        self.trained_.append(
            ax.errorbar(left, trained, np.asarray(self.trained_errors)[i], **hollow)
        )
        best_errors = np.asarray(self.best_errors)[i]
        self.best_.append(ax.errorbar(right, best, best_errors, **style | {"label": beta}))

    def _ticks(self) -> list[str]:
        ticks = [_WORDS.get(group, group) for group in self.groups]
        if self.n_pairs is None:
            return ticks
        return [f"{tick}\n{n} pairs" for tick, n in zip(ticks, self.n_pairs, strict=True)]


def _table(results: dict[str, Any], y: Any, of: str | None) -> dict[str, Any]:
    """Return the display's parameters, from results by their names in errors."""
    if of not in _OF:
        raise ValueError(f"of: expected 'first', 'second', 'kept' or None, got {of!r}.")
    for name, result in results.items():
        if not hasattr(result, "confidence"):
            raise TypeError(f"{name}: expected a PosteriorAgreement, got {type(result).__name__}.")
    found = {}
    for when, beta in (("trained", 1.0), ("best", None)):
        rows = [result.confidence(y, beta=beta) for result in results.values()]
        marks = [[_mark(name, group, of) for name, group in row.items()] for row in rows]
        found[when], found[f"{when}_errors"] = np.moveaxis(np.array(marks), 2, 0)
    n_classes = {result.n_classes for result in results.values()}
    return found | {
        "groups": list(rows[0]),
        "betas": [result.beta for result in results.values()],
        "n_classes": n_classes.pop() if len(n_classes) == 1 else None,
        "of": of,
    }


def _mark(name: str, group: Any, of: str | None) -> tuple[float, float]:
    """Return the average to draw for a group, and its standard error."""
    which = of or ("second" if name == "disagree" else "first")
    error = group.standard_errors[("first", "second", "kept").index(which)]
    return getattr(group, which), error
