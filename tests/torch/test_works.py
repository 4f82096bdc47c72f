# SPDX-License-Identifier: Apache-2.0
"""What a call hands out: works, how long they took, and what is kept of them."""

import os
import time

import torch
import torch.distributed as dist

from harness import case


@case(worlds=(2,))
def works_are_not_kept(rank, size):
    """PyTorch's list of works that a graph may wait for is empty when all have been waited for."""
    from torch._C._distributed_c10d import _get_work_registry_size
    from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx

    x, sizes = torch.ones(3), []
    with allow_inflight_collective_as_graph_input_ctx():
        for _ in range(5):
            dist.all_reduce(x)
            dist.broadcast(x, 0, async_op=True).wait()
            work = dist.all_gather_into_tensor(torch.empty(3 * size), x, async_op=True)
            sizes.append(_get_work_registry_size())
            work.synchronize() if dist.get_backend() == "weft" else work.wait()
            sizes.append(_get_work_registry_size())
    assert sizes == [1, 0] * 5, sizes
    return x


@case(worlds=(2,), gloo=False, moves=False)
def a_failed_work_is_not_kept(rank, size):
    from torch._C._distributed_c10d import _get_work_registry_size
    from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx

    group = dist.new_group()
    with allow_inflight_collective_as_graph_input_ctx():
        work = dist.all_reduce(torch.ones(3 + rank), group=group, async_op=True)
        try:
            work.wait()
        except dist.DistBackendError:
            assert _get_work_registry_size() == 0
        else:
            raise AssertionError("ranks with different sizes agreed")


@case(worlds=(1, 2), gloo=False)
def works_are_timed(rank, size):
    """From the call to the operation's end, and not until somebody looks."""
    group = dist.new_group()
    late = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    late.wait()
    group._enable_collectives_timing()
    try:
        late._get_duration()
    except RuntimeError as error:
        assert "only works if timing was enabled" in str(error), error
    else:
        raise AssertionError("a work has a duration that was not timed")
    if rank == 1:
        dist.recv(torch.empty(1), 0)
    began = time.monotonic()
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    if rank == 0 and size > 1:
        try:
            work._get_duration()
        except RuntimeError as error:
            assert "has not ended" in str(error), error
        else:
            raise AssertionError("a work has a duration that runs")
        dist.send(torch.ones(1), 1)
    work.get_future().wait()
    ended = time.monotonic()
    time.sleep(0.2)
    work.wait()
    assert 0 < work._get_duration() <= (ended - began) * 1000, (work._get_duration(), ended - began)


def switches():
    """How often the threads that see to futures have slept."""
    counts = {}
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        if fields["Name"].strip() == "weft-keeper":
            counts[task] = int(fields["voluntary_ctxt_switches"])
    return counts


@case(worlds=(2,), gloo=False)
def nobody_looks_for_what_does_not_come(rank, size):
    """The thread that sees to futures sleeps until an operation has ended."""
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    got = torch.zeros(1)
    work = dist.irecv(got, 1 - rank, tag=7)
    future = work.get_future()
    for _ in range(20):  # until both ranks' thread sleeps
        before = switches()
        time.sleep(0.05)
        sleeps = torch.tensor([float(switches() == before)])
        dist.all_reduce(sleeps, op=dist.ReduceOp.MIN)
        if sleeps.item():
            break
    time.sleep(0.05)
    before = switches()
    time.sleep(0.5)
    after = switches()
    dist.barrier()  # nobody sends while the other still looks
    assert before and after == before, (before, after)
    dist.send(torch.ones(1), 1 - rank, tag=7)
    assert future.wait()[0].item() == 1 and work.is_completed()


@case(worlds=(1, 2), gloo=False)
def a_call_that_waits_hands_out_no_work(rank, size):
    """As nccl's does, where it has ended in a moment; a longer one is waited for by its work."""
    options = dist.AllreduceOptions()
    options.asyncOp = False
    x = torch.ones(2)
    for _ in range(20):
        dist.barrier()
        work = dist.group.WORLD.allreduce([x], options)
        if work is not None:
            work.wait()
        without = torch.tensor([float(work is None)])
        dist.all_reduce(without, op=dist.ReduceOp.MIN)
        if without.item():  # at all ranks in the same turn
            break
    assert work is None
    if size > 1:
        if rank == 1:
            dist.recv(torch.empty(1), 0)
        work = dist.group.WORLD.allreduce([x], options)
        if rank == 0:
            assert work is not None
            dist.send(torch.ones(1), 1)
        if work is not None:
            work.wait()
