"""Processes of a gloo group, spawned once for many questions that are functions here."""

import datetime
import multiprocessing
import time
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from pa_select import posterior_agreement
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.pairs.sharded_scores import Processes
from pa_select.solver import branch_and_bound as maximize

NUMBERS = "score beta log_kernel upper_bound gap n_pairs n_classes agreement_rate".split()
NUMBERS += ["standard_error", "n_evaluations"]

# What solves are timed on.
MANY, CLASSES_OF_MANY = 1_000_000, 10


def ask(n_ranks, folder, question, seconds=300):
    """What a function of (rank, n_ranks) returns on each rank; a hang fails."""
    # A server that has imported what takes long, and only that, forks a process for each rank.
    multiprocessing.set_forkserver_preload(["torch.distributed", "pa_select.agreement"])
    how = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    arguments = {"args": (n_ranks, str(folder), question), "nprocs": n_ranks, "join": False}
    context = mp.start_processes(_answer, **arguments, start_method=how)
    end = time.monotonic() + seconds
    try:
        while not context.join(timeout=1):
            assert time.monotonic() < end, f"{n_ranks} ranks did not end in {seconds} s"
    finally:
        for process in context.processes:
            process.kill()
    return [torch.load(f"{folder}/{rank}.pt", weights_only=False) for rank in range(n_ranks)]


def _answer(rank, n_ranks, folder, question):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=Path(folder, "meet").as_uri(),
        rank=rank,
        world_size=n_ranks,
        timeout=datetime.timedelta(seconds=120),
    )
    torch.save(question(rank, n_ranks), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def times_of_solves(rank, n_ranks, n_solves=5):
    """How long solves of many pairs took, of which this rank has its share, by prior."""
    a, b = noisy(MANY // n_ranks, CLASSES_OF_MANY, seed=rank, dtype=np.float32)
    group, times = None if n_ranks == 1 else "world", {}
    for prior in ("uniform", "marginal"):
        times[prior] = []
        for _ in range(n_solves):
            dist.barrier()
            start = time.perf_counter()
            posterior_agreement(a, b, prior=prior, process_group=group)
            times[prior].append(time.perf_counter() - start)
    return times


def noisy(n, n_classes=4, noise=1.0, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    a = 3 * rng.normal(size=(n, n_classes))
    return a.astype(dtype), (a + noise * rng.normal(size=a.shape)).astype(dtype)


def cases():
    """Names of problems with what `posterior_agreement` gets."""
    rng = np.random.default_rng(7)
    a, b = noisy(301)
    weight = rng.uniform(size=301) * (rng.uniform(size=301) > 0.2)
    weight[:100] = 0  # all of the first rank
    zero_a, zero_b = noisy(80, 3, seed=3)
    # Only the last rank has a score of -inf; no pair is disjoint.
    zero_a[-1, 0] = -np.inf
    disjoint_a, disjoint_b = noisy(40, 3, seed=4)
    disjoint_a[-1], disjoint_b[-1] = [0, -np.inf, 0], [-np.inf, 0, -np.inf]
    dropped = np.ones(40)
    dropped[-1] = 0
    tied = np.repeat([[2.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 20, 0)
    shapes = [(60, 3), (1, 3), (90, 5), (2, 5)]
    many = tuple(zip(*(noisy(*shape, seed=s) for s, shape in enumerate(shapes)), strict=True))
    large = noisy(30_000, 20, seed=5, dtype=np.float32)
    vector = [0.4, 0.3, 0.2, 0.1]
    return {
        "uniform": ((a, b), {"return_path": True}),
        "float32": (tuple(x.astype(np.float32) for x in (a, b)), {}),
        "vector": ((a, b), {"prior": vector}),
        "tensor prior": ((a, b), {"prior": torch.tensor(vector, dtype=torch.float64)}),
        "marginal": ((a, b), {"prior": "marginal"}),
        "uncertified marginal": ((a, b), {"certify": False, "prior": "marginal"}),
        "weights": ((a, b), {"sample_weight": weight}),
        "weights marginal": ((a, b), {"sample_weight": weight, "prior": "marginal"}),
        "zeros": ((zero_a, zero_b), {}),
        "zeros marginal": ((zero_a, zero_b), {"prior": "marginal"}),
        "disjoint": ((disjoint_a, disjoint_b), {}),
        "disjoint marginal": ((disjoint_a, disjoint_b), {"prior": "marginal"}),
        "disjoint dropped": ((disjoint_a, disjoint_b), {"sample_weight": dropped}),
        "all agree": ((tied, 2 * tied), {}),
        "all agree marginal": ((tied, 2 * tied), {"prior": "marginal"}),
        "one pair": ((a[:1], b[:1]), {"prior": "marginal"}),
        "large": (large, {}),
        "many": (many, {}),
        "many marginal": (many, {"prior": "marginal", "return_path": True}),
        "many weights": (many, {"sample_weight": [rng.uniform(size=len(p)) for p in many[0]]}),
        "stack": ((np.stack([a, b]), np.stack([b, a[::-1]])), {}),
    }


def cut(rows, rank, n_ranks, how):
    """The rows of a rank: uneven shards, the second half on the last, or all on the first."""
    n = len(rows)
    ends = {
        "uneven": [round(n * (r / n_ranks) ** 2) for r in range(n_ranks + 1)],
        "first has all": [0] + [n] * n_ranks,
        "last has all": [0] * n_ranks + [n],
    }[how]
    return rows[ends[rank] : ends[rank + 1]]


def shard(scores, arguments, rank, n_ranks, how="uneven"):
    def mine(x):
        return [cut(y, rank, n_ranks, how) for y in x] if _many(x) else cut(x, rank, n_ranks, how)

    weight = arguments.get("sample_weight")
    mine_too = {} if weight is None else {"sample_weight": mine(weight)}
    return [mine(x) for x in scores], arguments | mine_too


def _many(x):
    return isinstance(x, (list, tuple)) or x.ndim == 3


def numbers(result):
    results = result if isinstance(result, list) else [result]
    return [
        {name: getattr(r, name) for name in NUMBERS}
        | {"terms": r.terms, "rows": len(r.source.a), "weight": r.source.weight}
        | {"path": r.path and list(vars(r.path).values())}
        for r in results
    ]


def same_as_alone(rank, n_ranks):
    """The numbers of every case, and of some where all pairs lie on one rank."""
    found = {}
    for name, (scores, arguments) in cases().items():
        ways = ["uneven"]
        if name in ("uniform", "weights", "zeros marginal", "many"):
            ways += ["first has all", "last has all"]
        for how in ways:
            mine, more = shard(scores, arguments, rank, n_ranks, how)
            group = "world" if how == "uneven" else dist.group.WORLD
            found[name, how] = numbers(posterior_agreement(*mine, **more, process_group=group))
    return found


def no_shape_and_two_of_three(rank, n_ranks):
    """A rank that does not know the number of classes, and a group of some ranks."""
    a, b = noisy(50)
    mine = (a, b) if rank == 1 else (np.zeros((0, 0)), np.zeros((0, 0)))
    together = numbers(posterior_agreement(*mine, process_group="world"))
    batch = [[x] for x in mine]
    of_batch = numbers(posterior_agreement(*batch, process_group="world", prior="marginal"))
    vector = np.arange(1.0, a.shape[1] + 1)
    vector /= vector.sum()
    with_prior = numbers(posterior_agreement(*mine, process_group="world", prior=vector))
    group = dist.new_group([0, 2])
    half = slice(0, 10) if rank == 0 else slice(10, 50)
    some = say(lambda: posterior_agreement(a[half], b[half], process_group=group))
    if rank != 1:
        some = numbers(posterior_agreement(a[half], b[half], process_group=group))
    return together, of_batch, with_prior, some


def failures(rank, n_ranks):
    """What every rank says where one of them fails, by name."""
    a, b = noisy(60)
    a, b = a[rank::n_ranks], b[rank::n_ranks]
    last = rank == n_ranks - 1

    def solve(a=a, b=b, **arguments):
        return posterior_agreement(a, b, process_group="world", **arguments)

    def failing_in(which_pass, error):
        """Let the last rank fail in one of its passes."""
        whole, passes = PairedScores.map_blocks, []

        def broken(*args):
            passes.append(1)
            if last and len(passes) == which_pass:
                raise error
            return whole(*args)

        with mock.patch.object(PairedScores, "map_blocks", broken):
            return solve(prior="marginal")

    broken = a.copy()
    broken[2, 1] = np.nan
    found = {
        "nan": say(lambda: solve(broken if last else a)),
        "tol": say(lambda: solve(tol=1e-4 if last else 1e-5)),
        "certify": say(lambda: solve(certify=not last)),
        "prior": say(lambda: solve(prior="marginal" if last else [0.25] * 4)),
        "wrong prior": say(lambda: solve(prior=[0.5, 0.5])),
        "classes": say(lambda: solve(a[:, :3] if last else a, b[:, :3] if last else b)),
        "problems": say(lambda: solve([a] * 2 if last else [a], [b] * 2 if last else [b])),
        "groups": say(lambda: solve(groups=np.arange(len(a)))),
        "weights": say(lambda: solve(sample_weight=np.zeros(len(a)))),
        "empty": say(lambda: solve(a[:0], b[:0])),
        "all": say(lambda: solve(tol=-1)),
        "first pass": say(lambda: failing_in(1, MemoryError("no memory"))),
        "later pass": say(lambda: failing_in(7, ValueError("a cosmic ray"))),
        "sums": say(lambda: Processes("world").gather(torch.zeros(3 + last))),
    }
    with mock.patch.object(maximize, "MAX_EVALUATIONS", 5):
        found["flat"] = say(lambda: solve(tol=1e-12))
    # Only an error of the group's own calls is fatal.
    found["still"] = solve().score
    return found


def say(call):
    """The type and message of what a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


def three(rank, n_ranks):
    """All that three ranks are asked."""
    questions = same_as_alone, no_shape_and_two_of_three, failures
    return tuple(question(rank, n_ranks) for question in questions)


def metrics(rank, n_ranks):
    """Values of the torchmetrics metric, and how many numbers the ranks exchanged."""
    from torchmetrics.utilities.distributed import gather_all_tensors

    from pa_select.interop.torchmetrics import PosteriorAgreement

    a, b = (torch.tensor(x, dtype=torch.float32) for x in noisy(900))
    batches = [slice(0, 100), slice(100, 700)] if rank == 0 else [slice(700, 900)]
    sizes = []

    def counted(received, values, *args, **kwargs):
        sizes.append(values.numel())
        return all_gather(received, values, *args, **kwargs)

    all_gather = dist.all_gather
    found = {}
    with mock.patch.object(dist, "all_gather", counted):
        metric = PosteriorAgreement(prior="marginal")
        for batch in batches:
            metric.update(a[batch], b[batch])
        found["all"] = metric.compute().item()
        found["largest"] = max(sizes)
    found["rows"] = metric.result_.n_pairs, len(metric.result_.terms)
    # Each rank goes on with its own pairs.
    found["held"] = len(metric.scores_a), metric._is_synced
    metric.update(a[:50] if rank else a[:0], b[:50] if rank else b[:0])
    found["more"] = metric.compute().item()
    gathering = PosteriorAgreement(prior="marginal", dist_sync_fn=gather_all_tensors)
    local = PosteriorAgreement(prior="marginal", sync_on_compute=False)
    on_step = PosteriorAgreement(prior="marginal", dist_sync_on_step=True)
    idle = PosteriorAgreement(prior="marginal", process_group=dist.group.WORLD)
    found["step"] = [on_step(a[s], b[s]).item() for s in (batches[-1], slice(0, 300))]
    for batch in batches:
        for metric in (gathering, local):
            metric.update(a[batch], b[batch])
    if rank == 0:
        idle.update(a, b)
    found["gathering"] = gathering.compute().item()
    found["local"] = local.compute().item()
    found["idle"] = idle.compute().item()
    return found
