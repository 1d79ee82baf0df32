"""Training: robust learners, epochs scored by agreement, the best one kept."""

from pa_select.training.early_stopping import PAEarlyStopping
from pa_select.training.learners import ERMNet, IRMNet, LISANet
from pa_select.training.scoring import PAScoring
from pa_select.training.selector import EpochSelector

__all__ = ["ERMNet", "EpochSelector", "IRMNet", "LISANet", "PAEarlyStopping", "PAScoring"]
