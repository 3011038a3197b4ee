"""ScienceBoard's task files (arXiv 2505.19897), read, and what each needs that no device of ours has.

Its checks ask servers inside its own builds of the applications, or compare by Python that the files bring as
text; such text is never evaluated here. So they are read and told about, and not played.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from guiagent.errors import DECODE_ERRORS, UsageError
from rewards.tasksets.task_files import content, texts

_MAX_FILE = 4 << 20
_OSWORLDS = frozenset({"launch", "execute", "download"})  # steps of the same name and meaning
_CODE = "lambda "


class TaskFile(msgspec.Struct, frozen=True):
    """One task: `type` is its application, `sort` where it is played: on a machine, or without a screen."""

    type: str
    sort: Literal["VM", "Raw"]
    steps: int
    instruction: str
    initialize: list[dict[str, Any]]
    evaluate: list[dict[str, Any]]

    @property
    def functions(self) -> tuple[str, ...]:
        """The set-up's steps, in order."""
        return tuple(str(step.get("func")) for step in self.initialize)

    @property
    def checks(self) -> tuple[str, ...]:
        """What the checks look at; "stop" is the agent's own ending, and no look at anything."""
        return tuple(str(check.get("type")) for check in self.evaluate)

    @property
    def lacking(self) -> list[str]:
        """The parts that are missing here, in words; never empty, since each names an application."""
        missing = [f"the application {self.type}, as ScienceBoard's machine has it"]
        if self.sort == "Raw":
            missing.append(f"a session of {self.type} without a screen")
        own = sorted(set(self.functions) - _OSWORLDS)
        missing += [f"step {name} of {self.type}" for name in own]
        missing += [f"check {name} of {self.type}" for name in sorted(set(self.checks) - {"stop"})]
        if any(_CODE in text for text in texts(self.evaluate)):
            missing.append("a rule in Python, which is never evaluated")
        return missing


def read(path: Path) -> TaskFile:
    """Read a task file.

    Raises:
        UsageError: it is no such file; the message names the key.
        InfrastructureError: it cannot be read.
    """
    text = content(path, _MAX_FILE)
    try:
        return msgspec.json.decode(text, type=TaskFile)
    except DECODE_ERRORS as error:
        raise UsageError(f"{path}: {error}") from error
