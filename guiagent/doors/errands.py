"""Tasks in words from another agent or an editor, carried out by a policy on devices leased for them.

What the fronts for the protocols of others share: `guiagent.doors.a2a` and `guiagent.doors.acp`.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from guiagent.agent import LIMITS, Agent, AgentStep, Limits, Run
from guiagent.client import FarmClient, LeasedDevice
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.pictures import Picture, within
from guiagent.protocols import Policy
from guiagent.types import Observation
from guiagent.wire import HelpAnswer

MAX_MESSAGE = 1 << 20  # bytes of a message of a client
_MAX_WORDS = 16_384  # characters of a task, with all that is added to it
_LONGEST = 500  # characters of what is told of an action, a page, a question
_DEEDS = 20  # of a person who had the device, that the policy is told

Tell = Callable[[AgentStep], Awaitable[None]]
GivenBack = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which devices tasks are carried out on, and what bounds them.

    Attributes:
        kind: of the devices that are leased.
        egress: what they may reach.
        start: the page or app that is opened before a task; "": what a device shows by itself.
        limits: from one message of the client to the next one.
        wait_s: how long to wait for a free device.
        idle_s: how long a device is kept for the client's next message.
        longest: pixels of a picture's longer side.
        most: tasks with a device, or waiting for one, at once.
    """

    kind: str = "browser"
    egress: tuple[str, ...] = ("public",)
    start: str = ""
    limits: Limits = LIMITS
    wait_s: float = 30.0
    idle_s: float = 300.0
    longest: int = 1280
    most: int = 64


Status = Literal["success", "failure", "asks", "stopped", "fault"]


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a task, by the agent's own claim: nobody has checked it.

    Attributes:
        status: "asks": it cannot go on without a person; "stopped": a limit, or a reply that was no action.
        stop: `guiagent.agent.Stop`; "" where there was no run.
        answer: the agent's answer, or what it asks.
        url, title: of the page in the end; words of whoever made it.
    """

    status: Status
    stop: str = ""
    answer: str | None = None
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    url: str | None = None
    title: str | None = None
    fault: Fault | None = None

    @property
    def line(self) -> str:
        """The outcome for people, in one line unless the answer has more."""
        match self.status:
            case "success":
                return self.answer or f"done, after {self.steps} steps"
            case "failure":
                return f"the agent gave up after {self.steps} steps"
            case "asks":
                return f"the agent needs a person: {self.answer}"
            case "stopped":
                return f"stopped after {self.steps} steps: {self.stop}"
        assert self.fault is not None
        return str(FaultError(self.fault))


class Desk:
    """Takes errands of one policy on, on the devices of a farm."""

    def __init__(self, farm: FarmClient, policy: Policy, settings: Settings) -> None:
        self.farm, self.policy, self.settings = farm, policy, settings
        self.open: set[Errand] = set()

    def take(self, forget: Callable[[], None], given_back: GivenBack | None = None) -> "Errand":
        """Take one on, until a next message does not come: `forget` is called when no more may find it,
        `given_back` once its device was given back.

        Raises UsageError if there are as many as there may be.
        """
        if len(self.open) >= self.settings.most:
            raise UsageError(f"{self.settings.most} tasks are under way, which is as many as there may be")
        errand = Errand(self, forget, given_back)
        self.open.add(errand)
        return errand

    async def close(self) -> None:
        """Give all devices back."""
        await asyncio.gather(*(errand.close() for errand in list(self.open)))


class Errand:
    """A task and the device leased for it, until it is closed: by its client, a fault, or silence."""

    def __init__(self, desk: Desk, forget: Callable[[], None], given_back: GivenBack | None) -> None:
        self._desk, self._forget, self._given_back = desk, forget, given_back
        self._device: LeasedDevice | None = None
        self._task = ""
        self._question = ""  # that the next message answers
        self._help: asyncio.Task[HelpAnswer] | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def attend(self) -> None:
        """End the silence: a message has come. To be called as soon as the errand was found for it."""
        if self._silence is not None:
            self._silence.cancel()

    async def run(self, words: str, tell: Tell) -> Outcome:
        """Carry out what a message of the client says; `tell` is awaited with every step.

        The device is kept for the next message, except after a fault. Who is cancelled has given it back.
        Raises UsageError, without a device then, for what can never be.
        """
        try:
            outcome = await self._carried_out(words, tell)
        except FaultError as error:
            outcome = Outcome("fault", fault=error.fault)
        except BaseException:
            await self.close()
            raise
        if outcome.status == "fault":
            await self.close()
        elif self._device is not None:
            self._silence = asyncio.get_running_loop().call_later(self._desk.settings.idle_s, self._end)
        return outcome

    async def close(self) -> None:
        """Give the device back. Nothing is done with it after this, whatever was under way."""
        self.attend()
        if self._ending is not None and self._ending is not asyncio.current_task():
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._help is not None:
            self._help.cancel()
            await asyncio.gather(self._help, return_exceptions=True)
        device, self._device = self._device, None
        try:
            if device is not None:
                await device.close()
        finally:
            self._desk.open.discard(self)

    async def _carried_out(self, words: str, tell: Tell) -> Outcome:
        if not words.strip():
            raise UsageError("say in words what is to be done")
        if self._device is not None and not await self._device.stop_asking():
            return Outcome("asks", answer="somebody still has the device, and gives it back first")
        device = self._device or await self._leased()
        self._task = await self._understood(words)
        run = Agent(self._desk.policy, device, limits=self._desk.settings.limits).run(self._task)
        step: AgentStep | None = None
        try:
            async for step in run:
                await tell(step)
        except FaultError:
            if run.trajectory is None or run.trajectory.fault is None:
                raise
        finally:
            await run.close()
        outcome = outcome_of(run, step)
        if outcome.status == "asks":
            self._question = " ".join((outcome.answer or "").split())[:_LONGEST] or "it cannot go on"
            asking = device.ask_human(self._question, self._desk.settings.idle_s)
            self._help = asyncio.create_task(asking)
            await asyncio.sleep(0)  # it asks from here on, so that it can be taken back
        return outcome

    async def _leased(self) -> LeasedDevice:
        settings = self._desk.settings
        self._device = device = await self._desk.farm.lease(
            settings.kind, egress=settings.egress, wait=settings.wait_s, label="task"
        )
        if settings.start:
            await device.open(settings.start)
        return device

    async def _understood(self, words: str) -> str:
        """What the policy is told to do: a new task, or the last one with the answer to what it asked."""
        task = words
        if self._help is not None:
            task = answered(self._task, self._question, words, await self._help)
            self._help = None
        if len(task) > _MAX_WORDS:
            raise UsageError(f"a task has at most {_MAX_WORDS} characters, with all that is added to it")
        return task

    def _end(self) -> None:
        self._forget()  # before anything is awaited: a message that comes meanwhile is none of this errand's
        self._ending = asyncio.create_task(self._end_in_silence())

    async def _end_in_silence(self) -> None:
        await self.close()
        if self._given_back is not None:
            await self._given_back()


def answered(task: str, question: str, words: str, help: HelpAnswer) -> str:
    """A task, with what its agent asked a person, what the client says to it and what a person did."""
    lines = [task, "", f"You needed a person: {question}"]
    if help.state in ("done", "left"):
        lines.append(f"A person used this screen meanwhile: {'; '.join(help.did[:_DEEDS]) or 'nothing'}")
    if help.note:
        lines.append(f"The person says: {help.note}")
    return "\n".join([*lines, f"Your user answers: {words}"])


def outcome_of(run: Run, last: AgentStep | None) -> Outcome:
    """The outcome of a run that is over, whose last step this is."""
    made = run.trajectory
    assert made is not None
    after = last.after if last is not None else None
    answer = run.answer
    status: Status = "stopped"
    if made.fault is not None:
        status = "fault"
    elif made.ending.claim == "infeasible":
        status, answer = "asks", answer or (last.output.text if last is not None else None)
    elif made.ending.claim == "failure":
        status = "failure"
    elif run.stop == "agent_done":
        status = "success"
    return Outcome(
        status,
        run.stop or "",
        answer,
        len(made.steps),
        run.tokens,
        round(made.seconds, 3),
        _cut(after.url if after else None),
        _cut(after.title if after else None),
        made.fault,
    )


def said(actions: Sequence[dict[str, Any]]) -> str:
    """What a step did, for people: "click x=120 y=80 button='left' count=1, type text='Ada'"."""
    lines = []
    for action in actions:
        fields = (f" {name}={value!r}" for name, value in action.items() if name != "type" and value != [])
        lines.append(f"{action.get('type')}{''.join(fields)}")
    return ", ".join(lines)[:_LONGEST] or "no action"


def step_told(step: AgentStep) -> dict[str, Any]:
    """A step as data: what the agent said and did, and what the screen says of itself, apart from it."""
    screen = {
        "url": _cut(step.after.url),
        "title": _cut(step.after.title),
        "note": _cut(step.after.action_error),
    }
    return {
        "step": step.index,
        "text": step.output.text,
        "actions": step.output.actions,
        "error": step.output.error,
        "screen": {name: value for name, value in screen.items() if value is not None},
    }


def shown(seen: Observation, longest: int) -> Picture | None:
    """The picture of an observation; None where there is none that can be shown."""
    with contextlib.suppress(UsageError):
        return within(seen.frame, seen.media_type, longest)
    return None


def _cut(text: str | None) -> str | None:
    return text[:_LONGEST] if text else None
