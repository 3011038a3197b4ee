"""Which platforms of a run have working devices, by what the farm says of their states."""

from collections.abc import Iterable, Mapping

from guiagent.wire import DeviceInfo

_WORKS = frozenset({"ready", "leased", "resetting"})
_OUT = frozenset({"quarantined", "drained", "lost"})


def presence(devices: Iterable[DeviceInfo], kinds: Mapping[str, str]) -> dict[str, str | None]:
    """Return, for platforms by name, None if one of its devices works, and if all are out of service, why.

    `kinds` are the kinds of device by platform. A platform is left out if nothing is certain: its devices are
    starting, or the farm shows none of them, as it does to tenants that hold none.
    """
    known = list(devices)
    found: dict[str, str | None] = {}
    for name, kind in kinds.items():
        own = [device for device in known if device.kind == kind]
        if any(device.state in _WORKS for device in own):
            found[name] = None
        elif own and all(device.state in _OUT for device in own):
            reasons = sorted({device.reason or device.state for device in own})
            found[name] = f"{len(own)} of {len(own)} {kind} devices are out of service: {reasons[0]:.200}"
    return found
