"""Train, benchmark and drive agents that use screens, on a farm of real devices.

    import guiagent

    with guiagent.connect() as farm, farm.lease("browser") as device:
        device.open("https://example.org")
        print(device.screenshot().size)

Names are loaded when they are first used, so that `import guiagent` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guiagent.actions import (
        Action,
        Answer,
        Click,
        Done,
        Drag,
        KeyChord,
        KeyDown,
        KeyUp,
        LongPress,
        MouseDown,
        MouseUp,
        Move,
        Open,
        Pinch,
        PressButton,
        Scroll,
        Shell,
        Swipe,
        Type,
        Wait,
        Zoom,
    )
    from guiagent.agent import Agent, AgentStep, Limits
    from guiagent.client.sync import connect
    from guiagent.client.sync_agent import SyncAgent
    from guiagent.errors import (
        DialectError,
        Fault,
        FaultError,
        GuiAgentError,
        InfrastructureError,
        LeaseError,
        NotFoundError,
        UsageError,
        WaitTimeoutError,
    )
    from guiagent.types import Node, Observation, ObserveSpec, ResetSpec, Score, Trajectory

__all__ = [
    "Action",
    "Agent",
    "AgentStep",
    "Answer",
    "Click",
    "DialectError",
    "Done",
    "Drag",
    "Fault",
    "FaultError",
    "GuiAgentError",
    "InfrastructureError",
    "KeyChord",
    "KeyDown",
    "KeyUp",
    "LeaseError",
    "Limits",
    "LongPress",
    "MouseDown",
    "MouseUp",
    "Move",
    "Node",
    "NotFoundError",
    "Observation",
    "ObserveSpec",
    "Open",
    "Pinch",
    "PressButton",
    "ResetSpec",
    "Score",
    "Scroll",
    "Shell",
    "Swipe",
    "SyncAgent",
    "Trajectory",
    "Type",
    "UsageError",
    "Wait",
    "WaitTimeoutError",
    "Zoom",
    "connect",
]

_HOMES = (
    "errors",
    "types",
    "actions",
    "client.sync",
    "agent",
    "client.sync_agent",
)  # the cheapest to import first


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"guiagent.{home}")
            if hasattr(module, name):
                globals()[name] = value = getattr(module, name)
                return value
    raise AttributeError(f"module 'guiagent' has no attribute {name!r}")
