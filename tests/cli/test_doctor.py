"""`guiagent doctor`: one line for each capability, and no traceback whatever is missing."""

import re
from importlib import import_module

import pytest

from devices import processes
from guiagent.errors import InfrastructureError, MissingProgram

doctor = import_module("guiagent.cli.doctor")  # the package's name for it is the command
_LINE = re.compile(r"[a-z]+ +(ok|no|MISSING) +\S.*")


def test_every_capability_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A desktop and a phone are started for it: where `make test` runs, they are there."""
    assert doctor.doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(_LINE.fullmatch(line) for line in lines), lines
    names = [line.split()[0] for line in lines]
    assert names == [name for name, _, _ in doctor._CHECKS] and len(set(names)) == len(names)
    found = {line.split()[0]: line.split()[1] for line in lines}
    assert found["browser"] == found["isolation"] == found["sandbox"] == "ok"


def test_what_the_demo_needs_and_is_missing_is_an_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks() -> str:
        raise MissingProgram("browser is missing: install one")

    monkeypatch.setattr(doctor, "_CHECKS", (("browser", lacks, True), ("python", doctor._python, True)))
    assert doctor.doctor() == InfrastructureError.exit_code
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=2)[1:] == ["MISSING", "browser is missing: install one"]
    assert second.split()[:2] == ["python", "ok"]


@pytest.mark.parametrize(
    ("user", "lacks", "said"),
    [
        (0, "why_no_user", "devices need --allow-unisolated here"),
        (0, "why_no_namespace", "browsers lack Chromium's own sandbox"),
        (1000, "why_no_namespace", "browsers need --allow-unisolated"),
    ],
)
def test_less_isolation_is_said_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, user: int, lacks: str, said: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    for why in ("why_no_user", "why_no_namespace"):
        monkeypatch.setattr(processes, why, lambda found=why: "not permitted" if found == lacks else "")
    with pytest.raises(InfrastructureError, match=f"{said}.*: not permitted"):
        doctor._isolation()
