"""Implementation of `guiagent.cli.farm.commands`: ps, lease, do, shot and others.

A lease outlives its command: it is saved in the state folder.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec
from pydantic import ValidationError
from rich.table import Table

from guiagent.actions import ACTION, Action
from guiagent.cli.common.terminal import terminal
from guiagent.client import FarmClient, LeasedDevice
from guiagent.client.local_pool import endpoint_of, state_dir
from guiagent.errors import LeaseError, UsageError, first_error
from guiagent.nodes import centre
from guiagent.storage.recording import Recording
from guiagent.types import ObserveSpec, ResetSpec
from guiagent.wire import Endpoint, LeaseInfo, LeaseRequest

T = TypeVar("T")

_WIDE = 240  # columns, if the output is not a terminal
_NO_FRAME = ObserveSpec(frame="none")
_FORMATS: dict[str, Literal["png", "jpeg"]] = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg"}


class SavedLease(msgspec.Struct):
    """A lease as it is saved between two commands."""

    pool: str
    lease: LeaseInfo
    wish: dict[str, Any]
    record: str = ""  # folder of the record, if there is one


# -- the farm ------------------------------------------------------------------------------------------------


def ps(pool: str | None, as_json: bool) -> None:
    farm = _with_farm(pool, lambda farm: farm.devices())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(farm)).decode())
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("device", "state", "holder", "screen", "steps/s", "steps", "faults"):
        table.add_column(column, no_wrap=True)
    table.add_column("why", no_wrap=True, overflow="ellipsis")
    for one in farm.devices:
        holder = ": ".join(filter(None, (one.tenant, one.label)))
        screen = f"{one.width}x{one.height}" if one.width else ""
        state = f"{one.state} (probation)" if one.probation else one.state
        rate = f"{one.fps:.1f}" if one.fps else ""
        why = one.reason or ("its egress is not limited" if "unlimited_egress" in one.features else "")
        table.add_row(one.id, state, holder, screen, rate, str(one.steps), str(one.faults), why)
    console = terminal(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)
    for waiting in farm.waiting:
        about = "" if waiting.eta_s is None else f", about {waiting.eta_s:.0f} s more"
        who = ": ".join(filter(None, (waiting.tenant, waiting.label)))
        wish = f"{waiting.n} {waiting.kind}"
        console.print(f"waiting {waiting.waited_s:.0f} s for {wish}: place {waiting.place}{about} {who}")


def logs(pool: str | None, device: str) -> None:
    print(_with_farm(pool, lambda farm: farm.logs(device)), end="")


def mark(pool: str | None, device: str, what: Literal["quarantine", "drain", "restore"], reason: str) -> None:
    def do(farm: FarmClient) -> Awaitable[None]:
        match what:
            case "quarantine":
                return farm.quarantine(device, reason)
            case "drain":
                return farm.drain(device, reason)
            case "restore":
                return farm.restore(device)

    _with_farm(pool, do)


def approvals(pool: str | None) -> None:
    for one in _with_farm(pool, lambda farm: farm.approvals()):
        who = f" for {one.tenant}" if one.tenant else ""
        # Its text comes from an agent: nothing of it may move the cursor of whoever reads it.
        print(f"{one.id}  {one.device}{who}  {one.waited_s:.0f} s  {one.rule}: {one.what!a}")


def wanted(pool: str | None) -> None:
    for one in _with_farm(pool, lambda farm: farm.wanted()):
        who = f" for {one.tenant}" if one.tenant else ""
        taken = "  somebody helps" if one.taken else ""
        print(f"{one.id}  {one.device}{who}  {one.waited_s:.0f} s{taken}  {one.reason!a}")


def give_back(pool: str | None, help: str, refuse: bool, note: str) -> None:
    _with_farm(pool, lambda farm: farm.give_back(help, refuse=refuse, note=note))


def decide(pool: str | None, approval: str, allow: bool) -> None:
    _with_farm(pool, lambda farm: farm.decide(approval, allow=allow))


# -- one device ----------------------------------------------------------------------------------------------


def lease(
    pool: str | None,
    kind: str,
    needs: Sequence[str],
    grants: Sequence[Any],
    egress: Sequence[str],
    ttl: float,
    wait: float,
    record: Path | None,
) -> None:
    endpoint = endpoint_of(pool)

    async def take() -> SavedLease:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            device = await farm.lease(
                kind, ttl=ttl, needs=needs, grants=grants, egress=egress, label="command line", wait=wait
            )
            lease, wish = await device.detach()
            return SavedLease(endpoint.url, lease, wish.model_dump(mode="json"))

    if record is not None:
        Recording(record).finish()  # of an earlier lease that was never released
    save(asyncio.run(take()), record, ttl)


def save(saved: SavedLease, record: Path | None, ttl: float) -> None:
    """Save a lease for the commands that follow, which record it in a folder; print what they call it."""
    saved.record = os.path.abspath(record) if record is not None else ""
    path = _lease_file(saved.lease.device)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(msgspec.json.encode(saved))
    print(saved.lease.device)
    print(f"yours for {ttl:g} s after the last command; give it back with", file=sys.stderr, end=" ")
    print(f"`guiagent release {saved.lease.device}`", file=sys.stderr)


def release(pool: str | None, device: str) -> None:
    _drive(pool, device, lambda held: held.close())
    _lease_file(device).unlink(missing_ok=True)


def shot(pool: str | None, device: str, file: Path) -> None:
    format = _FORMATS.get(file.suffix.lower())
    if format is None:
        raise UsageError(f"{file}: name a .png or .jpg file")
    if _lease_file(device).exists():
        frame = _drive(pool, device, lambda held: held.observe(ObserveSpec(frame=format))).frame
    else:
        frame, media_type = _with_farm(pool, lambda farm: farm.frame(device))
        if media_type != f"image/{format}":
            raise UsageError(f"the pool holds a {media_type} of {device}: name the file accordingly")
    try:
        file.write_bytes(frame)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None


def act(pool: str | None, device: str, words: Sequence[str]) -> None:
    action = parse_action(words)
    observation = _drive(pool, device, lambda held: held.act([action], _NO_FRAME))
    if observation.output is not None:
        print(observation.output, end="")
    if observation.action_error is not None:
        raise UsageError(f"{action.type}: {observation.action_error}")


def elements(pool: str | None, device: str, text: str | None, role: str | None) -> None:
    for node in _drive(pool, device, lambda held: held.find_all(text, role=role)):
        at = "{},{}".format(*centre(node.box)) if any(node.box) else "-"
        value = f" = {node.value!a}" if node.value else ""
        # Its words come from the device: nothing of them may move the cursor of whoever reads them.
        print(f"{node.role:12} {at:10} {node.name!a}{value}  {' '.join(node.states)}".rstrip())


def click_on(pool: str | None, device: str, text: str, role: str | None, nth: int) -> None:
    _drive(pool, device, lambda held: held.click_on(text, role=role, nth=nth))


def execute(pool: str | None, device: str, command: Sequence[str], timeout: float) -> int:
    result = _drive(pool, device, lambda held: held.exec(command, timeout))
    print(result.stdout, end="")
    print(result.stderr, end="", file=sys.stderr)
    return result.code


def reset(pool: str | None, device: str, url: str, seed: int, snapshot: str | None) -> None:
    baseline = ResetSpec(url=url, snapshot=snapshot)
    _drive(pool, device, lambda held: held.reset(seed, baseline, _NO_FRAME))


def forward(pool: str | None, device: str, service: str) -> None:
    async def hold(held: LeasedDevice) -> None:
        async with held.forward(service) as port:
            print(f"{service} of {device}: 127.0.0.1:{port}", flush=True)
            while (health := await held.health()).ok:  # noqa: ASYNC110 - the lease has no event here
                await asyncio.sleep(1.0)
            raise UsageError(health.detail)

    _drive(pool, device, hold)


# -- inside --------------------------------------------------------------------------------------------------


def parse_action(words: Sequence[str]) -> Action:
    """Parse `click 10 20 count=2`, `type "some words"`, `key Control a`, `open URL`, or an action's JSON."""
    first, *rest = words
    try:
        if first.startswith("{"):
            return ACTION.validate_json(" ".join(words))
        model = _models().get(first)
        if model is None:
            raise UsageError(f"there is no action {first!r}; there are {', '.join(sorted(_models()))}")
        fields: dict[str, Any] = {}
        names = [name for name in model.model_fields if name != "type"]
        if names == ["keys"]:
            fields["keys"] = rest
        else:
            for word in rest:
                name, equals, value = word.partition("=")
                if equals and name in names:
                    fields[name] = value
                elif free := [name for name in names if name not in fields]:
                    fields[free[0]] = word
                else:
                    raise UsageError(f"{first} takes {', '.join(names)}; {word!r} is one too many")
        return ACTION.validate_python({"type": first, **fields})
    except ValidationError as error:
        raise UsageError(f"{first}: {first_error(error.errors(), skip=1)}") from error


def _models() -> dict[str, Any]:
    """Each action's class by its `type`."""
    union, _ = get_args(Action)
    return {model.model_fields["type"].default: model for model in get_args(union)}


def _with_farm(pool: str | None, do: Callable[[FarmClient], Awaitable[T]]) -> T:
    endpoint = endpoint_of(pool)

    async def run() -> T:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            return await do(farm)

    return asyncio.run(run())


def _drive(pool: str | None, device: str, do: Callable[[LeasedDevice], Awaitable[T]]) -> T:
    """Do something with a device that an earlier command leased."""
    path = _lease_file(device)
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=SavedLease)
    except FileNotFoundError:
        raise UsageError(f"you do not hold {device}: take a device with `guiagent lease`") from None
    endpoint = endpoint_of(pool)

    async def run() -> T:
        async with _held(endpoint, saved) as held:
            return await do(held)

    try:
        return asyncio.run(run())
    except LeaseError:
        path.unlink(missing_ok=True)
        if saved.record:
            Recording(Path(saved.record)).finish()
        raise


@contextlib.asynccontextmanager
async def _held(endpoint: Endpoint, saved: SavedLease) -> AsyncIterator[LeasedDevice]:
    async with FarmClient(endpoint.url, endpoint.token) as farm:
        record = Path(saved.record) if saved.record else None
        device = farm.resume(saved.lease, LeaseRequest.model_validate(saved.wish), record)
        try:
            yield device
        finally:
            await device.detach()


def _lease_file(device: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", device):
        raise UsageError(f"{device[:80]!r} is not the name of a device")
    return state_dir() / "leases" / f"{device}.json"
