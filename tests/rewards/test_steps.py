"""Recorded steps: the rule on types, points and texts, files in AndroidControl's form, and the runner."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.breakdown import by_group, by_part
from eval.results import SuiteResult
from eval.run import Agent, Benchmark, run_suite
from eval.suites import find_suite
from guiagent.actions import ACTION, Action
from guiagent.cli import app
from guiagent.client.still import StillDevice
from guiagent.errors import UsageError
from guiagent.policies import CentrePolicy, OraclePolicy, ScriptedPolicy
from guiagent.protocols import Policy
from guiagent.types import ObserveSpec
from rewards.audit import audit
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.steps import Steps, read_steps
from rewards.tasksets.steps.rule import parts
from tests.support.watched import picture

SIZE = (100, 200)
SCREENS = [base64.b64encode(picture(colour, SIZE)).decode() for colour in ("#111", "#222", "#333", "#444")]
EPISODE: dict[str, Any] = {
    "episode_id": 17,
    "goal": "Write hello",
    "actions": [
        {"action_type": "click", "x": 50, "y": 100},
        {"action_type": "input_text", "text": "hello"},
        {"type": "key", "keys": ["Control", "s"]},
    ],
    "screenshots_b64": SCREENS,
    "boxes": [[40, 90, 60, 110], None, None],
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "state"))


def laid(folder: Path, **fields: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.json").write_text(json.dumps([{**EPISODE, **fields}]))
    return folder


def act(**told: Any) -> Action:
    return ACTION.validate_python(told)


CLICK = act(type="click", x=50, y=100)
BOX = (40, 90, 60, 110)


@pytest.mark.parametrize(
    ("did", "wanted", "box", "found"),
    [
        (act(type="click", x=40, y=110), CLICK, BOX, (1, 1, 1)),  # edges belong to the box
        (act(type="click", x=39, y=100), CLICK, BOX, (1, 0, 0)),
        (act(type="click", x=64, y=100), CLICK, None, (1, 1, 1)),  # 14 % of the width
        (act(type="click", x=65, y=100), CLICK, None, (1, 0, 0)),
        (act(type="click", x=50, y=128), CLICK, None, (1, 1, 1)),  # 14 % of the height
        (act(type="click", x=60, y=120), CLICK, None, (1, 0, 0)),  # 10 % and 10 % are more together
        (act(type="long_press", x=50, y=100), CLICK, BOX, (0, 0, 0)),
        (None, CLICK, BOX, (0, 0, 0)),
        (act(type="type", text=" Hello "), act(type="type", text="hello"), None, (1, None, 1)),
        (act(type="type", text="hell"), act(type="type", text="hello"), None, (1, None, 0)),
        (
            act(type="swipe", x1=9, y1=90, x2=9, y2=10),
            act(type="scroll", x=50, y=50, dy=70),
            None,
            (1, None, 1),
        ),
        (act(type="scroll", x=1, y=1, dy=-9), act(type="scroll", x=50, y=50, dy=70), None, (1, None, 0)),
        (act(type="done"), act(type="done", status="infeasible"), None, (1, None, 0)),
        (
            act(type="press_button", button="back"),
            act(type="press_button", button="home"),
            None,
            (1, None, 0),
        ),
        (act(type="key", keys=["control", "S"]), act(type="key", keys=["Control", "s"]), None, (1, None, 1)),
        (
            act(type="drag", path=[[50, 100], [99, 199]]),
            act(type="drag", path=[[50, 100], [0, 0]]),
            None,
            (1, 0, 0),
        ),
    ],
)
def test_the_rule(did: Action | None, wanted: Action, box: Any, found: tuple[int, int | None, int]) -> None:
    names = ("type", "grounding", "step")
    told = {name: float(value) for name, value in zip(names, found, strict=True) if value is not None}
    assert parts(did, wanted, box, SIZE) == told


def test_an_episode_becomes_a_task_for_each_screen_and_level(tmp_path: Path) -> None:
    items = read_steps(laid(tmp_path / "in"))
    assert [(item.id, item.kind, item.box) for item in items] == [
        ("17-000", "click", BOX),
        ("17-001", "type", None),
        ("17-002", "key", None),
        ("17-003", "done", None),  # the screen after the last action
    ]
    assert items[0].instruction == "Write hello"
    assert items[1].instruction.splitlines()[1:] == ["Done so far:", 'click {"x":50,"y":100}']
    told = read_steps(laid(tmp_path / "in", step_instructions=["tap it", "type it", "save it"]))
    assert [item.level for item in told] == ["goal", "goal and step"] * 3 + ["goal"]
    assert told[3].instruction == "Write hello\nDone so far:\ntap it\nNow: type it"
    assert Steps(tmp_path / "in").digest != Steps(laid(tmp_path / "in", goal="Write it")).digest


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"boxes": [None]}, "1 boxes for 3 actions"),
        ({"screenshots_b64": SCREENS[:1]}, "1 screenshots for 3 actions"),
        ({"screenshots_b64": None, "screenshots": ["../x.png"] * 3}, "no picture"),
        ({"actions": [{"action_type": "click", "x": 50}, *EPISODE["actions"][1:]]}, "action 0: "),
        ({"actions": [], "screenshots_b64": [], "boxes": None}, "have no steps"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, fields: Mapping[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        read_steps(laid(tmp_path / "in", **fields))
    assert "\n" not in str(error.value)


async def test_steps_are_scored_without_a_device(tmp_path: Path) -> None:
    suite = find_suite(f"steps:{laid(tmp_path / 'in')}")
    benchmark = Benchmark(suite, find_taskset(suite.taskset, oracle=True))

    async def rates(name: str, policy: Policy) -> tuple[SuiteResult, dict[str, float]]:
        agent = Agent(policy, name, ObserveSpec(frame="png"))
        result = await run_suite(benchmark, agent, None, tmp_path / name, concurrency=1)
        return result, {part: found.rate for part, found in by_part(result).items()}

    result, oracle = await rates("oracle", OraclePolicy())
    assert oracle == {"type": 1.0, "grounding": 1.0, "step": 1.0}
    assert [(row.task, row.scheduled.n) for row in by_group(result)["action"]] == [
        ("click", 1),
        ("type", 1),
        ("key", 1),
        ("done", 1),
    ]
    _, centre = await rates("centre", CentrePolicy())
    assert centre == {"type": 0.25, "grounding": 1.0, "step": 0.25}
    _, done = await rates("done", ScriptedPolicy([]))
    assert done == {"type": 0.25, "grounding": 0.0, "step": 0.25}
    with pytest.raises(UsageError, match="for evaluation alone"):
        training_names(find_taskset(suite.taskset), ("*",))


async def test_every_step_proves_its_check(tmp_path: Path) -> None:
    tasks = Steps(laid(tmp_path / "in"))
    for name in tasks.names:
        proof = await audit(lambda name=name: tasks.task(name, 0), StillDevice(), agents={})  # type: ignore[misc]
        assert proof.failures == [] and len(proof.mutants) >= 2, name


def test_our_own_episodes_become_steps_and_come_back(tmp_path: Path) -> None:
    """What is written from a store is read again, action by action, by `import` and as steps."""
    (tmp_path / "in").mkdir()
    invoked = CliRunner().invoke
    brought = [str(laid(tmp_path / "in")), "--as", "androidcontrol", "--run", str(tmp_path / "run")]
    assert invoked(app, ["import", *brought, "--demonstrations"]).exit_code == 0
    out = tmp_path / "out"
    done = invoked(app, ["export", str(tmp_path / "run"), "--as", "androidcontrol", "--to", str(out)])
    assert done.exit_code == 0 and "1 episodes, 4 turns as androidcontrol" in done.output
    before, after = read_steps(tmp_path / "in"), read_steps(out)
    assert [item.wanted for item in after] == [item.wanted for item in before]
    assert [item.picture for item in after] == [item.picture for item in before]
    assert json.loads(next(out.glob("*.json")).read_bytes())["actions"][2] == EPISODE["actions"][2]
