"""The rules of guardrails as a config file has them, and the decision on one intent by them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from devices.guardrails.intents import KINDS, Intent
from guiagent.confidential import LEAST, LONGEST, bare, disclosed

_ALWAYS = "about:blank"  # what a device shows before anything was opened


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"there is no action or verb {kind!r}; there are {', '.join(KINDS)}")
    return kind


def _long_enough(text: str) -> str:
    if len(bare(text)) < LEAST:
        raise ValueError(f"has fewer than {LEAST} letters and digits, which would be found in anything")
    return text


Kind = Annotated[str, AfterValidator(_known)]
Confidential = Annotated[str, AfterValidator(_long_enough), Field(max_length=1024)]
Pattern = Annotated[str, Field(min_length=1, max_length=1024)]


class Rule(BaseModel):
    """Matches an intent if everything that it names does; what it does not name matches all.

    Attributes:
        name: how a refusal names it.
        actions: types of actions ("click", "shell") and verbs ("exec", "put", "get", "reset", "connect",
            "probe": code that runs in a page).
        text: one of these stands in what is typed, opened or run, in any case and spacing.
        page: the page that is shown has one of these addresses; `*` and `?` stand for other characters. A
            device without pages matches none.
        reason: told to the agent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    actions: Sequence[Kind] = ()
    text: Sequence[Pattern] = ()
    page: Sequence[Pattern] = ()
    reason: Annotated[str, Field(max_length=300)] = ""

    def matches(self, intent: Intent, page: str | None) -> bool:
        squeezed = _squeezed(intent.text)
        return (
            (not self.actions or intent.kind in self.actions)
            and (not self.text or any(_squeezed(one) in squeezed for one in self.text))
            and (not self.page or (page is not None and _is_one_of(page, self.page)))
        )


class Guardrails(BaseModel):
    """Rules for everything that is done on devices, of one tenant or of all.

    Attributes:
        open: addresses and apps that may be opened, with `*` and `?`; None: all. What a page then loads or
            links to is for the lease's egress rules.
        services: raw connections that may be opened although nothing that goes through them is checked.
        confidential: texts that must not be typed, opened, run or stored on a device, also encoded.
        forbid: what is refused.
        approve: what a person has to approve first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    open: Sequence[Pattern] | None = None
    services: Sequence[Literal["cdp", "adb", "osworld"]] = ()
    confidential: Sequence[Confidential] = ()
    forbid: Sequence[Rule] = ()
    approve: Sequence[Rule] = ()

    @property
    def need_page(self) -> bool:
        """Whether a decision depends on the page that is shown."""
        return any(rule.page for rule in (*self.forbid, *self.approve))


Outcome = Literal["allowed", "to approve", "refused"]
_WORST: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    rule: str = ""
    reason: str = ""

    @property
    def line(self) -> str:
        return f"{self.rule}: {self.reason}" if self.reason else self.rule


ALLOWED = Verdict("allowed")


def decide(
    guardrails: Iterable[Guardrails], intents: Iterable[Intent], page: str | None, typed: str
) -> Verdict:
    """The strictest verdict of all guardrails on all intents of one verb.

    Args:
        page: address of the page that is shown; None if the device has none, or no rule asks for it.
        typed: what was typed on this device just before, so that a text is also found in pieces.
    """
    verdict = ALLOWED
    intents = list(intents)
    for one in guardrails:
        so_far = typed
        for intent in intents:
            if intent.is_typed:
                so_far += intent.text
            found = _decide(one, intent, page, so_far)
            if _WORST.index(found.outcome) > _WORST.index(verdict.outcome):
                verdict = found
    return verdict


def _decide(guardrails: Guardrails, intent: Intent, page: str | None, typed: str) -> Verdict:
    written = typed if intent.is_typed else intent.text
    if guardrails.confidential and len(written) > LONGEST:
        return Verdict("refused", "confidential", f"more than {LONGEST} characters cannot be checked")
    if disclosed(written, guardrails.confidential) is not None:
        return Verdict("refused", "confidential", "it would give away a text that has to stay here")
    if intent.kind == "connect" and intent.text not in guardrails.services:
        return Verdict("refused", "services", f"nothing that goes through {intent.text!r} could be checked")
    for address in intent.opens:
        if guardrails.open is not None and address != _ALWAYS and not _is_one_of(address, guardrails.open):
            return Verdict("refused", "open", f"{address[:100]} is not among what may be opened")
    for rule in guardrails.forbid:
        if rule.matches(intent, page):
            return Verdict("refused", rule.name, rule.reason)
    for rule in guardrails.approve:
        if rule.matches(intent, page):
            return Verdict("to approve", rule.name, rule.reason)
    return ALLOWED


def _is_one_of(address: str, patterns: Sequence[str]) -> bool:
    # [] would be sets of characters to fnmatch; in an address they are IPv6's, and meant as they stand.
    return any(fnmatchcase(address, pattern.replace("[", "[[]")) for pattern in patterns)


def _squeezed(text: str) -> str:
    return "".join(text.casefold().split())
