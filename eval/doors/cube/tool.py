"""A leased device as a tool of the CUBE standard: the actions of `guiagent.actions` as calls with a JSON
Schema, answered by what shows then, as elements and as a picture.
"""

import asyncio
import inspect
from functools import cache
from typing import Any

from pydantic import PositiveInt

from eval.doors.cube import MISSING
from eval.doors.cube.seat import Seat, See, Shown
from eval.doors.rollouts import tools
from eval.doors.tools import ActionTools
from eval.stepping import SuiteTasks
from guiagent.errors import MissingProgram, UsageError
from guiagent.frames import rgb_of_device

try:
    import docstring_parser
    from cube.core import (  # type: ignore[import-not-found]
        STOP_ACTION,
        Action,
        ActionSchema,
        AgentStop,
        ImageContent,
        Observation,
        StepError,
        TextContent,
    )
    from cube.tool import AbstractTool, ToolConfig  # type: ignore[import-not-found]
except ImportError:
    raise MissingProgram(MISSING) from None


class SuiteTool(AbstractTool):  # type: ignore[misc]
    """A leased device as CUBE's tool. What is no action is told to the agent, and nothing was done."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    @property
    def action_set(self) -> list[ActionSchema]:
        return [*_schemas(), STOP_ACTION]

    @property
    def over(self) -> bool:
        return self._seat.over

    def begin(self, task: str, seed: int) -> Observation:
        """Set a task up. Raises UsageError for what is none, and FaultError."""
        return _observation(self._seat.begin(task, seed))

    def execute_action(self, action: Action) -> Observation:
        """Carry a call out, and show what came of it. Raises FaultError, and AgentStop for `final_step`."""
        if action.name == STOP_ACTION.name:
            raise AgentStop
        try:
            return _observation(self._seat.call(action.name, action.arguments), action.id)
        except UsageError as error:
            told = StepError(error_type="UsageError", exception_str=str(error), stack_trace="")
            said = TextContent(data=str(error), tool_call_id=action.id)
            return Observation(contents=[said], error=told)

    async def async_execute_action(self, action: Action) -> Observation:
        return await asyncio.to_thread(self.execute_action, action)

    def score(self) -> float:
        """The score of the task's check. A task that is not over ends here. Raises FaultError."""
        return self._seat.score()

    def close(self) -> None:
        self._seat.close()


class SuiteToolConfig(ToolConfig):  # type: ignore[misc]
    """Which suite's devices a tool leases, from which `pool` (as for `guiagent.connect`), and what an agent
    sees of them."""

    suite: str
    split: str = "evaluation"
    see: See = "both"
    max_steps: PositiveInt | None = None
    pool: str | None = None

    def make(self, container: Any = None) -> SuiteTool:
        tasks = SuiteTasks(self.suite, self.split)
        seat = Seat(tasks, door="cube", pool=self.pool, see=self.see, max_steps=self.max_steps)
        return SuiteTool(seat)


@cache
def _schemas() -> tuple[ActionSchema, ...]:
    return tuple(_schema(**tool) for tool in tools())


def _schema(name: str, description: str, parameters: dict[str, Any]) -> ActionSchema:
    """A tool in CUBE's words, which have a description for every parameter."""
    said = docstring_parser.parse(inspect.getdoc(getattr(ActionTools, name, None)) or description)
    about = {one.arg_name: one.description for one in said.params}
    fields = {key: {**field, "description": about[key]} for key, field in parameters["properties"].items()}
    return ActionSchema(
        name=name, description=said.short_description, parameters={**parameters, "properties": fields}
    )


def _observation(shown: Shown, call: str | None = None) -> Observation:
    contents = [TextContent(data=shown.text or "The screen:", tool_call_id=call)]
    if shown.picture:
        contents.append(ImageContent(data=rgb_of_device(shown.picture), name="screenshot"))
    return Observation(contents=contents)
