"""What a fitted search is asked: to compare candidates, plan pairs, sum up and report."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection.choice import agreement_comparison, expected_comparison, rule_of
from pa_select.model_selection.results_table import objects_of_choice
from pa_select.model_selection.table_columns import first_metric
from pa_select.utils.typing import Floats, Frame

if TYPE_CHECKING:
    from pa_select.agreement.compare_agreement import AgreementComparison
    from pa_select.agreement.solved_problems import PooledPairs
    from pa_select.two_sites.score_of_units import Differences


class FittedSearchMixin:
    """Methods of a search that read its attributes."""

    cv_results_: dict[str, Any]
    best_index_: int
    agreement_terms_: Floats
    _pairs: PooledPairs
    _differences: Mapping[str, Differences]

    def compare(self, i: int, j: int, *, site: str | None = None) -> AgreementComparison:
        """Compare two candidates: their agreement, or with pairs their expected score.

        Parameters
        ----------
        i, j : int
            Indices of candidates in ``cv_results_["params"]``; the column ``index`` of `summary`.
        site : str, default=None
            The site of a dict of pairs at which the expected scores are compared. None: each
            candidate's worst one.

        Returns
        -------
        AgreementComparison
            ``difference``, the agreement of i minus the agreement of j in nats per pair, or the
            difference of their expected scores; its ``standard_error``; and the two-sided
            ``p_value`` of no difference. The error of agreements is that of the mean over the
            same pairs, and allows for pairs that share a row. The error of expected scores is
            that of the differences over the labelled rows and over the pairs, which both
            candidates predict (:doc:`/paired`). On sixteen simulated shifts 1.96 of it held 94 %
            of the differences with 40 pairs and 85 % with 300, as each candidate has a bias of its
            own. The p-value is valid for two candidates that were
            named beforehand: the best of many looks better than it is, and ``p_adjusted`` is the
            same. ``interval`` is nan: nothing is resampled. All are nan if a candidate has no
            such value. With pairs and a rule that looks at the agreement, it is the agreement.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        IndexError
            If i or j is not the index of a candidate.
        ValueError
            If `site` is not the name of one, or agreements are compared.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> search = search.fit(*load_wine(return_X_y=True))
        >>> found = search.compare(1, 0)
        >>> found.difference > 0, found.p_value < 0.05
        (True, True)
        """
        check_is_fitted(self, "cv_results_")
        table, n = self.cv_results_, len(self.cv_results_["params"])
        for name, value in (("i", i), ("j", j)):
            if not isinstance(value, numbers.Integral) or not 0 <= value < n:
                raise IndexError(
                    f"{name}: expected the index of a candidate in cv_results_['params'], 0 to "
                    f"{n - 1}, got {value!r}."
                )
        expected = f"expected_{first_metric(self, table)}"
        if expected in table and not rule_of(self, table).by_agreement:
            # The empty name is that of the worst sites, which None stands for.
            if site not in {None, *self._differences} - {""}:
                raise ValueError(
                    f"site: expected one of {list(self._differences)[1:]}, got {site!r}."
                )
            return expected_comparison(self._differences[site or ""], i, j)
        if site is not None:
            raise ValueError(f"site: expected None to compare agreements, got {site!r}.")
        return agreement_comparison(
            self.agreement_terms_[i], self.agreement_terms_[j], self._pairs
        )

    def plan_pairs(self, n_pairs: Sequence[int] = (20, 50, 100, 200, 500)) -> dict[int, float]:
        """Predict the standard error of the expected score with other numbers of pairs.

        Parameters
        ----------
        n_pairs : sequence of int, default=(20, 50, 100, 200, 500)
            The numbers of objects measured at both sites, each at least 2.

        Returns
        -------
        dict of int to float
            For each number the standard error that ``expected_score_se_`` would have if further
            objects are like those of the search; with several sites at the worst one. The part of
            it that is not due to the pairs stays (see the notes of the function `plan_pairs`). On
            simulated shifts the prediction was 0.94 to 1.40 times the later one with 20 first
            pairs, in nine of ten cases.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ValueError
            If the search was fitted without pairs, or with a single one, or `n_pairs` are not
            whole numbers of at least 2.

        See Also
        --------
        pa_select.plan_pairs : The same for trained models, with intervals.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.utils import shuffle
        >>> from pa_select import PASearchCV
        >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
        >>> again = X + np.random.default_rng(0).normal(scale=0.5 * X.std(axis=0), size=X.shape)
        >>> search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]})
        >>> search = search.fit(X[:140], y[:140], paired=(X[140:], again[140:]))
        >>> now, with_100 = search.plan_pairs([38, 100]).values()
        >>> with_100 < now, abs(now - search.expected_score_se_) < 1e-9
        (True, True)
        """
        from pa_select.two_sites.pair_planning import checked_sizes, error_with_pairs

        check_is_fitted(self, "cv_results_")
        sizes, n = checked_sizes(n_pairs), objects_of_choice(self)
        if n < 2:
            raise ValueError(
                "plan_pairs: expected a search that was fitted with at least two pairs, "
                f"fit(X, y, paired=...), got {n} pairs."
            )
        error = f"expected_{first_metric(self, self.cv_results_)}_se"
        whole, of_pairs = (
            self.cv_results_[e][self.best_index_] for e in (error, f"{error}_pairs")
        )
        return {size: error_with_pairs(whole, of_pairs, n, size) for size in sizes}

    def summary(self) -> Frame:
        """Return a small table: a row for each candidate, and what decided between them.

        Returns
        -------
        pandas.DataFrame
            A row is named by the parameters that differ. The chosen candidate is first, then
            come the other eligible ones; the value that decides orders them. The columns are
            ``chosen``, and those of ``cv_results_`` that decide: first the value that orders the
            rows, then other scores and agreements, each with its standard error, for each site if
            there are several, the worst environment's name, ``eligible``, ``not_told_apart`` and
            ``weight``; the last one is ``index``, which `compare` takes. Print all of them with
            ``to_string()``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> table = search.fit(*load_wine(return_X_y=True)).summary()
        >>> table.index.tolist(), table["chosen"].tolist()
        (['max_depth=3', 'max_depth=1'], [True, False])
        """
        from pa_select.model_selection.results_table import summary

        return summary(self)

    def report(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write a page for readers who do not program: what was chosen, and how sure it is.

        Parameters
        ----------
        path : str, path or None, default=None
            The file of HTML to write, in UTF-8. None: the page is returned.

        Returns
        -------
        str or None
            The page, if no file is written: what to use, the expected score with its range, who
            votes in a committee, the candidates, and what was warned of. It is self-contained, and
            runs no script.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ImportError
            If pandas is not installed.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> "with max_depth=3</strong>" in search.fit(*load_wine(return_X_y=True)).report()
        True
        """
        from pa_select.model_selection.report import report

        page = report(self)
        if path is None:
            return page
        # Not returned, too: a notebook would show its source.
        Path(path).write_text(page, encoding="utf-8")
        return None
