"""The farm's API as data: paths, requests, replies, and problems (RFC 9457); shared by server and client.

Requests are JSON. Observations answer in msgpack, so that frames travel as the bytes they are; files travel
raw. What a person sends by hand (taking and renewing a lease) is a pydantic model; what travels a hundred
times a second is a msgspec struct, with only the actions left to pydantic.
"""

from asyncio import StreamReader, StreamWriter
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from guiagent.errors import Fault, FaultError, GuiAgentError, LeaseError, UsageError
from guiagent.types import Capabilities, CommandResult, Observation, ObserveSpec, ResetSpec

if TYPE_CHECKING:  # models that cost a process a tenth of a second, and most that come here need none
    from guiagent.actions import Action

T = TypeVar("T")

LEASES = "/v1/leases"
DEVICES = "/v1/devices"
HOSTS = "/v1/hosts"
OPENAPI = "/v1/openapi.json"
LIVE = "/v1/live"
HEALTH = "/healthz"
METRICS = "/metrics"
APPROVALS = "/v1/approvals"
HELP = "/v1/help"
LIVE_PROTOCOL = "guiagent.live"  # WebSocket subprotocol; the bearer token is offered as a second one
JSON = "application/json"
MSGPACK = "application/msgpack"
PROBLEM = "application/problem+json"
OCTETS = "application/octet-stream"
TEXT = "text/plain"
NOBODY_LEADS = frozenset({"no_leader", "leader_lost"})
"""Codes of a pool instance that cannot reach the one that leads: it will have another soon."""
TOO_MANY_REQUESTS = "too_many_requests"
"""Code of a tenant's request that is one too many for now; `Retry-After` says for how long."""
MAX_BODY = 1 << 20  # bytes of a request
MAX_FILE = 64 << 20  # bytes of a file, each way
MAX_NESTING = 64  # of lists and dicts in the state of a reset
TRY_LATER = 1013  # WebSocket close code: the client may try again
CLOSED = 4000  # plus the status a problem would have: why the pool closed a connection to a service

Grant = Literal["exec", "shell", "files", "sites"]
SERVICES: dict[str, Grant] = {"cdp": "exec", "adb": "shell", "osworld": "shell"}
"""What `connect` reaches, and the grant each needs."""
Name = Annotated[str, Field(min_length=1, max_length=64)]
Target = Annotated[str, Field(min_length=1, max_length=255)]


class LeaseRequest(BaseModel):
    """Take `n` devices of one kind at once, or none; wait up to `wait_s` seconds for them.

    Attributes:
        needs: what the devices have to be able to do (`Capabilities.features`), and how large their screens
            are at least ("720p", "1080p").
        egress: what they may reach: host names, `*.host`, `host:port`, CIDR blocks, or "public".
        key: idempotency key: asked again with the same one, the same leases come back while they live.
        device: this one and no other, whatever `kind` says. Tenants can name those only that they hold.
        takeover: end the lease there is on `device` and have it as it is. For the operator.
        near: a lease of the caller's; the devices come from the same host, where its snapshots are.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Name = "browser"
    n: Annotated[int, Field(ge=1, le=256)] = 1
    ttl_s: Annotated[float, Field(ge=0.1, le=3600.0)] = 60.0
    needs: Annotated[list[Name], Field(max_length=32)] = []
    grants: Annotated[list[Grant], Field(max_length=8)] = []
    egress: Annotated[list[Target], Field(max_length=256)] = ["public"]
    label: Annotated[str, Field(max_length=128)] = ""
    wait_s: Annotated[float, Field(ge=0.0, le=600.0)] = 30.0
    key: Annotated[str, Field(max_length=64)] = ""
    device: Annotated[str, Field(max_length=128)] = ""
    takeover: bool = False
    near: Annotated[str, Field(max_length=64)] = ""

    @model_validator(mode="after")
    def _one_device(self) -> Self:
        if self.device and self.n != 1:
            raise ValueError("one named device is one lease: n must be 1")
        if self.takeover and not self.device:
            raise ValueError("takeover needs the device to take")
        return self


class RenewRequest(BaseModel):
    """Keep a lease for at least `ttl_s` more seconds from now."""

    model_config = ConfigDict(extra="forbid")

    ttl_s: Annotated[float, Field(ge=0.1, le=3600.0)]


class Reason(BaseModel):
    """Why an operator does what he does; shown with the device."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(max_length=500)] = ""


class Decision(BaseModel):
    """What a person says to an action that needs approval."""

    model_config = ConfigDict(extra="forbid")

    allow: bool


class HelpRequest(BaseModel):
    """Ask for a person: for a login, a payment, a captcha. Asked again with the same key it is the same one.

    Attributes:
        token: the lease's fencing token.
        reason: what the person is to do, in one line.
        wait_s: how long to wait for somebody to come; who has come may take longer.
        poll_s: when to answer at the latest; "waiting" and "taken" mean: ask again.
    """

    model_config = ConfigDict(extra="forbid")

    token: Annotated[int, Field(ge=0, le=2**63 - 1)]
    key: Annotated[str, Field(min_length=1, max_length=64)]
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    wait_s: Annotated[float, Field(gt=0.0, le=86_400.0)] = 600.0
    poll_s: Annotated[float, Field(ge=0.0, le=60.0)] = 20.0


class GiveBack(BaseModel):
    """How a person's help ended, and what he wants to say about it."""

    model_config = ConfigDict(extra="forbid")

    refuse: bool = False
    note: Annotated[str, Field(max_length=500)] = ""


_INT64 = msgspec.Meta(ge=-(2**63), le=2**63 - 1)
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Token = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Seed = Annotated[int, _INT64]
MAX_DEADLINE_S = 600.0
Deadline = Annotated[float, msgspec.Meta(gt=0.0, le=MAX_DEADLINE_S)]
Argument = Annotated[str, msgspec.Meta(max_length=1 << 17)]


class Verb(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    """One verb of a device as a message, from the client over the pool to the host; its value is a `T`.

    The class says how it travels over HTTP: POST to `verb` of the lease, answered with `answer` as
    `media_type`. Between pool and host go its fields after the token, and `result` back.
    """

    token: Token  # the lease's fencing token

    verb: ClassVar[str]
    summary: ClassVar[str]
    answer: ClassVar[Any]
    media_type: ClassVar[str] = JSON
    result: ClassVar[Any]  # `T`, for decoders

    @property
    def deadline_s(self) -> float:
        raise NotImplementedError  # a field of every verb, with a default of its own

    def validate(self) -> None:
        """Raise pydantic.ValidationError or UsageError where what decoding left as it was is not valid."""

    @classmethod
    def encode(cls, value: T) -> bytes:
        """The body of the answer."""
        encode = msgspec.msgpack.encode if cls.media_type == MSGPACK else msgspec.json.encode
        return encode(value)

    @classmethod
    def decode(cls, body: bytes) -> T:
        """The value that `body` is the answer with. Raises msgspec.DecodeError for anything else."""
        decode = msgspec.msgpack.decode if cls.media_type == MSGPACK else msgspec.json.decode
        try:
            value: T = decode(body, type=cls.answer)
        except UnicodeDecodeError as error:  # which is none of msgspec's own
            raise msgspec.DecodeError(str(error)) from error
        return value


class KeyedVerb(Verb[T], Generic[T], frozen=True):
    """Done once under an idempotency key: asked again with the same one, it is answered from memory."""

    key: Key


class ResetRequest(KeyedVerb[Observation], frozen=True):
    verb = "reset"
    summary = "Bring the device to a baseline, and show it"
    answer = result = Observation
    media_type = MSGPACK

    seed: Seed
    baseline: ResetSpec = ResetSpec()
    spec: ObserveSpec = ObserveSpec()
    deadline_s: Deadline = 60.0

    def validate(self) -> None:
        _require_bounded(self.baseline.state)


def _require_bounded(value: Any) -> None:
    """Raise UsageError for nesting deeper than `MAX_NESTING`, and for integers of more than 64 bits."""
    level = [value]
    for _ in range(MAX_NESTING):
        if not all(-(2**63) <= one < 2**63 for one in level if isinstance(one, int)):
            raise UsageError("a number in the state has more than 64 bits")
        inner = [
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        ]
        level = [child for children in inner for child in children]
        if not level:
            return
    raise UsageError(f"the state is nested deeper than {MAX_NESTING} levels")


class StepRequest(KeyedVerb[Observation], frozen=True, dict=True):
    """`actions` is left as JSON here and validated by `guiagent.actions.ACTIONS`."""

    verb = "step"
    summary = "Act, settle, and show the result"
    answer = result = Observation
    media_type = MSGPACK

    actions: msgspec.Raw
    spec: ObserveSpec = ObserveSpec()
    deadline_s: Deadline = 30.0

    @cached_property
    def parsed(self) -> "list[Action]":
        """The actions, validated once. Raises pydantic.ValidationError."""
        from guiagent.actions import ACTIONS

        return ACTIONS.validate_json(bytes(self.actions))

    def validate(self) -> None:
        _ = self.parsed


class ObserveRequest(Verb[Observation], frozen=True):
    verb = "observe"
    summary = "Show the device"
    answer = result = Observation
    media_type = MSGPACK

    spec: ObserveSpec = ObserveSpec()
    deadline_s: Deadline = 30.0


class ExecRequest(KeyedVerb[CommandResult], frozen=True):
    """`timeout_s` is the program's, within the verb's `deadline_s`."""

    verb = "exec"
    summary = "Run a program on the device"
    answer = result = CommandResult

    command: Annotated[list[Argument], msgspec.Meta(min_length=1, max_length=1024)]
    timeout_s: Deadline = 30.0
    deadline_s: Deadline = 60.0


class Snapshot(msgspec.Struct, frozen=True):
    name: str  # for `ResetSpec.snapshot`


class SnapshotRequest(KeyedVerb[str], frozen=True):
    verb = "snapshot"
    summary = "Keep the device's state, to fork from"
    answer = Snapshot
    result = str

    deadline_s: Deadline = 60.0

    @classmethod
    def encode(cls, value: str) -> bytes:
        return msgspec.json.encode(Snapshot(value))

    @classmethod
    def decode(cls, body: bytes) -> str:
        return msgspec.json.decode(body, type=Snapshot).name


VERBS: tuple[type[Verb[Any]], ...] = (
    StepRequest,
    ObserveRequest,
    ResetRequest,
    ExecRequest,
    SnapshotRequest,
)
"""The verbs whose messages are the bodies of their requests."""


class PutRequest(Verb[None], frozen=True):
    """Over HTTP its path is in the address, and its data the body."""

    verb = "put"
    result = type(None)

    path: str
    data: bytes
    deadline_s: Deadline = 60.0


class GetRequest(Verb[bytes], frozen=True):
    """Over HTTP its path is in the address, and the answer the file itself."""

    verb = "get"
    result = bytes

    path: str
    deadline_s: Deadline = 60.0


class ConnectRequest(Verb[tuple[StreamReader, StreamWriter]], frozen=True):
    """Over HTTP a WebSocket, whose binary messages are the bytes of the stream."""

    verb = "connect"
    result = type(None)

    service: str
    deadline_s: Deadline = 10.0


class LeaseInfo(msgspec.Struct, frozen=True):
    id: str
    token: int
    device: str
    expires_in_s: float
    capabilities: Capabilities


class Leases(msgspec.Struct, frozen=True):
    leases: list[LeaseInfo]


class Renewed(msgspec.Struct, frozen=True):
    expires_in_s: float


class HeldLease(msgspec.Struct, frozen=True):
    """A live lease as its holder and the operator see it."""

    id: str
    device: str
    token: int
    tenant: str
    label: str
    expires_in_s: float
    held_s: float


class HeldLeases(msgspec.Struct, frozen=True):
    leases: list[HeldLease]


class DeviceInfo(msgspec.Struct, frozen=True):
    id: str
    kind: str
    state: str
    generation: int  # how many devices have filled this slot
    label: str  # of its holder
    width: int
    height: int
    fps: float
    steps: int
    faults: int
    idle_s: float | None  # since the last step; None before the first
    host: str = ""
    tenant: str = ""  # of its holder; "" is the operator, or nobody
    reason: str = ""  # why it is out of service, or last failed
    probation: bool = False  # failed before and has not proved itself yet: it is given out last
    mark: str = ""  # "drain" or "quarantine" where an operator said so
    asks: str = ""  # what its agent wants a person to do
    features: list[str] = []


class Waiting(msgspec.Struct, frozen=True):
    """A lease request in the queue."""

    kind: str
    n: int
    label: str
    tenant: str
    place: int  # among those for its kind, from 1
    waited_s: float
    eta_s: float | None  # None where nothing tells yet


class FarmInfo(msgspec.Struct, frozen=True):
    """A tenant sees the devices it holds and its own requests; the operator sees everything."""

    devices: list[DeviceInfo]
    queue: int  # lease requests waiting, of everybody
    free: dict[str, int] = {}  # by kind: devices nobody holds that could be had
    waiting: list[Waiting] = []


class HostInfo(msgspec.Struct, frozen=True):
    id: str
    devices: int
    by_state: dict[str, int]
    away: bool  # its devices are lost until it joins again


class Hosts(msgspec.Struct, frozen=True):
    hosts: list[HostInfo]


class Health(msgspec.Struct, frozen=True):
    ok: bool


class Approval(msgspec.Struct, frozen=True):
    """What an agent wants to do, and waits for a person to approve."""

    id: str
    device: str
    tenant: str
    rule: str  # the guardrail that asks
    what: str
    waited_s: float


class Approvals(msgspec.Struct, frozen=True):
    approvals: list[Approval]


HelpState = Literal["waiting", "taken", "done", "refused", "nobody", "left"]


class HelpAnswer(msgspec.Struct, frozen=True):
    """What became of a request for a person.

    Attributes:
        state: "waiting" and "taken" are not the end of it; "nobody": nobody came; "left": somebody came and
            has not given it back.
        note: what the person said.
        did: what the person did, a line for each action, without the texts that were typed.
    """

    state: HelpState
    note: str = ""
    did: list[str] = []


class HelpWanted(msgspec.Struct, frozen=True):
    """An agent that has asked for a person, as the operator sees it."""

    id: str  # whoever has it may drive the device
    device: str
    token: int  # of the agent's lease
    tenant: str
    label: str
    reason: str
    taken: bool  # somebody drives already
    waited_s: float


class HelpWanteds(msgspec.Struct, frozen=True):
    wanted: list[HelpWanted]


class Endpoint(msgspec.Struct, frozen=True):
    """How a client of the same user finds a running pool: the content of its `endpoint.json`."""

    url: str
    token: str
    pid: int
    page: str = ""  # where a file of the pool's user lies that opens the live page

    @property
    def live_page(self) -> str:
        """The address of the live page as it may be printed: without the token."""
        return self.page or f"{self.url}/"

    @property
    def live_url(self) -> str:
        """The page with all screens; it holds the token, so it is as secret as that."""
        return f"{self.url}/#token={self.token}"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as RFC 9457 has it, with what a program needs to decide what to do next."""

    title: str
    status: int
    detail: str
    code: str
    retryable: bool = False
    fault: Fault | None = None
    position: int | None = None  # in the queue, where no device came free in time
    eta_s: float | None = None  # how long it would have taken yet, as far as that can be told
    retry_after_s: float | None = None
    type: str = "about:blank"


_problem = msgspec.json.Decoder(Problem)


def error_of(status: int, body: bytes) -> GuiAgentError:
    """The exception a refused request stands for; any body, also one that is not from a pool, gives one."""
    try:
        problem = _problem.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        fault = Fault(
            "farm", f"http_{status}", f"the pool answered {status} without saying why", status >= 500
        )
        return FaultError(fault)
    if problem.fault is not None:
        ended = status in (404, 409, 410) and problem.fault.origin != "task"
        return (LeaseError if ended else FaultError)(problem.fault)
    if status < 500 and not problem.retryable:
        return UsageError(problem.detail)
    return FaultError(Fault("farm", problem.code, problem.detail, problem.retryable))
