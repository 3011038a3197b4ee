"""OSWorld's task files as a taskset (Xie et al. 2024, arXiv:2404.07972), run as they are."""

from rewards.tasksets.osworld.load import Osworld
from rewards.tasksets.osworld.schema import TaskFile
from rewards.tasksets.osworld.task import OsworldTask

__all__ = ["Osworld", "OsworldTask", "TaskFile"]
