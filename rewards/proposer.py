"""Proposers that ask a model: what it is shown by each preset, and how its reply is read.

Whatever a model says is read by a small grammar and within bounds; a task that cannot be read is refused as
"malformed" and counted, and the others stand.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from rewards.cases import Screen, marks_of
from rewards.judge_config import ServerConfig
from rewards.model_server import ModelServer
from rewards.proposals import Outcome, Proposal, Situation
from rewards.proposer_prompts import PRESETS, REFINE, Preset
from rewards.replies import read_json
from rewards.screens import STYLE, parts, text

_LONGEST = 600  # characters of an instruction
_LONGEST_GUIDEBOOK = 4000
_MOST_EXAMPLES = 30
_MOST_SCREENS = 12
_MAX_SIDE = 1024  # pixels of a screen
_REPLY_TOKENS = 4096


class Suggestions(msgspec.Struct, frozen=True):
    """One reply: what could be read of it, what could not, and the guidebook where one was asked for."""

    proposals: tuple[Proposal, ...]
    malformed: tuple[Outcome, ...] = ()
    guidebook: str = ""


class _Reply(msgspec.Struct):
    tasks: list[Any]
    guidebook: str = ""


class _Suggested(msgspec.Struct):
    instruction: str
    feasible: bool = True


class ModelProposer:
    """Implements `rewards.proposals.Proposer` with any OpenAI-compatible server.

    Raises:
        FaultError: the server stays away, or its budget is spent (origin "judge").
        InfrastructureError: it does not know the key, the model or the path.
    """

    def __init__(self, config: ServerConfig, preset: str, *, temperature: float = 1.0) -> None:
        self._server = ModelServer(config)
        self._preset = PRESETS[preset]
        self._temperature = temperature
        asked = repr((self._preset, REFINE, config.model, temperature, _MAX_SIDE, STYLE))
        self._name = f"{preset}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"

    @property
    def name(self) -> str:
        return self._name

    async def propose(self, situation: Situation, n: int) -> Sequence[Proposal]:
        """At most `n`; what is malformed is left out. `suggest` tells of it."""
        proposals: list[Proposal] = []
        while len(proposals) < n:
            suggestions = await self.suggest(situation, n - len(proposals), first=len(proposals))
            if not suggestions.proposals:
                break
            proposals += suggestions.proposals
        return proposals[:n]

    async def suggest(self, situation: Situation, n: int, *, first: int = 0) -> Suggestions:
        """What one request brings, and one more where the preset refines; `first` numbers the proposals."""
        wanted = min(n, self._preset.per_request)
        content = _told(situation, self._preset, wanted, first)
        reply = await self._ask(self._preset.system, content)
        tasks, malformed = _read(reply, wanted, self._id(situation, first))
        if self._preset.refine and tasks:
            tasks = await self._refined(tasks, situation)
        proposals = [
            Proposal(
                id=self._id(situation, first + number),
                instruction=task.instruction,
                environment=situation.environment,
                seed=situation.seed,
                proposer=self.name,
                feasible=task.feasible,
            )
            for number, task in enumerate(tasks)
        ]
        guidebook = (reply.guidebook if reply else "")[:_LONGEST_GUIDEBOOK]
        return Suggestions(tuple(proposals), tuple(malformed), guidebook or situation.guidebook)

    async def close(self) -> None:
        await self._server.close()

    def _id(self, situation: Situation, number: int) -> str:
        return f"{situation.environment}/{self.name}/{situation.seed}/{number}"

    async def _refined(self, tasks: Sequence[_Suggested], situation: Situation) -> list[_Suggested]:
        """The same tasks in more exact words; as they were where the reply does not fit them one to one."""
        listed = json.dumps([msgspec.to_builtins(task) for task in tasks])
        content = [*_screen(situation), text(f"<tasks>{_fenced(listed)}</tasks>")]
        better, malformed = _read(await self._ask(REFINE, content), len(tasks), "")
        if malformed or len(better) != len(tasks):
            return list(tasks)
        return [_Suggested(new.instruction, old.feasible) for new, old in zip(better, tasks, strict=True)]

    async def _ask(self, system: str, content: Sequence[dict[str, Any]]) -> _Reply | None:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": list(content)},
        ]
        completion = await self._server.complete(
            messages,
            temperature=self._temperature,
            max_tokens=_REPLY_TOKENS,
            keep=lambda texts: read_json(texts[0], _Reply) is not None,
        )
        return read_json(completion.texts[0], _Reply)


def _read(reply: _Reply | None, wanted: int, id: str) -> tuple[list[_Suggested], list[Outcome]]:
    if reply is None:
        return [], [Outcome(id, "malformed", "the reply holds no JSON object with tasks")]
    tasks: list[_Suggested] = []
    malformed: list[Outcome] = []
    for told in reply.tasks[:wanted]:
        try:
            task = msgspec.convert(told, _Suggested)
        except msgspec.ValidationError as error:
            malformed.append(Outcome(id, "malformed", str(error)))
            continue
        instruction = " ".join(task.instruction.split())
        if 0 < len(instruction) <= _LONGEST:
            tasks.append(_Suggested(instruction, task.feasible))
        else:
            malformed.append(Outcome(id, "malformed", f"an instruction of {len(instruction)} characters"))
    return tasks, malformed


def _told(situation: Situation, preset: Preset, wanted: int, first: int) -> list[dict[str, Any]]:
    """The user's message: words first, then what is to be seen."""
    facts: dict[str, Any] = {"environment": situation.environment}
    facts |= {"apps": list(situation.apps)} if situation.apps else {}
    facts |= {"examples": list(situation.examples[:_MOST_EXAMPLES])} if situation.examples else {}
    facts |= {"demonstration": situation.demonstration[:4000]} if situation.demonstration else {}
    if situation.exams:
        facts["exam"] = [{"task": exam.instruction, "success": exam.success} for exam in situation.exams]
    facts |= {"guidebook": situation.guidebook} if situation.guidebook else {}
    # The number makes a second request for the same screen another request, which no cache answers.
    words = (
        f"<facts>{_fenced(json.dumps(facts))}</facts>\nPropose {wanted} tasks, from number {first + 1} on."
    )
    seen = {"screen": _screen, "exploration": _explored}.get(preset.shows)
    return [text(words), *(seen(situation) if seen else [])]


def _screen(situation: Situation) -> list[dict[str, Any]]:
    frame = situation.observation.frame
    return parts([Screen(frame)], [0], _MAX_SIDE) if frame else []


def _explored(situation: Situation) -> list[dict[str, Any]]:
    """The newest screens of the exploration, each followed by what was done on it."""
    content: list[dict[str, Any]] = []
    kept = situation.exploration[-_MOST_SCREENS:]
    screens = [Screen(screen.frame, marks_of(actions)) for screen, actions in kept]
    for index, (_, actions) in enumerate(kept):
        content += parts(screens, [index], _MAX_SIDE)
        if actions:
            content.append(text(f"<action>{_fenced(json.dumps(list(actions))[:1000])}</action>"))
    return content


def _fenced(words: str) -> str:
    return words.replace("<", "\\u003c")
