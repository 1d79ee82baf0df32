"""Measure on a CUDA device what docs/large.rst predicts: ``python tests/benchmarks/run_gpu.py``.

It takes at most ``--limit`` seconds, 8 minutes by default, and writes each result when it has it,
what is most worth knowing first:

1. ``gpu.csv``: the solves of docs/figures/device_predicted.csv, beside the prediction. Scores that
   the CPU can check quickly are checked.
2. ``gpu_training.csv``: nets that ``examples/papers/at_full_size.py`` trains and attacks, on
   digits in colour in the format of CIFAR-10. ``seconds`` are since the start of the script.
3. Again in ``gpu.csv``: solves of less precise scores.

The rows name the device, its driver and torch. Without a device, or with ``--tiny``, everything is
tiny, which shows that the command works and nothing else. The nets are torchvision's ResNet18, or
small ones where it cannot be imported.
"""

import argparse
import csv
import os
import pickle
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import numpy as np
import torch
from sklearn.datasets import load_digits

from pa_select import posterior_agreement
from papers.datasets import FACTOR_LEVELS, factor_images

ROOT = Path(__file__).parents[2]
PREDICTED = ROOT / "docs" / "figures" / "device_predicted.csv"
TOL = 1e-6
# The share of the time after which no net is trained, so that some is left for the last solves.
TRAINING = 0.85


class Table:
    """A CSV file that has each row as soon as it is known."""

    def __init__(self, path, machine):
        self.path, self.machine, self.rows = path, machine, []

    def add(self, **row):
        self.rows.append(row | self.machine)
        with open(self.path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        print(self.path.name, row, flush=True)


def machine_of(device):
    """Return the names of the device, of its driver and of torch."""
    name, driver = "CPU", "none"
    if device == "cuda":
        name = torch.cuda.get_device_name()
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            driver = subprocess.check_output(query, text=True).split()[0]
        except OSError:  # no reason to measure nothing
            driver = "unknown"
    return {"device": name, "driver": driver, "torch": torch.__version__}


def seconds(work, device, repeats):
    """Return the shortest time."""
    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, perf_counter() - start)
    return best


def measured(n, k, prior, dtype, device, repeats=3):
    """Return a row of the table."""
    torch.manual_seed(0)
    a = torch.randn(n, k, device=device, dtype=dtype)
    a[torch.arange(n, device=device), torch.randint(k, (n,), device=device)] += 3
    b = a + (0.7 * torch.randn(n, k, device=device)).to(dtype)
    reading = seconds(lambda: (a.amax(), b.amax()), device, repeats + 1)
    result = posterior_agreement(a, b, prior=prior, tol=TOL)  # also warms up
    solve = seconds(lambda: posterior_agreement(a, b, prior=prior, tol=TOL), device, repeats)
    row = {"pairs": n, "classes": k, "prior": prior, "type": str(dtype).removeprefix("torch.")}
    row |= {"ms": f"{1000 * solve:.3g}", "ms of a reading": f"{1000 * reading:.3g}"}
    row |= {"evaluations": result.n_evaluations, "gap": f"{result.gap:.1g}", "off the CPU's": ""}
    if n * k <= 10_000_000:
        # Both are certified, so that neither exceeds the other by more than the tolerance.
        score = posterior_agreement(a.cpu(), b.cpu(), prior=prior, tol=TOL).score
        row["off the CPU's"] = f"{abs(score - result.score):.1g}"
    return row


def solves(table, cases, device, end):
    for n, k, prior, dtype, predicted in cases:
        if perf_counter() > end:
            print(f"The time is up: {n} pairs of {k} classes, {prior}, {dtype} are not measured.")
            continue
        try:
            row = measured(n, k, prior, dtype, device)
        except torch.OutOfMemoryError:
            print(f"The memory is too small: {n} pairs of {k} classes, {prior}, {dtype}.")
            continue
        table.add(**row, **{"ms predicted": predicted})
    torch.cuda.empty_cache()  # the nets are trained by another process


def write_cifar(folder, n):
    """Write 5 n images for training and n for the test, in the format of CIFAR-10."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    for part in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        # No digit is in both, and each is drawn anew whenever it comes.
        of_part = (np.arange(len(X)) % 5 == 0) == (part == "test_batch")
        rows = rng.choice(np.flatnonzero(of_part), n)
        factors = {name: rng.choice(FACTOR_LEVELS[name], n) for name in ("hue", "position")}
        images = factor_images(
            X[rows].reshape(-1, 8, 8) / 16, factors, random_state=rng.integers(99)
        )
        content = {"data": np.uint8(255 * images).reshape(n, -1), "labels": y[rows].tolist()}
        (folder / part).write_bytes(pickle.dumps(content))


def available_network():
    """Return the network of the papers, or a small one without a torchvision for this torch."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        return "small"
    return "resnet18"


def training(table, device, tiny, end):
    """Let the script for the papers' data train and attack two nets, and follow its files."""
    with TemporaryDirectory() as name:
        folder, output = Path(name), Path(name) / "output"
        write_cifar(folder, 5 if tiny else 2000)
        network = available_network()
        given = ["--dataset=cifar10", f"--data-dir={folder}", f"--output={output}"]
        given += [f"--device={device}", f"--network={network}"]
        given += (
            ["--epochs=1", "--steps=1"] if tiny else ["--epochs=3", "--steps=20", "--workers=8"]
        )
        command = [sys.executable, ROOT / "examples" / "papers" / "at_full_size.py", *given]
        path = os.pathsep.join([str(ROOT), *sys.path])
        start, seen = perf_counter(), set()
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
        try:
            while perf_counter() < end:
                ended = process.poll() is not None
                for key, values in news(output, seen):
                    at = f"{perf_counter() - start:.1f}"
                    table.add(network=network, **key, seconds=at, **values)
                if ended:
                    break
                sleep(0.2)
            else:
                print("The time is up: the nets are not all trained and attacked.")
        finally:
            process.kill()
        return not process.wait() or perf_counter() > end


def news(output, seen):
    """Yield what the files of the script say that they did not say before."""
    for file in sorted(output.glob("*/*.csv")):
        defence = "adversarial" if "adversarial" in file.parent.name else "undefended"
        with open(file, newline="") as lines:
            for line in csv.DictReader(lines):
                step = line.get("epoch") or f"{line['attack']} {float(line['power']):.3f}"
                # Of an attack the line that has all images attacked.
                if (file, step) in seen or line.get("ratio", "1.0") != "1.0":
                    continue
                seen.add((file, step))
                accuracy = float(line.get("target") or 100 * float(line["afr_true"]))
                key = {"defence": defence, "epoch or attack": step}
                yield key, {"accuracy": f"{accuracy:.1f}", "agreement": line.get("pa", "")}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "gpu", metavar="DIR")
    parser.add_argument("--limit", type=float, default=480, metavar="SECONDS")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    start = perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tiny = options.tiny or device == "cpu"
    if device == "cpu":
        print("There is no CUDA device: this tries the command on the CPU. Ignore the times.")
    options.output.mkdir(parents=True, exist_ok=True)
    machine = machine_of(device)
    table = Table(options.output / "gpu.csv", machine)
    with open(PREDICTED, newline="") as file:
        predicted = [
            (int(r["pairs"]), int(r["classes"]), r["prior"], torch.float64, r["ms of the solve"])
            for r in csv.DictReader(file)
        ]
    if tiny:
        predicted = [case for case in predicted if case[0] <= 100]
    solves(table, predicted, device, start + options.limit)
    of_nets = Table(options.output / "gpu_training.csv", machine)
    worked = training(of_nets, device, tiny, start + TRAINING * options.limit)
    less_precise = [
        (n, k, prior, dtype, "")
        for n, k, prior, _, _ in predicted
        for dtype in (torch.float32, torch.bfloat16)
        if prior == "uniform"
    ]
    solves(table, less_precise, device, start + options.limit)
    wrong = [r for r in table.rows if max(float(r["gap"]), float(r["off the CPU's"] or 0)) > TOL]
    if wrong or not worked:
        sys.exit(f"Not as they should be: {wrong or 'the nets'}")


if __name__ == "__main__":
    main()
