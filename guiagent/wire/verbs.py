"""The verbs of a device as messages: from the client over the pool to the host, and the answers back."""

from asyncio import StreamReader, StreamWriter
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

import msgspec

from guiagent.errors import UsageError
from guiagent.types import CommandResult, Observation, ObserveSpec, ResetSpec
from guiagent.wire.http import JSON, MAX_NESTING, MSGPACK

if TYPE_CHECKING:  # models that cost a process a tenth of a second, and most that come here need none
    from guiagent.actions import Action

T = TypeVar("T")

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
        """The value that `body` is the answer with. Raises one of DECODE_ERRORS for anything else."""
        decode = msgspec.msgpack.decode if cls.media_type == MSGPACK else msgspec.json.decode
        value: T = decode(body, type=cls.answer)
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
