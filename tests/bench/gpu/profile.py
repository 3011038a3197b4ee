"""What the device does during an optimiser step, by kind of kernel, and how long it waits.

One step of `training.py`'s kind, without a peer, under PyTorch's profiler. On a GPU only kernels are
recorded, which slows the host the least; shares are of that step's own time.
"""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from tests.bench.accelerators import finished
from tests.bench.gpu.scale import Machine, Scale, checkpoint
from tests.bench.gpu.training import batch, made
from tests.bench.rows import Arm, Row, noted, reported
from training.inputs.encoder import Encoder
from training.learner.learner import Learner

# Of a kernel's name, or of an operator's where the step is rehearsed on the CPU; the first match counts.
_KINDS = {
    "attention": r"sdpa|flash|fmha|attention",
    "products of matrices": r"gemm|nvjet|cutlass|xmma|gemv|splitk|aten::(b?addb?mm|b?mm|linear)",
    "the optimiser": r"adam|multi_tensor_apply",
    "the vocabulary": r"softmax|nll|cross_entropy|logsumexp",
    "copies": r"memcpy|memset|copy|cat",
}
_REST = "everything else"
_NAMED = 4  # kernels that a row's note has


class Kernel(NamedTuple):
    """One run of a kernel; microseconds since the profile began."""

    name: str
    began: float
    ended: float


def rows(scale: Scale, machine: Machine) -> Iterator[Row]:
    layout = scale.layouts[0]
    with tempfile.TemporaryDirectory() as folder:
        encoder = checkpoint(Path(folder), scale, machine.device)
        learner = made(scale, encoder, machine.device)
        _step(learner, scale, encoder, 0, machine.device)  # prepares
        with profile(activities=[_ACTIVITY[machine.device.type]]) as seen:
            took = _step(learner, scale, encoder, 1, machine.device)
    kernels, whole = _kernels(seen.events() or [], machine.device), 1e6 * took
    name = f"{scale.name}: a step of {layout.turns} turns, window of {layout.window}"
    spent = Counter[str]()
    names: dict[str, Counter[str]] = {}
    for kernel in kernels:
        kind = kind_of(kernel.name)
        spent[kind] += kernel.ended - kernel.began
        names.setdefault(kind, Counter())[_short(kernel.name)] += kernel.ended - kernel.began
    for kind in [*_KINDS, _REST]:
        longest = ", ".join(
            f"{one} {took / whole:.1%}" for one, took in names.get(kind, Counter()).most_common(_NAMED)
        )
        row = reported(f"{name}: {kind}", "of its time", Arm.of(spent[kind] / whole))
        yield noted(row, longest)
    waited = 1 - busy(kernels) / whole
    yield reported(f"{name}: the device waits", "of its time", Arm.of(waited))
    yield reported(f"{name}: under the profiler", "s", Arm.of(whole / 1e6))


def kind_of(kernel: str) -> str:
    """Name the kind of a kernel."""
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, kernel, re.I)), _REST)


def busy(kernels: Iterable[Kernel]) -> float:
    """Microseconds in which at least one of them runs."""
    total, until = 0.0, float("-inf")
    for kernel in sorted(kernels, key=lambda one: one.began):
        total += max(0.0, kernel.ended - max(kernel.began, until))
        until = max(until, kernel.ended)
    return total


# -- inside --------------------------------------------------------------------------------------------------

_ACTIVITY = {"cuda": ProfilerActivity.CUDA, "cpu": ProfilerActivity.CPU}


def _step(learner: Learner, scale: Scale, encoder: Encoder, number: int, device: torch.device) -> float:
    """Take an optimiser step on episodes of its own; return its seconds."""
    group, screens = batch(scale, scale.layouts[0], encoder, number)
    finished(device)
    began = time.perf_counter()
    learner.step([group], screens.__getitem__)
    finished(device)
    return time.perf_counter() - began


def _kernels(events: Iterable[Any], device: torch.device) -> list[Kernel]:
    """Return what ran on the device; on a CPU operators, without the time of those that they call."""
    found = []
    for event in events:
        began, ended = event.time_range.start, event.time_range.end
        if event.is_user_annotation:
            continue  # a span of the host's, drawn beside the kernels once more
        if device.type == "cpu":
            ended = began + event.self_cpu_time_total
        elif event.device_type != DeviceType.CUDA:
            continue
        found.append(Kernel(event.name, began, ended))
    return found


def _short(kernel: str) -> str:
    """Cut what a template or a mangled name makes long."""
    return re.sub(r"^void |<.*|\(.*", "", kernel)[:48]
