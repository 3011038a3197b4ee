"""WebArena's sites: their addresses where files name them, and whether they still answer.

Files name a site by a placeholder, `__SHOPPING__`. A site that gives no page is a fault of the task, as it is
where a device is reset to one: what an agent did there cannot be seen, so it is worth neither 1 nor 0.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec
import regex

from guiagent.actions import Open
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.protocols import Device
from guiagent.types import Observation, ObserveSpec

BLIND = ObserveSpec(frame="none")
_PLACEHOLDER = regex.compile(r"__([A-Z][A-Z0-9_]*?)__")
_REFUSED = "cannot open "  # how a browser's note begins where no page came back
_TOO_SLOW = "no answer within"  # an agent may have asked for a page that takes long, on a site that is well
_STATUS = "performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0"
_File = TypeVar("_File", bound=msgspec.Struct)


def placeholders(*parts: Any) -> set[str]:
    """The names of the sites that parts of a file name, such as "SHOPPING"."""
    return set(_PLACEHOLDER.findall(msgspec.json.encode(parts).decode()))


def filled(file: _File, addresses: Mapping[str, str]) -> _File:
    """The file with addresses in place of the names of sites."""
    text = msgspec.json.encode(file).decode()
    for name, url in addresses.items():
        text = text.replace(f"__{name}__", json.dumps(url)[1:-1])
    return msgspec.json.decode(text, type=type(file))


def unfilled(url: str, addresses: Mapping[str, str]) -> str:
    """A URL with the site's name in place of its address, as files have it; others are as they were."""
    for name, address in sorted(addresses.items(), key=lambda item: -len(item[1])):
        if url == address or url.startswith((f"{address}/", f"{address}?", f"{address}#")):
            return f"__{name}__{url.removeprefix(address)}"
    return url


def checked(addresses: Mapping[str, str]) -> dict[str, str]:
    """Addresses by names in capitals, without a final slash. Raises UsageError for what is no address."""
    found = {}
    for name, url in addresses.items():
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UsageError(f"{name}={url} is no address of a site: write {name}=http://HOST:PORT")
        found[name.upper()] = url.rstrip("/")
    return found


def without_password(url: str) -> str:
    """An address as it may be published."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def rules(addresses: Iterable[str]) -> tuple[str, ...]:
    """Egress rules that let a device reach these addresses. A name reaches the public internet only."""
    found = []
    for url in addresses:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host = "127.0.0.1" if host == "localhost" else f"[{host}]" if ":" in host else host
        found.append(f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}")
    return tuple(dict.fromkeys(found))


async def opened(device: Device, url: str, probes: Mapping[str, str] | None = None) -> Observation:
    """Open a page and look at it without a picture. Raises FaultError if none comes back."""
    shown = await device.act([Open(target=url)], ObserveSpec(frame="none", probes=dict(probes or {})))
    if (shown.action_error or "").startswith(_REFUSED):
        raise _unreachable(shown.action_error or "")
    return shown


async def require_alive(device: Device, addresses: Iterable[str]) -> None:
    """Open each site's address. Raises FaultError if one gives no page, or only a server's error (5xx)."""
    for url in addresses:
        status = (await opened(device, url, {"status": _STATUS})).probes.get("status")
        if isinstance(status, int | float) and status >= 500:
            raise _unreachable(f"{without_password(url)} answers with {status:g}")


def require_shown(observation: Observation, addresses: Iterable[str]) -> None:
    """Raise FaultError if the last action met a site that refuses connections."""
    url, _, reason = (observation.action_error or "").removeprefix(_REFUSED).partition(": ")
    if not (observation.action_error or "").startswith(_REFUSED) or reason.startswith(_TOO_SLOW):
        return
    if _place(url) in {_place(address) for address in addresses}:
        raise _unreachable(observation.action_error or "")


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def _unreachable(message: str) -> FaultError:
    return FaultError(Fault("task", "unreachable", message, retryable=True))
