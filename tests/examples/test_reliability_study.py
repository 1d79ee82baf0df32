"""Posteriors that are calibrated on labelled rows tell the scores on held-out rows."""

import numpy as np
import pytest

STUDY = "study_reliability"


def test_a_model_with_flat_scores_off_centre(study):
    """A temperature alone said .09 too much of the area under the curve."""
    errors = study.errors_of("boosting, 20 small steps", "30 %", 4)
    assert abs(np.mean(errors["roc_auc_ovr"])) < 0.04
    assert abs(np.mean(errors["average_precision"])) < 0.06
    assert abs(np.mean(errors["accuracy"])) < 0.03


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_mean_error_is_within_two_standard_errors(study):
    """Ten draws have errors of their own: a small error is as good as none."""
    table = study.table_of(6)
    assert len(table) > 70
    allowed = 2 * table["standard_error"] + 0.015
    within = table["error"].abs() <= allowed
    assert within.mean() > 0.9
    assert table.loc[~within, "error"].abs().max() < 0.06
    assert table["error"].abs().mean() < 0.012
