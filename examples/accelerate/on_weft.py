# SPDX-License-Identifier: Apache-2.0
"""Runs a script of Hugging Face accelerate on weft, although accelerate knows no backend of that name.

    torchrun --nproc-per-node 2 examples/accelerate/on_weft.py SCRIPT [ARGUMENTS]

Whatever backend the script's first process group asks for, it gets weft. Needs torch, accelerate and bindings/torch (docs/pytorch.md).
"""

import runpy
import sys

import torch.distributed as dist

init_process_group = dist.init_process_group


def init_weft(backend=None, **rest):
    init_process_group("weft", **rest)


if __name__ == "__main__":
    dist.init_process_group = init_weft
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
