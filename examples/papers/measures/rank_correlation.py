"""Rank correlations of measures of models with what the models lose under a shift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import kendalltau
from sklearn.utils import check_random_state

from pa_select.utils.messages import optional_import
from pa_select.utils.p_values import adjust_by_holm
from pa_select.utils.typing import Floats, Frame, Index, RandomState


@dataclass(frozen=True, eq=False)
class RankCorrelation:
    """Rank correlations of measures with gaps, from `rank_correlation`.

    Attributes
    ----------
    measures, gaps : list of str
        Names of the n_measures measures and n_gaps gaps.
    tau : ndarray of shape (n_measures, n_gaps)
        Kendall's tau-b, in [-1, 1]; nan where one of the two is constant.
    p_value : ndarray of shape (n_measures, n_gaps)
        P-values for the hypothesis of no association, not adjusted.
    p_adjusted : ndarray of shape (n_measures, n_gaps)
        P-values adjusted by Holm's method; all correlations of the table are one family.
    low, high : ndarray of shape (n_measures, n_gaps)
        Ends of the bootstrap percentile intervals; nan without a bootstrap.
    n_models : ndarray of shape (n_measures, n_gaps)
        Number of models with both values.
    """

    measures: list[str]
    gaps: list[str]
    tau: Floats
    p_value: Floats
    p_adjusted: Floats
    low: Floats
    high: Floats
    n_models: Index

    def __repr__(self) -> str:
        return (
            f"RankCorrelation({len(self.measures)} measures x {len(self.gaps)} gaps of "
            f"{int(self.n_models.max())} models)"
        )

    def to_frame(self) -> Frame:
        """Return the table as a DataFrame.

        Returns
        -------
        pandas.DataFrame
            A row for each measure and gap, with the columns "measure", "gap", "tau", "low",
            "high", "p_value", "p_adjusted" and "n_models".

        Raises
        ------
        ImportError
            If pandas, which comes with the extra ``plot``, is missing.
        """
        names = [(measure, gap) for measure in self.measures for gap in self.gaps]
        columns = ("tau", "low", "high", "p_value", "p_adjusted", "n_models")
        return optional_import("pandas", "plot").DataFrame(
            {"measure": [m for m, _ in names], "gap": [g for _, g in names]}
            | {column: getattr(self, column).ravel() for column in columns}
        )


def rank_correlation(
    measures: Any,
    gaps: Any,
    *,
    confidence_level: float = 0.95,
    n_bootstrap: int = 1000,
    random_state: RandomState = None,
) -> RankCorrelation:
    """Compute rank correlations of measures of models with what the models lose.

    If tau is negative, models with a higher measure lose less.

    Parameters
    ----------
    measures : DataFrame or dict of str to array-like of shape (n_models,)
        Measures of the models; nan where a value is missing.
    gaps : DataFrame or dict of str to array-like of shape (n_models,)
        What the same models lose, in the same order, for example the accuracy drops of
        `robustness_curve`.
    confidence_level : float, default=0.95
        Confidence level of the intervals, in (0, 1).
    n_bootstrap : int, default=1000
        Number of bootstrap replicates, drawn from the models; 0 for no intervals.
    random_state : int, RandomState instance or None, default=None
        Chooses the replicates; with None they are the same in each call.

    Returns
    -------
    RankCorrelation
        With `to_frame()`; `draw_correlations` draws it.

    Raises
    ------
    TypeError, ValueError
        If the tables do not hold numbers for the same two or more models, or another argument
        is invalid; the message names it.

    Notes
    -----
    Each correlation uses the models that have both values. Holm's method bounds the
    probability of any false finding in the whole table, so compute tables that you judge
    together in one call.

    A replicate draws models with replacement. Two copies of one model do not form a pair; a
    pair of different models is weighted by the product of their multiplicities. The
    intervals assume that the models are independent, which models of one grid are only in
    part.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", section 3.4.
    .. [2] M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 1945.
    .. [3] S. Holm, "A simple sequentially rejective multiple test procedure", 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.measures import rank_correlation
    >>> rng = np.random.default_rng(0)
    >>> loss = rng.normal(size=40)
    >>> measures = {"good": rng.normal(size=40) - 2 * loss, "useless": rng.normal(size=40)}
    >>> found = rank_correlation(measures, {"accuracy drop": loss})
    >>> found.to_frame()[["measure", "tau", "low", "high", "p_adjusted"]].round(3)
       measure    tau    low   high  p_adjusted
    0     good -0.659 -0.779 -0.524       0.000
    1  useless  0.092 -0.166  0.336       0.402
    """
    if not 0 < confidence_level < 1:
        raise ValueError(
            f"confidence_level: expected a number between 0 and 1, got {confidence_level!r}."
        )
    whole = isinstance(n_bootstrap, (int, np.integer)) and not isinstance(n_bootstrap, bool)
    if not whole or n_bootstrap < 0 or n_bootstrap == 1:
        raise ValueError(f"n_bootstrap: expected 0 or at least 2, got {n_bootstrap!r}.")
    names_x, x = _table(measures, "measures")
    names_y, y = _table(gaps, "gaps")
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"gaps: expected {x.shape[1]} models as in measures, got {y.shape[1]} models."
        )
    if _is_frame(measures) and _is_frame(gaps) and not measures.index.equals(gaps.index):
        raise ValueError("gaps: expected the index of measures, got another one.")

    shape = len(x), len(y)
    tau, p_value = np.full(shape, np.nan), np.full(shape, np.nan)
    n_models = (~np.isnan(x)).astype(np.intp) @ (~np.isnan(y)).T.astype(np.intp)
    for i, j in product(*map(range, shape)):
        both = ~(np.isnan(x[i]) | np.isnan(y[j]))
        if both.sum() >= 2:
            tau[i, j], p_value[i, j] = kendalltau(x[i][both], y[j][both])
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    if n_bootstrap:
        replicates = _replicates(x, y, int(n_bootstrap), random_state)
        ends = (1 - confidence_level) / 2, (1 + confidence_level) / 2
        # A replicate may have drawn only models of the same value.
        some = ~np.isnan(replicates).all(0) & ~np.isnan(tau)
        if some.any():
            low[some], high[some] = np.nanquantile(replicates[:, some], ends, axis=0)
    return RankCorrelation(
        names_x,
        names_y,
        tau,
        p_value,
        adjust_by_holm(p_value),
        low,
        high,
        n_models,
    )


def _is_frame(table: object) -> bool:
    return hasattr(table, "columns") and hasattr(table, "index")


def _table(table: Any, name: str) -> tuple[list[str], Floats]:
    """Return the names, and the numbers of shape (n_names, n_models)."""
    if not (_is_frame(table) or isinstance(table, Mapping)):
        raise TypeError(
            f"{name}: expected a DataFrame or a dict of columns, got {type(table).__name__}."
        )
    keys = list(table.keys())
    if not keys:
        raise ValueError(f"{name}: expected at least one column, got none.")
    columns: list[Floats] = []
    for key in keys:
        try:
            column = np.asarray(table[key], dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name}: expected numbers in {key!r}, got others.") from None
        n = len(columns[0]) if columns else column.size
        if column.shape != (n,) or n < 2:
            expected = f"shape ({n},)" if columns else "a column of at least 2 models"
            raise ValueError(f"{name}: expected {expected} in {key!r}, got {column.shape}.")
        columns.append(column)
    return [str(key) for key in keys], np.stack(columns)


def _replicates(x: Floats, y: Floats, n: int, random_state: RandomState) -> Floats:
    """Return the correlations of n bootstrap samples, of shape (n, n_measures, n_gaps)."""
    n_models = x.shape[1]
    first, second = np.triu_indices(n_models, 1)
    sign_x, sign_y = (_order(z[:, first], z[:, second]) for z in (x, y))
    known_x, known_y = (
        (~(np.isnan(z[:, first]) | np.isnan(z[:, second]))).astype(np.float64) for z in (x, y)
    )
    untied_x, untied_y = sign_x**2, sign_y**2
    rng = check_random_state(0 if random_state is None else random_state)
    counts = rng.multinomial(n_models, np.full(n_models, 1 / n_models), n)
    result = np.empty((n, len(x), len(y)))
    for replicate, drawn in zip(result, counts, strict=True):
        weight = (drawn[first] * drawn[second]).astype(np.float64)
        concordance = (sign_x * weight) @ sign_y.T
        pairs = ((untied_x * weight) @ known_y.T) * ((known_x * weight) @ untied_y.T)
        replicate[:] = np.nan
        np.divide(concordance, np.sqrt(pairs), out=replicate, where=pairs > 0)
    return result


def _order(a: Floats, b: Floats) -> Floats:
    """Return 1 where a > b, -1 where a < b, and 0 for ties and missing values."""
    # np.sign(a - b) would be nan for two infinite values, which are tied.
    return (a > b).astype(np.float64) - (a < b)
