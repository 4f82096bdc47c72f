# SPDX-License-Identifier: Apache-2.0
"""weft beside gloo under PyTorch: the same two ranks have a group of each, and take turns round by round.

Run by perf/torch/run.sh, once per rank. Rank 0 prints a table: the median of each over the rounds, and how many times faster weft is
(the median of the rounds' ratios). Below it: what a call costs in PyTorch itself, by its backend "fake", which does nothing. Ranks are pinned
to a processor each, where there are enough.
"""

import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

ROUNDS = 9
BACKENDS = ("gloo", "weft")


def transformer():
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(128, 128))


def allreduce(count):
    def make(group):
        tensor = torch.zeros(count)
        return lambda: dist.all_reduce(tensor, group=group)

    return make


def training_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(4, 16, 128)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def ddp(group):
    return training_step(DistributedDataParallel(transformer(), process_group=group))


def fsdp2(group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(group, "cpu")
    model = transformer()
    for layer in model[0].layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return training_step(model)


ROWS = (
    ("allreduce, 8 B", allreduce(2), 1000),
    ("allreduce, 64 KiB", allreduce(1 << 14), 300),
    ("allreduce, 1 MiB", allreduce(1 << 18), 50),
    ("allreduce, 32 MiB", allreduce(1 << 23), 5),
    ("DDP step, small transformer", ddp, 10),
    ("FSDP2 step, the same", fsdp2, 10),
)


def measure(call, times, group):
    dist.barrier(group=group)
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times * 1e6


def nothing():
    """The median of a call's time on PyTorch's backend that does nothing."""
    from torch.testing._internal.distributed import fake_pg  # noqa: F401, which makes it known

    group = dist.new_group(backend="fake")
    call, times = allreduce(2)(group), 1000
    return statistics.median(measure(call, times, group) for _ in range(ROUNDS))


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if (os.cpu_count() or 1) >= size:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {"gloo": dist.group.WORLD, "weft": dist.new_group(backend="weft")}
    if rank == 0:
        print(f"{'':30}{'gloo us':>12}{'weft us':>12}{'times faster':>14}", flush=True)
    for name, make, times in ROWS:
        calls = {backend: make(groups[backend]) for backend in BACKENDS}
        seen = {backend: [] for backend in BACKENDS}
        for backend in BACKENDS:
            measure(calls[backend], max(times // 10, 2), groups[backend])
        for turn in range(ROUNDS):
            for backend in BACKENDS if turn % 2 else reversed(BACKENDS):
                seen[backend].append(measure(calls[backend], times, groups[backend]))
        if rank == 0:
            ratio = statistics.median(g / w for g, w in zip(seen["gloo"], seen["weft"]))
            medians = [statistics.median(seen[backend]) for backend in BACKENDS]
            print(f"{name:30}{medians[0]:12.1f}{medians[1]:12.1f}{ratio:14.2f}", flush=True)
    alone = nothing()
    if rank == 0:
        print(f"PyTorch's own part of an allreduce: {alone:.1f} us", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
