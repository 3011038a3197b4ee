"""A task on sites: set up, checked on their own databases, solved through their interface, nearly solved."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from guiagent.actions import Open
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.phone import answers
from rewards.tasksets.phone.near_misses import replies
from rewards.tasksets.web.goal import Goal, Row, State, differences, near_misses
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.store import SiteDevice, Store, origin
from rewards.tasksets.web.template import Scenario, Template

_MAX_REASON = 500
_LOOKS, _PAUSE_S = 200, 0.05
_BLIND = ObserveSpec(frame="none")


@dataclass
class WebTask:
    """One template with one seed, for one episode: `setup` reads the rows that the scenario is drawn from."""

    template: Template
    seed: int
    probes: Mapping[str, str] = field(default_factory=dict)
    _scenario: Scenario | None = field(default=None, init=False, repr=False)
    _before: State = field(default_factory=dict, init=False, repr=False)

    @property
    def id(self) -> str:
        return self.template.name

    @property
    def max_steps(self) -> int:
        return 2 * self.template.steps

    @property
    def scenario(self) -> Scenario:
        """What was drawn. Only after `setup`."""
        assert self._scenario is not None, "setup comes first"
        return self._scenario

    # -- the episode -----------------------------------------------------------------------------------------

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Reset browser and site, log in, read the rows and open the first page.

        Raises:
            FaultError: the device has no such site (origin "task").
        """
        holder = await self._holder(device)
        first, *others = self.template.stores
        page = origin(first.site) + first.entry.page
        await device.reset(self.seed, ResetSpec(page, script=first.entry.script or None), _BLIND)
        for store in others:
            await self._enter(device, store)
        self._before = await self._rows(holder)
        generator = random.Random(f"{self.id}/{self.seed}")
        self._scenario = self.template.make(generator, self._before)
        asked_too = {**spec.probes, "entered": first.entry.entered}
        shown = await device.act([Open(target=page)], replace(spec, probes=asked_too, have=None))
        _require_entered(first, shown)
        asked = self.scenario.answer
        places = " and ".join(origin(store.site) for store in self.template.stores)
        told = [self.scenario.instruction, *([f"The sites are {places}."] if others else [])]
        told += [answers.question(asked)] if asked else []
        return " ".join(told), shown

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 if the databases are as at the start with the goal applied, and the answer is right.

        Any other row or column that changed is a side effect, and lowers the value to 0.
        """
        scenario = self.scenario
        holder = await self._holder(device)
        for store in self.template.stores:
            if store.settled:
                await _until(device, store.settled)
        after = await self._rows(holder)
        unmet, beside = differences(self._before, after, scenario.goal)
        fields = answers.read(ending.answer, scenario.answer)
        wrong = [*unmet, *(f"answer: {name}" for name, right in fields.items() if not right)]
        given_up = ending.claim == "infeasible"
        if given_up != scenario.infeasible:
            wrong.append("said to be infeasible" if given_up else "not said to be infeasible")
        of = max(1, scenario.goal.parts + len(fields) + scenario.infeasible)
        reasons = [*wrong, *(f"changed as well: {place}" for place in beside)]
        evidence: dict[str, Any] = {"unmet": unmet[:50]}
        if scenario.answer:
            evidence["expected"] = answers.written(scenario.answer)
        return Score(
            float(not reasons),
            "check",
            "; ".join(reasons)[:_MAX_REASON] or "done as asked",
            evidence,
            max(0.0, 1 - len(wrong) / of),
            beside[:50],
        )

    async def teardown(self, device: Device) -> None:
        pass  # the next reset brings a fresh site

    # -- its own proof ---------------------------------------------------------------------------------------

    @property
    def mutants(self) -> Sequence[str]:
        """Names of the near-misses; none before `setup`, which draws the scenario."""
        if self._scenario is None:
            return ()
        return (*self._deeds(), *replies(self.scenario.answer), *self._claims())

    async def oracle(self, device: Device) -> Ending:
        """Do it through the interface, click by click."""
        await self.scenario.moves(Hands(device))
        return self._ending()

    async def mutate(self, mutant: str, device: Device) -> Ending:
        """Bring a near-miss about in the databases, or end with a wrong word."""
        goal = self._deeds().get(mutant, self.scenario.goal)
        holder = await self._holder(device)
        for store in self.template.stores:
            await store.write(holder, goal)
        if (reply := replies(self.scenario.answer).get(mutant)) is not None:
            return Ending(answer=reply)
        return self._claims().get(mutant) or self._ending()

    def _deeds(self) -> dict[str, Goal]:
        return {**near_misses(self._before, self.scenario.goal), **self.scenario.near_misses}

    def _claims(self) -> dict[str, Ending]:
        if self.scenario.infeasible:
            return {"claimed done": Ending(claim="success"), "claimed failed": Ending(claim="failure")}
        if self.scenario.answer:
            return {"claimed instead of answered": Ending(claim="success")}
        return {"done and said to be infeasible": Ending(claim="infeasible")}

    def _ending(self) -> Ending:
        if self.scenario.answer:
            return Ending(answer=answers.written(self.scenario.answer))
        return Ending(claim="infeasible" if self.scenario.infeasible else "success")

    async def _enter(self, device: Device, store: Store) -> None:
        """Log in on a site beside the first one."""
        page = Open(target=origin(store.site) + store.entry.page)
        script = f"(async () => {{{store.entry.script}}})().then(() => {{ window.loggedIn = true }})"
        await device.act([page], ObserveSpec(frame="none", probes={"script": script}))
        await _until(device, "window.loggedIn === true")
        entered = {"entered": store.entry.entered}
        _require_entered(store, await device.act([page], ObserveSpec(frame="none", probes=entered)))

    async def _rows(self, holder: SiteDevice) -> State:
        rows: dict[str, Row] = {}
        for store in self.template.stores:
            rows |= await store.read(holder)
        return rows

    async def _holder(self, device: Device) -> SiteDevice:
        features = (await device.describe()).features
        if missing := [site for site in self.template.sites if f"site:{site}" not in features]:
            wanted = "+".join(self.template.sites)
            message = f"{self.id} needs a browser with site:{missing[0]}: guiagent up browser,sites={wanted}"
            raise FaultError(Fault("task", "unsuitable_device", message))
        return cast(SiteDevice, device)


async def _until(device: Device, expression: str) -> None:
    """Wait until an expression is true on the open page; what takes too long is left as it is."""
    spec = ObserveSpec(frame="none", probes={"true": expression})
    for _ in range(_LOOKS):
        if (await device.observe(spec)).probes["true"] is True:
            return
        await asyncio.sleep(_PAUSE_S)


def _require_entered(store: Store, shown: Observation) -> None:
    if shown.probes.get("entered") is not True:
        message = f"the site {store.site} shows no logged-in user"
        raise FaultError(Fault("device", "not_logged_in", message, retryable=True))
