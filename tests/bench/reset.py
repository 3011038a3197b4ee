"""Setting a task up again with another seed, in place."""

from collections.abc import Iterator

from tests.bench import peers
from tests.bench.ours import SCREENSHOT, pace_in_process
from tests.bench.pace import EPISODE_STEPS, HEIGHT, WIDTH
from tests.bench.rows import Arm, Row, at_most, interleave


def rows(rounds: int) -> Iterator[Row]:
    ours = Arm(lambda: pace_in_process(1, 20 * EPISODE_STEPS, SCREENSHOT, WIDTH, HEIGHT).reset_ms)
    farama = Arm(lambda: peers.pace("farama", 1, 2 * EPISODE_STEPS).reset_ms)
    interleave(rounds, ours, farama)
    yield at_most("reset, 1 device | farama", "ms", ours, 15, farama)
