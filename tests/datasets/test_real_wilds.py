"""WILDSData on small folders that the package wilds reads itself.

wilds is not in the extra `test`: it needs torchvision, and `pip install wilds` may bring one that
was built for another torch. `pip install --no-deps wilds` is enough for these tests. Where
torchvision cannot be imported, they give wilds stand-ins for what it takes from there. These are
functions for detection, which none of these data sets uses.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from pa_select.datasets import WILDSData

wilds = pytest.importorskip("wilds")
pd = pytest.importorskip("pandas")
image_of = pytest.importorskip("PIL.Image").fromarray

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
        image_of(image).save(folder / name)


def waterbirds(root):
    folder = root / "waterbirds_v1.0"
    names = [f"{i % 3}.kind/{i}.png" for i in range(N)]
    save(folder, names)
    table = {"img_filename": names, "y": Y, "split": SPLIT, "place": PLACE}
    pd.DataFrame(table, index=np.arange(1, N + 1)).to_csv(folder / "metadata.csv")
    return np.array(["land", "water"])[PLACE], SPLIT, {"train": 0, "val": 1, "test": 2}


def celeba(root):
    folder = root / "celebA_v1.0"
    names = [f"{i:06d}.png" for i in range(N)]
    save(folder / "img_align_celeba", names)
    signs = {"Bald": -np.ones(N, int), "Blond_Hair": 2 * Y - 1, "Male": 2 * PLACE - 1}
    pd.DataFrame({"image_id": names, **signs}).to_csv(folder / "list_attr_celeba.csv", index=False)
    table = pd.DataFrame({"image_id": names, "partition": SPLIT})
    table.to_csv(folder / "list_eval_partition.csv", index=False)
    return PLACE, SPLIT, {"train": 0, "val": 1, "test": 2}


def camelyon17(root):
    folder = root / "camelyon17_v1.0"
    patient = [f"{h:03d}" for h in HOSPITAL]
    names = [
        f"patches/patient_{p}_node_4/patch_patient_{p}_node_4_x_{i}_y_{2 * i}.png"
        for i, p in enumerate(patient)
    ]
    save(folder, names)
    at = {"x_coord": np.arange(N), "y_coord": 2 * np.arange(N), "slide": np.arange(N) // 6}
    table = {"patient": patient, "node": 4, **at, "tumor": Y, "center": HOSPITAL}
    # The file says "train" or "id_val" only; wilds sets the splits of hospitals 1 and 2.
    pd.DataFrame({**table, "split": SPLIT % 2}).to_csv(folder / "metadata.csv")
    return HOSPITAL, HOSPITAL_SPLIT, {"train": 0, "id_val": 1, "test": 2, "val": 3}


FIELDS = {"waterbirds": "background", "celebA": "male", "camelyon17": "hospital"}
WRITERS = {"waterbirds": waterbirds, "celebA": celeba, "camelyon17": camelyon17}


@pytest.fixture(autouse=True)
def _torchvision(monkeypatch):
    try:
        import torchvision.ops  # noqa: F401
    except (ImportError, RuntimeError):  # there is none, or it is for another build of torch
        for module, names in {
            "torchvision.ops": ["nms", "box_convert"],
            "torchvision.ops.boxes": ["box_iou"],
            "torchvision.models.detection._utils": ["Matcher"],
        }.items():
            monkeypatch.setitem(sys.modules, module, SimpleNamespace(**dict.fromkeys(names)))


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    """The name of a data set, its folder, and the environments and splits that were written."""
    environments, split, codes = WRITERS[request.param](tmp_path)
    (tmp_path / f"{request.param}_v1.0" / "RELEASE_v1.0.txt").touch()
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


def test_all_splits_at_once_make_pairs(written):
    data = WILDSData.load(written.name, written.root, transform=to_tensor)
    assert len(data) == N
    assert_array_equal(data.environments, written.environments)
    pairs = data.pairs(data.features(torch.nn.Flatten()))
    assert (written.environments[pairs.a] != written.environments[pairs.b]).all()
    assert_array_equal(Y[pairs.a], Y[pairs.b])
    source = WILDSData.load(written.name, written.root, fields="from_source_domain")
    assert_array_equal(source.environments == source.names[1], written.split == 0)


def test_what_wilds_does_not_find(written):
    with pytest.raises(FileNotFoundError, match=f"The {written.name} dataset could not be found"):
        WILDSData.load(written.name, written.root / "elsewhere")
    with pytest.raises(ValueError, match="split: expected one of .*got 'dev'"):
        WILDSData.load(written.name, written.root, split="dev")
    with pytest.raises(ValueError, match="The dataset landbirds is not recognized"):
        WILDSData.load("landbirds", written.root)
