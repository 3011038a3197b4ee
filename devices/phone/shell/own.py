"""Command `guiagent` for what no Android phone can do: the whole state at once, a frame in one round trip.

    guiagent frame jpeg QUALITY | png     the frame, as it is
    guiagent tree                         the hierarchy of `uiautomator dump`, without a file between
    guiagent state get [FILE] | put | merge | reset SEED | diff
    guiagent attest                       a digest of everything a lease holder could have left behind
    guiagent apps                         {package: label}

`get FILE` writes the document to a file, for callers that limit the size of a command's output.
`put` and `merge` read a JSON document from stdin (`merge` lays it over the present state, RFC 7396); `diff`
reads an earlier one and prints what changed since, a JSON list a line.
"""

import json
from typing import Any

import msgspec

from devices.phone.documents import diff, overlay
from devices.phone.shell.screen import hierarchy
from devices.phone.shell.session import Call, Program, UsageFailure
from guiagent.errors import DECODE_ERRORS

_MAX_DOCUMENT = 64 << 20
_JSON = msgspec.json.Encoder(order="deterministic")


async def guiagent(call: Call) -> int:
    machine = call.machine
    match call.arguments:
        case ["frame", "jpeg", quality] if quality.isdecimal() and 1 <= int(quality) <= 100:
            await call.stdout.write(await machine.do(machine.phone.frame("jpeg", int(quality))))
        case ["frame", "png"]:
            await call.stdout.write(await machine.do(machine.phone.frame("png")))
        case ["tree"]:
            await call.say(hierarchy(await machine.do(machine.phone.views())))
        case ["state", "get"]:
            await call.stdout.write(_JSON.encode(machine.phone.document()))
        case ["state", "get", path]:
            call.machine.storage.write(path, call.session.cwd).write_bytes(
                _JSON.encode(machine.phone.document())
            )
        case ["state", "put"]:
            await machine.load(await _document(call))
        case ["state", "merge"]:
            await machine.load(overlay(machine.phone.document(), await _document(call)))
        case ["state", "reset", seed] if seed.lstrip("-").isdecimal() and len(seed) < 20:
            await machine.reset(int(seed))
        case ["state", "diff"]:
            changes = diff(await _document(call), machine.phone.document())
            await call.say("".join(json.dumps(change) + "\n" for change in changes))
        case ["attest"]:
            await call.say(f"{machine.attest()}\n")
        case ["apps"]:
            labels = {name: app.label for name, app in machine.phone.apps.items() if not app.hidden}
            await call.say(json.dumps(labels) + "\n")
        case _:
            raise UsageFailure(
                "usage: guiagent frame jpeg QUALITY|png | tree | state get [FILE]|put|merge|reset SEED|diff "
                "| attest | apps"
            )
    return 0


async def _document(call: Call) -> dict[str, Any]:
    try:
        return msgspec.json.decode(await call.read_all(_MAX_DOCUMENT), type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise UsageFailure(f"guiagent: not a JSON document: {error}") from None


PROGRAMS: dict[str, Program] = {"guiagent": guiagent}
