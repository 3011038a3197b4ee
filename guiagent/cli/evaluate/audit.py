"""`guiagent tasks audit`: every task of a suite proves its check on real devices."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from eval.run import LEASE_WAIT_S
from eval.suites import find_suite
from eval.suites.suite import Suite
from guiagent.cli.common.farm import suite_farm
from guiagent.cli.common.place import HERE, Place
from guiagent.cli.common.stopping import cancelled_by_signals
from guiagent.cli.common.terminal import terminal
from guiagent.cli.evaluate.proofs import FILE, Proved, by_job
from guiagent.client.play import LOST, DeviceSlot, play
from guiagent.client.still import StillSlot
from guiagent.errors import Fault, FaultError, StoppedError, UsageError
from guiagent.protocols import Device, Provable, Task, Taskset
from guiagent.storage.journal import Journal
from rewards.audit import Proof, audit
from rewards.catalogue import find_taskset
from rewards.flaws import flaws_of

_SEEDS = 3  # of each task, unless the user says how many or the suite has fewer
_ATTEMPTS = 3  # at a proof, with another device after each fault


def audit_suite(
    name: str,
    only: list[str],
    seeds: int | None,
    devices: int,
    folder: Path | None = None,
    *,
    oracle_alone: bool = False,
    exploits: bool = True,
    place: Place = HERE,
) -> bool:
    """Print a row per proof, and how many are sound, also after Ctrl-C or SIGTERM; return whether all are.

    With `folder`, each proof is kept there as it is made, and those that are there are not made again.

    Raises:
        UsageError: the suite, a task or the place is unknown; with `oracle_alone`, tasks have no oracle; or
            `folder` has proofs of another version of the suite, of other agents, or on other devices.
        StoppedError: it was asked to stop.
    """
    suite = place.of(find_suite(name))
    taskset = find_taskset(suite.taskset)
    if unknown := sorted(set(only) - set(suite.tasks)):
        raise UsageError(f"suite {name} has no task {', '.join(unknown)}")
    count = min(_SEEDS, suite.episodes) if seeds is None else seeds
    jobs = [(task, seed) for task in only or suite.tasks for seed in suite.seeds(count)]
    bare = sorted({task for task, seed in jobs if not isinstance(taskset.task(task, seed), Provable)})
    if oracle_alone and bare:
        raise UsageError(f"{len(bare)} tasks of {name} have no oracle, such as {bare[0]}")
    prove = _oracle_of if oracle_alone else partial(audit, exploits=exploits)
    played = "nobody" if oracle_alone else "all" if exploits else "all but exploits"
    if place != HERE:
        played += f" on {suite.device}"
    began = time.monotonic()
    with Journal(folder / FILE, Proved) if folder else nullcontext() as journal:
        known = by_job(journal, suite.digest, played) if journal else {}

        def keep(proof: Proof, faults: Sequence[Fault]) -> None:
            if journal:
                journal.append(Proved(suite.digest, played, proof, tuple(faults)))

        chosen = suite.only(only) if only else suite
        run = _Audit(chosen, taskset, devices, place, prove, terminal(), known, keep)
        try:
            if todo := run.still_of(jobs):
                asyncio.run(run.over(todo))
        except asyncio.CancelledError as error:
            left = f"{len(jobs) - run.proved} of {len(jobs)} proofs"
            way_on = "the same command goes on" if folder else "--run FOLDER keeps what was proved"
            raise StoppedError(f"stopped with {left} to do; {way_on}") from error
        finally:
            run.console.print(f"{run}, in {time.monotonic() - began:.0f} s")
    return run.unsound == 0


async def _oracle_of(make: Callable[[], Task], device: Device) -> Proof:
    return await audit(make, device, {}, mutants=False)


@dataclass
class _Audit:
    """Proofs on devices of a farm, printed as they come, and how many there were."""

    suite: Suite
    taskset: Taskset
    devices: int
    place: Place
    proof: Callable[[Callable[[], Task], Device], Awaitable[Proof]]
    console: Console
    known: Mapping[tuple[str, int], Proved]
    keep: Callable[[Proof, Sequence[Fault]], None]
    before: int = 0  # proofs that were there
    proved: int = 0
    unsound: int = 0
    again: int = 0  # proofs that needed more than one try
    bare: int = 0  # of tasks without an oracle
    _faults: defaultdict[tuple[str, int], list[Fault]] = field(default_factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        tried = f", {self.again} of them after another try" if self.again else ""
        bare = f", {self.bare} of them without an oracle" if self.bare else ""
        before = f", {self.before} of them kept from before" if self.before else ""
        return f"{self.proved} proofs, {self.proved - self.unsound} sound{bare}{tried}{before}"

    def still_of(self, jobs: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Those that are to be proved yet; of the others the rows are printed."""
        for job in jobs:
            if known := self.known.get(job):
                self.before += 1
                self._tell(job, known.proof, known.faults)
        return [job for job in jobs if job not in self.known]

    async def over(self, jobs: Sequence[tuple[str, int]]) -> None:
        with cancelled_by_signals():
            async with suite_farm(self.suite, self.devices, self.place) as farm:
                if farm is None:
                    await play(jobs, [StillSlot()], self._prove)
                    return
                label = f"audit {self.suite.name}"[:128]
                lease = partial(farm.client.lease, **self.suite.lease, label=label, wait=LEASE_WAIT_S)
                await play(jobs, [DeviceSlot(lease) for _ in range(self.devices)], self._prove)

    async def _prove(self, job: tuple[str, int], slot: DeviceSlot | StillSlot) -> bool:
        """Prove one task; return True if the device failed and another one is to be tried."""
        try:
            proof: Proof | Fault = await slot.run(
                lambda device: self.proof(lambda: self.taskset.task(*job), device)
            )
        except FaultError as error:
            proof = error.fault
            if proof.origin in LOST:
                if len(self._faults[job]) + 1 < _ATTEMPTS:
                    self._faults[job].append(proof)
                    return True
                if proof.origin == "farm":  # nor would the other tasks find a device
                    raise
        if isinstance(proof, Proof):
            self.keep(proof, self._faults[job])
        self._tell(job, proof, self._faults[job])
        await slot.close()  # every proof begins on a device that nobody has used
        return False

    def _tell(self, job: tuple[str, int], proof: Proof | Fault, faults: Sequence[Fault]) -> None:
        self.proved += 1
        self.unsound += isinstance(proof, Fault) or bool(proof.failures)
        self.again += bool(faults)
        self.bare += isinstance(proof, Proof) and not proof.provable
        row = _row(*job, proof, faults)
        if found := ", ".join(flaw.name for flaw in flaws_of(self.taskset.task(*job))):
            row += f"; flaws of its file: {found}"
        self.console.print(row, soft_wrap=True, highlight=False)


def _row(task: str, seed: int, proof: Proof | Fault, faults: Sequence[Fault]) -> str:
    tried = "".join(f"; tried again after {one.origin} ({one.code}): {one.message}" for one in faults)
    if isinstance(proof, Fault):
        return f"{task}  seed {seed}  not proved: {proof.origin} ({proof.code}): {proof.message}{tried}"
    lucky = proof.null.get("random")
    parts = [f"sound: oracle 1, {len(proof.mutants)} mutants below 1"] if proof.null else ["sound: oracle 1"]
    if not proof.provable:
        parts = ["no oracle, and nothing paid"]
    parts += [f"{len(proof.null)} null agents 0"] if proof.null else []
    parts += [f"{len(proof.exploits)} exploits 0"] if proof.exploits else []
    said = "; ".join(proof.failures) or ", ".join(parts) + (f" (random was lucky: {lucky})" if lucky else "")
    return f"{task}  seed {seed}  {said}{tried}"
