# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on several processes, with weft between them.

    torchrun --nproc-per-node 4 examples/torch-ddp/train.py

The data is made here: sequences of digits in which each is the sum of the two before, modulo ten. The model has learned that when its loss
nears 0. Needs torch and bindings/torch (docs/pytorch.md); on machines with GPUs each rank takes one, and may share it.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DIGITS, LENGTH = 10, 32


class Model(nn.Module):
    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, DIGITS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, sequence):
        places = torch.arange(sequence.shape[1], device=sequence.device)
        seen = self.digits(sequence) + self.places(places)
        return self.head(self.layers(seen, mask=self.mask[: sequence.shape[1], : sequence.shape[1]], is_causal=True))


def make_batch(count, device, generator):
    digits = [torch.randint(DIGITS, (count,), generator=generator) for _ in range(2)]
    while len(digits) <= LENGTH:
        digits.append((digits[-1] + digits[-2]) % DIGITS)
    sequence = torch.stack(digits, 1).to(device)
    return sequence[:, :-1], sequence[:, 1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64, help="sequences per rank and step")
    asked = parser.parse_args()

    dist.init_process_group(asked.backend)
    rank = dist.get_rank()
    local = int(os.environ.get("LOCAL_RANK", rank))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local % torch.cuda.device_count())
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)

    torch.manual_seed(0)  # every rank begins with the same model
    model = DistributedDataParallel(Model().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1 + rank)  # and sees data of its own
    for step in range(1, asked.steps + 1):
        sequence, following = make_batch(asked.batch, device, generator)
        loss = nn.functional.cross_entropy(model(sequence).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()  # averages the gradients of all ranks
        optimizer.step()
        if step % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step}: loss {mean.item() / dist.get_world_size():.3f}", flush=True)
    if rank == 0 and dist.get_backend() == "weft":
        import torch_weft

        moved = torch_weft.stats()
        print(f"weft: {moved['operations']} collectives, {moved['bytes_direct'] + moved['bytes_eager']} bytes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
