"""WILDSData on small folders that the package wilds reads itself, if it is installed."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.wilds_folders import IMAGES, WRITERS, Y, without_torchvision, write
from numpy.testing import assert_array_equal

from pa_select.datasets import WILDSData

wilds = pytest.importorskip("wilds")
pytest.importorskip("pandas")
pytest.importorskip("PIL")

# wilds makes tensors of what pandas has read, which is read-only.
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")

FIELDS = {"waterbirds": "background", "camelyon17": "hospital"}


@pytest.fixture(autouse=True)
def _torchvision(monkeypatch):
    without_torchvision(monkeypatch)


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    """The name of a data set, its folder, and the environments and splits that were written."""
    environments, split, codes = write(request.param, tmp_path)
    return SimpleNamespace(
        name=request.param, root=tmp_path, environments=environments, split=split, codes=codes
    )


def to_tensor(image):
    return torch.from_numpy(np.array(image, dtype=np.float32))


def test_every_row_is_that_of_wilds_and_of_the_files(written):
    from wilds.common.data_loaders import get_eval_loader
    from wilds.common.grouper import CombinatorialGrouper

    dataset = wilds.get_dataset(written.name, root_dir=str(written.root), download=False)
    grouper = CombinatorialGrouper(dataset, [FIELDS[written.name]])
    for split, code in written.codes.items():
        subset = dataset.get_subset(split, transform=to_tensor)
        batches = list(get_eval_loader("standard", subset, batch_size=7))
        images, labels, metadata = (torch.cat(part) for part in zip(*batches, strict=True))
        named = [grouper.group_str(g) for g in grouper.metadata_to_group(metadata).tolist()]
        rows = np.flatnonzero(written.split == code)
        for data in (
            WILDSData.load(written.name, written.root, split=split, transform=to_tensor),
            WILDSData(subset),
        ):
            assert len(data) == len(rows) > 0
            for i, row in enumerate(rows):
                image, label = data[i]
                assert torch.equal(image, images[i])
                assert_array_equal(image, IMAGES[row])
                assert label == labels[i] == Y[row]
            assert_array_equal(data.y, labels)
            assert_array_equal(data.environments, written.environments[rows])
            said = [text.split("=")[1].strip() for text in named]
            assert list(map(str, data.environments)) == said
            points = data.features(torch.nn.Flatten(), batch_size=11)
            assert_array_equal(points, images.flatten(1))
