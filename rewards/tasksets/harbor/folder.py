"""Harbor's task folders (0.26), read within bounds: what is in one, and what it needs that a desktop lacks.

A folder is a stranger's: no link in it is followed, and nothing of this machine's environment gets into it.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import xxhash

from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.plain import read_plain
from rewards.tasksets.harbor import image

_MOST_TEXT = 1 << 20  # bytes of a text that is read
_MOST_FILE = 32 << 20
_MOST_FILES = 1_000  # of a task
_MOST_BYTES = 256 << 20  # of a task
_DEEPEST = 16
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_DIRECTORIES = ("environment", "tests", "solution")
OWN_VERIFIER = "a verifier's own container"

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=7 * 86_400)]


class Ours(msgspec.Struct, frozen=True):
    """The task of a suite that a folder of ours stands for."""

    suite: str
    task: str
    seed: int


class _Phase(msgspec.Struct):
    timeout_sec: _Seconds | None = None
    env: dict[str, str] = {}
    environment_mode: str | None = None
    environment: dict[str, Any] | None = None


class _Environment(msgspec.Struct):
    docker_image: str | None = None
    os: str = "linux"
    gpus: int | None = None
    tpu: dict[str, Any] | None = None
    env: dict[str, str] = {}
    healthcheck: dict[str, Any] | None = None
    mcp_servers: list[dict[str, Any]] = []
    workdir: str | None = None


class _Config(msgspec.Struct):
    metadata: dict[str, Any] = {}
    agent: _Phase = msgspec.field(default_factory=_Phase)
    verifier: _Phase = msgspec.field(default_factory=_Phase)
    solution: _Phase = msgspec.field(default_factory=_Phase)
    environment: _Environment = msgspec.field(default_factory=_Environment)
    steps: list[Any] = []


@dataclass(frozen=True)
class TaskFolder:
    """A task folder. `lacks` says, a part each, why it cannot be run on a desktop of ours."""

    name: str
    path: Path
    instruction: str
    image: image.Image
    workdir: str
    files: Mapping[str, int]  # the modes of its files by their paths, such as "tests/test.sh"
    metadata: Mapping[str, Any]
    agent_s: float | None
    verifier_s: float | None
    env: Mapping[str, Mapping[str, str]]  # variables of "environment", "verifier" and "solution"
    ours: Ours | None
    lacks: tuple[str, ...]
    digest: str = field(repr=False)

    @property
    def solvable(self) -> bool:
        return "solution/solve.sh" in self.files

    def data(self, path: str) -> bytes:
        """A file's content. Raises InfrastructureError where it cannot be read."""
        try:
            return read_plain(self.path, *path.split("/"), most=_MOST_FILE)
        except OSError as error:
            raise InfrastructureError(f"cannot read {self.path / path}: {error.strerror or error}") from error


def is_one(path: Path) -> bool:
    """Whether a folder is a task of Harbor's, or has some."""
    return any(True for _ in _found(path))


def below(path: Path) -> list[Path]:
    """The task folders in a folder, or the one that it is. Raises UsageError where there is none."""
    if found := sorted(_found(path)):
        return found
    raise UsageError(f"{path} holds no task folders of Harbor's: none in it has a task.toml")


def _found(path: Path) -> Iterator[Path]:
    if (path / "task.toml").is_file():
        yield path
    elif path.is_dir():
        yield from (one for one in path.iterdir() if not one.is_symlink() and (one / "task.toml").is_file())


def load(path: Path) -> TaskFolder:
    """Read a task folder. Raises UsageError, which says what is wrong and where."""
    path = Path(os.path.abspath(path))
    if not path.name.isprintable():
        raise UsageError(f"{path.name!a}: a task's name is printable: rename its folder")
    config = _config(path)
    files = dict(_listed(path))
    digest = xxhash.xxh3_128()
    texts = ["task.toml", *([] if config.steps else ["instruction.md"])]
    for name in (*texts, *sorted(files)):
        digest.update(name.encode() + b"\0" + _read(path, name, _MOST_FILE))
    ours = config.metadata.get("guiagent")
    if "tests/test.sh" not in files and not config.steps and config.environment.os == "linux":
        raise UsageError(f"{path / 'tests/test.sh'} is missing: Harbor's tasks have one")
    shown = _image(path, config, files)
    workdir = config.environment.workdir or shown.workdir
    if not workdir.startswith("/") or ".." in workdir.split("/"):
        raise UsageError(f"{path / 'task.toml'}: workdir {workdir[:60]!r} is no path of a container")
    return TaskFolder(
        path.name,
        path,
        _without_canary(_text(path, "instruction.md")) if not config.steps else "",
        shown,
        workdir,
        files,
        config.metadata,
        config.agent.timeout_sec,
        config.verifier.timeout_sec,
        {
            "environment": {**shown.env, **config.environment.env},
            "verifier": config.verifier.env,
            "solution": config.solution.env,
        },
        None if ours is None else _ours(path, ours),
        (*_lacks(config, files), *shown.lacks),
        digest.hexdigest(),
    )


def _config(path: Path) -> _Config:
    where = path / "task.toml"
    try:
        config = msgspec.convert(tomllib.loads(_text(path, "task.toml")), _Config)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise UsageError(
            f"{where} is no task.toml of Harbor's: {' '.join(str(error).split())[:300]}"
        ) from None
    for name, value in _variables(config):
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise UsageError(f"{where}: {name[:60]!r} is no variable of an environment")
    return config


def _variables(config: _Config) -> list[tuple[str, str]]:
    tables = (config.environment.env, config.verifier.env, config.solution.env)
    return [pair for table in tables for pair in table.items()]


def _image(path: Path, config: _Config, files: Mapping[str, int]) -> image.Image:
    """What the container starts with: by a Dockerfile, or an image into whose folder `environment/` goes."""
    if "environment/Dockerfile" in files:
        return image.read(_text(path, "environment/Dockerfile"))
    name, workdir = config.environment.docker_image or "", config.environment.workdir
    lacks = [] if image.plain(name) else [f"the image {name[:120]!r}" if name else "a Dockerfile or image"]
    put = any(one.startswith("environment/") for one in files)
    if put and workdir is None:
        lacks.append("the image's own working folder")
    copied = (image.Copied("", workdir, into=True),) if put and workdir else ()
    return image.Image(base=name, copied=copied, lacks=tuple(lacks))


def _ours(path: Path, said: Any) -> Ours:
    try:
        return msgspec.convert(said, Ours)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path / 'task.toml'}: metadata.guiagent: {error}") from None


def _lacks(config: _Config, files: Mapping[str, int]) -> list[str]:
    """What a task needs besides its image that a desktop has not."""
    environment, verifier = config.environment, config.verifier
    needed = {
        "several steps": bool(config.steps),
        f"the system {environment.os[:40]!r}": environment.os.lower() != "linux",
        "GPUs": bool(environment.gpus or environment.tpu),
        "docker-compose.yaml": "environment/docker-compose.yaml" in files,
        ".dockerignore": "environment/.dockerignore" in files,
        "MCP servers": bool(environment.mcp_servers),
        "a health check": environment.healthcheck is not None,
        OWN_VERIFIER: bool(verifier.environment) or verifier.environment_mode == "separate",
    }
    hosts = sorted({name for name, value in _variables(config) if "${" in value})
    return [part for part, wanted in needed.items() if wanted] + [
        f"a value for the variable {name[:60]}" for name in hosts
    ]


def _listed(path: Path) -> Iterator[tuple[str, int]]:
    """Paths and modes of a task's files. Raises UsageError for links, devices, and more than the bounds."""
    count = size = 0
    for directory in _DIRECTORIES:
        waiting = [(path / directory, directory, 0)]
        while waiting:
            folder, name, depth = waiting.pop()
            if not os.path.lexists(folder):
                continue
            if folder.is_symlink() or not folder.is_dir() or depth > _DEEPEST:
                raise UsageError(
                    f"{folder} is a link, no folder, or too deep: Harbor's tasks are plain files"
                )
            for entry in sorted(os.scandir(folder), key=lambda one: one.name):
                inner = f"{name}/{entry.name}"
                if not inner.isprintable():
                    raise UsageError(f"{path}: {inner!a} is no printable name: rename it")
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), inner, depth + 1))
                    continue
                about = entry.stat(follow_symlinks=False)
                if not entry.is_file(follow_symlinks=False) or about.st_size > _MOST_FILE:
                    raise UsageError(
                        f"{entry.path} is no plain file of {_MOST_FILE >> 20} MiB at most: replace it"
                    )
                count, size = count + 1, size + about.st_size
                if count > _MOST_FILES or size > _MOST_BYTES:
                    raise UsageError(
                        f"{path} has more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB: too many"
                    )
                yield inner, about.st_mode & 0o755 | 0o400


def _read(path: Path, name: str, most: int) -> bytes:
    try:
        data = read_plain(path, *name.split("/"), most=most + 1)
    except FileNotFoundError:
        raise UsageError(f"{path / name} is missing: Harbor's tasks have one") from None
    except OSError as error:
        raise UsageError(f"cannot read {path / name}: {error.strerror or error}") from None
    if len(data) > most:
        raise UsageError(f"{path / name} has more than {most} bytes")
    return data


def _text(path: Path, name: str) -> str:
    try:
        return _read(path, name, _MOST_TEXT).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path / name} is no text in UTF-8") from None


def _without_canary(text: str) -> str:
    """An instruction without the marks at its head that tell training data apart, as Harbor shows it."""
    lines = text.split("\n")
    while lines and (
        not lines[0].strip() or (lines[0].lstrip()[:1] in "<#" and "canary" in lines[0].casefold())
    ):
        del lines[0]
    return "\n".join(lines)
