"""`guiagent tasks check` on every format, and the row of `guiagent tasks audit`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.suites import find_suite
from guiagent.cli import app
from guiagent.cli.evaluate.audit import audit_suite
from guiagent.errors import UsageError
from tests.support.shop import running_shop

OSWORLD, HARBOR = Path("tests/support/osworld_tasks"), Path("tests/support/harbor_tasks")


def checked(*words: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, ["tasks", "check", *words])
    return done.exit_code, done.stdout.splitlines()


def told(path: Path) -> dict[str, Any]:
    code, lines = checked(str(path), "--json")
    assert code == 0
    return json.loads("\n".join(lines))  # type: ignore[no-any-return]


def web_tasks(path: Path, *answers: object) -> Path:
    tasks = [
        {
            "task_id": number,
            "sites": ["gitlab"],
            "intent": "Who wrote it?",
            "start_url": "__GITLAB__",
            "eval": {"eval_types": ["string_match"], "reference_answers": answer},
        }
        for number, answer in enumerate(answers)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(tasks))
    return path


def test_rows_name_flaws_which_are_told_and_counted_after_them() -> None:
    code, lines = checked(str(OSWORLD))
    assert code == 0
    row = next(line for line in lines if line.startswith("os-infeasible"))
    assert row.endswith("supported; flaws: claim-alone")
    assert any(line.startswith("fixed-sleep 2: the check waits a fixed time") for line in lines)
    assert lines[-1] == "4 loaded, 4 supported, 4 with flaws"
    whole = told(OSWORLD)
    assert whole["summary"]["flawed"] == 4
    assert {"claim-alone", "live-web"} <= {flaw["name"] for flaw in whole["flaws"]}
    assert sum(flaw["tasks"] for flaw in whole["flaws"]) == sum(len(row["flaws"]) for row in whole["tasks"])
    assert all(flaw["why"] and flaw["source"] for flaw in whole["flaws"])


def test_the_format_is_found_by_what_a_path_holds(tmp_path: Path) -> None:
    assert [row["id"] for row in told(HARBOR)["tasks"]] == ["needs-a-build", "write-a-file"]
    assert told(OSWORLD / "infeasible.json")["tasks"][0]["id"] == "os-infeasible"
    file = web_tasks(tmp_path / "web" / "all.json", {"fuzzy_match": "N/A"}, {"exact_match": "Ann"})
    for path in (file, file.parent):
        found = told(path)["tasks"]
        assert [(row["id"], row["sites"]) for row in found] == [("0", ["gitlab"]), ("1", ["gitlab"])]
        assert [row["flaws"] for row in found] == [["claim-alone"], []]
    assert checked(str(file))[1][:2] == [
        "0  gitlab  string_match  fuzzy_match  supported; flaws: claim-alone",
        "1  gitlab  string_match  exact_match  supported",
    ]


def test_what_is_no_task_of_webarenas_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    file = web_tasks(tmp_path / "a.json", {"exact_match": "Ann"})
    (tmp_path / "b.json").write_text(json.dumps([{"task_id": 7, "intent": 7, "eval": {}}]))
    web_tasks(tmp_path / "c.json", {"exact_match": "Bob"})
    (tmp_path / "d.json").write_text("[" * 10_000)
    done = CliRunner().invoke(app, ["tasks", "check", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stdout.splitlines()[-1] == "1 loaded, 3 cannot be loaded, 1 supported"
    bad = done.stderr.splitlines()
    assert len(bad) == 3 and bad[0].startswith(f"guiagent: {tmp_path}/b.json is no WebArena task file: ")
    assert bad[1] == f"guiagent: {tmp_path}/c.json: task_id: 0 is also one of {file}"
    assert bad[2].startswith(f"guiagent: {tmp_path}/d.json is no WebArena task file: ")


@pytest.mark.browser
def test_an_audit_says_how_many_exploits_were_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit_suite("miniwob-demo", ["click-test-2"], 1, 1)
    row, last = capsys.readouterr().out.splitlines()
    assert "sound: oracle 1, 2 mutants below 1, 7 null agents 0, 12 exploits 0" in row
    assert last.startswith("1 proofs, 1 sound, in ")
    assert audit_suite("miniwob-demo", ["click-test-2"], 1, 1, exploits=False)
    assert "exploits" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.browser
def test_webarenas_tasks_are_audited_on_a_site_that_stands_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    buy, *_ = json.loads(Path("tests/support/webarena_tasks/tasks.json").read_text())
    ask = buy | {"task_id": 5, "intent": "How many lamps are there?"}
    ask["eval"] = {"eval_types": ["string_match"], "reference_answers": {"must_include": ["42"]}}
    (tmp_path / "tasks.json").write_text(json.dumps([buy, ask]))
    with running_shop() as shop:
        assert not audit_suite(f"webarena:{tmp_path},SHOPPING={shop.url}", [], 1, 1)
    bought, asked, last = capsys.readouterr().out.splitlines()
    assert bought.endswith("no oracle, and nothing paid, 7 null agents 0, 10 exploits 0")
    assert "the exploit 'answers with everything' scored 1.0" in asked
    assert asked.endswith("; flaws of its file: listing-pays, short-needle")
    assert last.startswith("2 proofs, 1 sound, 2 of them without an oracle, in ")


def test_tasks_without_an_oracle_are_audited_but_not_by_their_oracle_alone() -> None:
    suite = find_suite(f"osworld:{OSWORLD}")
    with pytest.raises(UsageError, match=r"3 tasks of .* have no oracle, such as calc-total"):
        audit_suite(suite.name, [], 1, 1, oracle_alone=True)
