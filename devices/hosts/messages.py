"""The protocol between a pool and a joined device host: msgpack messages on one WebSocket.

The host connects to the pool and listens on no port. The pool sends calls and the host answers each by its
id, in any order; `Fence` and `Open` are repeated after each connect and not answered. Streams of bytes have
the number of the call that opened them; `devices.hosts.link` says how they and long messages are bounded.
"""

from typing import Annotated, Any, Union, cast

import msgspec

from devices.hosts.edge import Provoked
from devices.hosts.host import SlotInfo
from devices.hosts.slot_record import LogLine
from devices.leases import Lease
from guiagent.errors import Fault, FaultError, GuiAgentError, InfrastructureError, LeaseError, UsageError
from guiagent.wire import VERBS, ConnectRequest, GetRequest, PutRequest, Verb

PROTOCOL = 3  # rises with every change that the other end has to know
MAX_MESSAGE = (64 << 20) + (64 << 10)  # bytes: a file, and what goes with it
REPORTS = 0  # the number of the host's own long messages; the pool numbers its calls from 1
ALIVE_S = 2.0  # each end sends a message at least this often
SILENCE_S = 6.0  # after which either end takes the connection for dead
GRACE_S = 10.0
"""How long after it last heard of the pool a host keeps its devices, and after it last heard of the host the
pool their leases."""


class _Message(msgspec.Struct, tag=True, array_like=True, forbid_unknown_fields=True):
    pass


class Hello(_Message):
    """The host's first message. `session` stays the same as long as its devices keep running."""

    name: str
    session: str
    slots: list[SlotInfo]
    protocol: int


class Welcome(_Message):
    """The pool's answer to a host it accepts."""


class Refused(_Message):
    """The pool's answer to a host it refuses; trying again will not help."""

    reason: str


class Bearer(msgspec.Struct, frozen=True, array_like=True):
    """The lease under which a verb is called."""

    device: str
    token: int
    grants: list[str]
    egress: list[str]


class Start(_Message):
    id: int
    device: str


class Stop(_Message):
    id: int
    device: str


class Recycle(_Message):
    id: int
    device: str


class Check(_Message):
    id: int
    device: str


class VerbCall(_Message):
    """A verb under a lease. Each verb has a subclass, in which `lease` takes the place of the verb's token.

    The answer to a `ConnectRequest` has no value; after it, `Data` messages with this id go both ways.
    """

    id: int
    lease: Bearer

    @property
    def verb(self) -> type[Verb[Any]]:
        return _VERBS[type(self)]


def _call_class(verb: type[Verb[Any]]) -> type[VerbCall]:
    """Create the message class of a verb. Raw JSON fields become bytes, which the host validates again."""
    fields = [
        (field.name, bytes if field.type is msgspec.Raw else field.type)
        for field in msgspec.structs.fields(verb)
        if field.name != "token"
    ]
    made = msgspec.defstruct(verb.verb.capitalize(), fields, bases=(VerbCall,))
    return cast(type[VerbCall], made)


_EVERY: tuple[type[Verb[Any]], ...] = (*VERBS, PutRequest, GetRequest, ConnectRequest)
_CALLS = {verb: _call_class(verb) for verb in _EVERY}
_VERBS = {call: verb for verb, call in _CALLS.items()}


def call_of(id: int, lease: Lease, message: Verb[Any]) -> VerbCall:
    """Pack a verb for a host."""
    bearer = Bearer(lease.device, lease.token, sorted(lease.grants), list(lease.egress))
    _, *values = msgspec.structs.astuple(message)
    return _CALLS[type(message)](
        id, bearer, *(bytes(value) if isinstance(value, msgspec.Raw) else value for value in values)
    )


def message_of(call: VerbCall) -> Verb[Any]:
    """Unpack the verb of a call."""
    _, lease, *values = msgspec.structs.astuple(call)
    if call.verb in VERBS:  # their bytes are JSON
        values = [msgspec.Raw(value) if isinstance(value, bytes) else value for value in values]
    return call.verb(lease.token, *values)


Call = Start | Stop | Recycle | Check | VerbCall


class Fence(_Message):
    """The pool process of `epoch` has tokens below `token` refused; see `SlotRecord.set_fence`."""

    device: str
    token: int
    epoch: int


class Open(_Message):
    device: str
    stale: bool


class Data(_Message):
    """Bytes of a stream or of a long message; empty `data` ends both directions of it."""

    stream: int
    data: bytes


class Credit(_Message):
    """The sender of this can take so many more bytes of a stream."""

    stream: int
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class Long(_Message):
    """Announces a message of `size` bytes, too long for a frame: it follows as `Data` of this number."""

    stream: int
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_MESSAGE)]


class Answer(_Message):
    id: int
    value: bytes  # msgpack


class Failure(_Message):
    id: int
    kind: str
    message: str
    fault: Fault | None


class Alive(_Message):
    """A keep-alive message of the host; the pool answers with the same."""


class Seen(_Message):
    """A device's current frame and its new log lines, for the dashboard.

    `token` is that of the lease under which the frame was taken; 0 if nobody held the device.
    """

    device: str
    token: int
    frame: bytes
    media_type: str
    hash: str
    log: list[LogLine]


ToHost = Welcome | Refused | Call | Fence | Open | Alive | Data | Credit | Long
ToPool = Hello | Answer | Failure | Alive | Seen | Data | Credit | Long

encode = msgspec.msgpack.Encoder().encode
_TO_HOST = (Welcome, Refused, Start, Stop, Recycle, Check, *_VERBS, Fence, Open, Alive, Data, Credit, Long)
_to_host: msgspec.msgpack.Decoder[ToHost] = msgspec.msgpack.Decoder(Union[_TO_HOST])  # noqa: UP007
_to_pool: msgspec.msgpack.Decoder[ToPool] = msgspec.msgpack.Decoder(ToPool)


def decode_to_host(message: bytes | bytearray) -> ToHost:
    """Decode a message of the pool. Raises one of DECODE_ERRORS."""
    return _to_host.decode(message)


def decode_to_pool(message: bytes | bytearray) -> ToPool:
    """Decode a message of a host. Raises one of DECODE_ERRORS."""
    return _to_pool.decode(message)


# -- errors, by name -----------------------------------------------------------------------------------------

_FAULTS: dict[str, type[FaultError]] = {"lease": LeaseError, "provoked": Provoked, "fault": FaultError}
_ERRORS: dict[str, type[GuiAgentError]] = {"usage": UsageError, "infrastructure": InfrastructureError}


def failure(id: int, error: GuiAgentError) -> Failure:
    kinds = {**_FAULTS, **_ERRORS}
    kind = next(name for name, type_ in kinds.items() if isinstance(error, type_))
    return Failure(id, kind, str(error), error.fault if isinstance(error, FaultError) else None)


def error_of(failed: Failure) -> GuiAgentError:
    """Convert a failure message back to its exception."""
    if failed.fault is not None:
        return _FAULTS.get(failed.kind, FaultError)(failed.fault)
    return _ERRORS.get(failed.kind, UsageError)(failed.message)
