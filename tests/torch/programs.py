# SPDX-License-Identifier: Apache-2.0
"""Programs that a case runs on ranks of their own."""

import os
import subprocess
import sys
import tempfile
import textwrap

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


def ranks(size, program, timeout=120, **environment):
    """Runs the program on size ranks; returns each one's status and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        text = BEGIN + textwrap.dedent(program)
        started = [
            subprocess.Popen(
                [sys.executable, "-c", text, str(rank), str(size), store],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **environment},
            )
            for rank in range(size)
        ]
        try:
            said = [process.communicate(timeout=timeout)[0] for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
        return [(process.returncode, text) for process, text in zip(started, said)]


def all_fine(results):
    for status, text in results:
        assert status == 0, text
    return [text for _, text in results]


def alone(body):
    return case(worlds=(1,), gloo=False, moves=False)(body)


def python(program, *options, **environment):
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
