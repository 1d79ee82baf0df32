"""Small folders in the format of data sets of WILDS, which the package wilds reads.

wilds is not in the extra `test`: it needs torchvision, and `pip install wilds` may bring one that
was built for another torch. `pip install --no-deps wilds` is enough for these folders. Where
torchvision cannot be imported, `without_torchvision` gives wilds stand-ins for what it takes from
there. These are functions for detection, which none of these data sets uses.
"""

import sys
from types import SimpleNamespace

import numpy as np

N = 60
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(N, 4, 5, 3), dtype=np.uint8)
Y, PLACE, SPLIT = (RNG.integers(k, size=N) for k in (2, 2, 3))
# wilds has the hospitals 1 and 2 for validation and test, and rows of the others in two splits.
HOSPITAL = RNG.integers(5, size=N)
HOSPITAL_SPLIT = np.select([HOSPITAL == 1, HOSPITAL == 2], [3, 2], SPLIT % 2)


def save(folder, names):
    from PIL.Image import fromarray

    for image, name in zip(IMAGES, names, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        fromarray(image).save(folder / name)


def waterbirds(root):
    import pandas as pd

    folder = root / "waterbirds_v1.0"
    names = [f"{i % 3}.kind/{i}.png" for i in range(N)]
    save(folder, names)
    table = {"img_filename": names, "y": Y, "split": SPLIT, "place": PLACE}
    pd.DataFrame(table, index=np.arange(1, N + 1)).to_csv(folder / "metadata.csv")
    return np.array(["land", "water"])[PLACE], SPLIT, {"train": 0, "val": 1, "test": 2}


def camelyon17(root):
    import pandas as pd

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
