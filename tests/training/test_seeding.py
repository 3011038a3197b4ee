"""Seeds: what is kept of an episode under a plan is what the policy would have been shown without it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from guiagent.cli import app
from guiagent.client.local_pool import private_pool
from guiagent.errors import MissingProgram, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from guiagent.wire import Endpoint
from rewards.judges.config import ServerConfig
from rewards.judges.model_server import ModelServer
from tests.support.conversing import EXACT, INSTRUCTIONS, contexts_of, converse, plain_logprobs, screen
from tests.support.model_stand_in import stand_in
from training.algorithms import find_algorithm
from training.config import SMALL_POLICY, HistoryConfig, UpdateConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.experience.bepa_seeds import Plan, Planned, plan_of, unaided
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.model.network import Checkpoints, Network, Placement
from training.replay import Replay, adopt

PLAN = ("Look for the button.", "Press it.")
TASKS = ("click-test", "click-button")


@pytest.mark.parametrize("history", [HistoryConfig(), HistoryConfig(kind="anchored", images=2)])
async def test_the_plan_is_gone_and_the_log_probabilities_are_the_unaided_ones(
    checkpoint: Path, history: HistoryConfig
) -> None:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=6), history=history)
    planned = Planned(policy, PLAN)
    screens = [screen(number) for number in range(3)]
    told = await converse(planned, "ab", screens)  # type: ignore[arg-type]
    opened = Checkpoints(checkpoint, checkpoint)
    network = Network(opened, policy.encoder, UpdateConfig(), Placement(torch.device("cpu")))
    steps = [Step(str(turn), 96, 64, past.output) for turn, past in enumerate(told)]
    seen = Trajectory("t", "task", 0, INSTRUCTIONS[2], steps, "max_steps")
    bare = unaided(seen, history, network, policy.encoder, lambda name: screens[int(name)].frame)

    plain = await converse(policy, "ab", screens)  # the same screens without a plan: the prompts to be had
    assert bare.steps[0].policy.prompt_ids == plain[0].output.prompt_ids
    assert len(contexts(bare)) == len(contexts_of(plain)) == len(contexts(seen))
    assert "Press it" in policy.encoder.decode(contexts(seen)[-1].ids)
    assert not any("Press it" in policy.encoder.decode(context.ids) for context in contexts(bare))
    said = [step.policy.completion_ids for step in bare.steps]
    assert said == [past.output.completion_ids for past in told]
    for step, past in zip(bare.steps, told, strict=True):
        past.output.prompt_ids, past.output.images = step.policy.prompt_ids, step.policy.images
    unaided_ones = plain_logprobs(policy, told)
    policy.close()
    for step, expected in zip(bare.steps, unaided_ones, strict=True):
        assert step.policy.logprobs == pytest.approx(expected, abs=EXACT)
    aided = [past.output.logprobs for past in told]
    assert all(a != pytest.approx(b, abs=100 * EXACT) for a, b in zip(aided, unaided_ones, strict=True))


def expert(id: str, task: str, seed: int, success: bool = True) -> Trajectory:
    steps = [Step("", 160, 224, PolicyOutput(f"Action: click {n}", [{"type": "click"}])) for n in range(60)]
    return Trajectory(id, task, seed, "Click. </task>", steps, "task_done", score=Score(float(success)))


@pytest.mark.parametrize(
    ("reply", "steps"),
    [
        ("Look for the button.\n\n  Press\tit.\n", PLAN),
        ("\x00\x1b[2J\n \n", ("[2J",)),
        ("", ()),
        ("long " * 1000 + "\n" + "x\n" * 1000, (("long " * 1000)[:200], *"x" * 11)),
    ],
)
async def test_a_plan_is_a_few_printable_lines(reply: str, steps: tuple[str, ...]) -> None:
    with stand_in(lambda body: reply) as server:
        model = ModelServer(ServerConfig(url=server.url, model="m"))
        plan = await plan_of(expert("e", "click-test", 1), model)
        await model.close()
    assert plan == Plan("e", steps)
    shown = server.bodies[0]["messages"][1]["content"]
    assert "click 49" in shown and "click 50" not in shown


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    try:
        with private_pool("browser=2@160x224") as endpoint:
            yield endpoint
    except MissingProgram as missing:
        pytest.skip(str(missing))


@pytest.mark.browser
def test_attempts_under_a_plan_are_made_once_and_begin_a_replay(pool: Endpoint, tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "experts") as store:
        experts = [expert(f"e{n}", task, n) for n, task in enumerate(TASKS)]
        store.commit([*experts, expert("failed", "focus-text", 3, success=False), expert("other", "none", 4)])
    run = tmp_path / "seeds"
    with stand_in(lambda body: "Click the button.") as server:
        words = ["seeds", "--experts", str(tmp_path / "experts"), "--recipe", "arpo-demo", "--run", str(run)]
        settings = [
            "update.algorithm=bepa",
            "rollout.devices=2",
            f"device.farm={pool.url}",
            f"planner.url={server.url}",
            "planner.model=m",
        ]
        words += ["--attempts", "6", *(word for setting in settings for word in ("--set", setting))]
        done = CliRunner().invoke(app, words, env={"GUIAGENT_TOKEN": pool.token})
        assert done.exit_code == 0, done.output
        with TrajectoryStore(run / "trajectories", readonly=True) as store:
            attempts = list(store)
        again = CliRunner().invoke(app, words, env={"GUIAGENT_TOKEN": pool.token})
        assert again.exit_code == 0, again.output
        assert len(server.requests) == 2  # one for each expert's success
    won = {attempt.task for attempt in attempts if attempt.success}
    encoder = Encoder(SMALL_POLICY)
    prompts = [encoder.decode(context.ids) for attempt in attempts for context in contexts(attempt)]
    assert prompts and all("Click" in prompt and "A plan that led" not in prompt for prompt in prompts)
    for number, task in enumerate(TASKS):
        own = [attempt for attempt in attempts if attempt.task == task]
        assert {attempt.seed for attempt in own} == {number}
        assert [attempt.success for attempt in own[:-1]] == [False] * (len(own) - 1)
        assert len(own) == 6 or own[-1].success
    with (
        TrajectoryStore(run / "trajectories", readonly=True) as store,
        TrajectoryStore(tmp_path / "o") as own,
    ):
        assert len(store) == len(attempts)
        replay = Replay(find_algorithm("bepa").replay, 0)
        replay.seed(adopt(store, own))
        assert len(own) == len(won)
        assert {task for task, ids in replay.state()["kept"].items() if ids} == won
    assert f"{len(won)} seeds" in done.output


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ([], "say which model makes plans"),
        (["planner.url=http://127.0.0.1:1"], "say which model to ask"),
        (["planner.url=http://127.0.0.1:1", "planner.model=m"], "no success at a task of miniwob"),
    ],
)
def test_what_seeds_need_is_said_in_a_line(tmp_path: Path, told: list[str], line: str) -> None:
    with TrajectoryStore(tmp_path / "experts") as store:
        store.commit([expert("failed", TASKS[0], 1, success=False)])
    words = ["seeds", "--experts", str(tmp_path / "experts"), "--recipe", "arpo-demo", "--run", str(tmp_path)]
    settings = [*told, "device.farm=http://127.0.0.1:1"]
    words += [word for setting in settings for word in ("--set", setting)]
    done = CliRunner().invoke(app, words, env={"GUIAGENT_TOKEN": "t"})
    assert isinstance(done.exception, UsageError)
    assert line in str(done.exception)
