"""Upper limits of accelerators: from their data sheets, and measured with no other work."""

import re
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tests.bench.small_vlm import forget_peak, peak_mb


class Peak(NamedTuple):
    """Of NVIDIA's data sheets: without sparsity, and with sums in float32."""

    flops: float  # a second, in bfloat16
    bandwidth: float  # bytes a second of its memory


_PEAKS = {
    ("B200",): Peak(2250e12, 8.0e12),
    ("H200",): Peak(989e12, 4.8e12),
    ("GH200",): Peak(989e12, 4.0e12),
    ("H100", "PCIe"): Peak(756e12, 2.0e12),
    ("H100", "NVL"): Peak(835e12, 3.9e12),
    ("H100",): Peak(989e12, 3.35e12),
    ("A100", "40GB"): Peak(312e12, 1.555e12),
    ("A100", "80GB"): Peak(312e12, 2.039e12),
    ("L40S",): Peak(362e12, 0.864e12),
    ("L4",): Peak(121e12, 0.3e12),
    ("A10G",): Peak(70e12, 0.6e12),
    ("A10",): Peak(125e12, 0.6e12),
    ("4090",): Peak(165e12, 1.008e12),
}


def peak_of(name: str) -> Peak | None:
    """Of a device as the driver names it, such as "NVIDIA H100 80GB HBM3"; None where it is not known."""
    words = re.split(r"[ -]", name)
    return next((peak for said, peak in _PEAKS.items() if all(word in words for word in said)), None)


def matmul_flops(device: torch.device, size: int, repeats: int = 20) -> float:
    """FLOP/s of square matrices in bfloat16: what a pass of nothing but products would reach."""
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2.0 * size**3 * repeats / seconds(device, lambda: _repeat(repeats, lambda: one @ other))


def copied_bytes(device: torch.device, size: int, repeats: int = 20) -> float:
    """Bytes a second that are read, and written again as fast."""
    one = torch.empty(size, dtype=torch.uint8, device=device)
    other = torch.empty_like(one)
    return 2.0 * size * repeats / seconds(device, lambda: _repeat(repeats, lambda: other.copy_(one)))


def seconds(device: torch.device, work: Callable[[], object]) -> float:
    """Until the device has done it, for the second time: the first one prepares."""
    work()
    finished(device)
    began = time.perf_counter()
    work()
    finished(device)
    return time.perf_counter() - began


def finished(device: torch.device) -> None:
    """Waits for what the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak(device: torch.device) -> None:
    """Forget the peak so far: `peak_bytes` is then of what follows, with what is held already."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        forget_peak()


def peak_bytes(device: torch.device) -> float:
    """The most that tensors held on the device; on a CPU, what the process held."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_mb() * 2**20


def _repeat(times: int, work: Callable[[], Tensor]) -> None:
    for _ in range(times):
        work()
