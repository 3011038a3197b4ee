"""WebArena's task files on a browser, and those of its successors: VisualWebArena, VideoWebArena, -Verified.

WebArena: arXiv 2307.13854; VisualWebArena: arXiv 2401.13649; VideoWebArena: arXiv 2410.19100;
WebArena-Verified: github.com/ServiceNow/webarena-verified (its files are told by the key `start_urls`).
Nobody's sites come with the files: the user says where they are. A name holds it all:
`webarena:PATH,SHOPPING=http://HOST:7770,judge=judge.toml`.
"""

from rewards.tasksets.webarena.files import Evaluation, TaskFile, VerifiedFile
from rewards.tasksets.webarena.naming import PREFIX, named, with_words
from rewards.tasksets.webarena.task import WebArenaTask
from rewards.tasksets.webarena.taskset import WebArena
from rewards.tasksets.webarena.verified import VerifiedTask

__all__ = [
    "PREFIX",
    "Evaluation",
    "TaskFile",
    "VerifiedFile",
    "VerifiedTask",
    "WebArena",
    "WebArenaTask",
    "named",
    "with_words",
]
