"""The agent loop: run a policy on a task on a device, and record the episode as a `Trajectory`."""

import contextlib
import logging
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from pydantic import ValidationError

from guiagent.actions import ACTION, ACTIONS, Action, Answer, Done, is_terminal
from guiagent.errors import Fault, FaultError, GuiAgentError, first_error
from guiagent.protocols import Demonstrable, Device, Policy, Task
from guiagent.types import Ending, Observation, ObserveSpec, PolicyOutput, Score, Step, Trajectory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn of the running episode, as policies see it."""

    observation: Observation
    output: PolicyOutput


async def run_episode(
    task: Task,
    device: Device,
    policy: Policy,
    *,
    keep_frame: Callable[[bytes], str],
    spec: ObserveSpec,
    id: str | None = None,
    group: str = "",
    group_index: int = 0,
    group_size: int = 1,
    max_steps: int | None = None,
    on_step: Callable[[int, Observation, PolicyOutput], None] | None = None,
) -> Trajectory:
    """Set the task up and let the policy act, for at most `max_steps` turns, or as many as the task allows.

    The episode ends when the environment closes it, when the agent says it is done or answers, after the last
    turn, or at a reply without a valid action: that is the policy's own failure, and the task's check scores
    the state as it is. A `FaultError` ends the episode too, but then the score stays None; so does an error
    that the check did not expect. A cancellation is raised through, and nothing is returned.

    `keep_frame` stores a frame and returns its hash. `on_step` is called with every reply before it is
    executed. `id` (random when None) also names the conversation to the policy, which forgets it at the end.
    """
    begun = time.perf_counter()
    trajectory = Trajectory(
        id=id or uuid.uuid4().hex,
        task=task.id,
        seed=task.seed,
        instruction="",
        steps=[],
        stop="max_steps",
        group=group,
        group_index=group_index,
        group_size=group_size,
        started=time.time(),
    )
    history: list[PastTurn] = []
    asked = replace(
        spec, probes={**spec.probes, **task.probes}, tree=spec.tree or isinstance(task, Demonstrable)
    )
    try:
        trajectory.instruction, shown = await task.setup(device, asked)
        shown = await told(task, device, shown)
        trajectory.final_frame = _keep(shown, keep_frame)
        for index in range(task.max_steps if max_steps is None else max_steps):
            thinking = time.perf_counter()
            output = await policy.act(trajectory.id, trajectory.instruction, history, shown)
            step = Step(trajectory.final_frame, shown.width, shown.height, output)
            step.policy_ms = (time.perf_counter() - thinking) * 1000
            trajectory.steps.append(step)
            history.append(PastTurn(shown, output))
            if on_step is not None:
                on_step(index, shown, output)

            actions, ends = _actions(output)
            if not actions and not ends:
                trajectory.stop = "parse_error"
                break
            trajectory.ending = ending_of(ends)
            if actions:
                acting = time.perf_counter()
                shown = _filled(await device.act(actions, replace(asked, have=shown.hash or None)), shown)
                shown = await told(task, device, shown)
                step.device_ms = (time.perf_counter() - acting) * 1000
                step.action_error = shown.action_error
                trajectory.final_frame = _keep(shown, keep_frame)
                if task.ended(shown):
                    trajectory.stop = "task_done"
                    break
            if ends:
                trajectory.stop = "agent_done"
                break
        trajectory.score = await scored(task, device, shown, trajectory.ending)
        with contextlib.suppress(FaultError):  # the score stands; the next reset meets the same fault
            await task.teardown(device)
    except FaultError as error:
        trajectory.stop, trajectory.fault = "fault", error.fault
    finally:
        policy.forget(trajectory.id)
    trajectory.seconds = time.perf_counter() - begun
    return trajectory


async def told(task: Task, device: Device, shown: Observation) -> Observation:
    """The observation with what a `Demonstrable` task says of it, as its probe "oracle"; else as it is."""
    if not isinstance(task, Demonstrable):
        return shown
    todo = [ACTION.dump_python(one, mode="json") for one in await task.next_actions(device, shown)]
    return replace(shown, probes={**shown.probes, "oracle": todo})


async def scored(task: Task, device: Device, shown: Observation, ending: Ending) -> Score:
    """Score the state that the agent left, which may be anything, by the task's check.

    Raises:
        FaultError: a fault of the device or task; also where the check raises what it should not (origin
            "task", code "check_failed"). The check is wrong then, so the state is worth neither 0 nor a stop
            of the whole run. The traceback is logged, without the error's text, which may be the agent's.
    """
    try:
        return await task.check(device, shown, ending)
    except GuiAgentError:
        raise
    except Exception as error:
        fault = Fault("task", "check_failed", f"the check of {task.id} failed: {error!r:.300}")
        _log.error("%s\n%s", fault.message, "".join(traceback.format_tb(error.__traceback__)))
        raise FaultError(fault) from error


def _actions(output: PolicyOutput) -> tuple[list[Action], list[Action]]:
    """The actions of a reply, as `split_at_end` has them.

    Both lists are empty if the reply has an error, such as an action that is not in the schema: the reason is
    then in `output.error`.
    """
    actions: list[Action] = []
    try:
        actions = ACTIONS.validate_python(output.actions)
    except ValidationError as error:
        output.error = f"action {first_error(error.errors())}"
    if not actions and output.error is None:
        output.error = "the reply holds no action"
    if output.error is not None:
        return [], []
    return split_at_end(actions)


def split_at_end(actions: Sequence[Action]) -> tuple[list[Action], list[Action]]:
    """Return the actions for the device, and those that end the episode, if any.

    The latter are `Done`, or an `Answer` and what comes right after it; later actions are ignored.
    """
    end = next((i for i, action in enumerate(actions) if is_terminal(action)), len(actions))
    return list(actions[:end]), list(actions[end : end + 2])


def ending_of(ends: Sequence[Action]) -> Ending:
    """Return what the actions that end an episode say: `Done`, an `Answer`, or an answer and then `Done`."""
    match ends:
        case [Answer(text=text), Done(status=status, evidence=evidence)]:
            return Ending(text, status, evidence)
        case [Answer(text=text), *_]:
            return Ending(answer=text)
        case [Done(status=status, evidence=evidence), *_]:
            return Ending(claim=status, evidence=evidence)
    return Ending()


def _filled(shown: Observation, before: Observation) -> Observation:
    """The observation with its frame; an unchanged observation gets the frame of the one before."""
    if not shown.unchanged:
        return shown
    return replace(shown, frame=before.frame, hash=before.hash, media_type=before.media_type, unchanged=False)


def _keep(shown: Observation, keep_frame: Callable[[bytes], str]) -> str:
    return keep_frame(shown.frame) if shown.frame else ""
