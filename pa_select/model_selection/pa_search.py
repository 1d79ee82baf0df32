"""Searches that choose among candidates by the agreement of their cross-validated models."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.model_selection import ParameterGrid, ParameterSampler

from pa_select.model_selection.base import BasePASearch
from pa_select.utils.sklearn_private import Interval


@dataclass(eq=False, repr=False)
class PASearchCV(BasePASearch):
    """Search over a grid for the candidate that will work under a shift.

    It has the interface of `sklearn.model_selection.GridSearchCV`. With unlabelled objects
    that were measured at two sites (`paired`) the best candidate is the one with the highest
    expected score at the other site. Otherwise it is the one whose posteriors agree best,
    among the candidates that are also accurate. What is compared follows from what ``fit`` is
    given: models fitted to different parts of the data, environments, or views of the same rows.

    Parameters
    ----------
    estimator : estimator object
        A classifier, or with `paired` a regressor.
    param_grid : dict or list of dict
        As in GridSearchCV.
    pairing : {"repeated", "split-half"} or object, default="repeated"
        What is compared if ``fit`` is given no `environments`, `views` or `paired`.

        - "repeated": two models, from two (or more) repetitions of cross-validation, score
          each row. By default each candidate is fitted 10 times, twice as often as in
          GridSearchCV. Expect about the accuracy of GridSearchCV's model, also under a shift.
        - "split-half": two models, fitted to the two halves of a split's training rows,
          score its test rows. Each model sees half of the rows, so scores are lower.
        - a pairing of two samples, such as `pa_select.pairing.NearestPairing`: it pairs the
          rows of every two `environments`, which otherwise are paired by label.
        - an object with a method ``pairs(splits, X, y, *, environments, groups)`` that
          yields ``(split_a, rows_a, split_b, rows_b)``: row ``rows_a[i]``, scored by the
          model of split number ``split_a``, is compared with row ``rows_b[i]``, scored by
          the model of split number ``split_b``. A model must not be fitted to its rows.
    scoring : str, callable, list, tuple or dict, default=None
        As in GridSearchCV; this score decides which candidates are eligible, except with
        `paired` (by default its expected value decides; a function then takes `sample_weight`).
    cv : int, splitter, iterable or list of splitters, default=None
        As in GridSearchCV, or several splitters one after the other. None: 5 folds. For a
        number, folds are shuffled and repeated twice for "repeated", and stratified by class
        and environment with `environments`; folds keep `groups` together. For "repeated", a
        splitter with a parameter ``shuffle`` is used a second time in another order. If no row
        is tested twice, "repeated" becomes "split-half", with a warning.
    refit : bool, str, callable or PACommittee, default=True
        What is fitted to all rows in the end, and by which rule it is chosen. Except for
        "agreement", a rule chooses no candidate whose score is less than 2 standard errors above
        the score of predictions that ignore the features, unless no candidate is better.

        - True, "guarded": the best agreement among the candidates within 1 standard error of the
          best score. With `views` these are the candidates within 2 standard errors of the
          best score on the views' rows; with `paired` the rule is "expected".
        - "agreement": the best agreement, whatever the score; it may choose a trivial candidate.
        - "score": the best score, as in GridSearchCV.
        - "expected": the best expected score at the other site, at the worst one of several;
          needs `paired` in ``fit``.
        - a function ``cv_results -> index``, as in GridSearchCV, such as
          `pa_select.model_selection.GuardedSelection` with other options.
        - "committee": all candidates that the data cannot tell apart, as `PACommittee` keeps them;
          a `PACommittee` without a search sets its options.
        - with several metrics, the name of the one that is the score, for "guarded"; of the other
          rules the first metric is the score.
        - False: one is chosen, and none is fitted; with several metrics none is chosen.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of the agreement. Each fitted model has its own marginal prior; if one has
        fewer than five compared pairs for each class, all models share one, since few pairs
        would lower the agreement. With the uniform prior constant classifiers agree best.
    n_jobs, pre_dispatch, error_score
        As in GridSearchCV. A candidate whose class scores are missing or cannot be compared has
        no agreement, and the column ``error`` says why.
    verbose : int, default=0
        1: a line shows the progress of the fits. From 2 on each fit has lines as in GridSearchCV.
    random_state : int, RandomState instance or None, default=None
        Chooses the default folds and the pairs. None: always the same.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed.
    memory : None, str, path or joblib.Memory, default=None
        Keeps the result of every finished (candidate, split), as the memory of a Pipeline keeps
        its steps. If a search is stopped and fitted again, it continues from there, with the same
        results. Clear the folder after a change of code that the fits run.
    adapter : None, "ridge" or estimator, default=None
        With `paired`: a regression that maps rows of the other site to rows like X, as
        `pa_select.SiteAdapter` does. Each candidate is judged with and without it, and the
        better score counts. The regressions are cross-fitted: each pair is mapped by one that
        has not seen it. If the other site has other columns, candidates are judged with the
        adapter alone. Rows of the other site go to `best_adapted_`: ``predict`` and ``score`` of
        the search do not adapt them.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        The columns of GridSearchCV, and for each candidate (nan if it has no such value):

        - ``agreement``, ``agreement_se``: agreement in nats per pair, and its standard error
          (which allows for pairs that share a row); of regressors the mean
          `regression_agreement` over the splits, which decides nothing;
        - ``agreement_uniform``: agreement with the uniform prior, the papers' metric (this and
          ``beta``, ``gap`` and ``n_pairs``, as in `PosteriorAgreement`, only for classifiers);
        - ``eligible``, ``error``: whether the candidate could be chosen, and the first error;
        - ``weight``: the posterior of the candidate in `posterior_`; left out if that is None;
        - ``se_test_<metric>``, ``chance_test_<metric>``: standard error of the mean score, from
          the out-of-fold rows (from the scores of the splits, if the metric needs more than the
          recorded predictions), and the best score of predictions that ignore the features. If
          splits hold out whole environments, the error covers only the rows within them;
        - with views: ``mean_test_<metric>_views``, the score on the views' rows, by the labels;
        - with environments: ``mean_test_<metric>_environment_<name>`` for each,
          ``mean_test_<metric>_worst_environment`` and ``worst_environment_<metric>``. If the
          shares of the classes differ between environments, so may a model's accuracies, also if
          it recognises each class equally often; "balanced_accuracy" then does not differ;
        - if splits hold out whole environments, at least three, or with pairs of at least three
          sites: ``new_site_low`` and ``new_site_high``, the 95 % interval of the score at a new
          site (`new_site_interval`); with several metrics ``new_site_low_<metric>`` and
          ``new_site_high_<metric>``;
        - with pairs: ``expected_<metric>``, the expected score at the other site,
          ``expected_<metric>_se``, its standard error over the objects and the labelled rows,
          which includes how wrong the posteriors are on these, ``expected_<metric>_se_pairs``,
          the part of it that more pairs would make smaller (`plan_pairs`), and ``disagreement``,
          the share of the objects whose two predicted classes differ (for regressors the root
          mean squared difference of the two predictions). For the accuracy and the usual
          regression errors, ``expected_<metric>_low`` and ``expected_<metric>_high`` are a 95 %
          interval that holds even if the posteriors are not calibrated. With an adapter,
          ``adapted`` says whether adapted rows have the higher expected score; the columns named
          in this item then describe adapted rows. With several sites they describe the
          candidate's worst site, ``worst_site``, and each has a version for every site, such as
          ``expected_score_<site>``.
    best_index_, best_params_, best_score_, best_estimator_ : int, dict, float, estimator
        As in GridSearchCV. With ``refit="committee"`` `best_estimator_` is the fitted
        `PACommittee`; the others describe the best single candidate.
    decides_ : str
        The metric or column of ``cv_results_`` that ranked the eligible candidates.
    posterior_ : CandidatePosterior or None
        How many candidates the data can tell apart, and the weight of each. The parts of the data
        that are compared are as in `candidate_posterior`; with `environments` each has the rows of
        half of the environments, with `views` the score is the one on their rows, and with
        `paired` it is the expected score from half of the pairs, at the candidate's worst site.
        None if no two test folds are disjoint, or no candidate has a score in all parts.
    committee_score_ : float
        The committee's cross-validated score, by the votes of its out-of-fold models. It is
        cross-fitted: the weights and calibrations that vote on a fold are made of the others. nan
        if a member has no class scores, or the scorer looks at the features. Only with
        ``refit="committee"``.
    certified_choice_ : bool or None
        Whether it is certified that no other eligible candidate has a higher agreement: the upper
        bounds, ``agreement + gap``, of the others do not exceed the chosen candidate's agreement.
        None if the agreement does not decide. It ignores sampling error; for that see `compare`.
    best_adapted_ : estimator or dict
        The model to use at the other site: a pipeline of the fitted adapter and
        `best_estimator_` if adapted rows have the higher expected score, or else
        `best_estimator_`; in a committee so for each member. A dict with several sites. Only with
        `paired` and `refit`.
    expected_score_, expected_score_se_ : float
        The expected score of the chosen candidate, or of the committee, and its standard error:
        report plus and minus 1.96 of it. With an adapter it is the score of `best_adapted_`. The
        best of many candidates looks a little better than it is. Only with `paired`.
    expected_interval_ : tuple of float or None
        Its 95 % interval (low, high) of the accuracy, or of the (root) mean
        squared or mean absolute error; None for other metrics. Only with `paired`.
    n_objects_ : int or dict
        Number of different paired objects; by site if there are several. Only with `paired`.
    warnings_ : list of str
        What the last ``fit`` warned about.
    agreement_terms_ : ndarray of shape (n_candidates, n_pairs)
        Agreement of every pair at the candidate's inverse temperature; only for classifiers.
    pairing_ : str or object
        What was compared: "environments", "views" or "paired", if ``fit`` was given them; or
        else "repeated", "split-half" or the object that made the pairs.
    n_fits_ : int
        Number of fits: candidates times splits, and one for each refitted model. It includes the
        fits whose results were found in `memory`.
    scorer_, n_splits_, refit_time_, multimetric_, feature_names_in_, classes_
        As in GridSearchCV.

    See Also
    --------
    PARandomizedSearchCV : The search over random parameters.
    PACommittee : The committee, also for scikit-learn's searches.
    PAScorer : Agreement as a scorer for other searches.
    expected_score : The expected score of a trained classifier.

    Notes
    -----
    The pairs of all folds are one problem with one inverse temperature; a maximum for each
    fold would be biased upwards. A class that a model has not seen gets the row's lowest
    score. Agreement measures stability, not truth, so only candidates whose score is close to the
    best score are eligible, except with pairs. The page :doc:`/paired` says what the expected
    score is, and what it assumes.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (the metric ``agreement_uniform``).

    Examples
    --------
    >>> import numpy as np
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
    >>> search.cv_results_["eligible"]
    array([False,  True,  True,  True])

    With wines measured on another instrument, too, which nobody tasted:

    >>> X, y, X_a = X[::2], y[::2], X[1::2]
    >>> X_b = X_a + 1.5 * X_a.std(0) * np.random.default_rng(0).normal(size=X_a.shape)
    >>> search = PASearchCV(model, {"logisticregression__C": [0.01, 1, 100]})
    >>> search = search.fit(X, y, paired=(X_a, X_b))
    >>> print(f"{search.expected_score_:.2f} +- {search.expected_score_se_:.2f}")
    0.77 +- 0.05
    """

    param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePASearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def _candidates(self) -> Iterable[dict[str, Any]]:
        return ParameterGrid(self.param_grid)


@dataclass(eq=False, repr=False)
class PARandomizedSearchCV(BasePASearch):
    """Search over random parameters for the candidate whose models agree best.

    It is `PASearchCV` with candidates drawn as in
    `sklearn.model_selection.RandomizedSearchCV`.

    Parameters
    ----------
    estimator : estimator object
        A classifier, or with `paired` a regressor.
    param_distributions : dict or list of dict
        As in RandomizedSearchCV.
    n_iter : int, default=10
        Number of candidates to draw.
    random_state : int, RandomState instance or None, default=None
        Draws the candidates, and chooses the folds and pairs as in `PASearchCV`. None draws
        other candidates each time.
    pairing, scoring, cv, refit, prior, n_jobs, pre_dispatch, verbose, error_score, device
        As in `PASearchCV`.
    memory, adapter
        As in `PASearchCV`.

    See Also
    --------
    PASearchCV : The search over a grid; it documents all parameters and attributes.

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

    param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    n_iter: int = 10

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePASearch._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def _candidates(self) -> Iterable[dict[str, Any]]:
        return ParameterSampler(
            self.param_distributions, self.n_iter, random_state=self.random_state
        )
