"""What peers learn when they are killed: a screenshot and a few words, and a reward for even tokens.

Their environment costs nothing: a rollout is a completion of the small model. Needs torch and transformers.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from tests.bench.small_vlm import SIDE, WORDS

PROMPTS, GROUP = 2, 4  # of an update: as many rollouts as ours has episodes
TOKENS = 12  # of a completion
LEARNING_RATE = 1e-5
KEPT = 3  # checkpoints; one is saved after every update
TASKS = 64


def screenshot(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def words(number: int) -> str:
    return " ".join(f"w{(7 * number + index) % WORDS + 10}" for index in range(16)) + " "


def reward(completion: Sequence[int]) -> float:
    """The share of even tokens."""
    return sum(token % 2 == 0 for token in completion) / max(len(completion), 1)
