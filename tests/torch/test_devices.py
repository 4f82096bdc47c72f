# SPDX-License-Identifier: Apache-2.0
"""Devices that weft does not know: their tensors go through memory of the host. The one here is made of numpy arrays."""

import os

import torch
import torch.distributed as dist
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from harness import case
from programs import all_fine, alone, ranks

_setup_privateuseone_for_python_backend("shelf")


class Shelf(torch.Tensor):
    """A tensor whose elements are in an array that PyTorch does not see."""

    @staticmethod
    def __new__(cls, array):
        tensor = torch._C._acc.create_empty_tensor(array.shape, torch.from_numpy(array).dtype)
        tensor.__class__ = cls
        return tensor

    def __init__(self, array):
        self.array = array


@torch.library.impl("aten::_copy_from", "privateuseone")
def _copy_from(source, target, non_blocking=False):
    if isinstance(source, Shelf):
        target.copy_(torch.from_numpy(source.array))
    else:
        target.array[...] = source.numpy()
    return target


@torch.library.impl("aten::empty_strided", "privateuseone")
def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return Shelf(torch.empty(size, dtype=dtype).numpy())


def shelf(tensor):
    return Shelf(tensor.numpy().copy())


def array(tensor):
    return torch.from_numpy(tensor.array.copy())


@case(worlds=(1, 2, 3), gloo=False)
def through_the_host(rank, size):
    group = dist.new_group(backend="cpu:weft,shelf:weft")
    x = shelf(torch.arange(5.0) + rank)
    assert x.device.type == "shelf" and x.data_ptr() == 0
    dist.all_reduce(x, group=group)
    assert torch.equal(array(x), sum(torch.arange(5.0) + r for r in range(size)))
    lists = [shelf(torch.zeros(3, dtype=torch.int64)) for _ in range(size)]
    dist.all_gather(lists, shelf(torch.full((3,), rank)), group=group)
    assert [array(one).tolist() for one in lists] == [[r] * 3 for r in range(size)]
    flags = shelf(torch.tensor([rank == size - 1, False]))
    dist.broadcast(flags, size - 1, group=group, async_op=True).wait()
    assert array(flags).tolist() == [True, False]
    if size > 1:
        sent = dist.isend(shelf(torch.tensor([rank])), (rank + 1) % size, group=group)
        received = shelf(torch.tensor([-1]))
        dist.recv(received, (rank - 1) % size, group=group)
        sent.wait()
        assert array(received).item() == (rank - 1) % size
    if size == 2:
        x = shelf(torch.ones(3))
        future = dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5), group=group, async_op=True).get_future()
        assert torch.equal(array(future.wait()[0]), torch.ones(3))


@alone
def the_way_through_the_host_is_said_once(rank, size):
    program = """
        from test_devices import shelf
        begin()
        group = dist.new_group(backend="cpu:weft,shelf:weft")
        for _ in range(3):
            dist.all_reduce(shelf(torch.ones(2)), group=group)
        dist.destroy_process_group()
    """
    folders = [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")]
    results = ranks(2, program, PYTHONPATH=os.pathsep.join(filter(None, folders)))
    all_fine(results)
    for _, text in results:
        assert text.count("no device shelf is known here: its tensors go through memory of the host") == 1, text
