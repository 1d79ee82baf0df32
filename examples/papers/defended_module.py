"""
A torch module, its normalisation, and a defence of its outputs
===============================================================

Pretrained nets expect normalised images, and attacks expect pixels in [0, 1]. This is how any
torch module, such as a model of RobustBench, is scored and attacked: with the normalisation in
front. The paper (Section 4.1) also has a net that is defended around its weights: images are
compressed as JPEG before it, and its confidence is bent by a reverse sigmoid after it. Does the
agreement see whether that helps?
"""

# %%
# A residual net with its normalisation in front
# ----------------------------------------------
# The net learns digits that are normalised, for some seconds. ``nn.Sequential`` puts the
# normalisation in front, so that attacks see pixels.
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import pandas as pd
import torch
from torch import nn

from pa_select import class_scores, posterior_agreement, robustness_curve
from pa_select.shifts import FGSM, PGD
from papers.attacked_digits import digits, train
from papers.learners import AdversarialNet
from papers.posteriors import confidence
from papers.shifts import Corruption


class Normalize(nn.Module):
    """Subtract a mean and divide by a deviation."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.mean, self.deviation = mean, deviation

    def forward(self, x):
        return (x - self.mean) / self.deviation


class Block(nn.Module):
    """Two convolutions, added to what came in."""

    def __init__(self, n):
        super().__init__()
        self.inside = nn.Sequential(
            nn.Conv2d(n, n, 3, padding=1),
            nn.BatchNorm2d(n),
            nn.ReLU(),
            nn.Conv2d(n, n, 3, padding=1),
            nn.BatchNorm2d(n),
        )

    def forward(self, x):
        return torch.relu(x + self.inside(x))


class ResNet(nn.Sequential):
    """A stem, two blocks and the classes."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1), Block(16), nn.AvgPool2d(2), Block(16), nn.Flatten(),
            nn.Linear(256, 10),
        )  # fmt: skip


X_train, X_test, y_train, y_test = digits()
mean, deviation = float(X_train.mean()), float(X_train.std())
torch.manual_seed(0)
pretrained, rows = ResNet(), torch.tensor((X_train - mean) / deviation)
optimiser = torch.optim.Adam(pretrained.parameters(), lr=2e-3)
for _ in range(15):
    for batch in torch.randperm(len(rows)).split(64):
        optimiser.zero_grad()
        nn.functional.cross_entropy(
            pretrained(rows[batch]), torch.tensor(y_train)[batch]
        ).backward()
        optimiser.step()
resnet = nn.Sequential(Normalize(mean, deviation), pretrained)
columns = ["estimator", "clean_accuracy", "afr_true", "afr_pred", "pa", "beta"]
curve = robustness_curve({"ResNet": resnet}, X_test, y_test, shift=FGSM(0.1, bounds=(0, 1)))
print(curve.to_frame()[columns].round(2).to_string(index=False))

# %%
# A model of RobustBench has its normalisation inside. With the package and the images of CIFAR-10
# in [0, 1], of shape (n, 3, 32, 32), the call is::
#
#     from robustbench.utils import load_model
#
#     model = load_model("Wang2023Better_WRN-28-10", dataset="cifar10", threat_model="Linf")
#     robustness_curve({"Wang et al.": model}, X, y, shift=PGD(8 / 255, bounds=(0, 1)))


# %%
# JPEG before, a reverse sigmoid after
# ------------------------------------
# The gradient of JPEG is 0 or infinite. An attack that takes the gradient of the identity in its
# place is not stopped by that. The reverse sigmoid (Lee et al., 2018) moves the probability p by
# ``strength * (sigmoid(gain * logit(p)) - 1/2)``: the net looks uncertain, its decisions stay.
class Jpeg(torch.autograd.Function):
    """JPEG of quality 50, with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return Corruption("jpeg", 4)(x.detach().clamp(0, 1)).X

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Defended(nn.Module):
    """A module between JPEG and a reverse sigmoid."""

    def __init__(self, module, strength, gain=0.2):
        super().__init__()
        self.module, self.strength, self.gain = module, strength, gain

    def forward(self, x):
        p = torch.softmax(self.module(Jpeg.apply(x)), 1).clamp(1e-6, 1 - 1e-6)
        bent = p - self.strength * (torch.sigmoid(self.gain * torch.logit(p)) - 0.5)
        return bent.clamp_min(1e-6).log()


undefended = train(X_train, y_train).module_
attack = PGD(0.2, steps=5, bounds=(0, 1))
nets = {
    "undefended": undefended,
    "JPEG": Defended(undefended, 0.0),
    "JPEG, reverse sigmoid": Defended(undefended, 0.7),
    "adversarial": train(X_train, y_train, AdversarialNet, attack=attack).module_,
}
lines = []
for name, shift in {
    "FGSM": FGSM(0.1, bounds=(0, 1)),
    "PGD": PGD(0.1, steps=20, bounds=(0, 1)),
}.items():
    curve = robustness_curve(nets, X_test, y_test, shift=shift, prior="uniform")
    for row in curve.to_frame()[columns].itertuples(index=False):
        groups = confidence(curve.agreement(row.estimator), y_test, beta=1.0, misled=True)
        confident = {"right": groups["right"].first, "misled": groups["misled"].second}
        lines.append({"attack": name, **row._asdict(), **confident})
print(pd.DataFrame(lines).round(2).to_string(index=False))

# %%
# Attacked through its bent outputs, the defended net keeps more decisions than the adversarially
# trained one, but its agreement is lower: it is as sure of the images that mislead it as of
# those that it gets right. The paper finds the same low confidence, high inverse temperature and
# low agreement. The few misled images are not the point, though: the reverse sigmoid only hides
# the way. An attack that is aimed at the net without it moves the images to where both decide
# wrongly, because it does not change decisions:
for name, shift in {
    "FGSM": FGSM(0.1, bounds=(0, 1)),
    "PGD": PGD(0.1, steps=20, bounds=(0, 1)),
}.items():
    moved = shift(X_test, y_test, estimator=nets["JPEG"]).X
    before, after = (class_scores(nets["JPEG, reverse sigmoid"], x)[0] for x in (X_test, moved))
    result = posterior_agreement(before, after)
    right = float((after.argmax(1).numpy() == y_test).mean())
    print(f"{name}: accuracy {right:.2f}, agreement {result.score:.2f}, beta {result.beta:.2f}")

# %%
# The accuracy is that of the net with JPEG alone, and the agreement is far below that net's: with
# all posteriors about equally flat, right answers cannot be told from wrong ones. So agreement
# sees what the reverse sigmoid does to the posteriors. It measures the attack that was made,
# though, and does not tell a defence from an attack that lost its way.
