"""Learner and engine on the device against the CPU: losses, gradients and greedy replies of small models.

The CPU's figures are the reference; the drills hold them to others'. In float32 both are compared: how far
they may be apart is what sums in another order leave.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.bench.gpu.scale import Machine
from tests.bench.packed import checkpoint
from tests.bench.rows import Arm, Row, at_most
from tests.support.on_pretended_gpu import CASES, learned, sampled
from training.inputs.encoder import Encoder

_APART = 1e-3  # of a loss or gradient norm, relative, after an update


def rows(machine: Machine) -> Iterator[Row]:
    cpu = torch.device("cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as name:
        folder = checkpoint(Path(name))
        encoder = Encoder(folder)
        encoder.unsampled = sorted({*encoder.unsampled, encoder.eos})
        for case in CASES:
            here, there = (learned(folder, encoder, case, device) for device in (cpu, machine.device))
            apart = [
                abs(b - a) / max(abs(a), 1e-6)
                for one, other in zip(here, there, strict=True)
                for a, b in zip(one, other, strict=True)
            ]
            name = f"learner with {case}, against the CPU"
            yield at_most(name, "of loss and gradient norm", Arm.of(max(apart)), _APART)
        here, there = (sampled(folder, encoder, device, None) for device in (cpu, machine.device))
        wrong = sum(one != other for one, other in zip(here, there, strict=True))
        yield at_most("engine, greedy, against the CPU", f"of {len(here)} replies differ", Arm.of(wrong), 0)
