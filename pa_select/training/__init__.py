"""Training: epochs scored by agreement, the best one kept."""

from pa_select.training.callbacks import PAEarlyStopping, PAScoring
from pa_select.training.selector import EpochSelector

__all__ = ["EpochSelector", "PAEarlyStopping", "PAScoring"]
