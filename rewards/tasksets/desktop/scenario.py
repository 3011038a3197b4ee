"""A desktop task before it is a file: OSWorld's document, the files it names, a solution, near-misses."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from random import Random
from typing import Any

from guiagent.actions import Action, KeyChord, Type
from rewards.tasksets.osworld.steps import (
    ActivateWindow,
    Download,
    Execute,
    Launch,
    Open,
    RemoteFile,
    Sleep,
    Step,
    Until,
)

HOST = "desktop.invalid"  # in the addresses of the files; nothing is ever looked up there
HOME = "/home/user"
Play = Sequence[Action | Step]
"""What brings the desktop to a state: an agent's actions, and steps of OSWorld's set-up where a file is laid
down instead of made through the interface."""


@dataclass(frozen=True)
class Scenario:
    """One task with a seed.

    Attributes:
        instruction: what the agent is told.
        config: OSWorld's set-up steps, as in its files.
        evaluator: OSWorld's evaluator, as in its files.
        files: content of the files that `url` names.
        solution: reaches the goal.
        misses: near-misses by name; each must score below 1.
    """

    instruction: str
    config: Sequence[Mapping[str, Any]]
    evaluator: Mapping[str, Any]
    solution: Play
    misses: Mapping[str, Play]
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Template:
    """A task of the suite: its name, its applications, and its scenario for a seeded generator.

    `screen` says that the solution goes through the interface alone; `feasible` that there is one. Where
    there is none, saying so is right.
    """

    name: str
    apps: tuple[str, ...]
    make: Callable[[Random], Scenario]
    screen: bool = False
    feasible: bool = True

    @property
    def app(self) -> str:
        """The application that it is counted with, or OSWorld's word for several."""
        return self.apps[0] if len(self.apps) == 1 else "multi_apps"


def document(template: Template, scenario: Scenario) -> bytes:
    """Return the task as a file of OSWorld's format."""
    return json.dumps(
        {
            "id": template.name,
            "snapshot": template.apps[0],
            "instruction": scenario.instruction,
            "source": "",
            "config": list(scenario.config),
            "trajectory": "trajectories/",
            "related_apps": list(template.apps),
            "evaluator": dict(scenario.evaluator),
            "proxy": False,
            "fixed_ip": False,
            "possibility_of_env_change": "low",
        },
        indent=2,
    ).encode()


def url(name: str) -> str:
    """The address of a file of the scenario in its document."""
    return f"https://{HOST}/{name}"


def placed(name: str, path: str) -> dict[str, Any]:
    """A set-up step that lays a file of the scenario down."""
    return {"type": "download", "parameters": {"files": [{"url": url(name), "path": path}]}}


def opened(path: str) -> dict[str, Any]:
    return {"type": "open", "parameters": {"path": path}}


def launched(*command: str) -> dict[str, Any]:
    return {"type": "launch", "parameters": {"command": list(command)}}


def opened_by(program: str, path: str) -> list[dict[str, Any]]:
    """Set-up steps that open a file with a program and wait for its window."""
    return [launched(program, path), window(PurePosixPath(path).name)]


def ran(command: str) -> dict[str, Any]:
    return {"type": "execute", "parameters": {"command": command, "shell": True}}


def window(title: str) -> dict[str, Any]:
    return {"type": "activate_window", "parameters": {"window_name": title}}


def printed(command: str, expected: str) -> dict[str, Any]:
    """An evaluator: a command of the guest prints exactly this."""
    return {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": command, "shell": True},
        "expected": {"type": "rule", "rules": {"expected": expected}},
    }


def compared(metric: str, path: str, gold: str, **options: Any) -> dict[str, Any]:
    """An evaluator: a file of the guest against a gold file of the scenario."""
    name = path.rsplit("/", 1)[-1]
    return {
        "func": metric,
        "result": {"type": "vm_file", "path": path, "dest": name},
        "expected": {"type": "cloud_file", "path": url(gold), "dest": gold},
        "options": options,
    }


def both(*evaluators: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluator: all of these hold."""
    keys = ("func", "result", "expected", "options")
    return {key: [one.get(key) for one in evaluators] for key in keys}


def ruled(metric: str, result: Mapping[str, Any], **rules: Any) -> dict[str, Any]:
    return {"func": metric, "result": dict(result), "expected": {"type": "rule", "rules": rules}}


def edited(
    instruction: str,
    path: str,
    before: bytes,
    gold: bytes,
    check: Callable[[str], Mapping[str, Any]],
    misses: Mapping[str, bytes],
    *,
    begin: Sequence[Mapping[str, Any]] = (),
    solution: Play = (),
    unsaved: Play = (),
) -> Scenario:
    """A task that makes one file of another.

    Args:
        path: where the file lies on the desktop, at first as `before`.
        check: the evaluator, by the name of the gold file.
        misses: near-misses by name, as contents of the file.
        begin: set-up steps after the file is there.
        solution: through the interface; without one the gold file is laid down.
        unsaved: the near-miss that does all of it and does not save; none if it is empty.
    """
    file = PurePosixPath(path)
    laid = {miss: f"{miss.replace(' ', '-')}{file.suffix}" for miss in misses}
    gold_name = f"gold{file.suffix}"
    plays: dict[str, Play] = {miss: [lay(name, path)] for miss, name in laid.items()}
    return Scenario(
        instruction,
        [placed(file.name, path), *begin],
        check(gold_name),
        solution or [lay(gold_name, path)],
        plays | ({"not saved": unsaved} if unsaved else {}),
        {file.name: before, gold_name: gold} | {laid[miss]: data for miss, data in misses.items()},
    )


TERMINAL = (launched("xterm"), window("xterm"))
"""Set-up steps: a terminal is open, in the home folder."""
_OVER = "/tmp/over"


# Parts of solutions.
def lay(name: str, path: str) -> Step:
    return Download(files=[RemoteFile(url(name), path)])


def shell(command: str) -> Step:
    return Execute(command, True)


def until(command: str) -> Step:
    """Wait until a command of the guest ends with 0."""
    return Execute(command, True, until=Until(returncode=0))


def start(*command: str) -> Step:
    return Launch(list(command))


def open_file(path: str) -> Step:
    """Open a file with its program, and wait for the window."""
    return Open(path)


def wait_for(title: str) -> Step:
    return ActivateWindow(window_name=title)


def in_terminal(command: str) -> Play:
    """Type a command into the terminal that is open, and wait until it has ended."""
    line = f"{command}; touch {_OVER}"
    return [wait_for("xterm"), pause(0.5), typed(line, submit=True), until(f"test -e {_OVER}")]


def quiet(program: str) -> Step:
    """Wait until a program's main thread is idle: in 0.7 s it neither ran nor waited for a core over 0.1 s.

    A window may be there long before it is drawn and takes keys; on a busy machine no fixed pause is enough.
    """
    look = f"set -- $(cat /proc/$(pgrep -o -x {program})/schedstat) && "
    command = f"{look} a=$(($1+$2)) && sleep 0.7 && {look} [ $(($1+$2-a)) -lt 100000000 ]"
    return Execute(command, True, until=Until(returncode=0))


def pause(seconds: float) -> Step:
    return Sleep(seconds=seconds)


def keys(chord: str) -> Action:
    """Keys pressed together: `keys("Control+s")`."""
    return KeyChord(keys=tuple(chord.split("+")))


def typed(text: str, submit: bool = False) -> Action:
    return Type(text=text, submit=submit)
