"""ScienceBoard's task files: what `guiagent tasks check` says of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from guiagent.cli import app
from guiagent.cli.evaluate.task_files.scienceboard import is_one
from guiagent.errors import UsageError
from rewards.tasksets import scienceboard


def document(**changes: Any) -> dict[str, Any]:
    return {
        "type": "Celestia",
        "sort": "VM",
        "steps": 5,
        "instruction": "Look at Io.",
        "version": "0.1",
        "snapshot": "sci_bench",
        "initialize": [
            {"func": "opt", "depth": 6},
            {"func": "launch", "wait": 10, "command": "celestia", "shell": True},
        ],
        "evaluate": [
            {"type": "info", "key": "lambda dump: dump['selection']", "value": "Io"},
            {"type": "stop"},
        ],
        **changes,
    }


def written(folder: Path, name: str, **changes: Any) -> Path:
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(**changes)))
    return path


def test_each_says_what_it_lacks(tmp_path: Path) -> None:
    written(tmp_path, "VM/Celestia/A-01")
    lean = {"type": "Lean", "sort": "Raw", "initialize": [], "evaluate": [{"type": "placeholder"}]}
    written(tmp_path, "Raw/Lean/B-02", **lean)
    (tmp_path / "VM" / "broken.json").write_text('{"type": "Lean"}')
    done = CliRunner().invoke(app, ["tasks", "check", str(tmp_path)])
    first, second, summary = done.stdout.splitlines()
    assert first.split("  ") == [
        *("Raw/Lean/B-02", "Lean", "-", "placeholder"),
        "missing: the application Lean, as ScienceBoard's machine has it; a session of Lean without a "
        "screen; check placeholder of Lean",
    ]
    assert second.split("  ") == [
        *("VM/Celestia/A-01", "Celestia", "opt,launch", "info,stop"),
        "missing: the application Celestia, as ScienceBoard's machine has it; step opt of Celestia; "
        "check info of Celestia; a rule in Python, which is never evaluated",
    ]
    assert summary.startswith("2 loaded, 1 cannot be loaded, 0 supported; missing: ")
    assert done.exit_code == 2 and "broken.json: Object missing required field `sort`" in done.stderr


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"\xff", b'{"type": 1}', b"[" * 100_000, json.dumps(document(sort="TTY")).encode()]
)
def test_what_is_no_task_is_one_line(tmp_path: Path, text: bytes) -> None:
    (path := tmp_path / "one.json").write_bytes(text)
    assert not is_one(path)
    with pytest.raises(UsageError, match=r"^.*one\.json: [^\n]+$"):
        scienceboard.read(path)
