"""Figures of this process's GPU: memory from PyTorch, utilisation from the driver's library, NVML."""

import torch

from guiagent.errors import Fault


class GpuMeter:
    """Reads the GPU once an update. Where NVML fails, in whatever way, it is not asked again.

    Its first failure is `fault`; `warnings` says it once. It may be missing, of another version than the
    driver, denied in a container, or unable to tell for a part of a GPU (MIG).
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self._unsaid: list[str] = []

    def figures(self) -> dict[str, float]:
        """Return peak memory and the utilisation in the last second; {} without a GPU.

        `nvml_faults` is 1 in place of the utilisation where that is not to be had.
        """
        if not torch.cuda.is_available():
            return {}
        figures = {"gpu_memory_mb": torch.cuda.max_memory_allocated() / 2**20}
        if self.fault is None:
            try:
                figures["gpu_utilisation"] = torch.cuda.utilization() / 100
            except Exception as error:  # NVML's own errors have no common class without pynvml
                reason = " ".join(str(error).split())[:200] or "no reason given"
                self.fault = Fault("farm", "nvml", f"{type(error).__name__}: {reason}")
                self._unsaid = [f"the GPU's utilisation cannot be read: {self.fault.message}"]
        if self.fault is not None:
            figures["nvml_faults"] = 1.0
        return figures

    def warnings(self) -> tuple[str, ...]:
        """Return what was not said yet."""
        said, self._unsaid = tuple(self._unsaid), []
        return said
