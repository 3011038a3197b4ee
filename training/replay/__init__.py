"""Replay: groups on their way from rollouts to the trainer, and what earlier episodes add to them."""

from training.replay.groups import Group, ReplayStats, Seat
from training.replay.queue import Replay
from training.replay.seeds import adopt

__all__ = ["Group", "Replay", "ReplayStats", "Seat", "adopt"]
