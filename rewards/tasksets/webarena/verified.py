"""A task of WebArena-Verified: the agent ends with a typed answer in JSON, which is compared by its types.

`AgentResponseEvaluator` is supported, but for the kinds of values that `rewards.checks.typed` does not
compare. `NetworkEventEvaluator` looks at the requests that the browser sent after the start pages were there:
its tasks need a browser with a DevTools port, and `events` says what is not compared. The files say nothing
of logins: where a site has accounts, the browser profile "webarena-SITE" is used, as for WebArena's own tasks
that require one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import regex

from guiagent.errors import DECODE_ERRORS
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, Score
from rewards.checks import typed
from rewards.tasksets.webarena import events, sites, start
from rewards.tasksets.webarena.files import EVENT, RESPONSE, Evaluator, VerifiedFile
from rewards.tasksets.webarena.requests import Recorder
from rewards.tasksets.webarena.task import MAX_STEPS, require_supported

_ACCOUNTS = {"gitlab", "reddit", "shopping", "shopping_admin"}
_FENCE = regex.compile(r"```(?:json)?\s*(.*?)```", regex.DOTALL)
_HOW_TO_END = """ \
End with an answer that is one JSON object: "task_type" is "RETRIEVE" if you were asked for data, "MUTATE" \
if you were asked to change something, "NAVIGATE" if you were asked to show a page; "status" is "SUCCESS" or \
what kept you from it: "NOT_FOUND_ERROR", "ACTION_NOT_ALLOWED_ERROR", "PERMISSION_DENIED_ERROR", \
"DATA_VALIDATION_ERROR" or "UNKNOWN_ERROR"; "retrieved_data" is a list of the data, or null if you were \
asked for none."""


class _Answer(msgspec.Struct, frozen=True):
    """The parts of an agent's answer that are compared."""

    status: str
    task_type: str = ""
    performed_operation: str = ""  # what `task_type` was called before
    retrieved_data: Any = None


@dataclass
class VerifiedTask:
    """One task; `addresses` are those of its sites, by the names that `file` has for them."""

    file: VerifiedFile
    seed: int
    addresses: Mapping[str, str]
    max_steps: int = MAX_STEPS
    probes: Mapping[str, str] = field(default_factory=dict)
    _recorder: Recorder | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        return str(self.file.task_id)

    @property
    def unsupported(self) -> list[str]:
        """What the task needs that is not supported; [] if it can be scored."""
        missing = sorted({one.evaluator for one in self.file.eval} - {RESPONSE, EVENT})
        if not self._responses:
            missing.append(f"a task without {RESPONSE}")
        for one in self._responses:
            missing += [f"values of the kind {kind}" for kind in typed.unsupported(one.results_schema)]
        for one in self._events:
            missing += [f"{EVENT} with {part}" for part in events.unsupported(one)]
        return list(dict.fromkeys(missing))

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Open the task's pages, and begin to hear the browser's requests if the check reads them.

        Raises FaultError if it is unsupported, a site does not answer, or the browser has no DevTools port.
        """
        require_supported(self.id, self.unsupported)
        accounts = _ACCOUNTS.intersection(self.file.sites)
        profile = start.profile_of(accounts) if accounts else None
        urls = sites.filled(self.file, self.addresses).start_urls
        shown = await start.open_pages(device, self.seed, urls, profile, spec)
        if self._events:
            self._recorder = await Recorder.start(device)
        return self.file.intent + _HOW_TO_END, shown

    def ended(self, observation: Observation) -> bool:
        """Never: only the agent ends these. Raises FaultError if the last action met a site that is gone."""
        sites.require_shown(observation, self.addresses.values())
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 if answer and requests are what every evaluator expects.

        Raises FaultError if a site does not answer, or the requests were not heard to the end.
        """
        require_supported(self.id, self.unsupported)
        requests = await self._recorder.requests() if self._recorder is not None else []
        await sites.require_alive(device, self.addresses.values())
        answer = read_answer(ending.answer)
        if answer is None:
            return Score(0.0, reason="the answer is no JSON object with a status", progress=0.0)
        parts = [part for one in self._responses for part in _compared(one, answer)]
        navigating = any(typed.text(one.response.task_type) == "navigate" for one in self._responses)
        for number, one in enumerate(self._events):
            name = f"request {number}: {one.event.http_method} {one.event.url}"
            parts.append((name, events.met(one, requests, self.addresses, navigating=navigating)))
        wrong = [name for name, right in parts if not right]
        return Score(
            float(not wrong),
            reason=f"wrong: {', '.join(wrong)}" if wrong else "as expected",
            progress=1 - len(wrong) / len(parts),
        )

    async def teardown(self, device: Device) -> None:
        """Stop hearing. The sites have to undo what a task changes."""
        if self._recorder is not None:
            await self._recorder.close()

    @property
    def _responses(self) -> list[Evaluator]:
        return [one for one in self.file.eval if one.evaluator == RESPONSE]

    @property
    def _events(self) -> list[Evaluator]:
        return [one for one in self.file.eval if one.evaluator == EVENT]


def read_answer(text: str | None) -> _Answer | None:
    """Read an agent's answer, alone or between fences; None if it is not of the form."""
    fenced = _FENCE.search(text or "")
    try:
        return msgspec.json.decode((fenced[1] if fenced else text or "").strip(), type=_Answer)
    except DECODE_ERRORS:
        return None


def _compared(evaluator: Evaluator, answer: _Answer) -> list[tuple[str, bool]]:
    """The parts of an answer that an evaluator compares, and whether each is as it expects."""
    expected = evaluator.response
    kind = typed.text(expected.task_type)
    parts = [
        ("task_type", typed.text(answer.task_type or answer.performed_operation) == kind),
        ("status", typed.text(answer.status) == typed.text(expected.status)),
    ]
    if kind == "retrieve":  # what other tasks retrieve is ignored
        parts.append(("retrieved_data", _same_data(evaluator, answer.retrieved_data)))
    return parts


def _same_data(evaluator: Evaluator, given: Any) -> bool:
    expected, schema = evaluator.response.retrieved_data, evaluator.results_schema
    if not expected or schema.get("type") == "null":
        return given in (None, "", [])
    return typed.same(expected, given, schema, ordered=evaluator.ordered)
