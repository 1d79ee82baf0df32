"""Training: epochs scored by agreement, the best one kept."""

from pa_select.training.early_stopping import PAEarlyStopping
from pa_select.training.scoring import PAScoring
from pa_select.training.selector import EpochSelector

__all__ = ["EpochSelector", "PAEarlyStopping", "PAScoring"]
