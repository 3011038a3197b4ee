"""Leases whose agents have asked for a person: who waits, who drives, and how it ended.

The lease stays the agent's. From the request until the person gives the device back the agent may look and
not act, so that two never drive at once; what it tries is refused and not queued.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from devices.leases import Lease
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.wire import HelpAnswer, HelpRequest, HelpWanted

_IDLE_S = 60.0  # a person who has not even looked for so long has left
_UNHEARD_S = 90.0  # an agent that has not asked again for so long does not wait any more
_LINES = 500  # of what a person did


@dataclass(slots=True)
class _Asked:
    """One request for a person."""

    id: str  # known to the operator alone; who has it may drive
    lease: Lease
    key: str
    reason: str
    since: float
    until: float  # when the person has to have come, or to have looked again
    heard: float  # when the agent last asked
    state: Literal["waiting", "taken", "done", "refused", "nobody", "left"] = "waiting"
    note: str = ""
    did: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def open(self) -> bool:
        return self.state in ("waiting", "taken")

    def end(self, state: Literal["done", "refused", "nobody", "left"], note: str = "") -> None:
        self.state, self.note = state, note
        self.over.set()


class WithAPerson(FaultError):
    """The device is a person's to drive for now; says what for."""

    def __init__(self, device: str, reason: str) -> None:
        text = f"{device} waits for a person, who has not given it back yet: {reason}"
        super().__init__(Fault("farm", "with_a_person", text, retryable=True))


class Helping:
    """The requests for a person, at most one for each lease; `now`: seconds of a clock that only goes on."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._asked: dict[str, _Asked] = {}  # by lease

    async def ask(self, lease: Lease, request: HelpRequest) -> HelpAnswer:
        """Ask for a person, or under the same key ask again; wait `poll_s` at most for the end of it."""
        asked = self._of(lease.id)
        if asked is None or asked.key != request.key:
            if asked is not None and asked.open:
                raise UsageError(f"{lease.device} has asked for a person already; ask again with that key")
            asked = self._new(lease, request)
        if request.withdraw and asked.state == "waiting":
            asked.end("nobody")
        asked.heard = self._now()
        wait_s = min(request.poll_s, max(asked.until - self._now(), 0.0)) if asked.open else 0.0
        try:
            await asyncio.wait_for(asked.over.wait(), wait_s)
        except TimeoutError:
            self._of(lease.id)  # it may be over by now
        asked.heard = self._now()
        return HelpAnswer(asked.state, asked.note, asked.did if not asked.open else [])

    def require_undriven(self, lease: Lease) -> None:
        """Raise WithAPerson from a lease's request for a person until that is over."""
        if reason := self.reason(lease.id):
            raise WithAPerson(lease.device, reason)

    def wanted(self) -> list[HelpWanted]:
        """The requests that are open, the oldest first."""
        return [
            HelpWanted(
                asked.id,
                asked.lease.device,
                asked.lease.token,
                asked.lease.tenant,
                asked.lease.label,
                asked.reason,
                asked.state == "taken",
                self._now() - asked.since,
            )
            for lease in list(self._asked)
            if (asked := self._of(lease)) is not None and asked.open
        ]

    def reason(self, lease: str) -> str:
        """Why a lease waits for a person; "" if it does not."""
        asked = self._of(lease)
        return asked.reason if asked is not None and asked.open else ""

    def take(self, id: str, did: Sequence[str]) -> tuple[Lease, bool]:
        """Let a person look or act; return the lease, and whether this is the first time.

        `did`: a line for each action. Raises UsageError if the request is not open any more.
        """
        asked = self._with(id)
        first, asked.state = asked.state == "waiting", "taken"
        asked.until = self._now() + _IDLE_S
        asked.did += did[: _LINES - len(asked.did)]
        return asked.lease, first

    def give_back(self, id: str, refuse: bool, note: str) -> Lease:
        """End a request. Raises UsageError if it is not open any more."""
        asked = self._with(id)
        asked.end("refused" if refuse else "done", note)
        return asked.lease

    def forget(self, lease: str) -> None:
        """Forget what a lease that has ended asked for."""
        if (asked := self._asked.pop(lease, None)) is not None:
            asked.over.set()

    def _new(self, lease: Lease, request: HelpRequest) -> _Asked:
        now = self._now()
        asked = _Asked(
            secrets.token_hex(16), lease, request.key, request.reason, now, now + request.wait_s, now
        )
        self._asked[lease.id] = asked
        return asked

    def _with(self, id: str) -> _Asked:
        for lease, one in list(self._asked.items()):
            same = secrets.compare_digest(one.id.encode(), id.encode())
            if same and (asked := self._of(lease)) is not None and asked.open:
                return asked
        raise UsageError("nobody asks for a person under this id any more")

    def _of(self, lease: str) -> _Asked | None:
        """The request of a lease as it stands now; None if there is none."""
        asked, now = self._asked.get(lease), self._now()
        if asked is not None and asked.open and (now >= asked.until or now >= asked.heard + _UNHEARD_S):
            asked.end("left" if asked.state == "taken" else "nobody")
        return asked
