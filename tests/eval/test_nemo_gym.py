"""The wire of NeMo Gym's resources servers, on lab devices: rollouts, refusals, faults, what is left open."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from eval.doors import rollouts as shared
from eval.doors.nemo_gym import rows
from eval.doors.rollouts import Rollout, Rollouts, Row, tools
from eval.stepping import Stepped, SuiteTasks
from guiagent.actions import Wait
from guiagent.errors import FaultError, UsageError
from guiagent.seeds import REINFORCEMENT
from guiagent.types import Observation
from tests.support.doors import TOKEN, serving

ROW = {"task": "reach-2", "seed": REINFORCEMENT[5], "responses_create_params": {"input": []}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    words = ("nemo-gym", "lab", "--devices", "2", "--max-steps", "3", "--http", "0")
    with serving(*words, GUIAGENT_NEMO_GYM_TOKEN=TOKEN) as address:
        yield address


@pytest.fixture
def one(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, auth=("guiagent", TOKEN), timeout=60) as client:
        yield client


def call(client: httpx.Client, path: str, **said: Any) -> httpx.Response:
    return client.post(path, json=said)


def scored(client: httpx.Client) -> Any:
    answer = call(client, "/verify", **ROW, response={"output": []})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_rollout_sees_elements_and_is_scored_by_the_tasks_check(one: httpx.Client) -> None:
    assert call(one, "/seed_session", **ROW).json() == {}
    shown = call(one, "/look").text
    assert " at x=" in shown and shown.splitlines()[1] == ""  # the task, then the elements
    assert call(one, "/wait", ms=0).text == shown.split("\n\n", 1)[1]
    assert call(one, "/done").text == "The task has ended."
    assert call(one, "/wait", ms=0).status_code == 422
    assert scored(one) == {**ROW, "response": {"output": []}, "reward": 0.0}
    assert "no such rollout" in call(one, "/look").text  # its device was given back


@pytest.mark.browser
def test_what_the_task_asks_for_is_worth_1() -> None:
    words = ("nemo-gym", "miniwob-demo", "--devices", "1", "--http", "0")
    with (
        serving(*words, GUIAGENT_NEMO_GYM_TOKEN=TOKEN) as url,
        httpx.Client(base_url=url, auth=("guiagent", TOKEN), timeout=60) as client,
    ):
        for button, reward in (("ONE", 1.0), ("TWO", 0.0)):  # the task is to click ONE
            call(client, "/seed_session", task="click-test-2", seed=REINFORCEMENT[0])
            place = re.search(rf"button '{button}' at x=(\d+) y=(\d+)", call(client, "/look").text)
            assert place is not None
            assert call(client, "/click", x=int(place[1]), y=int(place[2])).text == "The task has ended."
            assert scored(client)["reward"] == reward


@pytest.mark.parametrize(
    ("path", "said", "told"),
    [
        ("/seed_session", {"task": "reach-2"}, "seed: Field required"),
        ("/seed_session", ROW | {"task": "reach-99"}, "reach-99"),
        ("/seed_session", ROW | {"task": "reach-2@graphs"}, "kept unseen"),
        ("/seed_session", ROW | {"seed": 3}, "3"),
        ("/click", {"x": 1}, "no such rollout"),
        ("/verify", {}, "no such rollout"),
        ("/aggregate_metrics", {}, "verify_responses: Field required"),
    ],
)
def test_what_is_no_call_is_one_line(one: httpx.Client, path: str, said: Any, told: str) -> None:
    answer = call(one, path, **said)
    assert answer.status_code == 422 and told in answer.text and "\n" not in answer.text


@pytest.mark.parametrize(
    ("tool", "said", "told"),
    [
        ("click", {"x": 1}, "click: y: Missing"),
        ("click", {"x": 1, "y": 2, "z": 3}, "click: z: Unexpected"),
        ("click", {"x": -1, "y": 2}, "click: x:"),
        ("fly", {}, "there is no tool 'fly': look, answer, click"),
        ("_do", {}, "there is no tool '_do'"),
    ],
)
def test_what_is_no_action_leaves_the_rollout_as_it_is(
    one: httpx.Client, tool: str, said: Any, told: str
) -> None:
    call(one, "/seed_session", **ROW)
    answer = call(one, f"/{tool}", **said)
    assert answer.status_code == 422 and answer.text.startswith(told), answer.text
    assert call(one, "/look").status_code == 200
    scored(one)


def test_there_are_as_many_rollouts_as_devices(url: str, one: httpx.Client) -> None:
    with (
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as two,
        httpx.Client(base_url=url, auth=("guiagent", TOKEN), timeout=60) as three,
    ):
        for client in (one, two):
            assert call(client, "/seed_session", **ROW).status_code == 200
        full = call(three, "/seed_session", **ROW)
        assert full.status_code == 503 and "num_samples_in_parallel=2" in full.text
        scored(one)
        assert call(three, "/seed_session", **ROW).status_code == 200
        for client in (two, three):
            scored(client)


def test_without_the_token_nothing_is_answered(url: str) -> None:
    for auth in (None, ("guiagent", "another"), ("somebody", TOKEN)):
        assert httpx.post(url + "/seed_session", json=ROW, auth=auth).status_code == 401


def test_scores_are_counted(one: httpx.Client) -> None:
    three = [{"reward": reward, "_ng_task_index": 0} for reward in (0.0, 1.0, 0.5)]
    metrics = call(one, "/aggregate_metrics", verify_responses=three).json()["agent_metrics"]
    assert metrics == {"rollouts": 3, "mean/reward": 0.5}
    assert call(one, "/aggregate_metrics", verify_responses=[]).json()["key_metrics"] == {"rollouts": 0}


def test_rows_have_every_task_to_learn_from_and_all_tools() -> None:
    tasks = SuiteTasks("lab")
    made = rows(tasks, 2, "mine")
    assert {row["task"] for row in made} == set(tasks.names) and len(made) == 2 * len(tasks.names)
    assert all(row["agent_ref"]["name"] == "mine" and row["seed"] in REINFORCEMENT for row in made)
    known = {tool["name"]: tool["parameters"] for tool in tools()}
    assert set(known["click"]["required"]) == {"x", "y"} and "look" in known
    assert json.loads(json.dumps(made[0])) == made[0]
    with pytest.raises(UsageError, match="no tasks to learn from"):
        rows(SuiteTasks("safety"), 1, "mine")


class Failing:
    """An episode whose device fails at its first action."""

    closed = 0

    async def reset(self, task: Any) -> tuple[str, Observation]:
        return "do it", Observation(10, 10)

    async def step(self, actions: Any) -> Stepped:
        lost = {"origin": "device", "code": "lost", "message": "the device is gone"}
        return Stepped(Observation(10, 10), 0.0, False, True, {"fault": lost})

    async def close(self) -> None:
        self.closed += 1


class Tasks:
    """Tasks on one device."""

    def __init__(self, episode: Any) -> None:
        self.episode = episode

    def exactly(self, name: str, seed: int) -> None:
        pass

    def slot(self, client: Any, label: str) -> Any:
        return self.episode


@pytest.fixture
def rollouts(monkeypatch: pytest.MonkeyPatch) -> Rollouts:
    monkeypatch.setattr(shared, "_SWEEP_S", 0.01)
    monkeypatch.setattr(shared, "Episode", lambda slot, *_, **__: slot)
    return Rollouts(Tasks(Failing()), None, 1, None, 0.05, door="test", at_once="n")  # type: ignore[arg-type]


ROW_OF = Row(task="t", seed=0)


async def test_a_fault_is_never_a_score(rollouts: Rollouts) -> None:
    rollout = rollouts.of(await rollouts.begin(ROW_OF))
    for call in (lambda: rollout.act(Wait(ms=0)), rollout.look, rollout.score):
        with pytest.raises(FaultError, match="the device is gone"):
            await call()


async def test_an_idle_rollout_ends_without_a_score(rollouts: Rollouts) -> None:
    name = await rollouts.begin(ROW_OF)
    rollout: Rollout = rollouts.of(name)
    sweeping = asyncio.create_task(rollouts.sweep())
    try:
        async with asyncio.timeout(10):
            while name in rollouts._going:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        sweeping.cancel()
    with pytest.raises(FaultError, match="was ended"):
        await rollout.score()
    with pytest.raises(UsageError, match="no such rollout"):
        rollouts.of(name)


def test_a_data_set_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from guiagent.cli import app

    file = tmp_path / "rows.jsonl"
    app(["nemo-gym", "lab", "--rows", str(file), "--episodes", "1"], standalone_mode=False)
    made = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(made) == len(SuiteTasks("lab").names) and f"{len(made)} rows" in capsys.readouterr().out
