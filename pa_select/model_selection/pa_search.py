"""Searches that rank candidates by the agreement of their cross-validated models."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from pa_select.model_selection.base import BasePASearch
from pa_select.utils.sklearn_private import Interval


class PASearchCV(BasePASearch):
    """Search over a grid, ranked by the agreement of each candidate's models.

    Like `sklearn.model_selection.GridSearchCV`, with its names, attributes and delegated
    methods; but the best candidate is the one whose posteriors agree best among those
    that are also accurate. What is compared depends on the pairing: models fitted to
    different parts of the data, environments, or views of the same rows.

    Parameters
    ----------
    estimator : estimator object
        A classifier.
    param_grid : dict or list of dict
        As in GridSearchCV.
    pairing : str, callable or object, default="repeated"
        What counts as two samples of the same thing. Data given to ``fit`` under the name
        of a pairing choose that one.

        - "repeated": each row is tested by the models of two (or more) repetitions of
          cross-validation. By default these are 10 fits of each candidate, twice those of
          GridSearchCV. Expect a model as good as GridSearchCV's, and not a better one under
          a shift.
        - "split-half": the two halves of each split's training rows give two models, both
          score the test rows. Each model sees half of the rows, so scores are lower.
        - "environments": test rows of different environments with equal label, any number
          of environments. Where splits hold out whole environments, each row is scored by
          the model that has not seen its environment.
        - "views": each test row with itself as another environment would show it, both
          scored by the model that has seen neither.
        - "target": unlabelled rows of another source, scored by all models of the
          cross-validation; every two models are compared.
        - a pairing of two samples, such as `pa_select.pairing.NearestPairing`: like
          "environments", with every two of them paired by it.
        - an object with a method ``pairs(splits, X, y, *, environments, groups)`` that
          yields ``(split_a, rows_a, split_b, rows_b)``: row ``rows_a[i]``, scored by the
          model of split number ``split_a``, is compared with ``rows_b[i]``, scored by that
          of ``split_b``. No model may have been fitted to its rows.
    scoring : str, callable, list, tuple or dict, default=None
        As in GridSearchCV; guards the selection.
    cv : int, splitter, iterable or list of splitters, default=None
        As in GridSearchCV, or several splitters one after the other. None: 5 folds. The
        folds of a number are shuffled and repeated twice for "repeated" and "target",
        stratified by class and environment for "environments", and keep `groups`
        together. Folds that can be shuffled are repeated in another order for "repeated";
        splits that test no row twice make it "split-half", with a warning.
    selection : str or callable, default="guarded"
        How the best candidate is chosen.

        - "guarded": the best agreement among the candidates within 1 standard error of the
          best score. With "views" these are the candidates within 2 standard errors of the
          best score on the views' rows; with "target" the rule is "rank_sum".
        - "agreement": the best agreement, whatever the score. For research: it may choose
          a trivial candidate, and then warns.
        - "score": the best score, as GridSearchCV.
        - "score_views": the best score on the rows of the views, which uses their labels;
          needs `views` in ``fit``.
        - "worst_environment": the best score in the environment where it is worst; needs
          `environments` in ``fit``.
        - "rank_sum": the best sum of the ranks of score and agreement.
        - a rule ``cv_results -> index``: a `GuardedSelection` of your own,
          `within_one_standard_error`, or any function.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate to all rows. With several metrics the name of the
        one that guards and scores. A callable replaces `selection`, as in GridSearchCV.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of the agreement. The marginal prior is that of each fitted model. With
        the uniform one constant classifiers agree best.
    n_jobs, pre_dispatch, verbose, error_score
        As in GridSearchCV.
    random_state : int, RandomState instance or None, default=None
        Chooses the default folds and the partners of rows. None: always the same ones.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed.
    tol : float, default=1e-6
        Largest certified gap of the agreement in nats per pair; with the marginal prior
        maxima are polished and not certified, and `gap` is nan.
    memory : None, str, path or joblib.Memory, default=None
        Where the result of every finished (candidate, split) is kept. A search that was
        killed and is fitted again goes on from there, with the same results. Results are
        told apart by the data, the split, the scorers, the estimator with its parameters
        and its code.
    return_fold_scores : bool, default=False
        Keep the class scores of all models in ``fold_scores_``.
    dtype : dtype, default=None
        Type in which class scores are kept until they are compared; None: as the
        estimator gives them. ``np.float32`` halves the memory.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        As of GridSearchCV, and for each candidate (nan where it failed):

        - ``agreement``, ``agreement_se``, ``rank_agreement``: agreement in nats per pair,
          its standard error (which allows for pairs that share a row) and rank;
        - ``agreement_uniform``: the same with the uniform prior, the papers' metric;
        - ``beta``, ``agreement_rate``, ``gap``, ``n_pairs``: as in `PosteriorAgreement`;
        - ``eligible``, ``reason``: whether it could be chosen, and why, in words;
        - ``not_told_apart``: whether it is eligible and its agreement differs from that of
          the chosen candidate by less than two standard errors of the difference: among
          these the choice is one of chance;
        - ``n_failed_splits``;
        - ``se_test_<metric>``, ``chance_test_<metric>``: standard error of the mean score,
          and the best score of predictions that look at no feature;
        - with views: ``mean_test_<metric>_views``, the score on the views' rows (the
          control that uses the labels);
        - with environments: ``mean_test_<metric>_environment_<name>`` for each,
          ``mean_test_<metric>_worst_environment`` and ``worst_environment_<metric>``.
          Environments of fewer than 5 test rows, and those in which the metric is not
          defined (the recall where no row is positive), are left out of the worst, with a
          warning that names them;
        - with a target: ``source_agreement`` (where rows of X are tested twice),
          ``agreement_drop`` from there to the target, and ``class_balance_shift``, the
          share of predictions that would have to change for the predicted class balance
          on the target to be that on X.
    best_index_, best_params_, best_score_, best_estimator_ : int, dict, float, estimator
        As of GridSearchCV.
    agreement_terms_ : ndarray of shape (n_candidates, n_pairs)
        Agreement of every pair at the candidate's inverse temperature.
    pairing_ : str or object
        The pairing used.
    fold_scores_ : list of list of dict
        For each candidate and split the class scores, by source (0 is X, then the views
        or the target), of the rows in ``fold_rows_``; with `return_fold_scores`.
    fold_rows_ : list of dict
        For each split the rows of each source that its model scored.
    source_class_balance_, target_class_balance_ : ndarray of shape (n_candidates, n_classes)
        Shares of the predicted classes; with a target.
    n_fits_ : int
        How many fits the search stands for: candidates times splits, and one for the refit.
        Those whose results were found in `memory` are counted too.
    scorer_, n_splits_, refit_time_, multimetric_, feature_names_in_, classes_
        As of GridSearchCV.

    See Also
    --------
    PARandomizedSearchCV : The same over random parameters.
    PAScorer : Agreement as a scorer for other searches.

    Notes
    -----
    The pairs of all folds are one problem with one inverse temperature; a maximum for each
    fold would be biased upwards. A class that a model has not seen gets the row's lowest
    score.

    Agreement measures stability, not truth, so only candidates whose score is within an error
    of the best are eligible. Without views of the shift to come, expect a model as accurate as
    GridSearchCV's, not a better one.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       sections 3 (the metric) and 5.2 (model selection).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pa_select import PASearchCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> search = PASearchCV(model, {"logisticregression__C": [1e-4, 0.01, 1, 100]})
    >>> search.fit(X, y).best_params_
    {'logisticregression__C': 0.01}
    >>> search.cv_results_["agreement"].round(2)
    array([0.01, 1.09, 1.05, 1.04])
    >>> search.cv_results_["reason"][0]
    'not eligible: score 0.399 is not within 1 standard error of the best, 0.983'
    >>> search.n_fits_  # 4 candidates, 10 splits, and the refit
    41
    """

    _parameter_constraints: dict[str, Any] = {
        **BasePASearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        pairing: Any = "repeated",
        scoring: Any = None,
        cv: Any = None,
        selection: Any = "guarded",
        refit: Any = True,
        prior: Any = "marginal",
        n_jobs: Any = None,
        pre_dispatch: Any = "2*n_jobs",
        verbose: int = 0,
        error_score: Any = np.nan,
        random_state: Any = None,
        device: Any = None,
        tol: float = 1e-6,
        memory: Any = None,
        return_fold_scores: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            estimator,
            pairing=pairing,
            scoring=scoring,
            cv=cv,
            selection=selection,
            refit=refit,
            prior=prior,
            n_jobs=n_jobs,
            pre_dispatch=pre_dispatch,
            verbose=verbose,
            error_score=error_score,
            random_state=random_state,
            device=device,
            tol=tol,
            memory=memory,
            return_fold_scores=return_fold_scores,
            dtype=dtype,
        )
        self.param_grid = param_grid

    def _candidates(self) -> Iterable[dict[str, Any]]:
        return ParameterGrid(self.param_grid)


class PARandomizedSearchCV(BasePASearch):
    """Search over random parameters, ranked by the agreement of each candidate's models.

    `PASearchCV` over candidates drawn as by
    `sklearn.model_selection.RandomizedSearchCV`.

    Parameters
    ----------
    estimator : estimator object
        A classifier.
    param_distributions : dict or list of dict
        As in RandomizedSearchCV.
    n_iter : int, default=10
        How many candidates are drawn.
    random_state : int, RandomState instance or None, default=None
        Draws the candidates, and all else as in `PASearchCV`. None draws other candidates
        each time.
    pairing, scoring, cv, selection, refit, prior, n_jobs, pre_dispatch, verbose
        As in `PASearchCV`, as are all others.
    error_score, device, tol, memory, return_fold_scores, dtype
        As in `PASearchCV`.

    See Also
    --------
    PASearchCV : The same over a grid, with all parameters and attributes.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       sections 3 (the metric) and 5.2 (model selection).

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pa_select import PARandomizedSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> values = {"logisticregression__C": loguniform(1e-4, 1e4)}
    >>> search = PARandomizedSearchCV(model, values, n_iter=5, random_state=0).fit(X, y)
    >>> bool(search.best_score_ > 0.97)
    True
    """

    _parameter_constraints: dict[str, Any] = {
        **BasePASearch._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        n_iter: int = 10,
        *,
        pairing: Any = "repeated",
        scoring: Any = None,
        cv: Any = None,
        selection: Any = "guarded",
        refit: Any = True,
        prior: Any = "marginal",
        n_jobs: Any = None,
        pre_dispatch: Any = "2*n_jobs",
        verbose: int = 0,
        error_score: Any = np.nan,
        random_state: Any = None,
        device: Any = None,
        tol: float = 1e-6,
        memory: Any = None,
        return_fold_scores: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            estimator,
            pairing=pairing,
            scoring=scoring,
            cv=cv,
            selection=selection,
            refit=refit,
            prior=prior,
            n_jobs=n_jobs,
            pre_dispatch=pre_dispatch,
            verbose=verbose,
            error_score=error_score,
            random_state=random_state,
            device=device,
            tol=tol,
            memory=memory,
            return_fold_scores=return_fold_scores,
            dtype=dtype,
        )
        self.param_distributions = param_distributions
        self.n_iter = n_iter

    def _candidates(self) -> Iterable[dict[str, Any]]:
        return ParameterSampler(
            self.param_distributions, self.n_iter, random_state=self.random_state
        )
