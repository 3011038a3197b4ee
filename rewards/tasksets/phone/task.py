"""A phone task: set up, checked, solved and nearly solved through adb alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from guiagent.errors import DECODE_ERRORS, Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Capabilities, Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.checks.android import AdbDevice, Rows, Source, Write, run, write
from rewards.tasksets.phone import answers, near_misses
from rewards.tasksets.phone.effects import side_effects
from rewards.tasksets.phone.facts import Added, Changed, Fact, Removed, compare, describe, targets
from rewards.tasksets.phone.template import Scenario

_NEEDS = ("shell", "files", "snapshot")
_DOCUMENT = "/data/local/tmp/document.json"
_MAX_DOCUMENT = 64 << 20
_MAX_REASON = 500
_MAX_SIDE_EFFECTS = 200
_SILENT = ObserveSpec(frame="none")


@dataclass
class PhoneTask:
    """One template with one seed, for one episode: `check` compares with what `setup` left."""

    id: str
    seed: int
    packages: Sequence[str]
    scenario: Scenario
    probes: Mapping[str, str] = field(default_factory=dict)
    before: dict[str, Rows] = field(default_factory=dict, init=False, repr=False)
    _document: dict[str, Any] | None = field(default=None, init=False, repr=False)

    @property
    def max_steps(self) -> int:
        return 2 * self.scenario.steps

    @property
    def instruction(self) -> str:
        asked = self.scenario.answer
        return (
            f"{self.scenario.instruction} {answers.question(asked)}" if asked else self.scenario.instruction
        )

    # -- the episode -----------------------------------------------------------------------------------------

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Reset the phone and replace the content of this task's tables.

        Raises:
            FaultError: the phone lacks an app, or a feature such as snapshots (origin "task").
        """
        capabilities = await device.describe()
        phone = phone_of(device, capabilities)
        await device.reset(self.seed, ResetSpec(), _SILENT)
        installed = (await run(phone, "pm", "list", "packages")).split()
        if missing := [name for name in self.packages if f"package:{name}" not in installed]:
            raise FaultError(
                Fault("task", "missing_app", f"{self.id} needs the app {missing[0]} on the phone")
            )
        await self.arrange(device)
        return self.instruction, await device.observe(replace(spec, have=None))

    async def arrange(self, device: Device) -> None:
        """Fill the tables and remember what `check` compares with: the part of `setup` after the reset."""
        capabilities = await device.describe()
        phone = phone_of(device, capabilities)
        changes: list[Write] = []
        for source, rows in self.scenario.start:
            changes += [*source.clear(), *map(source.insert, rows)]
        await write(phone, changes)
        self.before = await self.tables(phone)
        self._document = await document_of(phone) if "state" in capabilities.features else None

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 if the goal's tables are as at the start with the goal applied, and the answer is right.

        `progress` is the share of facts and of the answer's fields that hold. A change in other tables is a
        side effect, which does not lower the value. The right answer, if one is asked for, is in the evidence
        as "expected".
        """
        capabilities = await device.describe()
        phone = phone_of(device, capabilities)
        after = await self.tables(phone)
        conditions: list[tuple[str, bool]] = []
        beside: list[str] = []
        spoiled: list[str] = []
        for source in self.watched():
            facts = [fact for fact in self.scenario.goal if fact.source.name == source.name]
            finding = compare(source, facts, self.before[source.name], after[source.name])
            conditions += zip(map(describe, facts), finding.met, strict=True)
            beside += finding.beside
            if facts or source in self.scenario.kept or self.scenario.infeasible:
                spoiled += finding.beside
        fields = answers.read(ending.answer, self.scenario.answer)
        conditions += [(f"answer: {name}", right) for name, right in fields.items()]
        given_up = ending.claim == "infeasible"
        if self.scenario.infeasible:
            conditions = [("said to be infeasible", given_up)]
        if self._document is not None:
            document = await document_of(phone)
            beside += side_effects(self._document, document, self.watched())
        unmet = [text for text, met in conditions if not met]
        wrong = unmet + [f"changed as well: {place}" for place in spoiled]
        if given_up and not self.scenario.infeasible:
            wrong.append("said to be infeasible")
        evidence: dict[str, Any] = {"conditions": [[text, met] for text, met in conditions]}
        if self.scenario.answer:
            evidence["expected"] = answers.written(self.scenario.answer)
        return Score(
            float(not wrong),
            "check",
            "; ".join(wrong)[:_MAX_REASON] or "done as asked",
            evidence,
            1 - len(unmet) / len(conditions),
            beside[:_MAX_SIDE_EFFECTS],
        )

    async def teardown(self, device: Device) -> None:
        pass  # the next reset undoes all that the task changed

    # -- its own proof ---------------------------------------------------------------------------------------

    @property
    def mutants(self) -> Sequence[str]:
        return (*self._deeds(), *near_misses.replies(self.scenario.answer), *self._claims())

    async def oracle(self, device: Device) -> Ending:
        """Apply the goal to the tables, without an app."""
        await self._do(device, self.scenario.goal)
        return self._ending()

    async def mutate(self, mutant: str, device: Device) -> Ending:
        await self._do(device, self._deeds().get(mutant, self.scenario.goal))
        if (reply := near_misses.replies(self.scenario.answer).get(mutant)) is not None:
            return Ending(answer=reply)
        return self._claims().get(mutant) or self._ending()

    def _deeds(self) -> dict[str, Sequence[Fact]]:
        scenario = self.scenario
        start = {source.name: {str(n): row for n, row in enumerate(rows)} for source, rows in scenario.start}
        return {**near_misses.deeds(scenario.goal, start), **scenario.near_misses}

    def _claims(self) -> dict[str, Ending]:
        """Endings that are wrong, whatever was done."""
        if self.scenario.infeasible:
            return {"claimed done": Ending(claim="success"), "claimed failed": Ending(claim="failure")}
        return {"claimed instead of answered": Ending(claim="success")} if self.scenario.answer else {}

    def _ending(self) -> Ending:
        if self.scenario.answer:
            return Ending(answer=answers.written(self.scenario.answer))
        return Ending(claim="infeasible" if self.scenario.infeasible else "success")

    async def _do(self, device: Device, facts: Sequence[Fact]) -> None:
        changes: list[Write] = []
        for fact, key in zip(facts, targets(facts, self.before), strict=True):
            match fact:
                case Added(source, row, rest):
                    changes.append(source.insert({**rest, **row}))
                case Changed(source, _, values):
                    changes.append(source.update(key, values))
                case Removed(source, _):
                    changes.append(source.delete(key))
        await write(phone_of(device, await device.describe()), changes)

    # -- the phone -------------------------------------------------------------------------------------------

    def watched(self) -> list[Source]:
        """The tables that the task sets up or asks for, each once."""
        scenario = self.scenario
        facts = [*scenario.goal, *(fact for deed in scenario.near_misses.values() for fact in deed)]
        named = [fact.source for fact in facts] + [source for source, _ in scenario.start]
        return list({source.name: source for source in named}.values())

    async def tables(self, phone: AdbDevice) -> dict[str, Rows]:
        return {source.name: await source.read(phone) for source in self.watched()}


def phone_of(device: Device, capabilities: Capabilities) -> AdbDevice:
    if missing := [name for name in _NEEDS if name not in capabilities.features]:
        message = f"a phone task empties tables, so it needs a device with {', '.join(_NEEDS)}"
        raise FaultError(
            Fault("task", "unsuitable_device", f"{message}; this {capabilities.kind} lacks {missing[0]}")
        )
    return cast(AdbDevice, device)


async def document_of(phone: AdbDevice) -> dict[str, Any]:
    """The whole state of a virtual phone."""
    await run(phone, "guiagent", "state", "get", _DOCUMENT)
    data = await phone.get(_DOCUMENT)
    await run(phone, "rm", _DOCUMENT)
    try:
        return msgspec.json.decode(data[:_MAX_DOCUMENT], type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise FaultError(
            Fault("device", "protocol", f"the phone's document: {error}", retryable=True)
        ) from None
