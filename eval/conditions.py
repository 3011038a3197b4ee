"""What a result ran on: devices and their software, the agent's surface, network, settings, evaluator."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import xxhash

from eval.suites.suite import Suite
from guiagent.client.still import STILL
from guiagent.errors import DECODE_ERRORS, InfrastructureError
from guiagent.types import Capabilities

_SOURCES = (".py", ".js", ".json", ".toml")
Surface = Literal["GUI only", "GUI and shell"]  # from less to more


class Conditions(msgspec.Struct, frozen=True):
    """What must be the same for two results of a suite to be comparable, and who was measured.

    Attributes:
        devices: each different one, as it described itself: kind, screen, features, software with versions,
            digest of its image.
        surface: whether the leases let an agent run shell commands beside using the screen.
        network: what the devices could reach; empty for pictures, which reach nothing.
        addresses: where the sites were that the user runs, and a model that compared answers, by name.
        agent: settings of the policy's prompts and sampling, its engine and the code that drove it.
        evaluator: digest of the code of tasks, checks and this runner.
        max_steps: turns that an episode could have; None: each task's own number.
    """

    devices: tuple[Capabilities, ...] = ()
    surface: Surface = "GUI only"
    network: tuple[str, ...] = ()
    agent: Mapping[str, Any] = {}
    evaluator: str = ""
    max_steps: int | None = None
    addresses: Mapping[str, str] = {}


def conditions(
    suite: Suite, devices: Iterable[Capabilities], agent: Mapping[str, Any], max_steps: int | None
) -> Conditions:
    """The conditions of an evaluation; equal devices are listed once, in an order that does not change."""
    return Conditions(
        devices=_different(devices),
        surface="GUI and shell" if "shell" in suite.grants else "GUI only",
        network=() if suite.device == STILL else suite.egress,
        agent=agent,
        evaluator=evaluator_digest(),
        max_steps=max_steps,
        addresses=suite.addresses,
    )


def joined_conditions(found: Sequence[Conditions]) -> Conditions:
    """The conditions of one policy on several suites: all their devices, and the most that any let it do."""
    return msgspec.structs.replace(
        found[0],
        devices=_different(device for one in found for device in one.devices),
        surface=max((one.surface for one in found), key=get_args(Surface).index),
        network=tuple(dict.fromkeys(address for one in found for address in one.network)),
        addresses={name: url for one in found for name, url in one.addresses.items()},
    )


def settings_digest(agent: Mapping[str, Any]) -> str:
    """The xxh3-64 of what a policy's results depend on beside its label: not its place, nor the commit."""
    kept = {name: value for name, value in agent.items() if name not in ("policy", "code")}
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(kept, order="deterministic"))


@cache
def evaluator_digest() -> str:
    """The xxh3-128 of the sources that set tasks up, check them and count: packages `rewards` and `eval`."""
    found = xxhash.xxh3_128()
    for package in ("rewards", "eval"):
        for path, source in _sources(files(package), package):
            found.update(path.encode() + b"\0" + source.read_bytes() + b"\0")
    return found.hexdigest()


def read_devices(path: Path) -> list[Capabilities]:
    """Read the devices that an interrupted evaluation had so far; none if there is no such file.

    Raises InfrastructureError if it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Capabilities])
    except FileNotFoundError:
        return []
    except (OSError, *DECODE_ERRORS) as error:
        raise InfrastructureError(f"{path} is damaged ({error}); choose another folder") from error


def told(found: Conditions) -> list[tuple[str, str]]:
    """The conditions as names and one line each, for people."""
    lines = []
    for one in found.devices:
        image = f", image {one.image}" if one.image else ""
        lines.append(("device", f"{one.kind} {one.width}x{one.height}: {one.software}{image}"))
    lines.append(("surface", found.surface))
    lines.append(("network", ", ".join(found.network) or "none"))
    lines += [(f"address of {name}", url) for name, url in found.addresses.items()]
    lines += [(name, _line(value)) for name, value in found.agent.items() if value not in (None, "", [], {})]
    if found.max_steps is not None:
        lines.append(("max steps", str(found.max_steps)))
    lines.append(("evaluator", found.evaluator))
    return lines


def differences(one: Conditions, other: Conditions) -> list[str]:
    """A line for each condition that is not the same in both, such as `temperature: 0.5, then 1.0`."""
    before, after = _named(one), _named(other)
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{name}: {before.get(name, 'not said')}, then {after.get(name, 'not said')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _different(devices: Iterable[Capabilities]) -> tuple[Capabilities, ...]:
    found = {msgspec.json.encode(one): one for one in devices}
    return tuple(found[key] for key in sorted(found))


def _named(found: Conditions) -> dict[str, str]:
    lines: dict[str, str] = {}
    for name, value in told(found):
        lines[name] = f"{lines[name]}; {value}" if name in lines else value
    return lines


def _line(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _sources(folder: Traversable, path: str) -> Iterable[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(_SOURCES):
            yield f"{path}/{entry.name}", entry
