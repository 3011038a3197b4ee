"""Sessions of the proxy: the calls of one episode as steps, in the form that the learner trains on."""

import asyncio
from collections.abc import Callable, Sequence

import xxhash

from guiagent.errors import Fault, UsageError
from guiagent.types import Call, PolicyOutput, Step
from training.proxy.chat import Message, Picture, Reply

# Of a session: what is recorded waits in memory for its end.
_MOST_CALLS = 10_000
_MOST_TOKENS = 1 << 24
_MOST_BYTES = 1 << 30  # of replies, and of the pictures that calls showed last
_MOST_ACTIONS = 10_000


class Session:
    """The record of an episode. Calls that show the same last picture, with nothing done since, are one turn.

    `keep_frame` stores a picture and returns its hash. `said` has the sampled tokens of every reply by its
    text: a conversation that quotes a reply continues the very tokens, which are never tokenised again.
    `fault` is the first failure outside the agent's reach. `over` is set when no further call is answered.
    """

    def __init__(self, name: str, keep_frame: Callable[[bytes], str], max_steps: int | None = None) -> None:
        self.name = name
        self.steps: list[Step] = []
        self.said: dict[str, list[int]] = {}
        self.fault: Fault | None = None
        self.over = asyncio.Event()
        self.calling = asyncio.Lock()  # an agent's calls are answered, and recorded, one after the other
        self._keep_frame = keep_frame
        self._max_steps = max_steps
        self._calls = self._tokens = self._bytes = self._actions = 0
        self._acted = True  # since the last call
        self._context: list[int] = []  # tokens of the last call's context, with its completion
        self._shown: list[str] = []  # the pictures in it

    def exhausted(self, messages: Sequence[Message]) -> bool:
        """Whether a call with these messages would begin a turn more than the episode may have, or whether
        the session has grown as large as any may."""
        if self._calls >= _MOST_CALLS or self._tokens >= _MOST_TOKENS or self._bytes >= _MOST_BYTES:
            return True
        full = self._max_steps is not None and len(self.steps) >= self._max_steps
        return full and self._begins_turn(_last(messages))

    def record(self, role: str, messages: Sequence[Message], reply: Reply) -> None:
        """Record a call. It continues the last one's context if its prompt begins with all of that."""
        shown = [self._keep_frame(picture.data) for picture in _pictures(messages)]
        known, before = len(self._context), self._shown
        goes_on = (
            bool(self._context)
            and reply.prompt_ids[:known] == self._context
            and shown[: len(before)] == before
        )
        call = Call(
            role,
            reply.prompt_ids[known:] if goes_on else reply.prompt_ids,
            reply.completion_ids,
            reply.logprobs,
            min(version for _, version in reply.versions),
            reply.versions if len(reply.versions) > 1 else [],
            shown[len(before) :] if goes_on else shown,
            not goes_on,
        )
        self._context, self._shown = [*reply.prompt_ids, *reply.completion_ids], shown
        self.said[reply.text] = reply.completion_ids
        self._add(call, reply.text, _last(messages))

    def cut(self, role: str, messages: Sequence[Message], fault: Fault) -> None:
        """Record a call that failed half-way; the first such fault is the episode's."""
        self.fault = self.fault or fault
        shown = [self._keep_frame(picture.data) for picture in _pictures(messages)]
        self._add(Call(role, frames=shown, fresh=True, error=fault.message), "", _last(messages))

    def acting(self, count: int) -> None:
        """Count actions that are about to be done. Raises UsageError where they are too many."""
        if self._actions + count > _MOST_ACTIONS:
            raise UsageError(f"an episode has {_MOST_ACTIONS} actions at most: nothing was done")
        self._actions += count

    def acted(self, actions: Sequence[dict[str, object]], error: str | None, milliseconds: float) -> None:
        """Note what the agent did on the device after its last call: the next call begins a turn."""
        self._acted = True
        if self.steps:
            step = self.steps[-1]
            step.policy.actions += actions
            step.device_ms += milliseconds
            step.action_error = error

    def _begins_turn(self, picture: Picture | None) -> bool:
        if not self.steps or self._acted:
            return True
        return picture is not None and _hash(picture) != self.steps[-1].frame

    def _add(self, call: Call, text: str, picture: Picture | None) -> None:
        self._calls += 1
        self._tokens += len(call.prompt_ids) + len(call.completion_ids)
        self._bytes += len(text) + (len(picture.data) if picture is not None else 0)
        if self._begins_turn(picture):
            self._acted = False
            frame = self._keep_frame(picture.data) if picture is not None else ""
            size = picture.size if picture is not None else (0, 0)
            output = PolicyOutput("", policy_version=call.policy_version)
            self.steps.append(Step(frame, *size, output))
        output = self.steps[-1].policy
        output.calls.append(call)
        if call.error is None:
            output.text = f"{output.text}\n{text}" if output.text else text
            output.policy_version = min(c.policy_version for c in output.calls if c.error is None)


def _pictures(messages: Sequence[Message]) -> list[Picture]:
    return [part for message in messages for part in message.parts if isinstance(part, Picture)]


def _last(messages: Sequence[Message]) -> Picture | None:
    return next(reversed(_pictures(messages)), None)


def _hash(picture: Picture) -> str:
    return xxhash.xxh3_128_hexdigest(picture.data)
