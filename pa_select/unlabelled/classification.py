"""The score that classifiers are expected to have at another site, from unlabelled pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring

from pa_select.scores.alignment import columns_of
from pa_select.scores.recorded import Recorded
from pa_select.unlabelled.accuracy_interval import accuracy_interval
from pa_select.unlabelled.calibration import calibrated, calibrating_beta
from pa_select.unlabelled.class_mix import other_mix_of_posteriors
from pa_select.unlabelled.expectation import (
    check_scorer,
    expected_scores,
    is_accuracy,
    number_of_rows,
)
from pa_select.unlabelled.pair_posteriors import PairPosteriors, check_same_classes
from pa_select.unlabelled.result import ExpectedScore
from pa_select.unlabelled.validated import Validated

# Stands for the classifier when a scorer is made from its name.
_ANY = Recorded(np.array([0, 1]), np.eye(2), np.array([0, 1]))


def of_classifiers(
    named: Mapping[str, Any],
    rows: Sequence[Any],
    y_val: NDArray[Any],
    scoring: Any,
    reference: Any,
    groups: NDArray[Any] | None = None,
    warnings: list[str] | None = None,
) -> dict[str, ExpectedScore]:
    """Record what classifiers predict, and estimate how they score at the other site.

    Parameters
    ----------
    named : dict of str to classifier
    rows : tuple of three
        Those of the pairs at both sites, and the labelled ones.
    y_val, scoring, reference, groups
        As in `expected_score`.
    warnings : list of str, default=None
        A warning is added if the paired objects seem to be of other classes.
    """
    scorer = check_scoring(_ANY, scoring)
    check_scorer(scorer, np.unique(y_val))
    a, b, val = (
        {name: Recorded.of(one, X, not is_accuracy(scorer)) for name, one in named.items()}
        for X in rows
    )
    if not isinstance(reference, str):
        of_a, of_val = (
            {"the reference": Recorded.of(reference, X, False)} for X in (rows[0], rows[2])
        )
        reference = PairPosteriors.mean_of(of_a, of_val, y_val)
    found = expected_of_recorded(a, b, val, y_val, scorer, reference, groups)
    if warnings is not None:
        best = max(found, key=lambda name: found[name].validation_score)
        beta = found[best].beta
        other = other_mix_of_posteriors(*(calibrated(one[best].scores, beta) for one in (a, val)))
        if other is not None:
            warnings.append(other.message("X_a", a[best].classes))
    return found


def expected_of_recorded(
    a: Mapping[str, Recorded],
    b: Mapping[str, Recorded],
    val: Mapping[str, Recorded],
    y_val: Any,
    scorer: Any,
    reference: PairPosteriors | Literal["self", "ensemble"] = "ensemble",
    groups: NDArray[Any] | None = None,
) -> dict[str, ExpectedScore]:
    """Estimate how classifiers score at another site, from their recorded predictions.

    Parameters
    ----------
    a, b : dict of str to Recorded
        What each classifier predicts for the same objects at both sites.
    val : dict of str to Recorded
        What it predicts for labelled rows.
    y_val : ndarray of shape (m,)
        Their labels.
    scorer : callable
        A scorer whose metric takes sample weights.
    reference : {"self", "ensemble"} or PairPosteriors, default="ensemble"
        What stands in for the labels of the pairs.
    groups : ndarray of shape (m,), default=None
        The group of each labelled row.
    """
    validated = Validated.of(scorer, val, y_val, groups)
    betas = {
        name: calibrating_beta(one.scores, columns_of(y_val, one.classes, name, "y_val"))
        for name, one in val.items()
    }
    if isinstance(reference, str) and reference == "ensemble" and len(a) > 1:
        check_same_classes(a)
        names = validated.most_accurate()
        reference = PairPosteriors.mean_of(
            {name: a[name] for name in names}, {name: val[name] for name in names}, y_val
        )
    is_shared = isinstance(reference, PairPosteriors)
    if isinstance(reference, PairPosteriors):
        posteriors = {name: reference.of(one.classes) for name, one in a.items()}
    else:
        posteriors = {name: calibrated(one.scores, betas[name]) for name, one in a.items()}
    scored = [expected_scores(scorer, [posteriors[n]], [a[n]], [b[n]]) for n in a]
    expected = validated.expected(scorer, scored, is_shrunk=is_shared and len(a) > 1)
    found = {}
    for name, score in zip(a, validated.scores.tolist(), strict=True):
        differ = a[name].predicted != b[name].predicted
        disagreement, n, limits = float(differ.mean()), len(differ), (np.nan, np.nan)
        if is_accuracy(scorer):
            n_labelled = number_of_rows(val[name], y_val, groups)
            found_limits = accuracy_interval(score, n_labelled, disagreement, n)
            limits = float(found_limits[0]), float(found_limits[1])
        found[name] = ExpectedScore(*expected[name], *limits, score, disagreement, betas[name], n)
    return found
