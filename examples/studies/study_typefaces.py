"""
Characters in two typefaces
===========================

Is a character Latin, Greek, Cyrillic, or a symbol? The labelled images show DejaVu Sans (site a),
and the classifier will read another typeface (site b). A pair is one character in both. Nobody
made this shift for a study: the typefaces are those that matplotlib ships, and two makers drew
them. A script has at most 400 characters. Some letters of two scripts look the same, so no
classifier is always right.

300 characters are labelled, 20, 40 or 100 are pairs, and the others, up to 800, are the test. The
candidates and rules are those of ``study_unlabelled_pairs.py``. Each typeface is one collection,
and errors are over the collections, each the mean over the seeds.

``make figures`` writes the tables to docs/figures.
"""

import argparse
import sys
import unicodedata
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.ft2font import FT2Font
from pair_problems import GRID, MODEL, drawn
from pair_rules import by_collection, choices, error_table, measure
from PIL import Image, ImageDraw, ImageFont

TYPEFACES = {
    "DejaVuSerif": "DejaVu Serif",
    "DejaVuSansMono": "DejaVu Sans Mono",
    "DejaVuSans-Oblique": "DejaVu Sans Oblique",
    "DejaVuSans-Bold": "DejaVu Sans Bold",
    "STIXGeneral": "STIX",
    "STIXGeneralBol": "STIX Bold",
}
SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
AT_MOST = 400  # characters of a script
N_PAIRS = (20, 40, 100)
SHOWN = {
    "agreement, 4 SE": "agreement, guarded",
    "expected score (PASearchCV's default)": "expected score",
    "labels of the pairs": "labels of the pairs",
    "best in hindsight": "best in hindsight",
    "with adapter: accuracy, always adapted": "always adapted",
    "with adapter: expected score (PASearchCV's default)": "expected score, adapter too",
    "with adapter: labels of the pairs": "labels of the pairs, adapter too",
}


def path_of(typeface):
    return Path(mpl.get_data_path(), "fonts", "ttf", f"{typeface}.ttf")


def script_of(code):
    """Return the script of a letter, "symbol", or None for other letters and for marks."""
    character = chr(code)
    kind, word = unicodedata.category(character), unicodedata.name(character, "").split(" ")[0]
    if kind in ("Lu", "Ll"):
        return word if word in SCRIPTS else None
    return "SYMBOL" if kind in ("Sm", "So") else None


def images_of(typeface, codes, size=16):
    """Draw characters on a common line, values from 0 to 4."""
    font = ImageFont.truetype(path_of(typeface), 12)
    images = []
    for code in codes:
        image = Image.new("L", (size, size))
        ImageDraw.Draw(image).text((size // 2, 12), chr(code), 255, font, anchor="ms")
        images.append(np.asarray(image).ravel() / 64)
    return np.array(images)


def rows_of(typeface, seed):
    """Draw the characters of a collection."""
    common = set.intersection(
        *(set(FT2Font(str(path_of(face))).get_charmap()) for face in ("DejaVuSans", typeface))
    )
    codes = np.array(sorted(code for code in common if script_of(code)))
    y = np.array([script_of(code) for code in codes])
    order = np.random.default_rng(seed).permutation(len(y))
    kept = np.concatenate([order[y[order] == script][:AT_MOST] for script in np.unique(y)])
    a, b = (images_of(face, codes[kept]) for face in ("DejaVuSans", typeface))
    return drawn(a, b, y[kept], seed)


def unit_of(typeface, seed):
    """Return what is measured of one draw of a collection."""
    found = measure(rows_of(typeface, seed), MODEL, GRID, N_PAIRS)
    return found.assign(problem=TYPEFACES[typeface], seed=seed)


def gain_table(data):
    """Return the accuracy of the choice by accuracy, and what each rule gains over it."""
    levels = data.groupby(["pairs", "problem", "seed"], sort=False).apply(choices)
    gains = levels[list(SHOWN)].sub(levels["accuracy"], axis=0).rename(columns=SHOWN)
    gains.insert(0, "accuracy", levels["accuracy"])
    return by_collection(gains).rename_axis("typeface")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Characters in two typefaces")
    parser.add_argument("--seeds", type=int, default=1, help="draws of every collection")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished draws there")
    parser.add_argument("--table", metavar="FILE", help="write the gains there")
    parser.add_argument("--errors", metavar="FILE", help="write the errors of estimates there")
    options = parser.parse_args()
    kept = joblib.Memory(options.memory, verbose=0).cache(unit_of)
    with warnings.catch_warnings():
        # Folds have few rows of a class.
        warnings.simplefilter("ignore")
        data = [kept(face, seed) for seed in range(options.seeds) for face in TYPEFACES]
    data = pd.concat(data)
    gains, errors = gain_table(data), error_table(data)
    print(gains.T.to_string())
    print(errors.to_string(index=False))
    if options.table:
        gains.to_csv(options.table)
    if options.errors:
        errors.to_csv(options.errors, index=False)
