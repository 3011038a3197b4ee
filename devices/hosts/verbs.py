"""Carries out each verb on a device, and adds its line to the device's log."""

from collections.abc import Callable
from typing import Any

import msgspec

from devices.drivers import HostedDevice
from guiagent.actions import Action, off_screen
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.protocols import Files, Services, Shell, Snapshots
from guiagent.types import Observation
from guiagent.wire import (
    MAX_FILE,
    ConnectRequest,
    ExecRequest,
    GetRequest,
    ObserveRequest,
    PutRequest,
    ResetRequest,
    SnapshotRequest,
    StepRequest,
    Verb,
)


async def perform(
    message: Verb[Any], device: HostedDevice, size: tuple[int, int], note: Callable[[str], None]
) -> Any:
    """Carry out a verb on a screen of `size` pixels and return its value.

    Raises UsageError if the device lacks the feature that the verb needs.
    """
    match message:
        case StepRequest():
            return await _step(message, device, size, note)
        case ObserveRequest():
            return await device.observe(message.spec)
        case ResetRequest(seed=seed, baseline=baseline):
            observation = await device.reset(seed, baseline, message.spec)
            note(f"reset to {baseline.snapshot or baseline.url}, seed {seed}")
            return observation
        case ExecRequest():
            if not isinstance(device, Shell):
                raise _unable("shell")
            note(f"exec {message.command[0]}")
            return await device.exec(message.command, message.timeout_s)
        case PutRequest():
            if not isinstance(device, Files):
                raise _unable("files")
            note(f"put {message.path} ({len(message.data)} bytes)")
            return await device.put(message.path, message.data)
        case GetRequest():
            if not isinstance(device, Files):
                raise _unable("files")
            data = await device.get(message.path)
            if len(data) > MAX_FILE:
                text = f"{message.path} has {len(data)} bytes; at most {MAX_FILE} can be fetched"
                raise FaultError(Fault("task", "too_large", text))
            return data
        case SnapshotRequest():
            if not isinstance(device, Snapshots):
                raise _unable("snapshot")
            name = await device.snapshot()
            note(f"snapshot {name}")
            return name
        case ConnectRequest():
            if not isinstance(device, Services):
                raise _unable(message.service)
            streams = await device.connect(message.service)
            note(f"connected to {message.service}")
            return streams
        case _:
            raise UsageError(f"devices do not know the verb {message.verb!r}")


async def _step(
    message: StepRequest, device: HostedDevice, size: tuple[int, int], note: Callable[[str], None]
) -> Observation:
    """Carry out the actions up to the first one off the screen: with no kind of device has it an effect."""
    refusals = [off_screen(action, *size) for action in message.parsed]
    wrong = next((number for number, refusal in enumerate(refusals) if refusal is not None), len(refusals))
    observation = await device.act(message.parsed[:wrong], message.spec)
    for action in message.parsed[:wrong]:
        note(log_line(action))
    if wrong < len(refusals) and observation.action_error is None:
        return msgspec.structs.replace(observation, action_error=refusals[wrong])
    return observation


def _unable(feature: str) -> UsageError:
    return UsageError(f"this device cannot do that; lease one with needs=[{feature!r}]")


def log_line(action: Action) -> str:
    """Describe an action in one line; of typed text and commands, which may be secret, only the length."""
    fields = action.model_dump(exclude={"type", "text", "command"}, exclude_defaults=True)
    hidden = [
        f"{name}={len(getattr(action, name))} characters"
        for name in ("text", "command")
        if hasattr(action, name)
    ]
    return " ".join([action.type, *(f"{name}={value}" for name, value in fields.items()), *hidden])
