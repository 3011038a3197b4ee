"""Compute metrics in processes of their own: an agent's files reach no parser in the host's process.

`pool.py` keeps sandboxes ready, `worker.py` runs in them, `parcels.py` writes values for the way there.
"""

from rewards.checks.grading.pool import Exceeded, Ungraded, computed, grade, prepare

__all__ = ["Exceeded", "Ungraded", "computed", "grade", "prepare"]
