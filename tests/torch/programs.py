# SPDX-License-Identifier: Apache-2.0
"""Programs that a case runs on ranks of their own."""

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import textwrap
import time

import forking
from harness import case

BEGIN = """
import datetime, os, signal, sys, time, warnings
warnings.filterwarnings("ignore")
import torch, torch.distributed as dist
torch.set_num_threads(1)
rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def begin(backend="weft", seconds=30, **more):
    dist.init_process_group(backend, init_method="file://" + store, rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=seconds), **more)
"""


def start(program, arguments, output, environment):
    """Torch is loaded already, but where something is set that it may read then."""
    if not environment:
        return forking.Process(program, arguments, output)
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment})


def ranks(size, program, timeout=120, **environment):
    """Runs the program on size ranks; returns each one's status and what it printed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as outputs:
        text, store = BEGIN + textwrap.dedent(program), os.path.join(folder, "store")
        said = [outputs.enter_context(open(os.path.join(folder, f"said{rank}"), "w+")) for rank in range(size)]
        started = [start(text, [str(rank), str(size), store], said[rank], environment) for rank in range(size)]
        until = time.monotonic() + timeout
        try:
            for process in started:
                process.wait(max(until - time.monotonic(), 0.1))
        finally:
            for process in started:
                process.kill()
                process.wait()
        return [(process.returncode, open(output.name, errors="replace").read()) for process, output in zip(started, said)]


def all_fine(results):
    assert not any(status for status, _ in results), "\n".join(f"{status}: {text}" for status, text in results)
    return [text for _, text in results]


def alone(body):
    return case(worlds=(1,), gloo=False, moves=False)(body)


def of_ranks(size, **how):
    """Marks a case that is a program: what its function returns runs on size ranks, and all of them end well."""

    def mark(body):
        @functools.wraps(body)
        def run(rank, world):
            all_fine(ranks(size, body(), **how))

        return alone(run)

    return mark


def python(program, *options, **environment):
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
