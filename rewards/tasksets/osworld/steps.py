"""The 20 types of set-up steps of OSWorld's task files, typed: `{"type": T, "parameters": {...}}`.

The parameters are OSWorld's keyword arguments; one it does not know is an error, as it is there.
"""

import re
from typing import Any

import msgspec

Command = str | list[str]


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Step(msgspec.Struct, frozen=True, tag_field="type", tag=_snake_case, forbid_unknown_fields=True):
    """Base of all steps; the tag is OSWorld's name of the type."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class RemoteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    path: str  # on the device


class LocalFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    local_path: str  # on the host, below the task files
    path: str


class Until(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ends of a command; it is run again until one of them holds."""

    returncode: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class Visit(msgspec.Struct, frozen=True):
    url: str
    title: str
    visit_time_from_now_in_seconds: float


class Download(Step, frozen=True):
    files: list[RemoteFile]


class UploadFile(Step, frozen=True):
    files: list[LocalFile]


class Launch(Step, frozen=True):
    command: Command
    shell: bool = False


class Open(Step, frozen=True):
    path: str


class Execute(Step, frozen=True):
    command: Command
    shell: bool = False
    stdout: str = ""  # keep it on the host under this name
    stderr: str = ""
    until: Until | None = None


class RunCommand(Execute, frozen=True, tag="command"):
    """OSWorld's other name for `execute`."""


class ExecuteWithVerification(Step, frozen=True):
    command: Command
    verification: dict[str, str] | None = None
    max_wait_time: float = 10.0
    check_interval: float = 1.0
    shell: bool = False


class ActivateWindow(Step, frozen=True):
    window_name: str
    strict: bool = False
    by_class: bool = False


class CloseWindow(Step, frozen=True):
    window_name: str
    strict: bool = False
    by_class: bool = False


class Sleep(Step, frozen=True):
    seconds: float


class ChangeWallpaper(Step, frozen=True):
    path: str


class ChromeOpenTabs(Step, frozen=True):
    urls_to_open: list[str]


class ChromeCloseTabs(Step, frozen=True):
    urls_to_close: list[str]


class UpdateBrowseHistory(Step, frozen=True):
    history: list[Visit]


class Googledrive(Step, frozen=True):
    operation: list[str]
    args: list[dict[str, Any]]
    settings_file: str = ""


class Login(Step, frozen=True):
    settings_file: str
    platform: str


class Proxy(Step, frozen=True):
    client_password: str = ""


class TidyDesktop(Step, frozen=True, forbid_unknown_fields=False):
    pass


class Act(Step, frozen=True):
    action_seq: list[Any]


class Replay(Step, frozen=True):
    trajectory: str


class Other(Step, frozen=True, tag="?"):
    """A step that OSWorld does not have, of another benchmark with its format (WindowsAgentArena)."""

    name: str

    @property
    def kind(self) -> str:
        return self.name


AnyStep = (
    Download | UploadFile | Launch | Open | Execute | RunCommand | ExecuteWithVerification | ActivateWindow
    | CloseWindow | Sleep | ChangeWallpaper | ChromeOpenTabs | ChromeCloseTabs | UpdateBrowseHistory
    | Googledrive | Login | Proxy | TidyDesktop | Act | Replay
)  # fmt: skip
KINDS = frozenset(str(step.__struct_config__.tag) for step in AnyStep.__args__)
