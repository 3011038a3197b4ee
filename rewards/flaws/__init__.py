"""Flaws that can be seen in task files of others, without a device and without a model."""

from rewards.flaws import harbor, osworld, webarena
from rewards.flaws.flaw import Flaw, found
from rewards.tasksets.harbor.folder import TaskFolder
from rewards.tasksets.harbor.task import HarborTask
from rewards.tasksets.osworld.schema import TaskFile as OsworldFile
from rewards.tasksets.osworld.task import OsworldTask
from rewards.tasksets.webarena import TaskFile as WebArenaFile
from rewards.tasksets.webarena import VerifiedFile, VerifiedTask, WebArenaTask

__all__ = ["HARBOR", "OSWORLD", "VERIFIED", "WEBARENA", "Flaw", "flaws_of", "in_file"]

OSWORLD = tuple(osworld.FLAWS)
WEBARENA = tuple(webarena.FLAWS)
VERIFIED = tuple(webarena.VERIFIED_FLAWS)
HARBOR = tuple(harbor.FLAWS)
File = OsworldFile | WebArenaFile | VerifiedFile | TaskFolder


def in_file(file: File) -> list[Flaw]:
    """The flaws of a task file of OSWorld's or WebArena's, or of a task folder of Harbor's."""
    match file:
        case OsworldFile():
            return found(osworld.FLAWS, file)
        case WebArenaFile():
            return found(webarena.FLAWS, file)
        case VerifiedFile():
            return found(webarena.VERIFIED_FLAWS, file)
        case TaskFolder():
            return found(harbor.FLAWS, file)


def flaws_of(task: object) -> list[Flaw]:
    """The flaws of the file of others that a task was made of; [] for tasks of ours."""
    match task:
        case OsworldTask(file=file) | WebArenaTask(file=file) | VerifiedTask(file=file):
            return in_file(file)
        case HarborTask(folder=folder):
            return in_file(folder)
    return []
