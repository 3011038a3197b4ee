"""Harbor's task folders (0.26) of a suite's tasks: a folder a task and seed, with nothing secret in it.

The container has no device. Before the agent starts, its health check begins a session with our server, which
leases one; the agent acts by the tools of an MCP server, or by the same tools as commands. The verifier runs
in a container of its own and asks our server for the verdict of our check.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from eval.stepping import SuiteTasks
from guiagent.errors import UsageError
from guiagent.formats.folder import appearing, file_name

_CLIENT = Path(__file__).with_name("container") / "session.py"
_BEGUN_S = 3900.0  # a trial waits there for a free device, an hour at most
_VERDICT = {"GUIAGENT_HARBOR_VERDICT_TOKEN": "${GUIAGENT_HARBOR_VERDICT_TOKEN}"}
_SERVER = {name: f"${{{name}}}" for name in ("GUIAGENT_HARBOR_URL", "GUIAGENT_HARBOR_TOKEN")}
INSTRUCTION = """\
Call the tool `look` of the MCP server `guiagent`: it shows your task, and the screen of the device that you
use. Do the task with the other tools of this server, and call `done` when it is done.

Without MCP the same tools are commands: `guiagent-session look --picture screen.png`,
`guiagent-session click x=120 y=80`; `guiagent-session tools` lists them all.
"""
_DOCKERFILE = """\
FROM python:3.12-slim
COPY session.py /usr/local/bin/guiagent-session
"""
_TEST = """\
#!/bin/bash
# Asks the server that ran the session for its verdict. A fault is no score: no reward is written then.
set -eu
mkdir -p /logs/verifier
guiagent-session reward {words} >/logs/verifier/.reward
mv /logs/verifier/.reward /logs/verifier/reward.json
"""
_SOLVE = """\
#!/bin/bash
# Has the task's own oracle carry it out, by the verifier's token, which agents do not have.
set -eu
guiagent-session solve
"""


def write(tasks: SuiteTasks, episodes: int, seconds: float, folder: Path) -> int:
    """Write a folder a task and seed into a new folder; how many. `seconds` is an agent's time.

    Raises UsageError where a suite has no tasks to learn from, or there is such a folder.
    """
    if not tasks.names:
        raise UsageError(f"{tasks.suite.name} has no tasks to learn from: --split evaluation has all")
    played = [(name, seed) for name in tasks.names for seed in tasks.seeds(episodes)]
    with appearing(folder) as new:
        for name, seed in played:
            for path, text in files(tasks, name, seed, seconds).items():
                place = new / file_name(f"{name}-{seed}") / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
                if text.startswith("#!"):
                    place.chmod(0o755)
    return len(played)


def files(tasks: SuiteTasks, name: str, seed: int, seconds: float) -> dict[str, str]:
    """The files of a task's folder, by their paths in it."""
    return {
        "instruction.md": INSTRUCTION,
        "task.toml": toml(_config(tasks, name, seed, seconds)),
        "environment/Dockerfile": _DOCKERFILE,
        "environment/session.py": _CLIENT.read_text(encoding="utf-8"),
        "solution/solve.sh": _SOLVE,
        "tests/test.sh": _TEST.format(words=shlex.join([name, str(seed)])),
    }


def _config(tasks: SuiteTasks, name: str, seed: int, seconds: float) -> dict[str, Any]:
    server = {"name": "guiagent", "transport": "stdio", "command": "guiagent-session", "args": ["mcp"]}
    begin = shlex.join(["guiagent-session", "begin", name, str(seed)])
    return {
        "schema_version": "1.4",
        "task": {"name": f"guiagent/{file_name(f'{name}-{seed}')}", "description": f"{name}, seed {seed}"},
        "metadata": {"guiagent": {"suite": tasks.suite.name, "task": name, "seed": seed}},
        "agent": {"timeout_sec": seconds},
        "verifier": {"environment_mode": "separate", "timeout_sec": 300.0, "env": _VERDICT},
        "solution": {"env": _VERDICT},
        "environment": {
            "env": _SERVER,
            "healthcheck": {"command": begin, "timeout_sec": _BEGUN_S, "retries": 1},
            "mcp_servers": [server],
        },
    }


def toml(document: dict[str, Any]) -> str:
    """A document of plain values, tables and lists of tables as TOML."""
    return "\n".join(_lines((), document)).strip() + "\n"


def _lines(path: tuple[str, ...], table: dict[str, Any]) -> list[str]:
    plain = {key: value for key, value in table.items() if not _is_table(value)}
    lines = ["", f"[{'.'.join(path)}]"] if path and plain else []
    # A string of JSON in ASCII is one of TOML.
    lines += [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _lines((*path, key), value)
        elif _is_table(value):
            for one in value:
                lines += ["", f"[[{'.'.join((*path, key))}]]"]
                lines += [f"{inner} = {json.dumps(plain)}" for inner, plain in one.items()]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))
