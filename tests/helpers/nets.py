"""Torch modules that worker processes can import."""

from torch import nn


class Linear(nn.Linear):
    """Ten classes of 64 pixels."""

    def __init__(self):
        super().__init__(64, 10)


class Module(nn.Module):
    """A small net with everything that training mode changes."""

    def __init__(self, n_out=10, extra=False):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, n_out)
        )
        self.extra = extra

    def forward(self, x):
        out = self.layers(x)
        return (out, x) if self.extra else out


def lightning_trainer(folder, epochs, *callbacks):
    """A quiet trainer of Lightning on the CPU."""
    from lightning.pytorch import Trainer

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    options = dict.fromkeys(quiet, False) | {"callbacks": list(callbacks), "accelerator": "cpu"}
    return Trainer(max_epochs=epochs, default_root_dir=folder, **options)
