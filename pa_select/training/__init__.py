"""Training: robust learners, and choosing the epoch with the best agreement."""

from pa_select.training.agreement_net import AgreementNet
from pa_select.training.early_stopping import PAEarlyStopping
from pa_select.training.epoch_scoring import PAScoring
from pa_select.training.epoch_selector import EpochSelector
from pa_select.training.posterior_agreement_loss import PosteriorAgreementLoss
from pa_select.training.shared_environment import SharedEnvironment

__all__ = [
    "AgreementNet",
    "EpochSelector",
    "PAEarlyStopping",
    "PAScoring",
    "PosteriorAgreementLoss",
    "SharedEnvironment",
]
