"""`guiagent doctor`: a line per capability, with the command that fixes what is missing. No tracebacks."""

import asyncio
import importlib.metadata
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from guiagent.errors import GuiAgentError, InfrastructureError, MissingProgram


def doctor() -> int:
    """Print the findings; return 0 if the demo can run here, 3 if something that it needs is missing."""
    missing = False
    for name, check, needed in _CHECKS:
        try:
            print(f"{name:<9} ok    {check()}")
        except (GuiAgentError, importlib.metadata.PackageNotFoundError) as error:
            missing |= needed
            print(f"{name:<9} {'MISSING' if needed else 'no'}  {error}")
    return InfrastructureError.exit_code if missing else 0


def _python() -> str:
    return sys.version.split()[0]


def _browser() -> str:
    from devices.drivers.browser import find

    found = find()
    kind = "headless shell, begin-frame control" if found.headless_shell else "full Chromium, slower steps"
    return f"{found.path} ({kind})"


def _device(kind: str) -> Callable[[], str]:
    """Check a kind of device by starting one and ending it: a list of installed programs proves nothing."""

    def check() -> str:
        from devices.drivers import DRIVERS
        from devices.specs import parse

        async def try_one() -> str:
            began = time.monotonic()
            device = await DRIVERS[kind].start(*parse([kind]))
            try:
                return f"{(await device.describe()).software}, there in {time.monotonic() - began:.1f} s"
            finally:
                await device.close()

        return asyncio.run(try_one())

    return check


def _sandbox() -> str:
    from rewards.checks.interpreter import why_no_sandbox

    if why := why_no_sandbox():
        raise InfrastructureError(f"agents' files and programs cannot be graded here: {why}")
    return "agents' files and programs are graded in sandboxes"


def _isolation() -> str:
    from devices.processes import why_no_namespace, why_no_user

    root = os.geteuid() == 0
    if root and (why := why_no_user()):
        raise InfrastructureError(f"devices need --allow-unisolated here, and are then run as root: {why}")
    if why := why_no_namespace():
        browsers = "browsers lack Chromium's own sandbox" if root else "browsers need --allow-unisolated"
        raise InfrastructureError(f"no desktop can be started here, and {browsers}: {why}")
    user = "as a user of its own" if root else f"as user {os.geteuid()}, like this command"
    return f"each device's programs are run {user}, and can be put into namespaces"


def _sites() -> str:
    from devices.sites import SITES
    from devices.sites.site import is_installed

    installed = [site for site in SITES.values() if is_installed(site.name)]
    if not installed:
        raise MissingProgram(f"no site is installed: scripts/sites NAME, of {', '.join(sorted(SITES))}")
    missing = sorted(SITES.keys() - {site.name for site in installed})
    others = f"; not installed: {', '.join(missing)} (scripts/sites NAME)" if missing else ""
    return ", ".join(f"{site.name} ({site.title})" for site in installed) + others


def _vm() -> str:
    from devices.drivers.vm.image import built
    from devices.drivers.vm.machine import find

    return f"{find()}, image {built('desktop').disk}"


def _package(name: str, extra: str) -> Callable[[], str]:
    def check() -> str:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise MissingProgram(f"{name} is not installed: pip install 'guiagent[{extra}]'") from None

    return check


def _port() -> str:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 8700))
        except OSError:
            raise InfrastructureError("port 8700 is taken: pass --port 0 for any free one") from None
    return "8700 is free"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < 2:
        raise InfrastructureError(
            f"{free:.1f} GiB free here; the demo needs 2: free some or pass --run elsewhere"
        )
    return f"{free:.0f} GiB free"


def _memory() -> str:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if total < 6:
        raise InfrastructureError(
            f"{total:.1f} GiB of memory; the demo needs 6: pass --set rollout.devices=4"
        )
    return f"{total:.0f} GiB, {os.cpu_count()} cores"


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise InfrastructureError("no CUDA device; the demo does not need one")
    count, first = torch.cuda.device_count(), torch.cuda.get_device_properties(0)
    return f"{count} x {first.name}, {first.total_memory / 2**30:.0f} GiB; [placement] says who has which"


def _checkpoint() -> str:
    from training.config import SMALL_POLICY

    if not (SMALL_POLICY / "model.safetensors").is_file():
        raise InfrastructureError(
            "the small policy is missing: guiagent train --recipe tiny-sft --run runs/tiny"
        )
    return str(SMALL_POLICY)


def _vllm() -> str:
    from training.engine.vllm.server import environment_python

    return str(environment_python().parent.parent)


_CHECKS: tuple[tuple[str, Callable[[], str], bool], ...] = (
    ("python", _python, True),
    ("browser", _browser, True),
    ("torch", _package("torch", "train"), True),
    ("farm", _package("fastapi", "farm"), True),
    ("pages", _package("miniwob", "browser"), True),
    ("policy", _checkpoint, True),
    ("memory", _memory, True),
    ("disk", _disk, True),
    ("port", _port, False),
    ("isolation", _isolation, False),
    ("sandbox", _sandbox, False),
    ("desktop", _device("desktop"), False),
    ("phone", _device("phone"), False),
    ("sites", _sites, False),
    ("vm", _vm, False),
    ("postgres", _package("psycopg", "postgres"), False),
    ("ray", _package("ray", "ray"), False),
    ("vllm", _vllm, False),
    ("gpu", _gpu, False),
)
