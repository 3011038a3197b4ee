"""Memory of this process, now: a run that keeps more with every update shows in its curve."""

import os
from pathlib import Path


def resident_mb() -> float:
    """The resident set size in MiB; NaN where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
