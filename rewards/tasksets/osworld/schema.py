"""Parse OSWorld's task files into typed tasks without their quirks, or say in one line what is wrong.

Quirks: `func`, `result`, `expected` and `options` are single, or lists of one length with None or {} as
fillers; applications are spelled in several ways; booleans come as "true"; `snapshot` is only a label.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from guiagent.errors import DECODE_ERRORS, UsageError
from rewards.checks import getters
from rewards.checks.evaluator import INFEASIBLE, Conjunction
from rewards.tasksets.osworld.steps import KINDS, AnyStep, Other, Step
from rewards.tasksets.task_files import texts

MAX_FILE = 4 << 20
_OF_WINDOWS = re.compile(r"(?i)(?<![a-z])[a-z]:[\\/]+(?:users|windows|program)|\w\.exe\b|\bpowershell\b")
_SPELLINGS = {"calc": "libreoffice_calc", "writer": "libreoffice_writer", "impress": "libreoffice_impress"}


class _Evaluator(msgspec.Struct):
    func: str | list[str]
    result: dict[str, Any] | list[dict[str, Any] | None] | None = None
    expected: dict[str, Any] | list[dict[str, Any] | None] | None = None
    options: dict[str, Any] | list[dict[str, Any] | None] | None = None
    conj: Conjunction = "and"
    postconfig: list[dict[str, Any]] = []


class _Document(msgspec.Struct):
    id: str
    instruction: str
    evaluator: _Evaluator
    config: list[dict[str, Any]] = []
    related_apps: list[str] = []
    snapshot: str = ""
    source: str | list[str] = ""
    trajectory: str = ""
    proxy: bool = False
    fixed_ip: bool = False
    possibility_of_env_change: Literal["low", "medium", "high"] = "low"
    env_may_change: bool = False
    hint: Any = None


class Source(msgspec.Struct, frozen=True):
    """A getter and its config, which is None if there is no getter of that name."""

    type: str
    config: getters.configs.Config | None


class Check(msgspec.Struct, frozen=True):
    """One metric over a result from the device and the expected value."""

    func: str
    result: Source | None
    expected: Source | None
    options: dict[str, Any]


class TaskFile(msgspec.Struct, frozen=True):
    """One task. `unknown` names top-level keys that OSWorld does not have; they are ignored."""

    id: str
    instruction: str
    apps: tuple[str, ...]
    config: tuple[Step, ...]
    postconfig: tuple[Step, ...]
    conjunction: Conjunction
    checks: tuple[Check, ...]
    proxy: bool
    unknown: tuple[str, ...]
    windows: bool  # whether a step or a check names a path or program of Windows, which no guest of ours has

    @property
    def infeasible(self) -> bool:
        return any(check.func == INFEASIBLE for check in self.checks)

    @property
    def sources(self) -> list[Source]:
        found = [source for check in self.checks for source in (check.result, check.expected)]
        return [source for source in found if source is not None]


def read(text: bytes, name: str) -> TaskFile:
    """Parse the text of a task file.

    Raises:
        UsageError: it is no task file; the message names the file `name` and the key.
    """
    try:
        whole = msgspec.json.decode(text, type=dict[str, Any])
        document = msgspec.convert(whole, _Document, strict=False)
    except RecursionError as error:
        raise UsageError(f"{name}: it is nested too deeply") from error
    except DECODE_ERRORS as error:  # a ValidationError is one
        raise _bad(name, "", str(error)) from error
    if not document.id or len(document.id) > 200 or not document.id.isprintable():
        raise _bad(name, "id", "it is empty, too long or not printable")
    return TaskFile(
        id=document.id,
        instruction=document.instruction,
        apps=tuple(dict.fromkeys(map(app, document.related_apps))),
        config=tuple(read_step(step, f"config[{i}]", name) for i, step in enumerate(document.config)),
        postconfig=tuple(
            read_step(step, f"evaluator.postconfig[{i}]", name)
            for i, step in enumerate(document.evaluator.postconfig)
        ),
        conjunction=document.evaluator.conj,
        checks=tuple(_checks(document.evaluator, name)),
        proxy=document.proxy,
        unknown=tuple(sorted(set(whole) - set(_Document.__struct_fields__))),
        windows=any(map(_OF_WINDOWS.search, texts([whole.get("config"), whole.get("evaluator")]))),
    )


def app(name: str) -> str:
    """One spelling of an application: `libreoffice calc`, `Calc` and `libreoffice_calc` are the same."""
    plain = "_".join(name.lower().split())
    return _SPELLINGS.get(plain, "vs_code" if plain == "vscode" else plain)


def read_step(step: Mapping[str, Any], key: str, name: str) -> Step:
    """Parse one step; one of a type that OSWorld does not have is an `Other`.

    Raises:
        UsageError: it is no step, or not as its type demands; the message names the file `name` and the key.
    """
    kind = step.get("type")
    if isinstance(kind, str) and kind.isidentifier() and kind not in KINDS:
        return Other(kind)
    parameters = step.get("parameters", {})
    if not isinstance(parameters, dict):
        raise _bad(name, f"{key}.parameters", "it is no object")
    try:
        typed: AnyStep = msgspec.convert({**parameters, "type": kind}, AnyStep, strict=False)
        return typed
    except msgspec.ValidationError as error:
        raise _bad(name, key, str(error)) from error


def _checks(evaluator: _Evaluator, name: str) -> list[Check]:
    functions = [evaluator.func] if isinstance(evaluator.func, str) else evaluator.func
    if not functions:
        raise _bad(name, "evaluator.func", "it is empty")
    columns = {
        key: _column(getattr(evaluator, key), functions, isinstance(evaluator.func, list), key, name)
        for key in ("result", "expected", "options")
    }
    checks = []
    for index, func in enumerate(functions):
        result, expected = (
            _source(columns[key][index], f"evaluator.{key}[{index}]", name) for key in ("result", "expected")
        )
        if result is None and func != INFEASIBLE:
            raise _bad(name, "evaluator.result", f"the metric {func!r} has none")
        checks.append(Check(func, result, expected, dict(columns["options"][index] or {})))
    return checks


def _column(
    value: object, functions: Sequence[str], listed: bool, key: str, name: str
) -> Sequence[Mapping[str, Any] | None]:
    """Return one entry for each metric."""
    if not value:
        return [None] * len(functions)
    if isinstance(value, list) != listed:
        raise _bad(name, f"evaluator.{key}", "it is a list only where `func` is one")
    entries: Sequence[Mapping[str, Any] | None] = value if isinstance(value, list) else [value]  # type: ignore[list-item]
    if len(entries) != len(functions):
        raise _bad(name, f"evaluator.{key}", f"it has {len(entries)} entries for {len(functions)} metrics")
    return entries


def _source(config: Mapping[str, Any] | None, key: str, name: str) -> Source | None:
    if not config:
        return None
    kind = config.get("type")
    if not isinstance(kind, str) or not kind:
        raise _bad(name, f"{key}.type", "it is missing")
    if kind not in getters.GETTERS:
        return Source(kind, None)
    try:
        return Source(kind, getters.parse(kind, config))
    except msgspec.ValidationError as error:
        raise _bad(name, key, str(error)) from error


def _bad(name: str, key: str, why: str) -> UsageError:
    """Make a UsageError; the place in msgspec's message, ` - at `$.a[0].b``, becomes the end of the key."""
    what, _, where = why.partition(" - at `$")
    place = f"{key}{where.rstrip('`')}".strip(".")
    return UsageError(f"{name}: {place or 'the file'}: {what}")
