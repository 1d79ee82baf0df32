"""
Published language identifiers
==============================

The models and texts of ``study_language_identifiers.py``. Each package ships its own model:
``py3langid``, ``langdetect`` and ``lingua-language-detector``. The texts are those that Django
shows to users, which it ships in many languages; ``polib`` reads them.
"""

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

# All are written with Latin letters, and all three packages know them. Some are close relatives:
# Czech and Slovak, Danish and Swedish, Dutch and German, Portuguese and Spanish.
LANGUAGES = ["cs", "da", "de", "es", "fr", "it", "nl", "pt", "sk", "sv"]
SHORTEST = 20  # characters


class Identifier(ClassifierMixin, BaseEstimator):
    """A trained language identifier as a classifier of scikit-learn.

    Parameters
    ----------
    identify : callable
        Returns for a text a dict of languages to scores that are proportional to probabilities.
    classes : list of str
        The languages, sorted. They share the probability of a text equally if all have score 0.
    """

    def __init__(self, identify, classes):
        self.identify = identify
        self.classes = classes

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        return np.array(self.classes)

    def predict_proba(self, X):
        found = [self.identify(str(text)) for text in X]
        scores = np.array([[scores.get(c, 0.0) for c in self.classes] for scores in found])
        scores[scores.sum(axis=1) == 0] = 1
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def py3langid():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages(LANGUAGES)
    return lambda text: dict(model.rank(text))


def langdetect():
    from langdetect import PROFILES_DIRECTORY, DetectorFactory, LangDetectException

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = 0  # it draws pieces of the text

    def identify(text):
        detector = factory.create()
        detector.PROB_THRESHOLD = -1.0  # also return improbable languages
        detector.set_prior_map(dict.fromkeys(LANGUAGES, 1.0))
        detector.append(text)
        try:
            return {found.lang: found.prob for found in detector.get_probabilities()}
        except LangDetectException:  # the text has no piece that it knows
            return {}

    return identify


def lingua():
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, language.upper()) for language in LANGUAGES]
    model = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()
    return lambda text: {
        found.language.iso_code_639_1.name.lower(): found.value
        for found in model.compute_language_confidence_values(text)
    }


def load_identifiers():
    """Return the models; each remembers its answer for a text."""
    return {
        load.__name__: Identifier(lru_cache(maxsize=None)(load()), LANGUAGES)
        for load in (py3langid, langdetect, lingua)
    }


def load_messages(folder=None):
    """Return the texts, their languages, and the English message that each translates.

    The messages are of at least 20 characters, without placeholders or markup. ``folder`` has the
    files, ``locale/LANGUAGE/LC_MESSAGES/django.po`` at any depth; without, it is Django's.
    """
    import polib

    if folder is None:
        import django

        folder = Path(django.__file__).parent
    texts = {
        (entry.msgid, language): entry.msgstr
        for language in LANGUAGES
        for file in sorted(Path(folder).glob(f"**/locale/{language}/LC_MESSAGES/django.po"))
        for entry in polib.pofile(str(file)).translated_entries()
        if len(entry.msgstr) >= SHORTEST and not re.search(r"[%{}<>]", entry.msgstr)
    }
    messages, languages = np.array(list(texts), dtype=object).T
    return np.array(list(texts.values()), dtype=object), languages.astype(str), messages
