"""Results name what they ran on: devices, software, surface, network, settings, evaluator; groups and CSV."""

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from eval.breakdown import breakdown_json, by_group, by_stop, fault_reasons
from eval.conditions import (
    Conditions,
    conditions,
    differences,
    evaluator_digest,
    joined_conditions,
    settings_digest,
    told,
)
from eval.repetitions import Prices, Repetitions, repetitions_json
from eval.report.breakdown import breakdown_tables
from eval.report.card import model_card
from eval.report.repetitions import took
from eval.report.table import MOST_ROWS, fault_notes, print_table
from eval.results import EpisodeResult, Outcome, SuiteResult, result_json
from eval.rows import result_csv
from eval.run import Agent, Benchmark, Claim, run_suite
from eval.suites import SUITES, find_suite
from eval.suites.suite import Suite
from guiagent.cli import app
from guiagent.cli.common.policy import PolicySettings, facts_of
from guiagent.errors import UsageError
from guiagent.policies import RandomPolicy
from guiagent.types import Capabilities, ObserveSpec, StopReason
from rewards.catalogue import find_taskset
from tests.support.pictures import screenspot

SUITE = Suite(
    "squares",
    "squares",
    ("red", "blue"),
    ("green",),
    2,
    "browser",
    groups={"colour": {"red": "warm", "blue": "cold", "green": "cold"}},
)
BROWSER = Capabilities("browser", 800, 600, ["exec"], "HeadlessChrome/156")


def episode(
    task: str, outcome: Outcome, stop: StopReason, detail: str = "", tokens: int = 0
) -> EpisodeResult:
    seed = SUITE.first_seed
    return EpisodeResult(task, seed, outcome, stop, 2, 0.5, 1, detail, f"a/{task}", tokens, tokens // 4)


RESULT = SuiteResult(
    SUITE,
    "tiny | <b>",
    (
        episode("red", "success", "task_done", tokens=400),
        episode("blue", "failure", "max_steps", "=HYPERLINK(\"http://x\")\n| 'a' |", tokens=400),
        episode("green", "fault", "fault", "device fault (crashed): the screen went dark"),
    ),
    conditions(SUITE, [BROWSER, BROWSER], {"dialect": "ui-tars", "temperature": 0.5}, 7),
)


def test_each_way_to_count_holds_every_episode_once() -> None:
    (rows,) = by_group(RESULT).values()
    assert [(row.task, row.scheduled.successes, row.scheduled.n, row.faults) for row in rows] == [
        ("warm", 1, 1, 0),
        ("cold", 0, 2, 1),
    ]
    assert {row.stop: (row.successes.successes, row.successes.n) for row in by_stop(RESULT)} == {
        "task_done": (1, 1),
        "max_steps": (0, 1),
        "fault": (0, 1),
    }
    found = breakdown_json(RESULT)
    assert found["groups"]["colour"]["cold"]["faults"] == 1
    assert found["faults"] == [
        {"task": "green", "reason": "device fault (crashed): the screen went dark", "episodes": 1}
    ]
    head, body = breakdown_tables([RESULT, RESULT])[0]
    assert head == ["by colour", RESULT.label, RESULT.label] and body[1][1] == "0% (0–66) of 2"


def test_the_table_says_why_a_task_faulted() -> None:
    assert fault_reasons(RESULT).total() == 1
    assert "tiny | <b>: 1 of green: device fault (crashed): the screen went dark" in fault_notes([RESULT])
    many = [episode("green", "fault", "fault", f"device fault (crashed): {n}") for n in range(9)]
    notes = fault_notes([SuiteResult(SUITE, "tiny", tuple(many))])
    assert len(notes) == 7 and notes[-1] == "tiny: 4 more reasons in results.json"


def test_a_result_names_what_it_ran_on() -> None:
    ran = msgspec.convert(result_json(RESULT)["ran"], Conditions)
    assert ran == RESULT.ran and ran.devices == (BROWSER,)
    assert (ran.surface, ran.network, ran.max_steps) == ("GUI only", ("public",), 7)
    assert ran.evaluator == evaluator_digest() and len(ran.evaluator) == 32
    assert ("device", "browser 800x600: HeadlessChrome/156") in told(ran)
    shelled = msgspec.structs.replace(BROWSER, image="6eba")
    suite = Suite("s", "s", ("a",), (), 1, "phone", grants=("shell", "files"))
    found = conditions(suite, [shelled], {}, None)
    assert found.surface == "GUI and shell"
    assert ("device", "browser 800x600: HeadlessChrome/156, image 6eba") in told(found)


def test_two_results_say_which_conditions_were_not_the_same() -> None:
    newer = msgspec.structs.replace(BROWSER, software="HeadlessChrome/157")
    other = conditions(SUITE, [newer], {"dialect": "ui-tars", "temperature": 1.0}, 7)
    assert differences(RESULT.ran, RESULT.ran) == []
    assert differences(RESULT.ran, other) == [
        "device: browser 800x600: HeadlessChrome/156, then browser 800x600: HeadlessChrome/157",
        "temperature: 0.5, then 1.0",
    ]
    assert "surface: GUI only, then not said" not in differences(RESULT.ran, Conditions())
    assert f"evaluator: {RESULT.ran.evaluator}, then " in differences(RESULT.ran, Conditions())[-1]


def test_a_policy_is_told_by_its_engine_prompt_and_sampling_and_never_by_a_password() -> None:
    settings = PolicySettings(temperature=0.5, dialect="qwen3-mobile", max_pixels=9999)
    facts = facts_of("https://me:secret@host/v1?key=secret#model", settings)
    assert facts["policy"] == "https://host/v1#model" and "secret" not in json.dumps(facts)
    assert (facts["engine"], facts["dialect"], facts["temperature"]) == ("model server", "qwen3-mobile", 0.5)
    other = PolicySettings(temperature=0.5, dialect="ui-tars", max_pixels=9999)
    assert facts_of("tiny", other)["prompt"] != facts["prompt"]
    assert settings_digest(facts_of("tiny", other)) != settings_digest(facts_of("tiny", settings))
    assert settings_digest(facts | {"policy": "elsewhere", "code": {}}) == settings_digest(facts)
    assert facts_of("random", settings).keys() == {"policy", "engine", "zoom", "code"}


def test_a_row_of_the_csv_is_an_episode_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(result_csv(RESULT).decode())))
    assert [row["task"] for row in rows] == ["red", "blue", "green"]
    assert [row["colour"] for row in rows] == ["warm", "cold", "cold"]
    assert rows[1]["detail"].startswith("'=HYPERLINK") and rows[0]["tokens_out"] == "100"


def test_a_success_costs_what_failures_took_too() -> None:
    found = Repetitions((RESULT,))
    prices = Prices(tokens_in=2.0, tokens_out=10.0)
    assert prices.of(found.effort) == pytest.approx((600 * 2 + 200 * 10) / 1e6)
    assert "800 tokens, 0.0032 at the prices given" in took(found, prices)
    assert repetitions_json(found, prices)["per_success"]["cost"] == pytest.approx(0.0032)
    assert repetitions_json(found)["per_success"]["cost"] is None
    untold = SuiteResult(SUITE, "x", (episode("red", "success", "task_done"),))
    assert prices.of(Repetitions((untold,)).effort) is None


def test_a_card_holds_figures_and_conditions_and_texts_cannot_format_it() -> None:
    card = model_card(Repetitions((RESULT,)), [RESULT], Prices(1, 1))
    assert card.startswith("### tiny \\| \\<b\\> on squares")
    assert "| colour: warm | 100% | 21–100 | 1 | 0 |" in card
    for said in ("- device: browser 800x600", "- surface: GUI only", "- dialect: ui-tars", "- max steps: 7"):
        assert said in card
    assert RESULT.suite.digest in card and RESULT.ran.evaluator in card and "<b>" not in card


def test_every_group_of_a_suite_covers_its_tasks() -> None:
    for suite in SUITES.values():
        for way, group_of in suite.groups.items():
            assert set(suite.tasks) <= set(group_of), (suite.name, way)
    assert find_suite("phone").groups["app"]["settings-switch"] == "settings"
    assert find_suite("lab").groups["split"]["form-8@graphs"] == "graphs"


def test_many_tasks_leave_the_table_for_their_groups_which_no_digest_knows() -> None:
    bare = Suite("squares", "squares", ("red", "blue"), ("green",), 2, "browser")
    assert bare.digest == SUITE.digest and bare == SUITE
    for count, shown in ((MOST_ROWS, True), (MOST_ROWS + 1, False)):
        suite = Suite("many", "many", (), tuple(f"t{n}" for n in range(count)), 1, "browser")
        out = io.StringIO()
        print_table([SuiteResult(suite, "x", ())], Console(file=out))
        assert ("t7 " in out.getvalue()) is shown and "all tasks never trained on" in out.getvalue()


async def test_other_settings_or_turns_are_not_mixed_into_a_folder(tmp_path: Path) -> None:
    suite = find_suite(f"screenspot:{screenspot(tmp_path / 'items', per_picture=1)}")
    taskset = find_taskset(suite.taskset)

    async def run(facts: dict[str, float], max_steps: int | None = None) -> SuiteResult:
        agent = Agent(RandomPolicy(), "random", ObserveSpec(frame="png"), facts)
        return await run_suite(Benchmark(suite, taskset, None, max_steps), agent, None, tmp_path / "run")

    first = await run({"temperature": 1.0})
    assert first.ran.agent == {"temperature": 1.0} and first.ran.network == ()
    assert [one.kind for one in first.ran.devices] == ["still"]
    assert await run({"temperature": 1.0}) == first  # nothing is played, and what it ran on is still known
    with pytest.raises(UsageError, match="with other settings of its prompts or sampling"):
        await run({"temperature": 0.5})
    with pytest.raises(UsageError, match=r"holds results of 'random' on .* not of 'random' in 3 turns"):
        await run({"temperature": 1.0}, max_steps=3)
    claim = tmp_path / "run" / "suite.json"
    old = msgspec.json.decode(claim.read_bytes(), type=Claim)
    claim.write_bytes(msgspec.json.encode({"suite": old.suite, "digest": old.digest, "label": old.label}))
    assert (await run({"temperature": 1.0})).episodes == first.episodes  # a folder of an older version


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_turns_are_limited_prices_counted_and_all_of_it_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--suite", "lab", "--tasks", "reach-4,reach-4@graphs", "--episodes", "2", "--devices", "2"]
    done = invoke("eval", "--policy", "oracle", "--run", str(run), "--max-steps", "1", *words)
    assert done.exit_code == 0, done.output
    assert "by split" in done.output and "out of steps" in done.output
    results = json.loads((run / "oracle" / "results.json").read_text())
    assert {(e["steps"], e["outcome"]) for e in results["episodes"]} == {(1, "failure")}
    ran = results["ran"]
    assert ran["max_steps"] == 1 and ran["devices"][0]["kind"] == "lab" and ran["agent"]["policy"] == "oracle"
    assert (ran["devices"][0]["width"], ran["devices"][0]["height"]) == (160, 224)
    rows = list(csv.DictReader((run / "oracle" / "results.csv").read_text().splitlines()))
    assert [row["split"] for row in rows] == ["training's"] * 2 + ["graphs"] * 2
    card = (run / "card.md").read_text()
    assert "- max steps: 1" in card and "| null, " in card
    held = invoke("eval", "--verify", str(run / "oracle"), "--devices", "2")
    assert held.exit_code == 0 and "4 of 4 came out again" in held.output, held.output
    refused = invoke("eval", "--policy", "oracle", "--run", str(run), "--max-steps", "2", *words)
    assert "in 2 turns" in str(refused.exception)


def test_conditions_of_several_suites_tell_all_devices_once_and_the_most_that_any_allowed() -> None:
    browser, phone = Capabilities("browser", 160, 224), Capabilities("phone", 240, 320)
    pages = Conditions((browser,), network=("a.test",), addresses={"shop": "http://a.test"}, evaluator="e")
    phones = Conditions((browser, phone), "GUI and shell", ("a.test", "b.test"), evaluator="e")
    assert joined_conditions([pages, phones]) == Conditions(
        (browser, phone),
        "GUI and shell",
        ("a.test", "b.test"),
        evaluator="e",
        addresses={"shop": "http://a.test"},
    )
    assert joined_conditions([phones, pages]).surface == "GUI and shell"
    assert joined_conditions([pages]) == pages
