"""How much memory an agreement takes above its scores, which lie in files.

Anonymous memory of a process of its own: the pages of a mapped file do not count. What it
may take is 8 bytes for each pair, the terms, and a fixed part for the blocks of one thread.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pa_select import posterior_agreement

K, MIB = 10, 2**20
STATUS = Path("/proc/self/status")
# Each measurement is made by a fork of one process, so that libraries are imported only once.
SCRIPT = """
import json, os, sys, threading, time, warnings
import numpy as np
import torch
from pa_select import posterior_agreement
from pa_select.agreement import agreement_of_chunks
from pa_select.solver import branch_and_bound

def anonymous():
    status = open("/proc/self/status").read()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])

def measure(n, chunk, n_threads, most, options):
    torch.set_num_threads(n_threads)
    a, b = (np.load(path, mmap_mode="r")[:n] for path in sys.argv[1:3])

    def solve(n):
        if not chunk:
            return posterior_agreement(a[:n], b[:n], **options)
        parts = [slice(i, min(i + chunk, n)) for i in range(0, n, chunk)]
        return agreement_of_chunks(((a[part], b[part]) for part in parts), **options)

    peak, over = 0, False
    def watch():
        nonlocal peak
        while not over:
            peak = max(peak, anonymous())
            time.sleep(0.002)

    warnings.simplefilter("ignore")  # of a search that is ended early
    branch_and_bound.MAX_EVALUATIONS = most
    solve(1000)  # what libraries load when they are first used
    before = anonymous()
    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    result = solve(n)
    seconds = time.perf_counter() - start
    over = True
    watcher.join()
    return [peak - before, seconds, result.n_evaluations, result.n_pairs, result.score]

for arguments in json.loads(sys.argv[3]):
    child = os.fork()
    if child == 0:
        print(json.dumps(measure(*arguments)), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""

pytestmark = pytest.mark.skipif(
    not STATUS.exists() or "RssAnon" not in STATUS.read_text(), reason="no RssAnon in /proc"
)


def write(folder, n):
    """Two files of n rows of scores in float32, written piece by piece."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{name}.npy" for name in "ab"]
    files = [np.lib.format.open_memmap(p, "w+", np.float32, (n, K)) for p in paths]
    for begin in range(0, n, 200_000):
        common = rng.standard_normal((min(200_000, n - begin), K), np.float32)
        for file in files:
            noise = rng.standard_normal(common.shape, np.float32)
            file[begin : begin + len(common)] = 2 * common + noise
    return paths


def measure(paths, *wanted):
    """Bytes above the inputs and the score, for each (n, chunk, n_threads, most, options)."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, paths), json.dumps(wanted)],
        capture_output=True,
        text=True,
        check=True,
    )
    results = [json.loads(line) for line in found.stdout.splitlines()]
    for (n, chunk, n_threads, *_), result in zip(wanted, results, strict=True):
        extra, seconds, n_evaluations, n_pairs, _ = result
        assert n_pairs == n
        print(
            f"\n{n} pairs, {f'chunks of {chunk}' if chunk else 'mapped'}, {n_threads} threads: "
            f"{extra / MIB:.0f} MiB above the inputs, {seconds:.1f} s for {n_evaluations} "
            "evaluations"
        )
    return [(extra, score) for extra, *_, score in results]


# More scores than are kept from one pass to the next. A copy of one side would take 43 MB, and in
# float64 85 MB.
SIZES = [(0, 1_060_000), (50_000, 1_060_000)]


UNIFORM = {"certify": False}
MARGINAL = {"prior": "marginal", "tol": 0.1, "certify": False}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The files, and by prior and chunk the bytes above the inputs and the score."""
    paths = write(tmp_path_factory.mktemp("pairs"), max(n for _, n in SIZES))
    # Each pass over the pairs takes the same memory, and a few of the marginal prior show it.
    wanted = {("uniform", chunk): (n, chunk, 1, 1500, UNIFORM) for chunk, n in SIZES}
    wanted |= {("marginal", chunk): (n, chunk, 1, 4, MARGINAL) for chunk, n in SIZES}
    return paths, dict(zip(wanted, measure(paths, *wanted.values()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("chunk", "n"), SIZES)
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_a_million_pairs(measured, prior, chunk, n):
    paths, found = measured
    extra, score = found[prior, chunk]
    assert extra < 8 * n + 64 * MIB
    if chunk and prior == "uniform":
        mapped = (np.load(path, mmap_mode="r")[:n] for path in paths)
        assert score == pytest.approx(posterior_agreement(*mapped, certify=False).score, abs=1e-9)


@pytest.mark.parametrize("chunk", [0, 50_000])
def test_ten_million_pairs(benchmark, tmp_path, chunk):
    if not benchmark.enabled:
        pytest.skip("10 million pairs: make bench")
    n = 10_000_000
    paths = write(tmp_path, n)
    (found,) = benchmark.pedantic(measure, (paths, (n, chunk, 2, 1500, {})), rounds=1)
    extra, _ = found
    assert extra < 256 * MIB
