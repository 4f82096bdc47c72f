# SPDX-License-Identifier: Apache-2.0
"""Collectives and messages, on weft and on gloo: the same bits."""

import torch
import torch.distributed as dist

from harness import case

KINDS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]


def numbers(rank, count, dtype):
    """Small whole numbers: sums are exact in every type."""
    return ((torch.arange(count) * 7 + rank * 3) % 5).to(dtype)


@case(worlds=(2, 3, 4))
def allreduce_of_types(rank, size):
    results = []
    for dtype in KINDS:
        for count in (0, 1, 5, 1000, 70001):
            tensor = numbers(rank, count, dtype)
            dist.all_reduce(tensor)
            results.append(tensor)
    return results


@case(worlds=(2, 3))
def allreduce_of_operations(rank, size):
    results = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        tensor = numbers(rank, 33, torch.float32) + 1
        dist.all_reduce(tensor, op=op)
        results.append(tensor)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        tensor = numbers(rank, 33, torch.int32)
        dist.all_reduce(tensor, op=op)
        results.append(tensor)
    return results


@case(worlds=(2, 4))
def allreduce_of_other_kinds(rank, size):
    """Averages, which are exact for two and four ranks, bool and complex numbers."""
    average = numbers(rank, 9, torch.float32)
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    either = torch.tensor([rank == 0, True, False])
    dist.all_reduce(either, op=dist.ReduceOp.MAX)
    results = [average, either]
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        tensor = torch.full((3,), complex(rank, 1), dtype=torch.complex64)
        dist.all_reduce(tensor, op=op)
        results.append(tensor)
    return results


@case(worlds=(2, 3), gloo=False)
def allreduce_beyond_gloo(rank, size):
    """Multiplied sums and 8-bit floats."""
    tensor = numbers(rank, 9, torch.float32)
    expected = sum(numbers(r, 9, torch.float32) for r in range(size)) / 2
    dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.5))
    assert torch.equal(tensor, expected)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        tensor = torch.ones(4).to(dtype)
        dist.all_reduce(tensor)
        assert tensor.float().tolist() == [float(size)] * 4


@case(worlds=(2,), gloo=False)
def where_gloo_differs(rank, size):
    """The rows of docs/from-gloo.md: what gloo refuses, or answers by who it is that asks."""
    for first, second in ((1.0, float("nan")), (float("nan"), 1.0)):
        tensor = torch.tensor([second if rank else first])
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        assert tensor.isnan().all(), tensor
    tensor = torch.tensor([4, -4]) - rank
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    assert tensor.tolist() == [3, -4], tensor  # of 7 and -9
    for dtype in (torch.int16, torch.uint16, torch.uint32, torch.uint64):
        tensor = torch.full((3,), rank + 1).to(dtype)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [3, 3, 3], tensor
    parts = [torch.empty(3, 2) for _ in range(size)]
    dist.all_gather(parts, numbers(rank, 6, torch.float32).reshape(2, 3))
    assert all(torch.equal(part.reshape(6), numbers(r, 6, torch.float32)) for r, part in enumerate(parts)), parts
    if rank == 0:
        for tag in (1, 2):
            dist.send(torch.tensor([tag]), 1, tag=tag)
    else:
        for tag in (2, 1):
            dist.recv(tensor := torch.zeros(1, dtype=torch.int64), 0, tag=tag)
            assert tensor.item() == tag, tensor


@case(worlds=(2,), gloo=False)
def results_that_share_memory_are_refused(rank, size):
    """Before anything begins; what is only read may share memory."""
    shared = torch.zeros(1).expand(4)
    for call in (
        lambda: dist.all_reduce(shared),
        lambda: dist.recv(shared, 1 - rank),
        lambda: dist.all_gather([shared, shared], torch.zeros(4)),
    ):
        try:
            call()
        except RuntimeError as error:
            assert "weft: " in str(error) and "share memory (sizes [4], strides [0])" in str(error), error
        else:
            raise AssertionError("a result that cannot be written was taken")
    dist.all_reduce(torch.zeros(0, 1).expand(0, 4))
    if rank == 0:
        dist.send(torch.full((1,), 5.0).expand(4), 1)
    else:
        dist.recv(tensor := torch.zeros(4), 0)
        assert tensor.tolist() == [5.0] * 4, tensor


@case(worlds=(2, 4))
def allreduce_of_strided(rank, size):
    tensor = torch.arange(12.0).reshape(3, 4).t() * (rank + 1)
    dist.all_reduce(tensor)
    image = torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last) * (rank + 1)
    dist.all_reduce(image)
    return [tensor, image]


@case(worlds=(2, 3, 4))
def the_others(rank, size):
    results = []
    for root in range(size):
        tensor = numbers(rank, 100, torch.float32)
        dist.broadcast(tensor, root)
        results.append(tensor)
        tensor = numbers(rank, 100, torch.float32)
        dist.reduce(tensor, root)
        results.append(tensor if rank == root else None)
        parts = [torch.empty(7) for _ in range(size)] if rank == root else None
        dist.gather(numbers(rank, 7, torch.float32), parts, dst=root)
        results.append(parts)
        part = torch.empty(7)
        dist.scatter(part, [numbers(r, 7, torch.float32) for r in range(size)] if rank == root else None, src=root)
        results.append(part)
    parts = [torch.empty(11, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(parts, numbers(rank, 11, torch.int64))
    joined = torch.empty(size * 11, dtype=torch.int64)
    dist.all_gather_into_tensor(joined, numbers(rank, 11, torch.int64))
    results += [parts, joined]
    part = torch.empty(6)
    dist.reduce_scatter(part, [numbers(rank + r, 6, torch.float32) for r in range(size)])
    results.append(part)
    part = torch.empty(6)
    dist.reduce_scatter_tensor(part, numbers(rank, 6 * size, torch.float32))
    results.append(part)
    tensors = [numbers(rank, count, torch.float32) for count in (3, 5000, 1)]
    dist.all_reduce_coalesced(tensors)
    return [*results, tensors]


@case(worlds=(2, 3))
def alltoall(rank, size):
    even = torch.empty(4 * size)
    dist.all_to_all_single(even, numbers(rank, 4 * size, torch.float32))
    counts = [1 + (rank + r) % 3 for r in range(size)]  # the same from r to s as from s to r
    uneven = torch.empty(sum(counts), 2)
    dist.all_to_all_single(uneven, numbers(rank, 2 * sum(counts), torch.float32).reshape(-1, 2), counts, counts)
    outputs = [torch.empty(5) for _ in range(size)]
    dist.all_to_all(outputs, [numbers(rank + r, 5, torch.float32) for r in range(size)])
    return [even, uneven, outputs]


@case(worlds=(3,), gloo=False)
def lists_of_unequal_tensors(rank, size):
    counts = [1 + (rank + r) % 3 for r in range(size)]
    outputs = [torch.empty(count) for count in counts]
    dist.all_to_all(outputs, [torch.full((count,), float(rank)) for count in counts])
    assert [output.tolist() for output in outputs] == [[float(r)] * count for r, count in enumerate(counts)]
    outputs = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    assert [output.tolist() for output in outputs] == [[float(r)] * (r + 1) for r in range(size)]
    part = torch.empty(rank + 1)
    dist.reduce_scatter(part, [torch.ones(r + 1) for r in range(size)])
    assert part.tolist() == [float(size)] * (rank + 1)


@case(worlds=(2, 3))
def futures(rank, size):
    results = []
    works = []
    for count in (1, 1000, 100000):
        tensor = numbers(rank, count, torch.float32)
        works.append(dist.all_reduce(tensor, async_op=True))
        results.append(works[-1].get_future().then(lambda future: future.value()[0] * 2))
    return [future.wait() for future in results]


@case(worlds=(2, 3))
def futures_that_wait(rank, size):
    """What runs behind one operation may wait for another."""

    def again(future):
        other = future.value()[0].clone()
        return dist.all_reduce(other, async_op=True).get_future().wait()[0]

    first = [dist.all_reduce(numbers(rank, 10 + i, torch.float32), async_op=True) for i in range(3)]
    results = []
    for work in first:  # in one order on all ranks
        results.append(work.get_future().then(again).wait())
    return results


@case(worlds=(2,))
def futures_that_wait_for_each_other(rank, size):
    """What runs behind one operation may wait for one that has ended at the same time."""
    results = []
    for _ in range(20):
        works = [dist.all_reduce(numbers(rank, 10, torch.float32), async_op=True) for _ in range(2)]
        last = works[1].get_future()
        first = works[0].get_future().then(lambda future: future.value()[0] + last.wait()[0])
        results.append(first.wait())
    return results


@case(worlds=(2,), gloo=False)
def premultiplied_sums_side_by_side(rank, size):
    """Their numbers differ between ranks, as one rank has one under way that the other has done."""
    held = None
    if rank == 0:
        held = dist.all_reduce(torch.ones(4), op=dist._make_nccl_premul_sum(0.5), async_op=True)
        tensor = torch.ones(4)
        other = dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.25), async_op=True)
        held.wait()
        other.wait()
    else:
        dist.all_reduce(torch.ones(4), op=dist._make_nccl_premul_sum(0.5))
        tensor = torch.ones(4)
        dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.25))
    assert tensor.tolist() == [0.5] * 4


@case(worlds=(2,), gloo=False)
def coalesced(rank, size):
    from torch.distributed.distributed_c10d import _coalescing_manager

    one, other = torch.full((50000,), float(rank)), torch.full((60000,), rank + 5.0)
    with _coalescing_manager(group=dist.group.WORLD, device=torch.device("cpu"), async_ops=True) as manager:
        dist.all_reduce(one)
        dist.all_reduce(other)
    manager.wait()
    assert one[-1].item() == 1 and other[-1].item() == 11
    with _coalescing_manager(group=dist.group.WORLD, device=torch.device("cpu")):
        dist.broadcast(one.fill_(rank), 1)
        dist.broadcast(other.fill_(rank), 1)
    assert one[-1].item() == 1 and other[-1].item() == 1
    group = dist.group.WORLD
    group._start_coalescing(torch.device("cpu"))  # as if an exception had come in between
    dist.broadcast(one.fill_(rank), 1)
    group._start_coalescing(torch.device("cpu"))
    work = group.allreduce([other.fill_(1)])
    group._end_coalescing(torch.device("cpu")).wait()
    assert other[0].item() == 2 and one[0].item() == 1 and work.is_completed()


@case(worlds=(2,))
def in_inference_mode(rank, size):
    with torch.inference_mode():
        parts = [torch.zeros(3) for _ in range(size)]
        work = dist.all_gather(parts, torch.full((3,), float(rank)), async_op=True)
        work.get_future().wait()
        return [part.clone() for part in parts]


@case(worlds=(2, 4))
def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    tensor = torch.empty(1000)
    works = [dist.isend(numbers(rank, 1000, torch.float32), right, tag=5), dist.irecv(tensor, left, tag=5)]
    for work in works:
        work.wait()
    batch = [torch.empty(3), torch.empty(300000)]
    operations = []
    for i, count in enumerate((3, 300000)):
        operations += [dist.P2POp(dist.isend, numbers(rank, count, torch.float32), right)]
        operations += [dist.P2POp(dist.irecv, batch[i], left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return [tensor, batch]


@case(worlds=(3,))
def from_anybody(rank, size):
    if rank:
        dist.send(torch.full((4,), float(rank)), 0, tag=9)
        return None
    seen = {}
    for _ in range(size - 1):
        tensor = torch.empty(4)
        seen[dist.recv(tensor, tag=9)] = tensor
    return [seen[source] for source in sorted(seen)]


@case(worlds=(3, 4), moves=False)
def groups(rank, size):
    results = []
    for members in ([0, 1], [1, 2], list(range(size))):
        group = dist.new_group(members)
        if rank in members:
            tensor = torch.full((3,), float(rank))
            dist.all_reduce(tensor, group=group)
            results.append(tensor)
            if dist.get_backend(group) == "weft":
                import torch_weft

                assert torch_weft.stats(group)["operations"] == 1
            dist.destroy_process_group(group)
    return results


@case(worlds=(2, 3))
def objects(rank, size):
    everybody = [None] * size
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * rank})
    told = [{"from": rank}]
    dist.broadcast_object_list(told, src=size - 1)
    here = [None]
    dist.scatter_object_list(here, [{"for": r} for r in range(size)] if rank == 0 else None, src=0)
    return [everybody, told, here]


@case(worlds=(2,))
def sparse(rank, size):
    tensor = torch.sparse_coo_tensor([[rank, 2]], [float(rank + 1), 1.0], (4,))
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.result()[0].is_sparse
    return tensor.to_dense()
