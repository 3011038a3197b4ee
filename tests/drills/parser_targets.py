"""The parsers of hostile bytes, each with good inputs to begin from and the errors it may raise."""

import asyncio
import io
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image
from pydantic import ValidationError

from devices import specs
from devices.adb import auth
from devices.adb import wire as adb
from devices.config import PoolConfig
from devices.drivers import atspi
from devices.drivers.android import files, frames, tree
from devices.drivers.browser import tree as page
from devices.drivers.remote import osworld, xml_tree
from devices.drivers.replies import Executed
from devices.drivers.replies import parse as parse_reply
from devices.egress import rules
from devices.egress.proxy import EgressProxy
from devices.hosts import messages
from devices.leases import Lease
from guiagent import config, wire
from guiagent.actions import ACTIONS
from guiagent.dialects import DIALECTS, find_dialect
from guiagent.dialects.conformance import expected
from guiagent.errors import DECODE_ERRORS, DialectError, Fault, FaultError, InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Node, Observation, Trajectory
from guiagent.uiautomator import TreeError
from rewards.judges.replies import read_json, read_score

_SIZE = (160, 224)
_STEP = b'{"token":1,"key":"k","actions":[{"type":"click","x":1,"y":2},{"type":"type","text":"a"}]}'
_XML = b"<?xml version='1.0'?><hierarchy><node text='a' bounds='[0,0][10,10]' clickable='true'/></hierarchy>"
_VIEWS = b"<frame xmlns:a='state' name='x' a:active='true' screencoord='(0, 0)' size='(9, 9)'>y</frame>"
_TOML = b'port = 1\ntoken = "a-token-of-some-length"\n[[devices]]\nkind = "sim"\ncount = 2\n'


class Judged(msgspec.Struct):
    score: float


@dataclass(frozen=True, slots=True)
class Target:
    """`allowed` are the beginnings of audit events that belong to the parsing itself."""

    name: str
    parse: Callable[[bytes], object]
    good: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = ()
    allowed: tuple[str, ...] = ("import ('encodings.",)
    prepare: Callable[[bytes], object] = lambda _: None
    reads_good: bool = True


def targets(folder: Path, loop: asyncio.AbstractEventLoop) -> list[Target]:
    """All of them; `folder` is for those that read files, `loop` for those that read streams."""
    warnings.simplefilter("ignore")  # about escapes in what is parsed
    "\N{LATIN SMALL LETTER A WITH DIAERESIS}".encode("idna")  # imports what names of hosts are read with
    found = [_dialect(name) for name in DIALECTS]
    found += [_actions(), _verb(), *_json(), *_pool_messages(), *_words(folder), *_phone(loop), *_pictures()]
    return [*found, _egress(folder, loop), _trajectories(folder)]


def _dialect(name: str) -> Target:
    dialect = find_dialect(name)

    def parse(data: bytes) -> object:
        return dialect.parse(data.decode("utf-8", "replace"), _SIZE)

    known = [one for one in expected()[name]["replies"] if one["actions"]]
    good = tuple(one["reply"].encode() for one in known)
    return Target(f"dialect {name}", parse, good, (DialectError,))


def _actions() -> Target:
    good = (
        b'[{"type":"click","x":1,"y":2}]',
        b'[{"type":"drag","path":[[1,2],[3,4]]},{"type":"wait","ms":5}]',
    )
    return Target("actions", ACTIONS.validate_json, good, (ValidationError,))


def _verb() -> Target:
    def parse(data: bytes) -> object:
        for verb in wire.VERBS:
            try:
                message = msgspec.json.decode(data, type=verb)
            except DECODE_ERRORS:  # the API answers each with 422
                continue
            message.validate()
        return None

    return Target("verbs", parse, (_STEP, b'{"token":1,"key":"k","seed":0}'), (ValidationError,))


def _json() -> list[Target]:
    observation = msgspec.msgpack.encode(Observation(1, 2, frame=b"x", tree=[Node("button", "OK")]))
    fault = Fault("farm", "expired", "it ran out")
    problem = msgspec.json.encode(wire.Problem("Gone", 410, "it ran out", "expired", fault=fault))
    return [
        Target("observations", wire.StepRequest.decode, (observation,), DECODE_ERRORS),
        Target("problems", lambda data: wire.error_of(410, data), (problem, b"<html>")),
        Target(
            "guests' answers",
            lambda data: parse_reply(data, Executed),
            (b'{"returncode":0,"output":"a","error":""}',),
            (ValueError,),
        ),
        Target(
            "judges' scores",
            lambda data: read_score(_text(data)),
            (b"Because.\nSCORE: 1\n", b"**SCORE: 0.5**"),
        ),
        Target(
            "judges' JSON",
            lambda data: read_json(_text(data), Judged),
            (b'So: {"score": 1}', b'{"a": {}} {"score": 0}'),
        ),
    ]


def _pool_messages() -> list[Target]:
    def to_host(data: bytes) -> object:
        message = messages.decode_to_host(data)
        if isinstance(message, messages.VerbCall):
            verb = messages.message_of(message)
            verb.validate()
        return message

    def to_pool(data: bytes) -> object:
        message = messages.decode_to_pool(data)
        return messages.error_of(message) if isinstance(message, messages.Failure) else message

    step = msgspec.json.decode(_STEP, type=wire.StepRequest)
    lease = Lease("", "sim-0", 1, 60.0, frozenset({"exec"}), "", "")
    good = (messages.Fence("sim-0", 3, 1), messages.Start(1, "sim-0"), messages.call_of(1, lease, step))
    said = (messages.Alive(), messages.failure(1, FaultError(Fault("device", "crashed", "it crashed"))))
    errors = (*DECODE_ERRORS, ValidationError)
    return [
        Target("messages to a host", to_host, tuple(map(messages.encode, good)), errors),
        Target("messages to the pool", to_pool, tuple(map(messages.encode, said)), errors),
    ]


def _words(folder: Path) -> list[Target]:
    path = folder / "pool.toml"
    return [
        Target(
            "configuration",
            lambda _: config.load(PoolConfig, path),
            (_TOML, b"[[tenants]]\nname = 'a'\ntoken = 'another-long-secret'\n"),
            (UsageError, InfrastructureError),
            prepare=path.write_bytes,
        ),
        Target(
            "device words",
            lambda data: specs.parse(_text(data).split()),
            (b"sim=2@640x480", b"browser"),
            (UsageError,),
        ),
        Target(
            "egress rules",
            lambda data: rules.parse(_text(data).split("\n")),
            (b"public\n*.example.org\nexample.org:443", b"10.0.0.0/8\n[fd00::1]:80"),
            (UsageError,),
        ),
    ]


def _phone(loop: asyncio.AbstractEventLoop) -> list[Target]:
    header = adb.encode(adb.OPEN, 1, 2, b"shell:ls\0")

    def message(data: bytes) -> object:
        if len(data) < adb.HEADER_SIZE:
            raise adb.WireError
        found = adb.parse_header(data[: adb.HEADER_SIZE], adb.MAX_PAYLOAD)
        return adb.check_payload(found, data[adb.HEADER_SIZE :], adb.VERSION_CHECKED)

    def received(data: bytes) -> object:
        return loop.run_until_complete(_received(data))

    parts = struct.pack("<4sI", b"DATA", 3) + b"abc" + struct.pack("<4sI", b"DONE", 0)
    refusal = struct.pack("<4sI", b"FAIL", 2) + b"no"
    broken = (EOFError, FaultError, ConnectionError)
    return [
        Target("adb messages", message, (header,), (adb.WireError,)),
        Target(
            "adb keys",
            lambda data: auth.parse_public_key(_text(data)),
            (b"QAAAAA== a@b",),
            (ValueError,),
            reads_good=False,
        ),
        Target("adb files", received, (parts, refusal), broken, reads_good=False),
        Target("a phone's views", lambda data: tree.parse(data, 100, 100), (_XML,), (TreeError,)),
        Target("OSWorld's views", lambda data: xml_tree.told(_text(data)), (_XML, _VIEWS), (FaultError,)),
        Target(
            "a desktop's views",
            lambda data: msgspec.json.encode(atspi.nodes(parse_reply(data, atspi.Tree).nodes)),
            (b'{"nodes":[{"id":1,"role":"push button","name":"OK","box":[0,0,9,9],"states":["focused"]}]}',),
            (ValueError,),
        ),
        Target(
            "a page's views",
            lambda data: msgspec.json.encode(page.nodes(msgspec.json.decode(data))),
            (b'[{"role":"button","name":"OK","box":[0,0,9,9],"parent":null,"states":["checked"]}]',),
            (FaultError, msgspec.DecodeError),
        ),
    ]


class _Nobody:
    """A writer to nobody."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass


async def _received(data: bytes) -> bytes:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await files.receive(reader, _Nobody(), "/sdcard/a")  # type: ignore[arg-type]


def _pictures() -> list[Target]:
    png = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(png, "PNG")
    raw = struct.pack("<4I", 2, 2, 1, 0) + bytes(16)
    return [
        Target("raw pictures", frames.parse, (raw, raw[:12] + raw[16:]), (FaultError,)),
        Target(
            "PNG pictures", lambda data: osworld._encoded(data, "jpeg", 80), (png.getvalue(),), (FaultError,)
        ),
    ]


def _egress(folder: Path, loop: asyncio.AbstractEventLoop) -> Target:
    """The egress proxy on its socket, as a device speaks to it. Names lead nowhere."""

    async def nowhere(host: str) -> list[Any]:
        return []

    async def begin() -> EgressProxy:
        proxy = await EgressProxy.start(folder / "egress", resolve=nowhere)
        proxy.allow(["example.org"])
        return proxy

    trouble: list[str] = []
    loop.set_exception_handler(
        lambda _, context: trouble.append(str(context.get("exception", context["message"])))
    )
    loop.run_until_complete(begin())

    async def ask(data: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(folder / "egress")
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(20.0):
            answer = await reader.read(1 << 16)
        writer.close()
        return answer

    def parse(data: bytes) -> object:
        answer = loop.run_until_complete(ask(data))
        if trouble:
            raise RuntimeError(trouble.pop())
        if answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError("it let something through")
        return answer

    good = (
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nContent-Length: 2\r\n\r\nab",
        b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    )
    allowed = ("socket.connect (<socket.socket",)
    return Target("requests to the egress proxy", parse, good, (ConnectionError,), allowed)


def _trajectories(folder: Path) -> Target:
    root = folder / "trajectories"
    with TrajectoryStore(root) as store:
        frame = store.put_frame(b"frame")
        found = Trajectory("t", "task", 0, "Do.", [], "task_done", final_frame=frame)
        store.commit([found])
    (segment,) = root.glob("segment-*.log")
    good = segment.read_bytes()

    def read(_: bytes) -> object:
        with TrajectoryStore(root, readonly=True) as store:
            return [store.frame(one.final_frame) for one in store if one.final_frame]

    errors = (InfrastructureError, UsageError)
    return Target(
        "trajectories", read, (good, good + good), errors, prepare=segment.write_bytes, reads_good=False
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
