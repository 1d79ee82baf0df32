"""Measure the solver on a CUDA device: ``python tests/benchmarks/run_gpu.py``.

Solves each problem, checks its certificate and its score on the CPU, and writes
docs/figures/gpu.csv.  The unit is the time to read all scores once, for each pass.
"""

import csv
import sys
from pathlib import Path
from time import perf_counter

import torch

from pa_select import posterior_agreement

TOL = 1e-6
SIZES = [(1_000, 10), (100_000, 10), (1_000_000, 10), (10_000_000, 10), (1_000_000, 1000)]


def seconds(work, repeats=5):
    best = float("inf")
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, perf_counter() - start)
    return best


def main():
    if not torch.cuda.is_available():
        sys.exit("This needs a CUDA device, there is none.")
    rows = []
    for n, k in SIZES:
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            a = torch.randn(n, k, device="cuda", dtype=dtype)
            a[torch.arange(n, device="cuda"), torch.randint(k, (n,), device="cuda")] += 3
            b = a + (0.7 * torch.randn(n, k, device="cuda")).to(dtype)
            reading = seconds(lambda a=a, b=b: (a.amax(), b.amax()))
            torch.cuda.reset_peak_memory_stats()
            result = posterior_agreement(a, b, tol=TOL)  # also warms up
            solve = seconds(lambda a=a, b=b: posterior_agreement(a, b, tol=TOL), 2)
            assert result.gap <= TOL, f"the gap is {result.gap}"
            if n * k <= 10_000_000:
                # Both are certified, so that neither exceeds the other by more than the tolerance.
                score = posterior_agreement(a.cpu(), b.cpu(), tol=TOL).score
                assert abs(score - result.score) <= TOL, f"the scores are {score, result.score}"
            rows.append(
                {
                    "pairs": n,
                    "classes": k,
                    "type": str(dtype).removeprefix("torch."),
                    "passes": result.n_evaluations,
                    "gap": f"{result.gap:.1g}",
                    "seconds": f"{solve:.4f}",
                    "in readings for each pass": f"{solve / reading / result.n_evaluations:.1f}",
                    "peak memory (MiB)": torch.cuda.max_memory_allocated() >> 20,
                }
            )
            print(rows[-1], flush=True)
    path = Path(__file__).parents[2] / "docs" / "figures" / "gpu.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
