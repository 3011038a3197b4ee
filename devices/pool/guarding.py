"""Holds every verb against the guardrails of its tenant and of the pool, before a host hears of it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import xxhash

from devices.guardrails.intents import Intent, intents
from devices.guardrails.rules import Guardrails, Verdict, decide
from devices.leases import Lease
from devices.pool.approvals import Approvals, Wish
from guiagent.errors import UsageError
from guiagent.wire import KeyedVerb, ObserveRequest, Verb

_TYPED = 4096  # characters that are remembered of what was typed
_PASSED = 256  # verbs of one lease that are remembered; a host forgets their answers sooner
_SHOWN = 2000  # characters of a wish, as a person sees it
_Page = Callable[[], Awaitable[str | None]]


class Refused(UsageError):
    """A guardrail refuses a verb; says which and why, in one line."""


@dataclass(slots=True)
class _Held:
    """What is remembered of a lease."""

    typed: str = ""
    passed: deque[str] = field(default_factory=lambda: deque(maxlen=_PASSED))  # by their digests


class Guarding:
    """The guardrails of a pool.

    Args:
        everybody: guardrails of all tenants and of the operator's own programs; None: there are none.
        tenants: guardrails of each tenant that has some.
        lives: whether a lease lives, by its id.
        now: the time in seconds, by a clock that only goes on.
    """

    def __init__(
        self,
        everybody: Guardrails | None,
        tenants: dict[str, Guardrails],
        lives: Callable[[str], bool],
        now: Callable[[], float],
    ) -> None:
        self._everybody = everybody
        self._tenants = tenants
        self._lives = lives
        self._held: dict[str, _Held] = {}
        self.approvals = Approvals(now)

    async def admit(self, lease: Lease, message: Verb[Any], page: _Page) -> None:
        """Return once the verb may be carried out. Raises Refused.

        `page` is asked for the address of the page that is shown, if a rule depends on it. A verb that was
        let through once is let through again, if it is said again under its idempotency key.
        """
        guardrails = self._of(lease.tenant)
        planned = list(intents(message)) if guardrails else []
        if not planned:
            return
        held, digest = self._remembered(lease.id), xxhash.xxh3_128_hexdigest(msgspec.msgpack.encode(message))
        if isinstance(message, KeyedVerb) and digest in held.passed:
            return
        verdict = await _decided(guardrails, planned, page, held.typed)
        if verdict.outcome == "refused":
            raise Refused(f"refused by the guardrail {verdict.line}")
        if verdict.outcome == "to approve":
            wish = Wish(lease.id, digest, lease.device, lease.tenant, verdict.rule, _shown(planned))
            allowed = await self.approvals.ask(wish, message.deadline_s)
            if allowed is None:
                raise Refused(f"nobody approved it within {message.deadline_s:g} s: {verdict.line}")
            if not allowed:
                raise Refused(f"a person refused it: {verdict.line}")
        held.typed = (held.typed + "".join(one.text for one in planned if one.is_typed))[-_TYPED:]
        held.passed.append(digest)

    async def looks(self, lease: Lease, message: ObserveRequest, page: _Page) -> bool:
        """Whether a look may be taken as it is, with its probes, and without asking anybody."""
        guardrails, planned = self._of(lease.tenant), list(intents(message))
        return (await _decided(guardrails, planned, page, "")).outcome == "allowed"

    def _of(self, tenant: str) -> Sequence[Guardrails]:
        return [one for one in (self._everybody, self._tenants.get(tenant)) if one is not None]

    def _remembered(self, lease: str) -> _Held:
        if lease not in self._held:
            self._held = {id: held for id, held in self._held.items() if self._lives(id)}
            self._held[lease] = _Held()
        return self._held[lease]


async def _decided(
    guardrails: Sequence[Guardrails], planned: Sequence[Intent], page: _Page, typed: str
) -> Verdict:
    address = await page() if any(one.need_page for one in guardrails) else None
    # In a thread: what is searched may be a file.
    return await asyncio.to_thread(decide, guardrails, planned, address, typed)


def _shown(planned: Sequence[Intent]) -> str:
    said = "; ".join(f"{one.kind} {one.text}".rstrip() for one in planned)
    return said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."
