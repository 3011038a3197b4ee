"""A task of WebArena's on a browser device: start pages, logged-in profiles, and its three evaluators.

A task that requires a login uses the browser profile "webarena-SITE", in which the user has logged in before
(`ResetSpec.profile`): no password is kept here. If a task needs what is missing here, `unsupported` names it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regex
from msgspec.structs import replace

from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, Score
from rewards.checks import web
from rewards.tasksets.webarena import media, sites, start
from rewards.tasksets.webarena.files import Target, TaskFile

MAX_STEPS = 30  # as the benchmark allows
NOT_ACHIEVABLE = "N/A"

# Called with (question, reference, answer): a model's score whether both mean the same; None if unknown.
SameMeaning = Callable[[str, str, str], Awaitable[float | None]]

_FULL_PAGE = "document.documentElement.outerHTML"
_EVALUATORS = {"string_match", "url_match", "program_html"}
_ANSWERS = {"exact_match", "must_include", "must_exclude", "one_of", "fuzzy_match"}
_CONTENTS = {"exact_match", "must_include", "must_exclude"}
_VIEWPORT = {"width": 1280}  # what browsers of the suite have
_URL_RULES = {"EXACT", "GOLD in PRED"}
_CALL = regex.compile(r"func:(\w+)\((.*)\)", regex.DOTALL)
_ARGUMENT = regex.compile(r"'([^']*)'|\"([^\"]*)\"|(__\w+__)")


@dataclass(frozen=True)
class WebArenaTask:
    """One task; `addresses` are those of its sites, by name, which `file` has in place of the names."""

    file: TaskFile
    seed: int
    same_meaning: SameMeaning | None = None
    max_steps: int = MAX_STEPS
    probes: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()  # of the task files, with pictures and videos in media/

    @property
    def id(self) -> str:
        return str(self.file.task_id)

    @property
    def template(self) -> str:
        """The id shared by tasks that differ only in their parameters; scores are averaged over it."""
        return str(self.file.intent_template_id if self.file.intent_template_id is not None else self.id)

    @property
    def unsupported(self) -> list[str]:
        """What the task needs that is not supported; [] if it can be scored."""
        asked, references = self.file.eval, self.file.eval.reference_answers or {}
        targets = asked.program_html or []
        missing = sorted(set(asked.eval_types) - _EVALUATORS)
        missing += [f"reference_answers {name}" for name in sorted(set(references) - _ANSWERS)]
        missing += [
            f"func:{call[0]}"
            for target in targets
            for text in (target.url, target.locator)
            if (call := _call(text)) is not None and call[0] not in _ADDRESSES | _EXPRESSIONS
        ]
        wanted = {name for target in targets for name in target.required_contents}
        missing += [f"required_contents {name}" for name in sorted(wanted - _CONTENTS)]
        missing += [f"url_note {asked.url_note}"] if asked.url_note not in _URL_RULES else []
        missing += ["viewport_size"] if self.file.viewport_size not in (None, _VIEWPORT) else []
        if self.same_meaning is None and references.get("fuzzy_match", NOT_ACHIEVABLE) != NOT_ACHIEVABLE:
            missing.append("fuzzy_match (needs a model server: --judge)")
        return list(dict.fromkeys(missing))

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Open the task's pages; its pictures and frames of its video are given with the first observation.

        Raises FaultError if it is unsupported, a site does not answer, or a picture or video is missing.
        """
        require_supported(self.id, self.unsupported)
        profile = start.profile_of(self.file.sites) if self.file.require_login else None
        told, given = await media.pictures(self.file, self.folder)
        urls = self.file.start_url.split(" |AND| ")
        shown = await start.open_pages(device, self.seed, urls, profile, spec)
        return self.file.intent + told, replace(shown, given=tuple(given))

    def ended(self, observation: Observation) -> bool:
        """Never: only the agent ends these. Raises FaultError if the last action met a site that is gone."""
        sites.require_shown(observation, self.addresses.values())
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """The product of the task's evaluators; `progress` is their mean. Unknown if one cannot tell.

        Raises FaultError if a page of the check cannot be opened, or if the score would be 0 and a site of
        the task does not answer any more.
        """
        require_supported(self.id, self.unsupported)
        parts: dict[str, float | None] = {}
        for kind in self.file.eval.eval_types:
            match kind:
                case "string_match":
                    parts[kind] = await self._answer(ending)
                case "url_match":
                    exactly = self.file.eval.url_note == "EXACT"
                    reference, last = self.file.eval.reference_url or "", await _address(device)
                    parts[kind] = web.address(reference, last, exactly=exactly)
                case "program_html":
                    last = await _address(device)
                    for number, target in enumerate(self.file.eval.program_html or []):
                        parts[f"{kind} {number}"] = await _found(device, target, last)
        known = [part for part in parts.values() if part is not None]
        if len(known) < len(parts) and all(known):
            return Score(None, reason="the model that compares answers could not tell", evidence=dict(parts))
        value = float(bool(known) and all(known))
        if not value:
            await sites.require_alive(device, self.addresses.values())
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
                case "must_exclude":
                    results.append(web.excludes_all(reference, answer))
                case "one_of":
                    results.append(float(any(web.includes(one, answer) for one in reference)))
                case "fuzzy_match" if reference == NOT_ACHIEVABLE:
                    results.append(web.exact(reference, answer))
                case "fuzzy_match" if self.same_meaning is not None:
                    for one in [reference] if isinstance(reference, str) else reference:
                        results.append(await self.same_meaning(self.file.intent, one, answer))
        if any(result == 0 for result in results):
            return 0.0
        return None if None in results else float(bool(results))


def require_supported(id: str, missing: list[str]) -> None:
    """Raise FaultError that names what a task needs and does not have here."""
    if missing:
        message = f"WebArena task {id} needs what is unsupported: {'; '.join(missing)}"
        raise FaultError(Fault("task", "unsupported", message[:500]))


async def _address(device: Device) -> str:
    return (await device.observe(ObserveSpec(frame="none", page=True))).url or ""


async def _found(device: Device, target: Target, last: str) -> float:
    """Go to the target's page and compare the value of its expression there with the required contents."""
    url = target.url
    if call := _call(url):
        url = _ADDRESSES[call[0]](*(last if one == "__last_url__" else one for one in call[1]))
    if url != "last":
        await sites.opened(device, url or "about:blank")
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


def _query_text(selector: str, *_: Any) -> str:
    """JavaScript that reads the text of the first element of a selector (VisualWebArena)."""
    return f"document.querySelector({json.dumps(selector)})?.innerText"


_ADDRESSES: dict[str, Callable[..., str]] = {"reddit_get_post_url": _post_address}
_EXPRESSIONS: dict[str, Callable[..., str]] = {
    "get_query_text": _query_text,
    "get_query_text_lowercase": _query_text,
    "gitlab_get_project_memeber_role": _member_role,  # sic
}
