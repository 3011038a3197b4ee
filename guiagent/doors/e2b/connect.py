"""The Connect protocol with JSON, as far as E2B's daemon speaks it (https://connectrpc.com/docs/protocol).

A unary call is a POST answered with JSON. A server's stream is a sequence of envelopes: a byte of flags, the
length in four bytes, big-endian, and as many bytes of JSON; the one with the flag 2 is the last.
"""

import json
import struct
from typing import Any, TypeVar

import msgspec

from guiagent.errors import DECODE_ERRORS, FaultError, GuiAgentError, LeaseError, UsageError

T = TypeVar("T")

STREAMED = "application/connect+json"
GONE = "the sandbox was not found"  # by "was not found" E2B's clients know that a sandbox has ended
_HEAD = struct.Struct(">BI")
_LAST = 2
_STATUS = {  # HTTP statuses of a unary call's errors
    "invalid_argument": 400,
    "unauthenticated": 401,
    "not_found": 404,
    "already_exists": 409,
    "unimplemented": 501,
    "unavailable": 502,
    "deadline_exceeded": 504,
    "resource_exhausted": 429,
    "internal": 500,
}


class RpcError(GuiAgentError):
    """A call that is refused or has failed, with the protocol's word for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return _STATUS[self.code]

    def told(self) -> dict[str, str]:
        return {"code": self.code, "message": str(self)}


def rpc_error(error: GuiAgentError) -> RpcError:
    """What a caller is told of an error of ours."""
    match error:
        case RpcError():
            return error
        case LeaseError():
            return RpcError("unavailable", f"{GONE}: {error}")
        case FaultError(fault=fault) if fault.code in ("not_found", "missing_file"):
            return RpcError("not_found", str(error))
        case FaultError(fault=fault) if fault.code in ("deadline", "timeout"):
            return RpcError("deadline_exceeded", str(error))
        case UsageError():
            return RpcError("invalid_argument", str(error))
        case _:
            return RpcError("internal", str(error))


def decoded(body: bytes, kind: type[T]) -> T:
    """A message of JSON; fields that it does not know are passed over. Raises RpcError."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except DECODE_ERRORS as error:
        raise RpcError("invalid_argument", f"this is no message of this call: {error}") from None


def opened(body: bytes) -> bytes:
    """The message of a stream's request, which is one envelope. Raises RpcError."""
    if len(body) < _HEAD.size:
        raise RpcError("invalid_argument", "this is no envelope of the Connect protocol")
    flags, length = _HEAD.unpack_from(body)
    if flags or length != len(body) - _HEAD.size:
        raise RpcError("invalid_argument", "send one envelope, whole and not compressed")
    return body[_HEAD.size :]


def envelope(message: Any) -> bytes:
    return _enveloped(0, message)


def last(error: RpcError | None = None) -> bytes:
    """The end of a stream."""
    return _enveloped(_LAST, {} if error is None else {"error": error.told()})


def _enveloped(flags: int, message: Any) -> bytes:
    body = json.dumps(message).encode()
    return _HEAD.pack(flags, len(body)) + body
