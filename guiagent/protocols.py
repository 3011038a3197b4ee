"""The protocols that the packages share: device, policy, task, taskset and clock.

Every device verb has a deadline and ends in a value or a `FaultError`.
"""

from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from guiagent.types import (
    Capabilities,
    CommandResult,
    Ending,
    Health,
    Observation,
    ObserveSpec,
    PolicyOutput,
    ResetSpec,
    Score,
)

if TYPE_CHECKING:  # importing them takes 0.1 s, and most drivers' processes do not need them
    from guiagent.actions import Action


@runtime_checkable
class Device(Protocol):
    """A screen that takes actions. Implemented by drivers and by the client's leased device alike."""

    async def describe(self) -> Capabilities: ...

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Bring the device to `baseline`, seeded, and show it."""
        ...

    async def observe(self, spec: ObserveSpec) -> Observation: ...

    async def act(self, actions: Sequence["Action"], spec: ObserveSpec) -> Observation:
        """Execute in order until one fails, settle, and show the result in the same round trip."""
        ...

    async def health(self) -> Health: ...

    async def close(self) -> None: ...


@runtime_checkable
class Shell(Protocol):
    """A device with the feature "shell"."""

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a program on the device with these arguments, without a shell in between."""
        ...


@runtime_checkable
class Files(Protocol):
    """A device with the feature "files". `path` is absolute; FaultError (origin "task") if it is missing."""

    async def put(self, path: str, data: bytes) -> None: ...

    async def get(self, path: str) -> bytes: ...


@runtime_checkable
class Snapshots(Protocol):
    """A device with the feature "snapshot"."""

    async def snapshot(self) -> str:
        """Save the device's state; return its name, for `ResetSpec.snapshot` here or on a sibling."""
        ...


@runtime_checkable
class Services(Protocol):
    """A device that speaks protocols itself: features "cdp", "adb", "osworld"."""

    async def connect(self, service: str) -> tuple[StreamReader, StreamWriter]:
        """Open a byte stream to a service, as a local connection to its port would be."""
        ...


@runtime_checkable
class Networked(Protocol):
    """A device whose outgoing connections are restricted."""

    async def allow(self, egress: Sequence[str]) -> None:
        """Allow connections to these and nothing else from now on; open connections to others are cut.

        Entries are host names, `*.host`, `host:port`, CIDR blocks, or "public" for every address that is not
        private.
        """
        ...


class Turn(Protocol):
    """One past turn, as a policy sees it."""

    @property
    def observation(self) -> Observation: ...

    @property
    def output(self) -> PolicyOutput: ...


class Policy(Protocol):
    """History in, actions out. One `Policy` serves many episodes at once and batches them itself."""

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        """Choose the next actions. `episode` names the conversation, for a KV cache kept between turns."""
        ...

    def forget(self, episode: str) -> None:
        """End an episode: drop whatever was kept for it."""
        ...


class Task(Protocol):
    """An instruction with a seeded set-up and a check on the device's state."""

    @property
    def id(self) -> str:
        """The task's name in its taskset, under which its episodes are filed and its curriculum is kept."""
        ...

    @property
    def seed(self) -> int: ...

    @property
    def max_steps(self) -> int: ...

    @property
    def probes(self) -> Mapping[str, str]:
        """Expressions to evaluate with every observation, for `ended` and `check`."""
        ...

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Reset the device to this task's start; returns the instruction and the first observation."""
        ...

    def ended(self, observation: Observation) -> bool:
        """True when the environment itself closed the episode."""
        ...

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """Score the final state. It never sees the agent's words, apart from an explicit answer."""
        ...

    async def teardown(self, device: Device) -> None:
        """Undo what a reset of the device would leave; called once after `check`, whatever the score."""
        ...


@runtime_checkable
class Provable(Task, Protocol):
    """A task that proves its own check: it can be met, and near-misses do not meet it. Call after `setup`.

    Oracle and mutants may use what no agent has, such as a shell; they change the device and end as an agent
    would, in an `Ending`. `check` must give 1 after the oracle and less than 1 after every mutant.
    """

    @property
    def mutants(self) -> Sequence[str]:
        """Names of the near-misses, such as "other contact" or "not saved"."""
        ...

    async def oracle(self, device: Device) -> Ending: ...

    async def mutate(self, mutant: str, device: Device) -> Ending: ...


@runtime_checkable
class Demonstrable(Task, Protocol):
    """A task that shows how it is done, where no page can be asked by a probe: an oracle beside the device.

    `run_episode` puts what it says into every observation as the probe "oracle", which `OraclePolicy` and
    demonstrations read. It may know what no agent knows, but acts only on what the screen shows.
    """

    async def next_actions(self, device: Device, observation: Observation) -> Sequence["Action"]:
        """The next actions from where the device is; none if all is done. The observation has a tree."""
        ...


class Taskset(Protocol):
    """A named, lazily made collection of tasks; `task(name, seed)` is deterministic, its `id` the name."""

    @property
    def names(self) -> Sequence[str]: ...

    def task(self, name: str, seed: int) -> Task: ...


class Clock(Protocol):
    """A source of time that tests can replace, so that seven days of leases run in minutes."""

    def monotonic(self) -> float: ...

    def time(self) -> float: ...
