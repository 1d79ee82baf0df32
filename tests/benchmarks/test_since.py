"""Times of the code as it is, beside those of an earlier commit.

Both trees answer in turns, in a process each. ``make bench SINCE=<commit>`` compares with another
commit. The one that is named here is the last before batches of uneven length, small problems,
scorers and replicates were made fast.
"""

import io
import os
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

SINCE = os.environ.get("SINCE") or "0e79851"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHARES = "support vectors, label", "support vectors, views"
SHARES += "logistic regression, label", "logistic regression, views"

# What is measured: its name in `figures_of_a_tree`, what the table calls it, what was wanted.
RATIOS = [
    ("uneven", "60 problems of 1000 to 1002 pairs, in times of 60 of 1000", "1.3"),
    *((f"scorer {x}", f"the agreement's share of a search ({x})", "0.5") for x in SHARES),
    ("many", "10 000 problems of 200 pairs, in passes of exponentials", "60"),
    ("threads", "one thread, in times of two, 1 000 000 pairs", "1.6"),
]
# Of these the time of the earlier commit is 1.
TIMES = [
    ("few uniform", "100 pairs and 10 classes, uniform prior", "0.33"),
    ("few marginal", "100 pairs and 10 classes, marginal prior", "0.33"),
    ("bootstrap uniform", "1000 replicates of 1000 pairs, uniform prior", "0.33"),
    ("bootstrap marginal", "1000 replicates of 1000 pairs, marginal prior", "0.33"),
    ("classes uniform", "2000 pairs and 1000 classes, uniform prior", ""),
    ("classes marginal", "2000 pairs and 1000 classes, marginal prior", ""),
]
N_TURNS = 3


class Tree:
    """A process that computes figures with the package of one tree."""

    def __init__(self, stack, folder):
        environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "figures_of_a_tree.py")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=environment, cwd=folder, **pipes)
        stack.enter_context(self._process)
        stack.callback(self._process.kill)
        assert Path(self._process.stdout.readline()).is_relative_to(folder)

    def figure(self, name):
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """The earlier code and that of today."""
    archive = ["git", "-C", str(ROOT), "archive", SINCE, "pa_select"]
    found = subprocess.run(archive, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"no commit {SINCE}: {found.stderr.decode().strip()}")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as tar:
        tar.extractall(folder, filter="data")
    with ExitStack() as stack:
        yield Tree(stack, folder), Tree(stack, ROOT)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what", "wanted"), RATIOS + TIMES)
def test_since(benchmark, figures, trees, name, what, wanted):
    if not benchmark.enabled:
        pytest.skip("for the table only")
    turns = []
    benchmark.pedantic(lambda: turns.append([tree.figure(name) for tree in trees]), rounds=N_TURNS)
    if (name, what, wanted) in TIMES:
        then, now = "1", f"{median(new / old for old, new in turns):.2f}"
    else:
        then, now = (f"{median(values):.3g}" for values in zip(*turns, strict=True))
    row = {"what": what, f"at {SINCE}": then, "now": now, "wanted": wanted}
    figures("since", row)
    print(row)
