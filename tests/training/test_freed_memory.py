"""Memory that was freed between other things goes back to the system."""

import subprocess
import sys

_PROGRAM = """
import torch
from training.metrics.memory import resident_mb
from training.model.freed import give_back

begun = resident_mb()
held = [torch.zeros(15_000) for _ in range(8_000)]  # 60 kB each, below the size that has pages of its own
full = resident_mb()
held = held[::40]  # a hole of 39 between two
kept = resident_mb()
give_back()
print(full - begun, kept - begun, resident_mb() - begun)
"""


def test_holes_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    full, kept, left = map(float, done.stdout.split())
    assert full > 400
    assert kept > 0.8 * full  # else there is nothing to show: the allocator had no holes
    assert left < 0.2 * full
