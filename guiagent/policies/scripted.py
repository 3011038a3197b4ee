"""Policies without a model: the baselines that every suite is measured with, and fixed scripts.

They put their actions into a dialect's words as a model would, so that a viewer has something to show.
"""

import random
from collections.abc import Sequence

from pydantic import ValidationError

from guiagent.actions import ACTION, ACTIONS, Action, Click, Done, Wait
from guiagent.dialects import Dialect, find_dialect
from guiagent.errors import DialectError, Fault, FaultError
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyStep

_UI_TARS = find_dialect("ui-tars")


class NullPolicy:
    """Does nothing, turn after turn, and never says that it is done. A sound task scores it 0."""

    def __init__(self, dialect: Dialect = _UI_TARS) -> None:
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        return _step(self._dialect, Wait(ms=100), observation)

    def forget(self, episode: str) -> None:
        pass


class RandomPolicy:
    """Clicks anywhere in the frame, uniformly. The same seed, episode and turn give the same click."""

    def __init__(self, seed: int = 0, dialect: Dialect = _UI_TARS) -> None:
        self._seed = seed
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        dice = random.Random(f"{self._seed}/{episode}/{len(history)}")
        click = Click(x=dice.randrange(observation.width), y=dice.randrange(observation.height))
        return _step(self._dialect, click, observation)

    def forget(self, episode: str) -> None:
        pass


class OraclePolicy:
    """Does what the probe "oracle" of the task says: the first of its actions, and `Done` when it has none.

    Raises:
        FaultError: the observation has no such probe, or it is not a list of actions.
    """

    def __init__(self, dialect: Dialect = _UI_TARS) -> None:
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        try:
            candidates = ACTIONS.validate_python(observation.probes.get("oracle"))
        except ValidationError:
            message = f"the probe 'oracle' is no list of actions: {observation.probes.get('oracle')!r:.80}"
            raise FaultError(Fault("task", "no_oracle", message)) from None
        return _step(self._dialect, candidates[0] if candidates else Done(), observation)

    def forget(self, episode: str) -> None:
        pass


class ScriptedPolicy:
    """Plays `actions`, one a turn, and then says that it is done."""

    def __init__(self, actions: Sequence[Action], dialect: Dialect = _UI_TARS) -> None:
        self._script = [*actions, Done()]
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        action = self._script[min(len(history), len(self._script) - 1)]
        return _step(self._dialect, action, observation)

    def forget(self, episode: str) -> None:
        pass


def _step(dialect: Dialect, action: Action, observation: Observation) -> PolicyStep:
    try:
        text = dialect.render([action], (observation.width, observation.height))
    except DialectError:  # the dialect has no word for it
        text = ACTION.dump_json(action).decode()
    return PolicyStep(text, [ACTION.dump_python(action, mode="json")])
