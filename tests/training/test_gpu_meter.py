"""NVML may fail in any way: a run goes on, counts it, and says it once."""

import pytest
import torch

from training.metrics.gpu import GpuMeter


class NVMLError_NotSupported(Exception):
    """As pynvml raises it for a slice of a GPU: no common class is imported here."""


@pytest.mark.parametrize(
    "error",
    [
        NVMLError_NotSupported("Not Supported"),
        ModuleNotFoundError("No module named 'pynvml'"),
        RuntimeError("cuda driver can't be loaded, is cuda enabled?"),
        OSError("libnvidia-ml.so.1: cannot open shared object file"),
        AttributeError("module 'pynvml' has no attribute 'nvmlInit'"),
    ],
)
def test_nvml_that_fails_is_asked_once_and_said_once(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    asked = []

    def refuse() -> int:
        asked.append(1)
        raise error

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "utilization", refuse)
    meter = GpuMeter()
    lines = [(meter.figures(), meter.warnings()) for _ in range(3)]
    assert [figures for figures, _ in lines] == [{"gpu_memory_mb": 3.0, "nvml_faults": 1.0}] * 3
    assert [len(said) for _, said in lines] == [1, 0, 0] and len(asked) == 1
    assert meter.fault is not None and (meter.fault.origin, meter.fault.code) == ("farm", "nvml")
    (line,) = lines[0][1]
    assert type(error).__name__ in line and "\n" not in line


def test_a_gpu_whose_driver_answers_has_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 2**20)
    monkeypatch.setattr(torch.cuda, "utilization", lambda: 87)
    meter = GpuMeter()
    assert meter.figures() == {"gpu_memory_mb": 1.0, "gpu_utilisation": 0.87}
    assert meter.fault is None and not meter.warnings()


def test_without_a_gpu_there_is_nothing_to_read() -> None:
    if not torch.cuda.is_available():
        assert GpuMeter().figures() == {}
