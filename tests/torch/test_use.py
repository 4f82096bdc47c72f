# SPDX-License-Identifier: Apache-2.0
"""What PyTorch builds upon its groups, on weft and on gloo: models, optimizers, tensors and checkpoints have the same values."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from harness import case


class Net(nn.Module):
    """Whose second branch is used by some ranks only, if asked."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 32)
        self.last = nn.Linear(32, 4)

    def forward(self, x, skip=False):
        x = torch.relu(self.first(x))
        if not skip:
            x = torch.relu(self.second(x))
        return self.last(x)


def batch(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)


def train(model, rank, steps=4, optimizer=None, **extra):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x, **extra), y).backward()
        optimizer.step()


def close(values):
    """Sums of gloo and weft differ in their last bits where the order of ranks differs: four digits are compared."""
    return [torch.round(value.detach().float(), decimals=4) + 0.0 for value in values]


@case(worlds=(2, 4))
def ddp(rank, size):
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.002)
    train(model, rank)
    return close(model.parameters())


@case(worlds=(2,))
def ddp_bucket_views(rank, size):
    model = DistributedDataParallel(Net(), gradient_as_bucket_view=True, static_graph=True)
    train(model, rank)
    return close(model.parameters())


@case(worlds=(2,))
def ddp_unused_parameters(rank, size):
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    train(model, rank, skip=rank == 1)
    train(model, rank, skip=True)
    return close(model.parameters())


@case(worlds=(2,))
def ddp_sparse_gradients(rank, size):
    torch.manual_seed(7)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(20, 4, sparse=True), nn.Flatten(), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.tensor([[rank + step, 2], [3, 4 + rank]])).square().sum().backward()
        optimizer.step()
    return close(model.parameters())


@case(worlds=(3,))
def ddp_join(rank, size):
    """Ranks with fewer batches shadow the others."""
    model = DistributedDataParallel(Net())
    with model.join():
        train(model, rank, steps=2 + rank)
    return close(model.parameters())


@case(worlds=(2,))
def ddp_comm_hooks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    results = {}
    for hook, state in (
        (default_hooks.fp16_compress_hook, None),
        (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)),
    ):
        model = DistributedDataParallel(Net())
        model.register_comm_hook(state, hook)
        train(model, rank, steps=5)
        results[hook.__name__] = close(model.parameters())
    return results


def sharded(change=lambda model: None, lr=0.1, **options):
    """Net in shards, each layer by itself, and its optimizer."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    model = Net()
    for layer in (model.first, model.second, model.last, model):
        fully_shard(layer, **options)
    for layer in model.modules():
        if isinstance(layer, FSDPModule):
            change(layer)
    return model, torch.optim.SGD(model.parameters(), lr=lr)


@case(worlds=(2,))
def fsdp2(rank, size):
    model, optimizer = sharded()
    train(model, rank, optimizer=optimizer)
    plain = Net()
    train(DistributedDataParallel(plain), rank)
    whole = [value.full_tensor() for value in model.parameters()]
    for mine, other in zip(whole, plain.parameters()):
        torch.testing.assert_close(mine, other)
    return close(whole)


@case(worlds=(2, 3))
def fsdp2_of_two_types(rank, size):
    """Parameters are gathered as bfloat16, gradients averaged as float32, in memory of the group's."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    alone, optimizer = sharded(mp_policy=policy)
    train(alone, rank, optimizer=optimizer)
    model, optimizer = sharded(lambda layer: layer.set_allocate_memory_from_process_group_for_comm(True), mp_policy=policy)
    train(model, rank, optimizer=optimizer)
    whole = [value.full_tensor() for value in model.parameters()]
    for one, other in zip(whole, alone.parameters()):
        assert torch.equal(one, other.full_tensor())
    return close(whole)


@case(worlds=(2,), gloo=False)
def fsdp2_with_a_factor(rank, size):
    """Sums that are divided by four, which gloo cannot, and a double step width are averages of two."""
    model, optimizer = sharded(lambda layer: layer.set_gradient_divide_factor(4.0), lr=0.2)
    train(model, rank, optimizer=optimizer)
    expected, optimizer = sharded()
    train(expected, rank, optimizer=optimizer)
    for one, other in zip(model.parameters(), expected.parameters()):
        assert torch.equal(one.full_tensor(), other.full_tensor())


@case(worlds=(2,))
def zero_redundancy(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(Net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    train(model, rank, optimizer=optimizer)
    return close(model.parameters())


@case(worlds=(4,))
def dtensor(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    torch.manual_seed(3)
    left, right = torch.randint(5, (8, 6)).float(), torch.randint(5, (6, 4)).float()
    one = distribute_tensor(left, mesh, [Shard(0), Replicate()])
    other = distribute_tensor(right, mesh, [Replicate(), Shard(1)])
    product = one @ other
    whole = product.full_tensor()
    assert torch.equal(whole, left @ right)
    moved = product.redistribute(mesh, [Shard(1), Shard(0)])
    assert torch.equal(moved.full_tensor(), whole)
    return [whole, product.sum().full_tensor(), one.redistribute(mesh, [Shard(1), Shard(1)]).to_local()]


@case(worlds=(2,))
def functional(rank, size):
    from torch.distributed import _functional_collectives as functional_collectives

    group = dist.group.WORLD
    x = torch.arange(4.0) + rank
    return [
        functional_collectives.all_reduce(x, "sum", group) + 0,
        functional_collectives.all_gather_tensor(x, 0, group) + 0,
        functional_collectives.reduce_scatter_tensor(x, "sum", 0, group) + 0,
        functional_collectives.all_to_all_single(x, None, None, group) + 0,
        functional_collectives.broadcast(x, 1, group) + 0,
    ]


@case(worlds=(2,))
def compiled(rank, size):
    """The traced graph holds the functional collective and its wait, and gives what eager gives."""
    from torch.distributed import _functional_collectives as functional_collectives

    names = []

    def look(module, inputs):
        names.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    def work(x):
        return functional_collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    x = torch.arange(6.0) + rank
    eager = work(x)
    result = torch.compile(work, backend=look, fullgraph=True)(x)
    assert torch.equal(result, eager)
    assert any("_c10d_functional.all_reduce" in name for name in names), names
    assert any("_c10d_functional.wait_tensor" in name for name in names), names
    return result


@case(worlds=(2,))
def compiled_by_inductor(rank, size):
    """As users call it: what the compiler makes of collectives in the middle and at the end gives what eager gives."""
    from torch.distributed import _functional_collectives as functional_collectives

    def work(x):
        whole = functional_collectives.all_gather_tensor(torch.sin(x), 0, dist.group.WORLD)
        return functional_collectives.reduce_scatter_tensor(whole * 2, "sum", 0, dist.group.WORLD).cos()

    x = torch.arange(6.0) + rank
    result = torch.compile(work, fullgraph=True)(x)
    torch.testing.assert_close(result, work(x))
    return close([result])


@case(worlds=(2,))
def profiled(rank, size):
    """The ranges that a profiler shows, and their inputs."""
    x = torch.ones(2, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(x)
        dist.all_reduce_coalesced([x, torch.ones(5)])
        dist.broadcast(x, 0, async_op=True).wait()
        dist.all_gather([torch.empty(2, 3) for _ in range(size)], x)
        dist.all_to_all_single(torch.empty(4), torch.ones(4))
        dist.send(x, 1 - rank) if rank == 0 else dist.recv(x)
        dist.barrier()
    start = f"{dist.get_backend()}:"
    seen = [(e.name.removeprefix(start), e.is_async, e.input_shapes) for e in profiler.events() if e.name.startswith(start)]
    assert ("all_to_all", True, [[4]]) in seen, seen
    return sorted(seen, key=str)


def stage_of(rank):
    torch.manual_seed(11 + rank)
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh())


@case(worlds=(2,))
def pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

    results = []
    torch.manual_seed(2)
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    for stages, schedule in ((1, Schedule1F1B), (2, ScheduleInterleaved1F1B)):
        parts = [stage_of(rank + size * i) for i in range(stages)]
        made = [
            PipelineStage(part, rank + size * i, size * stages, torch.device("cpu")) for i, part in enumerate(parts)
        ]
        run = schedule(made if stages > 1 else made[0], n_microbatches=4, loss_fn=nn.functional.mse_loss)
        losses = []
        if rank == 0:
            run.step(x)
        else:
            run.step(target=y, losses=losses)
        results += [value.grad for part in parts for value in part.parameters()]
    return results


@case(worlds=(2,))
def overlap(rank, size):
    """Messages in both directions and an allreduce, under way together on one group."""
    other = 1 - rank
    total, got = torch.full((100000,), float(rank)), torch.empty(100000)
    works = [dist.irecv(got, other), dist.all_reduce(total, async_op=True), dist.isend(torch.full((100000,), rank + 5.0), other)]
    for work in reversed(works):
        work.wait()
    return [total, got]


@case(worlds=(2,), moves=False)
def checkpoint(rank, size):
    from torch.distributed import checkpoint as dcp

    folder = [tempfile.mkdtemp()] if rank == 0 else [None]
    dist.broadcast_object_list(folder, src=0)
    model = Net()
    state = {"model": model.state_dict(), "step": rank}
    dcp.save(state, checkpoint_id=os.path.join(folder[0], "saved"))
    empty = {"model": {name: torch.zeros_like(value) for name, value in model.state_dict().items()}, "step": -1}
    dcp.load(empty, checkpoint_id=os.path.join(folder[0], "saved"))
    for name, value in model.state_dict().items():
        assert torch.equal(empty["model"][name], value)
    return list(empty["model"].values())


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.tensor([float(index)])


@case(worlds=(2,))
def forked_workers(rank, size):
    """DataLoader's workers are forked in the middle, while an operation is under way."""
    total = torch.ones(200000)
    work = dist.all_reduce(total, async_op=True)
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork")
    seen = sum(part.sum().item() for part in loader)
    work.wait()
    assert seen == sum(range(32))
    dist.all_reduce(total)
    return total
