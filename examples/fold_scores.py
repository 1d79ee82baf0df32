"""
Class scores of the folds
=========================

What some studies read beside ``cv_results_``: the class scores (of regressors the predictions) of
the model of each candidate and split, which a search does not keep.
"""

from sklearn.base import clone

from pa_select.model_selection.checks import check_given
from pa_select.model_selection.comparison import compare
from pa_select.model_selection.work import evaluate
from pa_select.scores.precomputed import Stacks

DATA = ("environments", "views", "paired", "groups")


def compared(search, X, y, **data):
    """Return what a search is given and what it compares; nothing is fitted."""
    given = check_given(search, X, y, {}, **dict.fromkeys(DATA) | data)
    return given, compare(given, search.cv, search.pairing)


def test_folds(search, X, y, **data):
    """Return the test rows of each split."""
    return [test for _, test in compared(search, X, y, **data)[1].splits]


def fold_scores(search, X, y, **data):
    """Return the scores of each candidate, split and sample, and the rows that they are of.

    Sample 0 is X; then come the views, or for each site the rows of a and of b. The models are
    fitted once more, unless the search keeps them with `memory`.
    """
    search = clone(search)
    given, comparison = compared(search, X, y, **data)
    options = {x: getattr(search, x) for x in ("memory", "n_jobs", "pre_dispatch", "verbose")}
    outcomes = evaluate(
        list(search._candidates()),
        clone(search.estimator),
        comparison.tasks(given),
        given,
        search._begin(given),
        **options,
    )
    rows = comparison.scored_rows
    stacks = Stacks(outcomes, rows, given.labels)
    scores = [
        [
            {sample: stacks.matrix(candidate, split, sample) for sample in of_split}
            for split, of_split in enumerate(rows)
        ]
        for candidate in range(len(stacks))
    ]
    return scores, rows
