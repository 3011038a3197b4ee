"""WebArena's task files on a browser device: start pages, logged-in profiles, and its three evaluators.

A file is one task or a list of them, as WebArena and its successors write them. It names sites by
placeholders (`__SHOPPING__`), whose addresses the user gives. A task that requires a login uses the browser
profile "webarena-SITE", in which the user has logged in before (`ResetSpec.profile`): no password is kept
here. If a task needs a function of the benchmark that is missing here, `unsupported` names it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import regex

from guiagent.actions import Open
from guiagent.errors import DECODE_ERRORS, UsageError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.checks import web

MAX_STEPS = 30  # as the benchmark allows
NOT_ACHIEVABLE = "N/A"

# Called with (question, reference, answer): a model's score whether both mean the same; None if unknown.
SameMeaning = Callable[[str, str, str], Awaitable[float | None]]

_FULL_PAGE = "document.documentElement.outerHTML"
_CALL = regex.compile(r"func:(\w+)\((.*)\)", regex.DOTALL)
_ARGUMENT = regex.compile(r"'([^']*)'|\"([^\"]*)\"|(__\w+__)")
_PLACEHOLDER = regex.compile(r"__[A-Z_]+__")


class Target(msgspec.Struct, frozen=True):
    """A place to look at after the episode: an address, "last" or a function; and an expression to read."""

    url: str
    required_contents: dict[str, Any]
    locator: str = ""


class Evaluation(msgspec.Struct, frozen=True):
    eval_types: list[Literal["string_match", "url_match", "program_html"]]
    reference_answers: dict[str, Any] | None = None
    reference_url: str | None = None
    program_html: list[Target] | None = None
    string_note: str = ""
    url_note: str = "GOLD in PRED"


class TaskFile(msgspec.Struct, frozen=True):
    """The keys of a task that are read; others are ignored."""

    task_id: int | str
    intent: str
    start_url: str
    eval: Evaluation
    sites: list[str] = []
    require_login: bool = False
    intent_template_id: int | str | None = None


@dataclass(frozen=True)
class WebArena:
    """The tasks of a file, or of all `*.json` below a folder.

    `sites` gives the address of every placeholder, by its name without underscores ("SHOPPING"), in any case.

    Raises:
        UsageError: a file is no task file (the message names file and key), or, from `task`, a site has no
            address.
    """

    path: Path
    sites: Mapping[str, str] = field(default_factory=dict)
    same_meaning: SameMeaning | None = None

    @cached_property
    def _files(self) -> dict[str, TaskFile]:
        found: dict[str, TaskFile] = {}
        paths = sorted(self.path.rglob("*.json")) if self.path.is_dir() else [self.path]
        for path in paths:
            for one in _read(path):
                found[str(one.task_id)] = one
        return found

    @property
    def names(self) -> Sequence[str]:
        return list(self._files)

    def task(self, name: str, seed: int) -> "WebArenaTask":
        """Return the task of a name. `seed` only seeds the browser: these tasks have no parameters."""
        if name not in self._files:
            raise UsageError(f"no WebArena task {name!r} in {self.path}; it holds {len(self._files)} tasks")
        return WebArenaTask(self._addressed(self._files[name]), seed, self.same_meaning)

    def _addressed(self, file: TaskFile) -> TaskFile:
        text = msgspec.json.encode(file).decode()
        sites = {site.upper(): url for site, url in self.sites.items()}
        for site, url in sites.items():
            text = text.replace(f"__{site}__", json.dumps(url.rstrip("/"))[1:-1])
        missing = sorted({one.strip("_") for one in _PLACEHOLDER.findall(file.start_url)} - set(sites))
        if missing:
            raise UsageError(
                f"WebArena task {file.task_id} is on {', '.join(missing)}: give the site's address"
            )
        return msgspec.json.decode(text, type=TaskFile)


@dataclass(frozen=True)
class WebArenaTask:
    file: TaskFile
    seed: int
    same_meaning: SameMeaning | None = None
    max_steps: int = MAX_STEPS
    probes: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return str(self.file.task_id)

    @property
    def template(self) -> str:
        """The id shared by tasks that differ only in their parameters; scores are averaged over it."""
        return str(self.file.intent_template_id if self.file.intent_template_id is not None else self.id)

    @property
    def unsupported(self) -> list[str]:
        """What the task's check needs that is not supported; [] if the task can be scored."""
        missing = [
            f"func:{call[0]}"
            for target in self.file.eval.program_html or []
            for text in (target.url, target.locator)
            if (call := _call(text)) is not None and call[0] not in _ADDRESSES | _EXPRESSIONS
        ]
        references = self.file.eval.reference_answers or {}
        if self.same_meaning is None and references.get("fuzzy_match", NOT_ACHIEVABLE) != NOT_ACHIEVABLE:
            missing.append("fuzzy_match (needs a model server)")
        return missing

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        first, *others = self.file.start_url.split(" |AND| ")
        profile = "-".join(["webarena", *sorted(self.file.sites)]) if self.file.require_login else None
        shown = await device.reset(self.seed, ResetSpec(first, profile=profile), spec)
        for url in others:
            await device.act([Open(target="tab:new"), Open(target=url)], ObserveSpec(frame="none"))
        if others:
            shown = await device.act([Open(target="tab:1")], spec)
        return self.file.intent, shown

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """The product of the task's evaluators; `progress` is their mean. Unknown if one cannot tell."""
        if self.unsupported:
            return Score(None, reason=f"unsupported: {', '.join(self.unsupported)}")
        parts: dict[str, float | None] = {}
        for kind in self.file.eval.eval_types:
            match kind:
                case "string_match":
                    parts[kind] = await self._answer(ending)
                case "url_match":
                    parts[kind] = web.address(self.file.eval.reference_url or "", await _address(device))
                case "program_html":
                    last = await _address(device)
                    for number, target in enumerate(self.file.eval.program_html or []):
                        parts[f"{kind} {number}"] = await _found(device, target, last)
        known = [part for part in parts.values() if part is not None]
        if len(known) < len(parts) and all(known):
            return Score(None, reason="the model that compares answers could not tell", evidence=dict(parts))
        value = float(bool(known) and all(known))
        return Score(value, evidence=dict(parts), progress=sum(known) / max(len(known), 1))

    async def teardown(self, device: Device) -> None:
        pass  # the sites have to undo what a task changes (WebArena resets its containers)

    async def _answer(self, ending: Ending) -> float | None:
        references = self.file.eval.reference_answers or {}
        answer = NOT_ACHIEVABLE if ending.claim == "infeasible" else ending.answer or ""
        results: list[float | None] = []
        for kind, reference in references.items():
            match kind:
                case "exact_match":
                    results.append(web.exact(reference, answer))
                case "must_include":
                    results.append(web.includes_all(reference, answer))
                case "fuzzy_match" if reference == NOT_ACHIEVABLE:
                    results.append(web.exact(reference, answer))
                case "fuzzy_match" if self.same_meaning is not None:
                    for one in [reference] if isinstance(reference, str) else reference:
                        results.append(await self.same_meaning(self.file.intent, one, answer))
        if any(result == 0 for result in results):
            return 0.0
        return None if None in results else float(bool(results))


async def _address(device: Device) -> str:
    return (await device.observe(ObserveSpec(frame="none", page=True))).url or ""


async def _found(device: Device, target: Target, last: str) -> float:
    """Go to the target's page and compare the value of its expression there with the required contents."""
    url = target.url
    if call := _call(url):
        url = _ADDRESSES[call[0]](*(last if one == "__last_url__" else one for one in call[1]))
    if url != "last":
        await device.act([Open(target=url or "about:blank")], ObserveSpec(frame="none"))
    if call := _call(target.locator):
        expression = _EXPRESSIONS[call[0]](*(one for one in call[1] if one != "__page__"))
    else:
        expression = target.locator.strip() or _FULL_PAGE
    guarded = f"(() => {{ try {{ return String(({expression}) ?? '') }} catch {{ return '' }} }})()"
    shown = await device.observe(ObserveSpec(frame="none", probes={"found": guarded}))
    return web.contents(target.required_contents, str(shown.probes["found"]))


def _call(text: str) -> tuple[str, list[str]] | None:
    """Parse the name and arguments of "func:name('a', __page__)", never evaluated; None for other text."""
    matched = _CALL.fullmatch(text.strip())
    if matched is None:
        return None
    return matched[1], [one or two or name for one, two, name in _ARGUMENT.findall(matched[2])]


def _post_address(url: str) -> str:
    """The address of a forum post, from that of one of its comments: the first three parts of the path."""
    site, _, path = url.partition("/f/")
    parts = path.split("/")
    return f"{site}/f/{parts[0]}/{parts[1]}/" if len(parts) > 1 else url


def _member_role(account: str) -> str:
    """JavaScript that reads the role of a member on a project's members page."""
    return (
        "(name => { const accounts = [...document.querySelectorAll("
        "\"td[data-label='Account'] span.gl-avatar-labeled-sublabel\")];"
        "const roles = document.querySelectorAll('td.col-max-role span');"
        "return roles[accounts.findIndex(one => one.outerText === '@' + name)]?.outerText })"
        f"({json.dumps(account)})"
    )


_ADDRESSES: dict[str, Callable[..., str]] = {"reddit_get_post_url": _post_address}
_EXPRESSIONS: dict[str, Callable[..., str]] = {"gitlab_get_project_memeber_role": _member_role}  # sic


def _read(path: Path) -> list[TaskFile]:
    try:
        raw = path.read_bytes()
        if raw.lstrip().startswith(b"["):
            return msgspec.json.decode(raw, type=list[TaskFile])
        return [msgspec.json.decode(raw, type=TaskFile)]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise UsageError(f"{path} is no WebArena task file: {error}") from error
