"""
Many environments
=================

Three collections with many environments, in the form of the data sets of WILDS: digits under many
cameras, digits of regions and years, and texts of many modules. All are made of what installed
packages ship. ``many_environments_rules.py`` selects on them.
"""

import importlib
import inspect
import pkgutil
import re
import warnings
from functools import lru_cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from pa_select.shifts import Blur, Dim, Drift, GaussianNoise
from papers.datasets import FACTOR_LEVELS, factor_images

SPLITS = {"train": 0, "labelled": 1, "test": 2}


class Collection:
    """Rows with labels and metadata, in the form of a data set of WILDS.

    The split "train" has the source's environments. The target's are in "labelled", for the
    oracle, and in "test".
    """

    split_dict = SPLITS

    def __init__(self, name, inputs, y, fields, split, names=None):
        self.dataset_name, self.inputs = name, inputs
        self.metadata_fields = [*fields, "y"]
        self.metadata_array = torch.as_tensor(np.column_stack([*fields.values(), y]))
        self.metadata_map = names
        self.y_array, self.split_array = torch.as_tensor(y), np.asarray(split)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, row):
        return self.inputs[row], self.y_array[row], self.metadata_array[row]

    def get_subset(self, split):
        return Part(self, np.flatnonzero(self.split_array == self.split_dict[split]))


class Part(torch.utils.data.Subset):
    """A subset of a collection, with the metadata of its rows."""

    def __init__(self, whole, rows):
        super().__init__(whole, rows)
        self.dataset_name, self.metadata_map = whole.dataset_name, whole.metadata_map
        self.metadata_fields = whole.metadata_fields
        self.metadata_array, self.y_array = whole.metadata_array[rows], whole.y_array[rows]


def split_of(environments, is_target, rng):
    """Return the split of each row; half of each target environment is labelled for the oracle."""
    split = np.where(is_target, SPLITS["test"], SPLITS["train"])
    for environment in np.unique(environments[is_target]):
        rows = rng.permutation(np.flatnonzero(environments == environment))
        split[rows[: len(rows) // 2]] = SPLITS["labelled"]
    return split


def draw_rows(y, left, n, concentration, rng):
    """Draw n of the rows that are left, with class frequencies of an environment's own."""
    share = rng.dirichlet(np.full(y.max() + 1, concentration))[y[left]]
    return rng.choice(left, n, replace=False, p=(share + 1e-3) / (share + 1e-3).sum())


def share_out(y, sizes, concentration, rng):
    """Draw disjoint rows for environments of the given sizes."""
    left, parts = np.arange(len(y)), []
    for n in sizes:
        parts.append(draw_rows(y, left, n, concentration, rng))
        left = np.setdiff1d(left, parts[-1])
    return parts


# -- cameras -------------------------------------------------------------------------------

SIZE = 16  # pixels of a side


def cameras(seed, n_cameras=12, n_source=6, n=80):
    """Draw digits under many cameras, as in iwildcam: those of the target are new.

    Each camera has its own hue, lightness, position, scale, background, blur and noise, and its
    own frequencies of the digits. Each digit is under one camera.
    """
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    digits = X.reshape(-1, 8, 8) / 16
    parts = share_out(y, [n] * n_cameras, 1.0, rng)
    images = np.concatenate([camera(digits[rows], rng) for rows in parts])
    place = np.repeat(np.arange(n_cameras), n)
    split = split_of(place, place >= n_source, rng)
    return Collection("cameras", images, y[np.concatenate(parts)], {"camera": place}, split)


def camera(digits, rng):
    """Draw digits as one camera shows them."""
    factors = {
        "hue": rng.choice(FACTOR_LEVELS["hue"]),
        "lightness": rng.choice(FACTOR_LEVELS["lightness"]),
        "position": rng.choice(["CL", "CC", "CR"]),
        "scale": rng.choice(["normal", "larger", "large"]),
    }
    seed = int(rng.integers(2**31))
    images = factor_images(digits, factors, size=SIZE, random_state=seed)
    background = rng.uniform(-0.2, 0.2, 3)[:, None, None]
    images = Blur(rng.uniform(0, 0.8))(images + background).X
    noise = GaussianNoise(rng.uniform(0, 0.05), random_state=seed)
    return np.clip(noise(images).X, 0, 1).astype(np.float32)


def read(rows):
    """Read the rows of WILDSData one by one."""
    return np.array([np.asarray(row, float) for row in rows])


def colours(images):
    """Average the colours of 2 x 2 pixels."""
    return images.reshape(len(images), 3, SIZE // 2, 2, SIZE // 2, 2).mean((3, 5))


def flat(images):
    return images.reshape(len(images), -1)


def contrast(images):
    """Measure how far each pixel is from the colour of the background."""
    background = np.median(images, axis=(2, 3), keepdims=True)
    return np.abs(images - background).mean(1)


def centred(ink):
    """Move the ink of each image to the middle, by whole pixels."""
    places = np.arange(SIZE)
    weights = ink**2 + 1e-12
    moved = []
    for axis in (1, 2):
        along = weights.sum(3 - axis)
        centre = along @ places / along.sum(1)
        moved.append((places + np.round(centre)[:, None] - SIZE // 2).astype(int) % SIZE)
    return ink[np.arange(len(ink))[:, None, None], moved[0][:, :, None], moved[1][:, None, :]]


def of_one_strength(images):
    """Divide each image by its largest value."""
    return images / (images.max((1, 2), keepdims=True) + 1e-9)


def image_models():
    return [
        LogisticRegression(C=0.01, max_iter=100),
        LogisticRegression(C=1, max_iter=100),
        SVC(C=10),
        KNeighborsClassifier(5),
    ]


def camera_candidates():
    """Return classifiers of colours, and of what should be the same under all cameras."""
    inputs = [
        [colours],
        [contrast],
        [contrast, of_one_strength],
        [contrast, centred, of_one_strength],
    ]
    return [
        make_pipeline(*map(FunctionTransformer, [read, *steps, flat]), model)
        for steps in inputs
        for model in image_models()
    ]


# -- regions and years ---------------------------------------------------------------------

REGIONS = {"Asia": 90, "Europe": 70, "Africa": 25, "America": 80, "Oceania": 35}
YEARS = {2002: "train", 2007: "train", 2016: "test"}


def regions(seed):
    """Draw digits of regions and years, as in fmow: those of the target come years later.

    Each region has its own sensor, which drifts and gets dimmer from year to year, and its own
    frequencies of the digits. The regions differ in size; the target's parts do not.
    """
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    sizes = [100 if part == "test" else n for n in REGIONS.values() for part in YEARS.values()]
    parts = share_out(y, sizes, 2.0, rng)
    region, year = np.divmod(np.arange(len(sizes)), len(YEARS))
    rows = []
    for taken, place, when in zip(parts, region, year, strict=True):
        age = (list(YEARS)[when] - 2002) / 14
        drift = Drift(0.15 + 0.3 * age, random_state=int(1000 * seed + place))
        dimmed = Dim(0.5 * age)(drift(X[taken] / 16).X).X
        rows.append(GaussianNoise(0.05, random_state=int(when))(dimmed).X)
    fields = {"region": np.repeat(region, sizes), "year": np.repeat(year, sizes)}
    split = split_of(np.repeat(np.arange(len(sizes)), sizes), fields["year"] == 2, rng)
    names = {"region": list(REGIONS), "year": list(YEARS)}
    taken = np.concatenate(parts)
    return Collection("regions", np.concatenate(rows), y[taken], fields, split, names)


def of_one_scale(rows):
    """Subtract the mean of each row and divide by its standard deviation."""
    rows = rows - rows.mean(1, keepdims=True)
    return rows / (rows.std(1, keepdims=True) + 1e-9)


def region_candidates():
    """Return classifiers that take rows as they are, or rescale columns or rows."""
    inputs = [[], [StandardScaler()], [FunctionTransformer(of_one_scale)]]
    reader = FunctionTransformer(read)
    return [make_pipeline(reader, *steps, model) for steps in inputs for model in image_models()]


# -- modules -------------------------------------------------------------------------------

LIBRARIES = ("numpy", "scipy", "sklearn", "torch", "pandas", "matplotlib")
KINDS = ("class", "function", "method")


@lru_cache
def docstrings():
    """Return (text, kind, module) of what the modules of installed libraries document.

    The text is the first paragraph of a docstring. Each text counts once.
    """
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated members warn when they are read
        for library in LIBRARIES:
            for info in pkgutil.iter_modules(importlib.import_module(library).__path__):
                # Two modules repeat what others have.
                if not info.name.startswith(("_", "test", "conftest", "matlib", "pylab")):
                    add_docstrings(found, f"{library}.{info.name}")
    return [(text, *where) for text, where in sorted(found.items())]


def add_docstrings(found, name):
    try:
        module = importlib.import_module(name)
    except Exception:  # an optional part of the library
        return
    for _, member in inspect.getmembers(module):
        if not str(getattr(member, "__module__", "")).startswith(name.split(".")[0]):
            continue
        if inspect.isclass(member):
            add_text(found, member, "class", name)
            for key, method in inspect.getmembers(member, inspect.isfunction):
                if not key.startswith("_") and key in vars(member):
                    add_text(found, method, "method", name)
        elif callable(member):
            add_text(found, member, "function", name)


def add_text(found, member, kind, module):
    text = re.sub(r"\s+", " ", (inspect.getdoc(member) or "").split("\n\n")[0])
    # Memory addresses differ in each run.
    if 20 <= len(text) <= 300 and " at 0x" not in text:
        found.setdefault(text, (kind, module))


def modules(seed, n_source=10, n_target=10, most=100):
    """Draw texts of modules, as in amazon those of reviewers: the modules of the target are new.

    Does a docstring describe a class, a function or a method? Modules with fewer than 50 texts, or
    with fewer than two of a kind, are left out. The source has 50 texts of each module.
    """
    rng = np.random.default_rng(seed)
    texts, kinds, places = (
        np.array(part, dtype=object) for part in zip(*docstrings(), strict=True)
    )
    kinds = np.array([KINDS.index(kind) for kind in kinds])
    counts = {name: np.bincount(kinds[places == name], minlength=3) for name in set(places)}
    enough = sorted(name for name, n in counts.items() if n.sum() >= 50 and n.min() >= 2)
    chosen = rng.permutation(enough)[: n_source + n_target]
    parts = [rng.permutation(np.flatnonzero(places == name)) for name in chosen]
    parts = [rows[: 50 if k < n_source else most] for k, rows in enumerate(parts)]
    rows = np.concatenate(parts)
    place = np.repeat(np.arange(len(chosen)), [len(part) for part in parts])
    split = split_of(place, place >= n_source, rng)
    names = {"module": list(chosen)}
    return Collection("modules", texts[rows], kinds[rows], {"module": place}, split, names)


def first_words(texts):
    """Keep the first three words of each text."""
    return [" ".join(text.split()[:3]) for text in texts]


def module_candidates():
    """Return classifiers of words, pairs of words, pieces of words or the first words."""
    readers = [
        [TfidfVectorizer(sublinear_tf=True)],
        [TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)],
        [TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), sublinear_tf=True)],
        [FunctionTransformer(first_words), TfidfVectorizer(lowercase=False)],
    ]
    models = [
        LogisticRegression(C=1, max_iter=200),
        LogisticRegression(C=30, max_iter=200),
        MultinomialNB(alpha=0.1),
        KNeighborsClassifier(15),
    ]
    return [make_pipeline(*reader, model) for reader in readers for model in models]


#: For each collection what draws it, its fields and its candidates.
COLLECTIONS = {
    "cameras": (cameras, "camera", camera_candidates),
    "regions": (regions, ["region", "year"], region_candidates),
    "modules": (modules, "module", module_candidates),
}
