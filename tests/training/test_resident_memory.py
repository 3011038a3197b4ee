"""What the metrics say of a process's memory is what it has."""

import mmap

from training.metrics.memory import resident_mb


def test_memory_that_is_written_to_shows_and_goes() -> None:
    before = resident_mb()
    with mmap.mmap(-1, 256 << 20) as held:
        for page in range(0, len(held), mmap.PAGESIZE):
            held[page] = 1
        assert 250 < resident_mb() - before < 300
    assert abs(resident_mb() - before) < 50
