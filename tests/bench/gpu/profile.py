"""What the device does during an optimiser step, by kind of kernel, and how long it waits.

One step of `training.py`'s kind, without a peer, under PyTorch's profiler, which slows the host a little:
shares are of that step's own time.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from tests.bench.accelerators import finished
from tests.bench.gpu.scale import Machine, Scale, checkpoint
from tests.bench.gpu.training import batch, made
from tests.bench.rows import Arm, Row, noted, reported

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
        for step in range(2):  # the first one prepares
            group, screens = batch(scale, layout, encoder, step)
            finished(machine.device)
            with profile(activities=_activities(machine.device)) as seen, record_function(_WHOLE):
                learner.step([group], screens.__getitem__)
                finished(machine.device)
    kernels, whole = _kernels(seen.events() or [], machine.device)
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

_WHOLE = "the whole step"


def _activities(device: torch.device) -> list[ProfilerActivity]:
    also = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    return [ProfilerActivity.CPU, *also]


def _kernels(events: Iterable[Any], device: torch.device) -> tuple[list[Kernel], float]:
    """Return what ran on the device, and the microseconds of the whole step.

    On a CPU these are operators, without the time of those that they call.
    """
    wanted = DeviceType.CUDA if device.type == "cuda" else DeviceType.CPU
    found, whole = [], 0.0
    for event in events:
        span = event.time_range
        if event.name == _WHOLE:
            if event.device_type == DeviceType.CPU:
                whole = span.end - span.start
        elif event.is_user_annotation:
            continue  # a span of the host's, drawn beside the kernels once more
        elif event.device_type == wanted:
            took = span.end - span.start if wanted == DeviceType.CUDA else event.self_cpu_time_total
            found.append(Kernel(event.name, span.start, span.start + took))
    return found, whole


def _short(kernel: str) -> str:
    """Cut what a template or a mangled name makes long."""
    return re.sub(r"^void |<.*|\(.*", "", kernel)[:48]
