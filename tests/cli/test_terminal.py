"""What commands print: texts come out as they are, whoever wrote them, and move no cursor."""

import re
from pathlib import Path

import pytest
from rich.table import Table

from guiagent import cli
from guiagent.cli.common.terminal import terminal
from guiagent.cli.evaluate.audit import _row
from guiagent.cli.train.dry_run import dry_run
from guiagent.errors import Fault, FaultError, UsageError
from training.dry_run.check import Machine


def test_a_dry_run_names_the_table_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="cannot run as it stands: rewards"):
        dry_run("arpo-demo", ['taskset="proposed"', 'tasks=["click-test-2/name"]'], Machine())
    assert "add [judge] to the recipe" in " ".join(capsys.readouterr().out.split())


def test_a_fault_with_brackets_ends_no_audit(capsys: pytest.CaptureFixture[str]) -> None:
    fault = Fault("task", "refused", "find: '/home/user/[/x]': no [such] folder :x:")
    terminal().print(_row("task", 1, fault, []), soft_wrap=True)
    assert fault.message in capsys.readouterr().out


HOSTILE = "a\x1b[2J\x1b]0;title\x07b\ud800\nc"


def test_what_a_text_holds_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE, box=None, title=HOSTILE)
    table.add_row(HOSTILE)
    terminal().print(table)
    terminal().print(HOSTILE)
    terminal().out(HOSTILE)
    out = capsys.readouterr().out
    assert out.count("a?[2J?]0;title") == 5
    assert all(character.isprintable() for character in out.replace("\n", ""))


def test_an_error_of_a_device_moves_no_cursor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise FaultError(Fault("device", "crashed", HOSTILE))

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit):
        cli.main()
    err = capsys.readouterr().err
    assert err.startswith("guiagent: ") and err.count("\n") == 2
    assert all(character.isprintable() for character in err.replace("\n", ""))


def test_commands_make_no_other_console() -> None:
    sources = [path for path in Path(cli.__file__).parent.rglob("*.py") if path.name != "terminal.py"]
    assert len(sources) > 40
    assert [path.name for path in sources if re.search(r"\bConsole\(", path.read_text())] == []
