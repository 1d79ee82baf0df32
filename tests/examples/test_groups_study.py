"""How often errors hold if pairs are in groups."""

import numpy as np
import pytest

STUDY = "study_groups"


@pytest.mark.filterwarnings("ignore:X_a and X_b. expected at least 20 objects:UserWarning")
def test_errors_of_images_hold_nearly_as_often_as_they_say(study, monkeypatch):
    monkeypatch.setattr(study, "IMAGES", (4, 30))
    table = study.table_of(25).set_index(["metric", "images"])
    assert (table["held"] >= 0.65).all()  # of 25 draws
    assert table.loc["accuracy", "interval"].min() == 1
    assert np.isnan(table.loc["neg_log_loss", "interval"]).all()


def test_images_differ_in_their_classes_and_in_how_far_they_are_moved(study):
    a, b, y, images = study.draw(50, 40, seed=0)
    moved = np.bincount(images, (b - a)[:, 0]) / 40
    assert moved.min() > 0
    assert moved.std() > 0.2
    assert (np.bincount(images, y == 0) / 40).std() > 0.1
