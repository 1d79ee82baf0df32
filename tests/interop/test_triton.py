"""The kernel of Triton: in Triton's interpreter, on a device, and where Triton is missing."""

import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from pa_select import posterior_agreement
from pa_select.agreement.pairs import paired_scores
from pa_select.agreement.solver import single_precision

INTERPRETED = Path(__file__).with_name("interpreted_triton.py")
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def interpreter_works():
    """Whether Triton's interpreter runs with numpy 2.4: that of 3.9 does, that of 3.6 does not."""
    return find_spec("triton") and tuple(map(int, version("triton").split(".")[:2])) >= (3, 9)


@pytest.mark.slow
@pytest.mark.skipif(not interpreter_works(), reason="Triton is not installed, or too old")
def test_in_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(INTERPRETED)]
    found = subprocess.run(
        command,
        cwd=INTERPRETED.parents[2],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert " passed" in found.stdout


def test_without_triton_the_import_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "pa_select.interop.triton", raising=False)
    with pytest.raises(ImportError, match=r'needs triton, .* "pa-select\[triton\]"'):
        import pa_select.interop.triton  # noqa: F401


@needs_triton
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("k", [2, 10, 130, 1000, 5000])
@pytest.mark.parametrize("zeros", [False, True])
def test_on_a_device(monkeypatch, k, zeros):
    from pa_select.interop.triton import fused_sums

    monkeypatch.setattr(single_precision, "_FEWEST_SCORES", 0)
    monkeypatch.setattr(paired_scores, "_ACCELERATOR_BLOCK_BYTES", 1 << 18)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 500, k))
    b += 2 * a
    if zeros:
        a[1, 1:] = b[2, 1:] = -np.inf
    a, b, weight = torch.tensor(a).cuda(), torch.tensor(b).cuda(), rng.random(500)
    plain = posterior_agreement(a, b, sample_weight=weight)
    with fused_sums():
        fused = posterior_agreement(a, b, sample_weight=weight)
    assert fused.gap <= 1e-6
    assert fused.score == pytest.approx(plain.score, abs=1e-9)
