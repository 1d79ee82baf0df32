"""
Three models are in use, and the texts will come from a scanner
===============================================================

Three text classifiers are in use. They say from which library the first paragraph of a docstring
comes. So far the texts were typed. From now on they will be printed, scanned and recognised, with
some characters wrong. Sixty texts exist in both forms, and nobody has labelled them.

Which model should be kept, and how accurate will it be? `expected_score` answers for trained
models, without a search.
"""

# %%
# The texts
# ---------

import matplotlib.pyplot as plt
from library_texts import load_library_texts
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline

from pa_select import expected_score
from pa_select.plotting import ExpectedScoreDisplay
from papers.shifts import CharacterEdits

texts, labels = load_library_texts()
train, rest, y_train, y_rest = train_test_split(
    texts, labels, train_size=0.5, stratify=labels, random_state=0
)
validation, rest, y_validation, y_rest = train_test_split(
    rest, y_rest, train_size=0.4, stratify=y_rest, random_state=0
)
typed, unseen, _, y_unseen = train_test_split(
    rest, y_rest, train_size=60, stratify=y_rest, random_state=0
)
misread = CharacterEdits(16, kinds=("substitute", "delete"), random_state=0)
scanned = misread(typed).X
print(typed[0], scanned[0], sep="\n")

# %%
# The models
# ----------
# Two models read words, one reads pieces of words.
words = TfidfVectorizer(sublinear_tf=True)
pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
models = {
    "words, logistic": make_pipeline(words, LogisticRegression(C=30, max_iter=2000)),
    "words, Bayes": make_pipeline(words, ComplementNB()),
    "pieces, logistic": make_pipeline(pieces, LogisticRegression(C=30, max_iter=2000)),
}
for model in models.values():
    model.fit(train, y_train)

# %%
# What to expect of them
# ----------------------
# The validation texts, which are typed and labelled, say which models are the most accurate, and
# calibrate them. Their posteriors for the sixty typed texts stand in for the labels that nobody
# gave. The last column is the truth, from other texts.
found = expected_score(models, typed, scanned, validation, y_validation)
truth = {name: model.score(misread(unseen).X, y_unseen) for name, model in models.items()}
print(f"\n{'model':18s} typed  expected        interval  truth")
for name, e in found.items():
    print(
        f"{name:18s} {e.validation_score:5.2f}  {e.score:.2f} +- {e.standard_error:.2f}  "
        f"{e.low:.2f} to {e.high:.2f}  {truth[name]:5.2f}"
    )

# %%
# The picture
# -----------
display = ExpectedScoreDisplay.from_result(found, true_scores=truth)
display.figure_.suptitle("Accuracy on scanned texts: expected, and true")
plt.show()
