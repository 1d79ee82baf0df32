"""WILDSData on small folders that the package wilds reads itself, if it is installed.

wilds is not in the extra `test`: it needs torchvision, and `pip install wilds` may bring one that
was built for another torch. `pip install --no-deps wilds` is enough for these folders. Where
torchvision cannot be imported, `without_torchvision` gives wilds stand-ins for what it takes from
there. These are functions for detection, which none of these data sets uses.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from papers.datasets import WILDSData

wilds = pytest.importorskip("wilds")
pd = pytest.importorskip("pandas")
fromarray = pytest.importorskip("PIL.Image").fromarray

# wilds makes tensors of what pandas has read, which is read-only.
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")

N = 60
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(N, 4, 5, 3), dtype=np.uint8)
Y, PLACE, SPLIT = (RNG.integers(k, size=N) for k in (2, 2, 3))
# wilds has the hospitals 1 and 2 for validation and test, and rows of the others in two splits.
HOSPITAL = RNG.integers(5, size=N)
HOSPITAL_SPLIT = np.select([HOSPITAL == 1, HOSPITAL == 2], [3, 2], SPLIT % 2)


def save(folder, names):
    for image, name in zip(IMAGES, names, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        fromarray(image).save(folder / name)


def waterbirds(root):
    folder = root / "waterbirds_v1.0"
    names = [f"{i % 3}.kind/{i}.png" for i in range(N)]
    save(folder, names)
    table = {"img_filename": names, "y": Y, "split": SPLIT, "place": PLACE}
    pd.DataFrame(table, index=np.arange(1, N + 1)).to_csv(folder / "metadata.csv")
    return np.array(["land", "water"])[PLACE], SPLIT, {"train": 0, "val": 1, "test": 2}


def camelyon17(root):
    folder = root / "camelyon17_v1.0"
    patient = [f"{h:03d}" for h in HOSPITAL]
    patch = "patches/patient_{0}_node_4/patch_patient_{0}_node_4_x_{1}_y_{2}.png"
    names = [patch.format(p, i, 2 * i) for i, p in enumerate(patient)]
    save(folder, names)
    at = {"x_coord": np.arange(N), "y_coord": 2 * np.arange(N), "slide": np.arange(N) // 6}
    table = {"patient": patient, "node": 4, **at, "tumor": Y, "center": HOSPITAL}
    # The file says "train" or "id_val" only; wilds sets the splits of hospitals 1 and 2.
    pd.DataFrame({**table, "split": SPLIT % 2}).to_csv(folder / "metadata.csv")
    return HOSPITAL, HOSPITAL_SPLIT, {"train": 0, "id_val": 1, "test": 2, "val": 3}


WRITERS = {"waterbirds": waterbirds, "camelyon17": camelyon17}


def write(name, root):
    """Write the folder of a data set; return the environments, the splits and their codes."""
    found = WRITERS[name](root)
    (root / f"{name}_v1.0" / "RELEASE_v1.0.txt").touch()
    return found


def without_torchvision(monkeypatch):
    """Let wilds be imported where torchvision cannot be."""
    try:
        import torchvision.ops  # noqa: F401
    except (ImportError, RuntimeError):  # there is none, or it is for another build of torch
        for module, names in {
            "torchvision.ops": ["nms", "box_convert"],
            "torchvision.ops.boxes": ["box_iou"],
            "torchvision.models.detection._utils": ["Matcher"],
        }.items():
            monkeypatch.setitem(sys.modules, module, SimpleNamespace(**dict.fromkeys(names)))


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
