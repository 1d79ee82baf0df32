"""Results of changed code are not used again; those of the same code are, in any process."""

import copy
import importlib
import json
import os
import subprocess
import sys
from functools import partial
from types import ModuleType

import numpy as np
import pytest
import torch
from helpers import changed_code
from hypothesis import example, given
from hypothesis import strategies as st
from skorch import NeuralNetClassifier

from pa_select.model_selection.checkpoint import fingerprint, own_modules


def of(value):
    return fingerprint(value, {})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What one process found, and after it another one in the same folder."""
    folder = str(tmp_path_factory.mktemp("changed"))
    found = []
    for i, versions in enumerate((["first", "edited"], ["first"])):
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": str(i)}
        command = [sys.executable, changed_code.__file__, folder, *versions]
        ran = subprocess.run(
            command, env=os.environ | path, stdout=subprocess.PIPE, text=True, check=True
        )
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [x.split(":")[0] for x in changed_code.CASES.split("=== ")[1:]])
def test_an_edit_is_computed_anew_and_the_old_code_found_again(runs, name):
    first, edited = runs[0][0][name]["first"], runs[0][0][name]["edited"]
    assert first["found"] != edited["found"]
    assert first["added"] == edited["added"]
    kept = not name.startswith("!")
    assert (first["added"] > 0) == (edited["added"] > 0) == kept
    assert first["warned"] == edited["warned"] == (not kept)
    assert runs[1][0][name]["first"] == first | {"added": 0}


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process(runs):
    assert len(runs[0][1]) > 5
    assert runs[0][1] == runs[1][1]


atoms = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.text("ab")
plain = atoms | st.lists(atoms, max_size=3) | st.dictionaries(st.text("ab"), atoms, max_size=2)


@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@given(plain, plain)
def test_plain_values_have_one_fingerprint_exactly_if_they_are_equal(one, two):
    assert of(one) == of(copy.deepcopy(one))
    # Unlike ==, which takes 1, 1.0 and True for the same, and 0.0 for -0.0.
    same = json.dumps(one) == json.dumps(two)
    assert (of(one) == of(two)) == same


def test_arrays_and_tensors_count_by_content_type_and_shape():
    X = np.arange(6.0)
    others = [X, X + 1e-12, X.astype("f4"), X.astype(">f8"), X.reshape(2, 3), list(X)]
    others += [X.astype(object), X.astype(str)]
    others += [torch.zeros(4), torch.zeros(4, dtype=torch.bfloat16), torch.zeros(2, 2)]
    others += [torch.eye(2), torch.eye(2).to_sparse(), torch.tensor(0.0)]
    assert len({of(other) for other in others}) == len(others)
    assert of(X) == of(X.copy())
    assert of(torch.eye(2)) == of(torch.eye(4)[::2, ::2])


def test_nets_count_by_their_weights_and_their_code():
    net = torch.nn.Linear(3, 2)
    before = of(NeuralNetClassifier(net))
    with torch.no_grad():
        net.weight[1, 2] += 1e-6
    assert of(NeuralNetClassifier(net)) != before
    kinds = []
    for factor in (1, 2):
        namespace = {"torch": torch}
        text = f"class Net(torch.nn.Module):\n  def forward(self, X):\n    return X * {factor}"
        exec(text, namespace)
        kinds.append(of(NeuralNetClassifier(namespace["Net"])))
    assert kinds[0] != kinds[1]


def test_one_object_in_two_places_differs_from_two_equal_ones():
    # What changes the one in one place changes it in the other: as for tied weights.
    for one in (torch.zeros(2), np.zeros(2), {1}, [1], len):
        assert of([one, one]) == of(copy.deepcopy([one, one]))
        other = copy.deepcopy(one)
        assert (of([one, one]) == of([one, other])) == (one is other)


class Setting:
    """An object that pickle saves by its name."""

    def __reduce__(self):
        return "SETTING"


SETTING = Setting()


def test_an_object_that_is_pickled_by_its_name_counts_by_its_content(monkeypatch):
    before = of(SETTING)
    monkeypatch.setattr(SETTING, "width", 2, raising=False)
    assert of(SETTING) != before


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.a, lambda x: x.b),
        (lambda x: x < 1, lambda x: x > 1),
        (partial(max, 1), partial(max, 1.0)),
        (lambda x: 0.0, lambda x: -0.0),
        (np.mean, np.median),
        (str.upper, str.lower),
        ("a".join, "b".join),
    ],
)
def test_functions_that_look_alike_differ(one, two):
    assert of(one) == of(one) != of(two)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Write a module, and load it anew or not."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name, text, again=True):
        (tmp_path / f"{name}.py").write_text(text)
        if again:
            monkeypatch.delitem(sys.modules, name, raising=False)
            importlib.invalidate_caches()
        return importlib.import_module(name)

    return write


def test_code_counts_as_it_was_loaded(load):
    def state(name="own_edited"):
        return own_modules()[name], of(sys.modules[name].f)

    load("own_edited", "def f(x):\n    return x\n")
    before = state()
    load("own_edited", "N = 2\ndef f(x):\n    return -x\n", again=False)
    assert state() == before  # what runs is still the old code
    load("own_edited", "N = 2\ndef f(x):\n    return -x\n")
    after = state()
    assert after[0] != before[0]
    assert after[1] != before[1]
    # Edited before it was first seen: the old function is in memory, the new text in the file.
    texts = [f"class A:\n    @property\n    def f(self):\n        return {n}\n" for n in (1, 2)]
    load("own_stale", texts[0])
    load("own_stale", texts[1], again=False)
    stale = own_modules()["own_stale"]
    load("own_stale", texts[1])
    assert own_modules()["own_stale"] != stale


def test_a_compiled_module_counts_by_its_file(tmp_path, monkeypatch):
    states = []
    for content in (b"1", b"1", b"2"):
        module = ModuleType("own_compiled")
        module.__file__ = str(tmp_path / "own_compiled.so")
        (tmp_path / "own_compiled.so").write_bytes(content)
        monkeypatch.setitem(sys.modules, "own_compiled", module)
        states.append(own_modules()["own_compiled"])
    assert states[0] == states[1] != states[2]


def test_modules_of_packages_are_not_the_users_own():
    own = own_modules()
    assert __name__ in own
    tops = {name.partition(".")[0] for name in own}
    assert not tops & {"os", "json", "numpy", "torch", "sklearn", "pa_select", "pytest"}


def test_a_huge_chain_of_objects_is_no_crash():
    chain = []
    for _ in range(10_000):
        chain = [chain]
    with pytest.raises(RecursionError):
        of(chain)
