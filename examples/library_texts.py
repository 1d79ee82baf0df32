"""
Texts of libraries
==================

The first paragraphs of the docstrings of numpy, scipy, scikit-learn and torch, for examples that
predict from which library a paragraph comes, and the words that are typical of a library.
"""

import importlib
import inspect
import pkgutil
import re
import warnings

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer


def first_paragraphs(package):
    """Return the first paragraphs of the docstrings in a package and one level below."""
    texts = set()
    root = importlib.import_module(package)
    modules = [root]
    for info in pkgutil.iter_modules(root.__path__):
        if not info.name.startswith(("_", "test", "conftest")):
            try:
                modules.append(importlib.import_module(f"{package}.{info.name}"))
            except Exception:  # an optional part of the library
                continue
    for module in modules:
        for _, member in inspect.getmembers(module):
            if callable(member) and str(getattr(member, "__module__", "")).startswith(package):
                paragraph = re.sub(r"\s+", " ", (inspect.getdoc(member) or "").split("\n\n")[0])
                # Memory addresses differ in each run.
                if 40 <= len(paragraph) <= 300 and " at 0x" not in paragraph:
                    texts.add(paragraph)
    return sorted(texts)


def load_library_texts():
    """Return the texts and the names of their libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated members warn when they are read
        libraries = {
            name: first_paragraphs(name) for name in ("numpy", "scipy", "sklearn", "torch")
        }
    texts = [text for paragraphs in libraries.values() for text in paragraphs]
    counts = [len(paragraphs) for paragraphs in libraries.values()]
    return np.array(texts, dtype=object), np.repeat(list(libraries), counts)


def typical_words(texts, labels, n=20):
    """Return for each label the words whose share of its texts exceeds that of others the most."""
    counter = CountVectorizer(binary=True, min_df=5)
    there = counter.fit_transform(texts).toarray()
    words = counter.get_feature_names_out()
    return {
        label: list(
            words[np.argsort(there[labels != label].mean(0) - there[labels == label].mean(0))[:n]]
        )
        for label in np.unique(labels).tolist()
    }


def words_of_others(typical):
    """Return for each label the typical words of the label before it."""
    return dict(zip(typical, np.roll(list(typical.values()), 1, axis=0).tolist(), strict=True))
