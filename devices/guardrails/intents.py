"""What a verb is about to do on a device, in the terms that guardrails speak of. Pure."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from guiagent.actions import Action, Answer, KeyChord, KeyDown, Open, Shell, Type
from guiagent.types import ObserveSpec
from guiagent.wire import (
    ConnectRequest,
    ExecRequest,
    GetRequest,
    ObserveRequest,
    PutRequest,
    ResetRequest,
    StepRequest,
    Verb,
)

_VERBS = ("exec", "put", "get", "reset", "connect", "probe")
KINDS = (*(one.model_fields["type"].default for one in get_args(get_args(Action)[0])), *_VERBS)
"""The types of actions, and the verbs besides steps."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One action, or another verb.

    Attributes:
        kind: one of KINDS.
        text: all that is written by it: typed text, address, command, path, program.
        is_typed: the text goes to where the last typed text went.
        opens: the addresses and apps that it opens.
    """

    kind: str
    text: str = ""
    is_typed: bool = False
    opens: tuple[str, ...] = ()


def intents(message: Verb[Any]) -> Iterator[Intent]:
    """What a verb is about to do; nothing for one that only looks."""
    match message:
        case StepRequest():
            yield from map(_intent, message.parsed)
            yield from _probes(message.spec)
        case ObserveRequest():
            yield from _probes(message.spec)
        case ResetRequest(baseline=baseline):
            state = msgspec.json.encode(baseline.state).decode() if baseline.state is not None else ""
            text = "\n".join(filter(None, (baseline.url, baseline.script, state)))
            yield Intent("reset", text, opens=(baseline.url,))
            yield from _probes(message.spec)
        case ExecRequest(command=command):
            yield Intent("exec", shlex.join(command))
        case PutRequest(path=path, data=data):
            yield Intent("put", f"{path}\n{data.decode(errors='replace')}")
        case GetRequest(path=path):
            yield Intent("get", path)
        case ConnectRequest(service=service):
            yield Intent("connect", service)


def _intent(action: Action) -> Intent:
    match action:
        case Type():
            return Intent("type", action.text, is_typed=True)
        case KeyChord(keys=(*held, key)) if set(held) <= {"Shift"}:  # a text may also come key by key
            return Intent("key", key if len(key) == 1 else "", is_typed=True)
        case KeyDown(key=key):
            return Intent("key_down", key if len(key) == 1 else "", is_typed=True)
        case Open(target=target):
            return Intent("open", target, opens=(target,))
        case Shell(command=text) | Answer(text=text):
            return Intent(action.type, text)
        case _:
            return Intent(action.type)


def _probes(spec: ObserveSpec) -> Iterator[Intent]:
    if spec.probes:
        yield Intent("probe", "\n".join(spec.probes.values()))
