"""Limits of waiting for a model server: one answer's time, how many attempts, the pauses between them."""

import random
from typing import NamedTuple

LONGEST_PAUSE_S = 30.0


class Patience(NamedTuple):
    timeout_s: float = 120.0  # for one answer
    attempts: int = 5  # in all
    backoff_s: float = 0.5  # the longest first pause; later ones double
    longest_pause_s: float = LONGEST_PAUSE_S

    def pause(self, attempt: int) -> float:
        """Draw the seconds to wait after a failed attempt, the first of which is number 1.

        They are random, so that clients which failed together do not come back together.
        """
        return min(self.backoff_s * 2.0 ** (attempt - 1), self.longest_pause_s) * random.uniform(0.5, 1.0)
