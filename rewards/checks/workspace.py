"""What set-up steps and getters of one episode work with: the guest, the assets, a folder on the host."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from guiagent.errors import Fault, FaultError
from rewards.checks.assets import Assets
from rewards.checks.guest import Guest


@dataclass(frozen=True)
class Workspace:
    """`folder` holds this episode's files on the host and goes with it; nothing of it reaches the device.

    `now` is when the task was set up, in UTC: "tomorrow" in a rule means the day after that. `notes` are told
    with the score: what was capped or left as it was.
    """

    guest: Guest
    assets: Assets
    folder: Path
    own_files: Path  # where `upload_file` may read on the host
    screen: tuple[int, int]
    password: str = "password"  # of the guest's user, in OSWorld's images
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    notes: list[str] = field(default_factory=list)

    def result(self, name: str) -> Path:
        """Where a file brought from the device under that name is kept."""
        return _inside(self.folder / "result", name)

    def expected(self, name: str) -> Path:
        """Where a gold file is kept under that name, apart from what the agent made."""
        return _inside(self.folder / "expected", name)

    def fill(self, command: str | list[str]) -> str | list[str]:
        """The command with OSWorld's placeholders filled in: {CLIENT_PASSWORD}, {SCREEN_WIDTH} and kin."""
        if isinstance(command, str):
            return self._filled(command)
        return [self._filled(argument) for argument in command]

    def _filled(self, text: str) -> str:
        width, height = self.screen
        for name, value in {
            "CLIENT_PASSWORD": self.password,
            "SCREEN_WIDTH_HALF": width // 2,
            "SCREEN_HEIGHT_HALF": height // 2,
            "SCREEN_WIDTH": width,
            "SCREEN_HEIGHT": height,
        }.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text


def bad_task(message: str) -> FaultError:
    """The fault of a task that asks for what makes no sense."""
    return FaultError(Fault("task", "bad_task", message))


def _inside(folder: Path, name: str) -> Path:
    """`name` below `folder`, its parents made; a task file must not write elsewhere on the host."""
    path = folder / name
    if not name or not path.resolve().is_relative_to(folder.resolve()) or path == folder:
        raise bad_task(f"{name!r} is no name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
