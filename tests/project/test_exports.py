"""What `guiagent` promises to others, and that importing it costs nothing."""

import subprocess
import sys

import pytest

import guiagent

PUBLIC = {
    *("connect", "Action", "Observation", "ObserveSpec", "ResetSpec", "Trajectory", "Score", "Fault"),
    *("Answer", "Click", "Done", "Drag", "KeyChord", "KeyDown", "KeyUp", "LongPress", "MouseDown", "MouseUp"),
    *("Move", "Open", "Pinch", "PressButton", "Scroll", "Shell", "Swipe", "Type", "Wait", "Zoom"),
    *("DialectError", "FaultError", "GuiAgentError", "InfrastructureError", "LeaseError", "NotFoundError"),
    *("UsageError", "WaitTimeoutError", "Node", "Agent", "AgentStep", "Limits", "SyncAgent"),
}


def test_the_public_names_are_these() -> None:
    assert set(guiagent.__all__) == PUBLIC
    assert guiagent.__all__ == sorted(guiagent.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_name_is_there_and_from_this_package(name: str) -> None:
    value = getattr(guiagent, name)
    assert name == "Action" or value.__module__.startswith("guiagent.")


def test_every_action_is_exported() -> None:
    from guiagent.actions import ACTION

    kinds = ACTION.json_schema()["$defs"].keys()
    assert kinds <= PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = guiagent.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import guiagent", "torch fastapi playwright transformers pydantic httpx PIL"),
        ("from guiagent import Click, connect", "torch fastapi uvicorn playwright transformers"),
    ],
)
def test_importing_loads_nothing_heavy(statement: str, forbidden: str) -> None:
    program = f"import sys; {statement}; print(*(set('{forbidden}'.split()) & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
