"""A task folder of Harbor's as a `Task` on a desktop: files put in, its test run there, its reward read.

The test runs where the agent was, as in Harbor's shared mode: an agent that takes the desktop over can write
the reward. What the test leaves is a stranger's, and bounded; where it leaves no reward, that is a fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from guiagent.errors import Fault, FaultError, UsageError
from guiagent.protocols import Device, Files, Shell
from guiagent.types import CommandResult, Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.harbor import reward
from rewards.tasksets.harbor.folder import TaskFolder

_LONGEST_S = 110.0  # of a test or solution: a desktop runs no program longer than two minutes
_SHORT_S = 20.0
_LOGS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
_CLEAN = 'rm -rf -- "$@" && mkdir -p -- "$@"'
_RUN = 'cd -- "$0" && exec env "$@" >/logs/verifier/test-stdout.txt 2>&1'
_REWARD = """\
for name in reward.json reward.txt; do
    path=/logs/verifier/$name
    if [ -f "$path" ] && [ ! -L "$path" ]; then echo "$name"; exec head -c "$0" "$path"; fi
done
"""


@dataclass
class HarborTask:
    """One task folder. The seed only seeds the desktop: Harbor's tasks have no parameters."""

    folder: TaskFolder
    seed: int
    max_steps: int = 50
    probes: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.folder.name

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Reset the desktop and put the files of the image there.

        Raises:
            FaultError: the task needs what a desktop lacks, or the device fails.
            UsageError: the device is no desktop, or its programs are not isolated from this machine.
        """
        if self.folder.lacks:
            message = f"{self.id} needs {'; '.join(self.folder.lacks)}: run it by Harbor"
            raise FaultError(Fault("task", "unsupported", message))
        described = await device.describe()
        if described.kind != "desktop" or not {"shell", "files"} <= set(described.features):
            what = f"{described.kind} ({described.software})"
            raise UsageError(f"{self.id} needs a desktop isolated from this machine, not this {what}")
        await device.reset(self.seed, ResetSpec(), ObserveSpec(frame="none"))
        await _ran(device, ["/bin/mkdir", "-p", "--", self.folder.workdir, *_LOGS])
        await self._put(device, copies(self.folder))
        return self.folder.instruction, await device.observe(spec)

    def ended(self, observation: Observation) -> bool:
        return False  # only the agent ends these

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """Run the test on the desktop, and read its reward. Raises FaultError where it leaves none."""
        await self._fresh(device, "tests", "/logs/verifier")
        ended = await self._run(device, "verifier", "/tests/test.sh", self.folder.verifier_s)
        limit = str(reward.MOST + 1)
        found = await _shell(device).exec(["/bin/sh", "-c", _REWARD, limit], _SHORT_S)
        name, _, text = found.stdout.partition("\n")
        if not name:
            message = f"tests/test.sh of {self.id} left no reward, and ended with {ended.code}"
            raise FaultError(Fault("task", "no_reward", message))
        try:
            value, parts = reward.read(name, text.encode())
        except ValueError as error:
            raise FaultError(Fault("task", "bad_reward", f"{self.id}: {error}")) from None
        others = {key: part for key, part in parts.items() if len(parts) > 1}
        return Score(
            value, "check", f"{name}: {value:g}, tests/test.sh ended with {ended.code}", parts=others
        )

    async def teardown(self, device: Device) -> None:
        pass  # the next reset restores the desktop

    async def _run(self, device: Device, phase: str, script: str, seconds: float | None) -> CommandResult:
        env = {**self.folder.env["environment"], **self.folder.env[phase]}
        words = [*(f"{name}={value}" for name, value in env.items()), script]
        timeout_s = min(seconds or _LONGEST_S, _LONGEST_S)
        return await _shell(device).exec(["/bin/bash", "-c", _RUN, self.folder.workdir, *words], timeout_s)

    async def _fresh(self, device: Device, directory: str, *more: str) -> None:
        """Replace a folder at the desktop's root by that of the task, and empty others."""
        await _ran(device, ["/bin/sh", "-c", _CLEAN, "sh", f"/{directory}", *more])
        names = [name for name in self.folder.files if name.startswith(f"{directory}/")]
        await self._put(device, [(name, f"/{name}") for name in names])

    async def _put(self, device: Device, targets: Sequence[tuple[str, str]]) -> None:
        """Put files of the folder at places of the desktop, a target a pair."""
        if not targets:
            return
        assert isinstance(device, Files)
        parents = sorted({str(PurePosixPath(target).parent) for _, target in targets})
        await _ran(device, ["/bin/mkdir", "-p", "--", *parents])
        modes: dict[int, list[str]] = {}
        for name, target in targets:
            await device.put(target, self.folder.data(name))
            script = target in ("/tests/test.sh", "/solution/solve.sh")
            modes.setdefault(0o755 if script else self.folder.files[name], []).append(target)
        for mode, paths in modes.items():
            await _ran(device, ["/bin/chmod", f"{mode:o}", "--", *paths])


class SolvableHarborTask(HarborTask):
    """A task folder with a solution, which proves that its test can be met."""

    @property
    def mutants(self) -> Sequence[str]:
        return ()

    async def oracle(self, device: Device) -> Ending:
        """Run `solution/solve.sh` on the desktop. Raises FaultError where it fails."""
        await self._fresh(device, "solution")
        ended = await self._run(device, "solution", "/solution/solve.sh", None)
        if ended.code:
            message = f"solution/solve.sh of {self.id} ended with {ended.code}"
            raise FaultError(Fault("task", "bad_solution", message))
        await _ran(device, ["/bin/rm", "-rf", "--", "/solution"])
        return Ending(claim="success")

    async def mutate(self, mutant: str, device: Device) -> Ending:
        raise UsageError(f"{self.id} has no mutant {mutant!r}")


def copies(folder: TaskFolder) -> list[tuple[str, str]]:
    """Which files of `environment/` go where. Raises FaultError where there is no such file."""
    targets = []
    for copied in folder.image.copied:
        source = f"environment/{copied.source}".rstrip("/")
        if source in folder.files:
            name = PurePosixPath(source).name
            place = str(PurePosixPath(copied.target, name)) if copied.into else copied.target
            targets.append((source, place))
            continue
        inner = [name for name in folder.files if name.startswith(f"{source}/")]
        if not inner:
            message = f"{folder.name}: COPY {copied.source}: there is no such file in environment/"
            raise FaultError(Fault("task", "missing_file", message))
        for name in inner:  # of a folder its content is copied, as Docker does
            targets.append((name, str(PurePosixPath(copied.target, name.removeprefix(f"{source}/")))))
    return targets


def _shell(device: Device) -> Shell:
    assert isinstance(device, Shell)
    return device


async def _ran(device: Device, command: Sequence[str]) -> None:
    """Run a program of ours. Raises FaultError (origin "task") where it fails, perhaps by the agent."""
    ended = await _shell(device).exec(command, _SHORT_S)
    if ended.code:
        said = " ".join(ended.stderr.split())[:200]
        raise FaultError(Fault("task", "not_prepared", f"{command[0]} ended with {ended.code}: {said}"))
