# SPDX-License-Identifier: Apache-2.0
"""XPUs. They are played: torch is one for the CPU, and xpu_played.cpp has its streams, events and memory, on Level Zero's own loader with the
driver of the tests, whose memory the host cannot touch."""

import functools
import os
import subprocess
import sys
import sysconfig

import torch

from programs import all_fine, alone, ranks

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DRIVER = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), "tests/fakes/ze/libweft_ze_fake.so")
HOST = "tensors go through memory of the host"

BEGIN = """
import ctypes
torch.ops.load_library(os.environ["WEFT_TEST_XPU_LIBRARY"])
played = torch.ops.played
synchronize = ctypes.CDLL(os.environ["WEFT_TEST_XPU_LIBRARY"]).played_synchronize
def xpu(tensor, device=0):
    there = played.empty(tensor.shape, tensor.dtype, device).copy_(tensor, non_blocking=True)
    synchronize(device)
    return there
def host(tensor):
    here = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor, non_blocking=True)
    synchronize(tensor.device.index)
    return here
begin("cpu:weft,cuda:weft,xpu:weft")
def end():
    dist.destroy_process_group()
    assert played.violation() == "", played.violation()
"""


@functools.cache
def library():
    """libsycl.so.8, with all that is played; None where it cannot be made."""
    made = os.path.join(sys.prefix, "xpu", "libsycl.so.8")
    torch_folder = os.path.dirname(torch.__file__)
    os.makedirs(os.path.dirname(made), exist_ok=True)
    folders = [ROOT, f"{torch_folder}/include", f"{torch_folder}/include/torch/csrc/api/include", sysconfig.get_path("include")]
    command = ["g++", "-shared", "-fPIC", "-std=c++20", "-w", "-fvisibility=hidden", *(f"-I{folder}" for folder in folders)]
    command += [os.path.join(HERE, "xpu_played.cpp"), f"-L{torch_folder}/lib", "-lc10", "-ltorch_cpu", "-lze_loader"]
    command += [f"-Wl,-rpath,{torch_folder}/lib", "-Wl,-soname,libsycl.so.8", "-o", made]
    source = os.path.join(HERE, "xpu_played.cpp")
    if os.path.exists(made) and os.path.getmtime(made) > os.path.getmtime(source):
        return made
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def play(program, check_host=False, **environment):
    environment = {
        "WEFT_TEST_XPU_LIBRARY": library(),
        "ZE_ENABLE_ALT_DRIVERS": DRIVER,
        "ZE_ENABLE_VALIDATION_LAYER": "1",
        "ZE_ENABLE_PARAMETER_VALIDATION": "1",
        "WEFT_TEST_ZE": "devices=2",
        **environment,
    }
    texts = all_fine(ranks(2, BEGIN + program, **environment))
    for text in texts:
        assert check_host or HOST not in text, text
    return texts


@alone
def one_group_of_all(rank, size):
    """One group takes tensors of the CPU and of XPUs, and theirs never touch the host: it could not read them."""
    play("""
for device in 0, 1:
    for how in False, True:
        x = xpu(torch.arange(1000.) + rank, device)
        work = dist.all_reduce(x, async_op=how)
        if how:
            work.wait()
        assert torch.equal(host(x), 2 * torch.arange(1000.) + 1)
    x = xpu(torch.arange(70000) * (rank + 1), device)
    dist.broadcast(x, 1)
    assert torch.equal(host(x), 2 * torch.arange(70000))
    there = xpu(torch.zeros(2, 5), device)
    dist.all_gather_into_tensor(there, xpu(torch.full((5,), rank + 1.), device))
    assert host(there).tolist() == [[1.] * 5, [2.] * 5]
    if rank == 0:
        dist.send(xpu(torch.arange(9.), device), 1)
    else:
        x = xpu(torch.zeros(9), device)
        dist.recv(x, 0)
        assert torch.equal(host(x), torch.arange(9.))
    y = torch.ones(3) * (rank + 1)
    dist.all_reduce(y)
    assert y.tolist() == [3.] * 3
    nothing = played.empty([0], torch.float32, device)
    dist.all_reduce(nothing)
    dist.barrier()
end()
""")


@alone
def calls_are_in_order_with_streams(rank, size):
    """What is in front of a call has yet to run when the call is made, and what is behind it waits."""
    for scene in "", "queue":
        play(STREAMS, WEFT_TEST_XPU=scene)


STREAMS = """
for how in False, True:
    x, new = xpu(torch.zeros(5000)), torch.arange(5000.) + rank
    got = torch.empty(5000)
    played.shut(0)
    x.copy_(new, non_blocking=True)
    work = dist.all_reduce(x, async_op=how)
    if how:
        assert not work.is_completed()
        work.wait()
    got.copy_(x, non_blocking=True)
    played.open()
    synchronize(0)
    wrong = (got != 2 * torch.arange(5000.) + 1).nonzero().flatten()
    assert not len(wrong), (how, len(wrong), wrong[:3], wrong[-3:], got[wrong[:3]], host(x)[wrong[:3]], new[wrong[:3]])
end()
"""


def is_said(scene, why, **environment):
    program = """
for _ in range(2):
    x = xpu(torch.arange(4.) + rank)
    dist.all_reduce(x)
    assert torch.equal(host(x), 2 * torch.arange(4.) + 1)
end()
"""
    for text in play(program, True, WEFT_TEST_XPU=scene, **environment):
        assert text.count("no device xpu is known here: its " + HOST) == 1 and why in text, text


@alone
def the_way_through_the_host_says_why(rank, size):
    is_said("opencl", "the queue is of SYCL's backend 1, not of Level Zero's")
    is_said("number", "neither a command list nor a command queue")
    is_said("throws", "the queue is recorded")
    is_said("untimed", "the device notes no time in a queue")
