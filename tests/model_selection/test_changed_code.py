"""Results of changed code are not used again; those of the same code are, in any process."""

import copy
import importlib
import json
import os
import subprocess
import sys
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from helpers import changed_code
from helpers.code_cases import CASES, OPAQUE
from hypothesis import example, given
from hypothesis import strategies as st
from skorch import NeuralNetClassifier

from pa_select.model_selection.checkpoint import NoFingerprint, fingerprint


def names(text):
    return [case.split(":")[0] for case in text.split("=== ")[1:]]


def of(value):
    return fingerprint(value, "value", {})


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    return in_two_processes(tmp_path_factory, ["first", "edited"], ["first"])


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return in_two_processes(tmp_path_factory, ["opaque"], [])


def in_two_processes(tmp_path_factory, these, those):
    """Return what this process found, and after it another one in the same folder."""
    folder = str(tmp_path_factory.mktemp("changed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", ModuleType("__main__"))
        patch.syspath_prepend(Path(folder) / "modules")
        patch.setattr(sys, "dont_write_bytecode", True)
        here = changed_code.run(folder, *these)
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, changed_code.__file__, folder, *those],
        env=os.environ | path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # Through text, so that both have the same types.
    return json.loads(json.dumps(here)), json.loads(there.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", names(CASES))
def test_an_edit_is_computed_anew_and_the_old_code_found_again(edits, name):
    first, edited = edits[0]["both"][name]["first"], edits[0]["both"][name]["edited"]
    again = edits[1]["both"][name]["first"]
    assert first["added"] == edited["added"] > 0
    assert first["found"] != edited["found"]
    assert again == first | {"added": 0}
    assert not first["warnings"] + edited["warnings"]


@pytest.mark.parametrize(
    ("name", "object_and_reason"),
    [
        ("code made of text", "Pipeline > f > eval: it can run code that is not"),
        *(
            (name, "f > import_module: it can run code that is not known")
            for name in (
                "import by name",
                "import by name inside of a function",
                "module for imports inside of a function",
            )
        ),
        ("generator", "Own > Own > generator: cannot pickle 'generator' object"),
        ("scorer that runs anything", "scoring > f > __import__: it can run code that is"),
    ],
)
def test_what_cannot_be_looked_through_is_not_kept(ran, name, object_and_reason):
    found = ran[0]["opaque"][name]
    assert found["added"] == 0
    (warning,) = found["warnings"]
    assert object_and_reason in warning
    assert names(OPAQUE) == [*ran[0]["opaque"]]


def test_fingerprints_are_the_same_in_every_process(ran):
    assert len(ran[0]["objects"]) > 5
    assert ran[0]["objects"] == ran[1]["objects"]


atoms = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.text("ab")
plain = atoms | st.lists(atoms, max_size=3) | st.dictionaries(st.text("ab"), atoms, max_size=2)


@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@given(plain, plain)
def test_plain_values_have_one_fingerprint_exactly_if_they_are_equal(one, two):
    assert of(one) == of(copy.deepcopy(one))
    # Unlike ==, which takes 1, 1.0 and True for the same, and 0.0 for -0.0.
    same = json.dumps(one) == json.dumps(two)
    assert (of(one) == of(two)) == same


def test_arrays_count_by_content_type_and_shape():
    X = np.arange(6.0)
    others = [X, X + 1e-12, X.astype("f4"), X.astype(">f8"), X.reshape(2, 3), list(X)]
    others += [X.astype(object), X.astype(str)]
    assert len({of(other) for other in others}) == len(others)
    assert of(X) == of(X.copy())


def test_nets_count_by_their_weights_and_their_code():
    net = torch.nn.Linear(3, 2)
    classifier = NeuralNetClassifier(net, module__device="cpu")
    before = of(classifier)
    with torch.no_grad():
        net.weight[1, 2] += 1e-6
    assert of(classifier) != before
    kinds = []
    for factor in (1, 2):
        namespace = {"torch": torch}
        text = f"class Net(torch.nn.Module):\n  def forward(self, X):\n    return X * {factor}"
        exec(text, namespace)
        kinds.append(of(NeuralNetClassifier(namespace["Net"])))
    assert kinds[0] != kinds[1]
    tensors = [torch.zeros(4), torch.zeros(4, dtype=torch.bfloat16), torch.zeros(2, 2)]
    tensors += [torch.eye(2), torch.eye(2).to_sparse(), torch.eye(4)[::2, ::2], torch.tensor(0.0)]
    assert len({of(tensor) for tensor in tensors}) == len(tensors) - 1  # two are equal


def test_one_object_in_two_places_differs_from_two_equal_ones():
    # What changes the one in one place changes it in the other: as for tied weights.
    for one in (torch.zeros(2), np.zeros(2), {1}, [1], len):
        assert of([one, one]) == of(copy.deepcopy([one, one]))
        other = copy.deepcopy(one)
        assert (of([one, one]) == of([one, other])) == (one is other)


def test_descriptors_of_a_class_count():
    class Documented(property):
        pass

    def own(n, kind):
        class Own:
            width = kind(lambda self: n)

        return Own()

    for kind in (property, Documented, staticmethod, classmethod, cached_property, lru_cache):
        assert of(own(1, kind)) == of(own(1, kind))
        assert of(own(1, kind)) != of(own(2, kind))


class Setting:
    """An object that pickle saves by its name."""

    def __reduce__(self):
        return "SETTING"


SETTING = Setting()


def test_an_object_that_is_pickled_by_its_name_counts_by_its_content(monkeypatch):
    before = of(SETTING)
    monkeypatch.setattr(SETTING, "width", 2, raising=False)
    assert of(SETTING) != before


def test_functions_that_look_alike_differ():
    pairs = [
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.a, lambda x: x.b),
        (lambda x: x < 1, lambda x: x > 1),
        (partial(max, 1), partial(max, 1.0)),
        (lambda x: 0.0, lambda x: -0.0),
        (np.mean, np.median),
        (str.upper, str.lower),
        ("a".join, "b".join),
    ]
    for one, two in pairs:
        assert of(one) != of(two)
        assert of(one) == of(one)


def test_code_counts_as_it_was_loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "own_edited.py"
    file.write_text("def f(x):\n    return x\n")
    own = importlib.import_module("own_edited")
    before = of(own.f)
    file.write_text("# A comment.\n\ndef f(x):\n    return -x\n")
    assert of(own.f) == before  # what runs is still the old code
    monkeypatch.delitem(sys.modules, "own_edited")
    importlib.invalidate_caches()
    assert of(importlib.import_module("own_edited").f) != before
    # Another place in the file is no change.
    file.write_text("# A comment.\n\ndef f(x):\n    return x\n")
    monkeypatch.delitem(sys.modules, "own_edited")
    assert of(importlib.import_module("own_edited").f) == before


def test_compiled_code_counts_by_the_version_of_its_package(tmp_path, monkeypatch):
    from scipy.special import expit

    before = of(expit), of(np.add), of(np.linalg.norm)
    checkpoint = "pa_select.model_selection.checkpoint"
    monkeypatch.setattr(f"{checkpoint}._version_of", lambda module: "another")
    after = of(expit), of(np.add), of(np.linalg.norm)
    assert all(one != two for one, two in zip(before, after, strict=True))
    # Here the compiled module is one that no package brought.
    monkeypatch.setattr(f"{checkpoint}._is_installed", lambda module: False)
    # scipy may have wrapped the function.
    with pytest.raises(NoFingerprint, match=r"value\b.* is compiled, and no installed package"):
        of(expit)


def test_a_huge_chain_of_objects_is_no_crash():
    chain = []
    for _ in range(10_000):
        chain = [chain]
    with pytest.raises(NoFingerprint, match="recursion"):
        of(chain)
