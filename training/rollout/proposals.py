"""The outcome of every proposed task: refused before its rollouts, or judged by their scores.

`Proposals` is for the taskset `proposed`, whose tasks are proposed during set-up on the rollout's own device.
Outcomes of a book's proposals are written into the book (`BookTrials`).

`proposals.jsonl` in the run's folder is append-only: one line when a proposal is admitted or refused, and one
when its group of trial rollouts is complete. Every refusal has its reason. A proposal that the policy always
or never solves, or that the judge cannot judge, teaches nothing (DAPO's dynamic sampling, arXiv 2503.14476);
the replay drops its group, and this module counts it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from guiagent.errors import DECODE_ERRORS, FaultError, InfrastructureError
from guiagent.protocols import Device, Task
from guiagent.storage.journal import Journal
from guiagent.types import ObserveSpec, Trajectory
from rewards.proposers.types import Outcome, Proposal, Refusal, digest_of, trial_outcome
from rewards.proposers.validation import ProposalLog

_SPEC = ObserveSpec(frame="png")
_DUPLICATE_WITHIN = 256  # proposals; an older one may come again: the policy has changed since
_MOST_IN_VAIN = 500  # refused proposals in a row, before or after their rollouts


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of `proposals.jsonl`."""

    task: str
    seed: int
    proposal: Proposal | None = None
    digest: str = ""  # hash of the instruction and its screen: equal ones are duplicates
    outcome: Outcome | None = None


class Suggestion(msgspec.Struct, frozen=True):
    """What set-up of a task and seed proposed on a device: a proposal and its first screen, or a fault."""

    proposal: Proposal | None
    screen: str = ""  # hash of the first screen
    fault: str = ""  # why the proposal cannot be set up


class Proposing(Task, Protocol):
    """A task that knows its proposal once `setup` has run."""

    @property
    def proposal(self) -> Proposal | None: ...


async def suggest(proposed: Proposing, device: Device) -> Suggestion:
    """Set a proposed task up and return what it proposes. Raises FaultError unless the task is at fault."""
    try:
        _, shown = await proposed.setup(device, _SPEC)
    except FaultError as error:
        if error.fault.origin != "task":
            raise
        return Suggestion(proposed.proposal, fault=error.fault.message)
    return Suggestion(proposed.proposal, shown.hash)


class Proposals:
    """Admits proposals to rollouts and records their outcomes. Continues from the run's file and store.

    `counts`: proposals by refusal, and those "accepted". `next_seed`: above every seed used so far.

    Raises:
        InfrastructureError: the file cannot be read or written.
    """

    def __init__(self, run: Path, store: Iterable[Trajectory]) -> None:
        self.counts: Counter[str] = Counter()
        self.next_seed = 0
        self._path = run / "proposals.jsonl"
        self._considered = 0
        self._in_vain = 0
        self._seen: dict[str, int] = {}  # digest -> number of the last admitted proposal with it
        self._open: dict[tuple[str, int], str] = {}  # proposals whose rollouts are not complete
        self._trials: dict[tuple[str, int], list[Trajectory]] = {}
        self._journal = Journal(self._path, Entry)
        for entry in self._journal:
            self._recall(entry)
        for trajectory in store:
            self.add(trajectory)

    def close(self) -> None:
        self._journal.close()

    def admit(self, task: str, seed: int, suggestion: Suggestion) -> bool:
        """Return whether the proposal can be set up and is new; write the proposal or its refusal down.

        Raises InfrastructureError after 500 refusals in a row.
        """
        proposal = suggestion.proposal
        if proposal is None or suggestion.fault:
            return self._refused(task, seed, proposal, "not_executable", suggestion.fault)
        digest = digest_of(proposal.instruction, suggestion.screen)
        if self._is_duplicate(digest):
            reason = f"of one of the last {_DUPLICATE_WITHIN}: {proposal.instruction}"
            return self._refused(task, seed, proposal, "duplicate", reason)
        self._write(Entry(task, seed, proposal, digest))
        return True

    def add(self, trajectory: Trajectory) -> None:
        """Add a committed rollout; the last one of its group decides the proposal's outcome.

        Raises InfrastructureError after 500 refusals in a row.
        """
        key = trajectory.task, trajectory.seed
        if key not in self._open:
            return
        trials = self._trials.setdefault(key, [])
        trials.append(trajectory)
        if len(trials) < trajectory.group_size:
            return
        self._write(Entry(*key, outcome=_outcome(self._open[key], trials)))

    def _refused(self, task: str, seed: int, proposal: Proposal | None, why: Refusal, reason: str) -> bool:
        self._write(Entry(task, seed, outcome=Outcome(_id(task, seed, proposal), why, reason)))
        return False

    def _is_duplicate(self, digest: str) -> bool:
        last = self._seen.get(digest)
        return last is not None and self._considered - last < _DUPLICATE_WITHIN

    def _recall(self, entry: Entry) -> None:
        """Apply a line to the counts, whether it is new or read from the file."""
        key = entry.task, entry.seed
        self.next_seed = max(self.next_seed, entry.seed + 1)
        if entry.outcome is None:
            self._considered += 1
            self._seen[entry.digest] = self._considered
            self._open[key] = _id(*key, entry.proposal)
        else:
            self._considered += key not in self._open
            self._open.pop(key, None)
            self._trials.pop(key, None)
            self.counts[entry.outcome.refusal or "accepted"] += 1
            self._in_vain = self._in_vain + 1 if entry.outcome.refusal else 0

    def _write(self, entry: Entry) -> None:
        self._recall(entry)
        self._journal.append(entry)
        if self._in_vain >= _MOST_IN_VAIN and entry.outcome is not None:
            raise InfrastructureError(
                f"the last {self._in_vain} proposals were all refused, the last as {entry.outcome.refusal} "
                f"({entry.outcome.reason}): nothing is left to learn here; name other tasks in the recipe, "
                f"and see {self._path}"
            )


class BookTrials:
    """Takes a run's groups as trials of a book's proposals, and writes each outcome into the book.

    `store` holds what the run has committed so far: outcomes that the book lacks are written at once.
    `counts`: groups by refusal, and those "accepted". If too few verdicts are known, or every rollout ended
    in a fault that was not the task's, the group is counted but not written: it may have been an outage.

    Raises InfrastructureError if the book has another writer or cannot be written.
    """

    def __init__(self, path: Path, store: Iterable[Trajectory]) -> None:
        self.counts: Counter[str] = Counter()
        self._book = ProposalLog(path)
        self._trials: defaultdict[str, list[Trajectory]] = defaultdict(list)
        for trajectory in store:
            self.add(trajectory)

    def close(self) -> None:
        self._book.close()

    def add(self, trajectory: Trajectory) -> None:
        """Add a committed rollout; the last one of its group decides the outcome."""
        group = trajectory.group
        if not group:
            return
        self._trials[group].append(trajectory)
        if len(self._trials[group]) < trajectory.group_size:
            return
        trials = self._trials.pop(group)
        outcome = _outcome(trajectory.task, trials)
        self.counts[outcome.refusal or "accepted"] += 1
        executable = outcome.trials or all(t.fault is not None and t.fault.origin == "task" for t in trials)
        if executable and outcome.refusal != "not_judgeable" and group not in self._book.groups:
            self._book.conclude(replace(outcome, group=group))


def _outcome(proposal: str, trials: Iterable[Trajectory]) -> Outcome:
    sound = [trial.score for trial in trials if trial.fault is None]
    return trial_outcome(proposal, [score.value if score is not None else None for score in sound])


def read(run: Path) -> list[Entry]:
    """Return the lines of a run's `proposals.jsonl` so far; [] if there is no such file.

    Raises:
        InfrastructureError: a line is damaged.
    """
    path = run / "proposals.jsonl"
    lines = _whole(path.read_bytes()).splitlines() if path.is_file() else []
    try:
        return [msgspec.json.decode(line, type=Entry) for line in lines]
    except DECODE_ERRORS as error:
        raise InfrastructureError(f"{path} is damaged: {error}; move it away to go on") from error


def _whole(text: bytes) -> bytes:
    """Drop an incomplete last line, as a killed process leaves it."""
    return text[: text.rfind(b"\n") + 1]


def _id(task: str, seed: int, proposal: Proposal | None) -> str:
    return proposal.id if proposal is not None else f"{task}/{seed}"
