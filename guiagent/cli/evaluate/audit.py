"""`guiagent tasks audit`: every task of a suite proves its check on real devices."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from eval.suites import find_suite
from eval.suites.suite import Suite
from guiagent.cli.common.farm import suite_farm
from guiagent.cli.common.terminal import terminal
from guiagent.client.play import LOST, DeviceSlot, play
from guiagent.client.still import StillSlot
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.protocols import Provable, Taskset
from rewards.audit import Proof, audit
from rewards.catalogue import find_taskset

_SEEDS = 3  # of each task, unless the user says how many or the suite has fewer
_ATTEMPTS = 3  # at a proof, with another device after each fault


def audit_suite(name: str, only: list[str], seeds: int | None, devices: int) -> bool:
    """Print a row per proof; return whether all are sound.

    Raises UsageError for an unknown suite or task, and for tasks without an oracle and mutants.
    """
    suite, taskset = find_suite(name), find_taskset(find_suite(name).taskset)
    if unknown := sorted(set(only) - set(suite.tasks)):
        raise UsageError(f"suite {name} has no task {', '.join(unknown)}")
    count = min(_SEEDS, suite.episodes) if seeds is None else seeds
    jobs = [(task, seed) for task in only or suite.tasks for seed in suite.seeds(count)]
    if bare := sorted({task for task, seed in jobs if not isinstance(taskset.task(task, seed), Provable)}):
        raise UsageError(f"{len(bare)} tasks of {name} have no oracle and no mutants, such as {bare[0]}")
    console = terminal()
    unsound, again = asyncio.run(_prove(suite.only(only) if only else suite, taskset, jobs, devices, console))
    tried = f", {again} of them after another try" if again else ""
    console.print(f"{len(jobs)} proofs, {len(jobs) - unsound} sound{tried}")
    return unsound == 0


async def _prove(
    suite: Suite, taskset: Taskset, jobs: list[tuple[str, int]], devices: int, console: Console
) -> tuple[int, int]:
    """Return how many proofs are not sound, and how many needed more than one try."""
    faults: defaultdict[tuple[str, int], list[Fault]] = defaultdict(list)  # of devices, by proof
    unsound = 0

    async def prove(job: tuple[str, int], slot: DeviceSlot | StillSlot) -> bool:
        """Prove one task; return True if the device failed and another one is to be tried."""
        nonlocal unsound
        try:
            proof: Proof | Fault = await slot.run(
                lambda device: audit(lambda: _provable(taskset, *job), device)
            )
        except FaultError as error:
            if error.fault.origin in LOST:
                faults[job].append(error.fault)
                if len(faults[job]) == _ATTEMPTS:
                    raise
                return True
            proof = error.fault
        await slot.close()  # every proof begins on a device that nobody has used
        unsound += isinstance(proof, Fault) or bool(proof.failures)
        console.print(_row(*job, proof, faults[job]), soft_wrap=True, highlight=False)
        return False

    async with suite_farm(suite, devices) as farm:
        if farm is None:
            await play(jobs, [StillSlot()], prove)
        else:
            lease = partial(farm.client.lease, **suite.lease, label=f"audit {suite.name}"[:128])
            await play(jobs, [DeviceSlot(lease) for _ in range(devices)], prove)
    return unsound, sum(map(bool, faults.values()))


def _provable(taskset: Taskset, name: str, seed: int) -> Provable:
    task = taskset.task(name, seed)
    assert isinstance(task, Provable)
    return task


def _row(task: str, seed: int, proof: Proof | Fault, faults: Sequence[Fault]) -> str:
    tried = "".join(f"; tried again after {one.origin} ({one.code}): {one.message}" for one in faults)
    if isinstance(proof, Fault):
        return f"{task}  seed {seed}  not proved: {proof.origin} ({proof.code}): {proof.message}{tried}"
    lucky = proof.null.get("random")
    said = "; ".join(proof.failures) or (
        f"sound: oracle 1, {len(proof.mutants)} mutants below 1, {len(proof.null)} null agents"
        + (f" (random was lucky: {lucky})" if lucky else "")
    )
    return f"{task}  seed {seed}  {said}{tried}"
