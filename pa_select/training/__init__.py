"""Training: robust learners, and choosing the epoch with the best agreement."""

from pa_select.training.early_stopping import PAEarlyStopping
from pa_select.training.epoch_scoring import PAScoring
from pa_select.training.epoch_selector import EpochSelector
from pa_select.training.learners import AdversarialNet, AgreementNet, ERMNet, IRMNet, LISANet
from pa_select.training.posterior_agreement_loss import PosteriorAgreementLoss

__all__ = [
    "AdversarialNet",
    "AgreementNet",
    "ERMNet",
    "EpochSelector",
    "IRMNet",
    "LISANet",
    "PAEarlyStopping",
    "PAScoring",
    "PosteriorAgreementLoss",
]
