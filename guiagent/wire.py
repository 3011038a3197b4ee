"""The farm's API as data: paths, requests, replies, and problems (RFC 9457); shared by server and client.

Requests are JSON. Verbs of a device answer in msgpack, so that frames travel as the bytes they are. What a
person sends by hand (taking and renewing a lease) is a pydantic model and shows in the OpenAPI schema; what
travels a hundred times a second is a msgspec struct, with only the actions left to pydantic.
"""

from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from guiagent.errors import Fault, FaultError, GuiAgentError, LeaseError, UsageError
from guiagent.types import Baseline, Capabilities, Observation, ObserveSpec

LEASES = "/v1/leases"
DEVICES = "/v1/devices"
LIVE = "/v1/live"
HEALTH = "/healthz"
METRICS = "/metrics"
LIVE_PROTOCOL = "guiagent.live"  # WebSocket subprotocol; the bearer token is offered as a second one
JSON = "application/json"
MSGPACK = "application/msgpack"
PROBLEM = "application/problem+json"
MAX_BODY = 1 << 20  # bytes of a request

Grant = Literal["exec", "shell", "files"]
SERVICES: dict[str, Grant] = {"cdp": "exec", "adb": "shell", "osworld": "shell"}
"""What `connect` reaches, and the grant each needs."""
Name = Annotated[str, Field(min_length=1, max_length=64)]


class LeaseRequest(BaseModel):
    """Take `n` devices of one kind at once, or none; wait up to `wait_s` seconds for them."""

    model_config = ConfigDict(extra="forbid")

    kind: Name = "browser"
    n: Annotated[int, Field(ge=1, le=256)] = 1
    ttl_s: Annotated[float, Field(ge=0.1, le=3600.0)] = 60.0
    features: list[Name] = []
    grants: list[Grant] = []
    label: Annotated[str, Field(max_length=128)] = ""
    wait_s: Annotated[float, Field(ge=0.0, le=600.0)] = 30.0
    key: Annotated[str, Field(max_length=64)] = ""
    """Idempotency key: asked again with the same one, the same leases come back while they live."""


class RenewRequest(BaseModel):
    """Keep a lease for at least `ttl_s` more seconds from now."""

    model_config = ConfigDict(extra="forbid")

    ttl_s: Annotated[float, Field(ge=0.1, le=3600.0)]


Key = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Deadline = Annotated[float, msgspec.Meta(gt=0.0, le=600.0)]


class ResetRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: int
    key: Key
    seed: int
    baseline: Baseline = Baseline()
    spec: ObserveSpec = ObserveSpec()
    deadline_s: Deadline = 60.0


class StepRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`actions` is left as JSON here and validated by `guiagent.actions.ACTIONS`."""

    token: int
    key: Key
    actions: msgspec.Raw
    spec: ObserveSpec = ObserveSpec()
    deadline_s: Deadline = 30.0


class ObserveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: int
    spec: ObserveSpec = ObserveSpec()
    deadline_s: Deadline = 30.0


class LeaseInfo(msgspec.Struct, frozen=True):
    id: str
    token: int
    device: str
    expires_in_s: float
    capabilities: Capabilities


class Leases(msgspec.Struct, frozen=True):
    leases: list[LeaseInfo]


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


class FarmInfo(msgspec.Struct, frozen=True):
    devices: list[DeviceInfo]
    queue: int  # lease requests waiting


class Endpoint(msgspec.Struct, frozen=True):
    """How a client of the same user finds a running pool: the content of its `endpoint.json`."""

    url: str
    token: str
    pid: int

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
    type: str = "about:blank"


_observation = msgspec.msgpack.Decoder(Observation)
_problem = msgspec.json.Decoder(Problem)


def encode(value: Any) -> bytes:
    """A reply of a verb, as msgpack."""
    return msgspec.msgpack.encode(value)


def decode_observation(body: bytes) -> Observation:
    return _observation.decode(body)


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
        return (LeaseError if status in (404, 409, 410) else FaultError)(problem.fault)
    if status < 500:
        return UsageError(problem.detail)
    return FaultError(Fault("farm", problem.code, problem.detail, problem.retryable))
