"""The experiments with epoch selection choose as they say."""

import numpy as np

from papers import epoch_selection as selection

FOUND = {
    "accuracy": np.array([0.2, 0.90, 0.93, 0.93]),
    "error": np.full(4, 0.02),
    "AFR_P": np.array([1.0, 0.8, 0.9, 1.0]),
    "PA, uniform": np.array([1.0, 0.4, 0.5, 0.6]),
    "PA": np.array([0.9, 0.8, 0.5, 0.6]),
    "last epoch": np.arange(4),
    "best epoch": np.array([10.0, 60.0, 50.0, 40.0]),
}


def test_each_rule_keeps_its_best_epoch():
    assert selection.choices(FOUND) == {
        "accuracy": 2,  # the earlier one of two
        "AFR_P": 0,
        "PA, uniform": 0,
        "PA": 0,
        "PA, guarded": 3,  # epoch 1 is more than a standard error less accurate
        "last epoch": 3,
        "best epoch": 1,
    }


def test_epochs_vote_with_the_weight_that_their_labels_give_them():
    labels = np.array([0, 1] * 20)
    good, bad = np.eye(2)[labels], 3 * np.eye(2)[1 - labels]
    # The third epoch is right, and the last one wrong and more sure. The first two do not vote.
    logits = np.stack([bad, bad, good, bad])
    problem = selection.Problem(
        [], {"a": (None, labels), "b": (None, labels)}, {}, [(None, labels)]
    )
    found = selection.votes(problem, ({"a": logits, "b": logits}, [logits]), ("a", "b"))
    weighted, equal = (found[name].item() for name in selection.COMMITTEES)
    assert (weighted, equal) == (100, 0)
