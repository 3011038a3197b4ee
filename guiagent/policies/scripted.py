"""Policies without a model: the baselines that every suite is measured with, and fixed scripts.

They also write their actions in a dialect, as a model would, so that a viewer has text to show.
"""

import random
from collections.abc import Sequence

from guiagent.actions import ACTION, Action, Click, Done, Wait
from guiagent.dialects import Dialect, find_dialect
from guiagent.errors import DialectError
from guiagent.policies.controls import probed, touchable
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput

_UI_TARS = find_dialect("ui-tars")


class NullPolicy:
    """A policy that only waits and never says that it is done. A sound task scores it 0."""

    def __init__(self, dialect: Dialect = _UI_TARS) -> None:
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        return _step(self._dialect, Wait(ms=100), observation)

    def forget(self, episode: str) -> None:
        pass


class RandomPolicy:
    """A policy that clicks anywhere in the frame, uniformly at random.

    The same seed, episode and turn give the same click.
    """

    def __init__(self, seed: int = 0, dialect: Dialect = _UI_TARS) -> None:
        self._seed = seed
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        dice = random.Random(f"{self._seed}/{episode}/{len(history)}")
        click = Click(x=dice.randrange(observation.width), y=dice.randrange(observation.height))
        return _step(self._dialect, click, observation)

    def forget(self, episode: str) -> None:
        pass


class CentrePolicy:
    """A policy that clicks the middle of the frame: what a benchmark with large or central targets pays."""

    def __init__(self, dialect: Dialect = _UI_TARS) -> None:
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        click = Click(x=observation.width // 2, y=observation.height // 2)
        return _step(self._dialect, click, observation)

    def forget(self, episode: str) -> None:
        pass


class RandomElementPolicy:
    """A policy that clicks a random control: the baseline that a policy which sees the screen must beat.

    The choices are the actions in the task's probe "candidates", if it has one: drawings on a page are in no
    tree. Otherwise they are clicks on the centre of every visible control of the observation's tree. It waits
    if there are none. The same seed, episode and turn give the same choice.

    Raises:
        FaultError: the observation has neither, or the probe is not a list of actions.
    """

    def __init__(self, seed: int = 0, dialect: Dialect = _UI_TARS) -> None:
        self._seed = seed
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        choices = touchable(observation)
        dice = random.Random(f"{self._seed}/{episode}/{len(history)}")
        return _step(self._dialect, dice.choice(choices) if choices else Wait(ms=100), observation)

    def forget(self, episode: str) -> None:
        pass


class OraclePolicy:
    """A policy that takes the first action of the task's probe "oracle", and `Done` when it is empty.

    Raises:
        FaultError: the observation has no such probe, or it is not a list of actions.
    """

    def __init__(self, dialect: Dialect = _UI_TARS) -> None:
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        todo = probed(observation, "oracle")
        return _step(self._dialect, todo[0] if todo else Done(), observation)

    def forget(self, episode: str) -> None:
        pass


class ObedientPolicy:
    """A policy that does what a stranger's words on the screen order, before what it was asked to do.

    It takes the first action of the task's probe "ordered" while there is one, and then that of "oracle".
    Once the device refuses an action it gives the order up: what a guardrail stops, it stops for good.

    Raises:
        FaultError: the observation lacks one of these probes, or it is not a list of actions.
    """

    def __init__(self, dialect: Dialect = _UI_TARS) -> None:
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        shown = (*(turn.observation for turn in history), observation)
        refused = any(one.action_error is not None for one in shown)
        todo = [] if refused else probed(observation, "ordered")
        todo = todo or probed(observation, "oracle")
        return _step(self._dialect, todo[0] if todo else Done(), observation)

    def forget(self, episode: str) -> None:
        pass


class ScriptedPolicy:
    """A policy that takes `actions`, one per turn, and then says that it is done."""

    def __init__(self, actions: Sequence[Action], dialect: Dialect = _UI_TARS) -> None:
        self._script = [*actions, Done()]
        self._dialect = dialect

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        action = self._script[min(len(history), len(self._script) - 1)]
        return _step(self._dialect, action, observation)

    def forget(self, episode: str) -> None:
        pass


def _step(dialect: Dialect, action: Action, observation: Observation) -> PolicyOutput:
    try:
        text = dialect.render([action], (observation.width, observation.height))
    except DialectError:  # the dialect cannot express it
        text = ACTION.dump_json(action).decode()
    return PolicyOutput(text, [ACTION.dump_python(action, mode="json")])
