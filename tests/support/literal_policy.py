"""A policy that takes its task literally: the last line of it is the actions, as a list in JSON."""

import json
from collections.abc import Sequence

from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput


class LiteralPolicy:
    """Takes the actions of its task, one a turn, and then says that it is done.

    Attributes:
        tasks: as it was given them, once for each run.
        asked: how many turns it was asked for.
    """

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.asked = 0

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        self.asked += 1
        if not history:
            self.tasks.append(instruction)
        last = instruction.splitlines()[-1]
        actions = [*json.loads(last[last.index("[") :]), {"type": "done"}]
        action = actions[min(len(history), len(actions) - 1)]
        return PolicyOutput(f"now {action['type']}", [action])

    def forget(self, episode: str) -> None:
        pass
