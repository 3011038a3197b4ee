"""`python -m devices.phone`: one virtual phone behind adb, until stdin closes or SIGTERM comes.

Prints one JSON line when it can be driven: its port on 127.0.0.1, its screen, its process.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from devices.phone.phone import Phone
from guiagent.errors import FaultError, GuiAgentError, UsageError

_DENSITY = 320  # dpi, of a screen as wide as 320 dp or wider
_LEAST_DP = 320  # across: what Android's own layouts ask of the smallest phone


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m devices.phone", description=__doc__)
    parser.add_argument("--width", type=int, default=720)
    parser.add_argument("--height", type=int, default=1280)
    parser.add_argument("--density", type=int, help=f"dpi ({_DENSITY}; less where {_LEAST_DP} dp are wider)")
    parser.add_argument("--adb-port", type=int, default=0, help="on 127.0.0.1; 0 picks a free one")
    parser.add_argument(
        "--keys", type=Path, required=True, help="public keys that may drive it, as adbkey.pub"
    )
    parser.add_argument("--folder", type=Path, help="its root directory; a temporary one without")
    parser.add_argument("--socket", type=Path, help="also serve this Unix socket, to whoever may open it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--allow-unisolated", action="store_true", help="where its browser has no sandbox")
    return parser.parse_args()


async def _serve(given: argparse.Namespace, folder: Path) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    # The modules for adb are imported while the browser starts: both take about as long.
    importing = asyncio.create_task(asyncio.to_thread(import_module, "devices.phone.services"))
    phone = await Phone.start(
        given.width,
        given.height,
        given.density or min(_DENSITY, given.width * 160 // _LEAST_DP),
        folder,
        given.seed,
        allow_unisolated=given.allow_unisolated,
    )
    await importing
    from devices.adb import auth, wire
    from devices.phone import services
    from devices.phone.adbd import Adbd
    from devices.phone.machine import Machine

    machine = Machine(phone, lambda: adbd.disconnect())
    facts = {
        name: machine.properties[name]
        for name in ("ro.product.name", "ro.product.model", "ro.product.device")
    }
    adbd = Adbd(lambda name: services.find(machine, name), wire.banner(facts))
    try:
        keys = await asyncio.to_thread(auth.read_keys, given.keys)  # which may be a pipe
        port = await adbd.listen(given.adb_port, keys)
        if given.socket is not None:
            await adbd.listen_unix(str(given.socket))
        machine.note("guiagent", "virtual phone started")
        ready = {
            "port": port,
            "width": phone.width,
            "height": phone.height,
            "pid": os.getpid(),
            "browser": phone.pid,
        }
        print(json.dumps(ready), flush=True)
        loop.add_reader(sys.stdin, _until_closed, ended)
        waiting = [asyncio.create_task(event.wait()) for event in (ended, machine.failed)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if machine.failure is not None:
            raise machine.failure
    finally:
        await adbd.close()
        await phone.close()


def _until_closed(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin)
        ended.set()


def main() -> int:
    given = _arguments()
    try:
        if given.folder is not None:
            given.folder.mkdir(parents=True, exist_ok=True)
            asyncio.run(_serve(given, given.folder))
        else:
            with tempfile.TemporaryDirectory(prefix="guiagent-phone-") as folder:
                asyncio.run(_serve(given, Path(folder)))
    except FaultError as error:
        print(f"phone: {error.fault.message}", file=sys.stderr)
        return GuiAgentError.exit_code  # not InfrastructureError's, after which nobody would try again
    except GuiAgentError as error:
        print(f"phone: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"phone: {error}", file=sys.stderr)
        return UsageError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
