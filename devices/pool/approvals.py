"""What agents want to do that a person has to approve first, and waits for one."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from guiagent.errors import UsageError
from guiagent.wire import Approval

_WAITING = 256  # at a time, of everybody


@dataclass(frozen=True, slots=True)
class Wish:
    """What waits for approval: one verb of one lease, by its digest."""

    lease: str
    digest: str
    device: str
    tenant: str
    rule: str
    what: str


class Approvals:
    """The wishes that wait. A wish that is said again while it waits is the same one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting: dict[str, tuple[Wish, float, asyncio.Future[bool]]] = {}

    async def ask(self, wish: Wish, wait_s: float) -> bool | None:
        """Wait for a person's decision; None if none came in time, or too many wishes wait already."""
        known = next((one for one in self._waiting.values() if one[0] == wish), None)
        if known is not None:
            return await _decided(known[2], wait_s)
        if len(self._waiting) >= _WAITING:
            return None
        id, decision = secrets.token_hex(8), asyncio.get_running_loop().create_future()
        self._waiting[id] = (wish, self._now(), decision)
        try:
            return await _decided(decision, wait_s)
        finally:
            del self._waiting[id]
            decision.cancel()  # whoever waits for the same one is answered, too

    def waiting(self) -> list[Approval]:
        return [
            Approval(id, wish.device, wish.tenant, wish.rule, wish.what, self._now() - since)
            for id, (wish, since, _) in self._waiting.items()
        ]

    def decide(self, id: str, allow: bool) -> None:
        """Approve a wish, or refuse it. Raises UsageError if it does not wait any more."""
        if id not in self._waiting:
            raise UsageError(f"nothing that is called {id[:40]!r} waits for approval")
        decision = self._waiting[id][2]
        if not decision.done():
            decision.set_result(allow)


async def _decided(decision: asyncio.Future[bool], wait_s: float) -> bool | None:
    done, _ = await asyncio.wait([decision], timeout=wait_s)
    return decision.result() if done and not decision.cancelled() else None
