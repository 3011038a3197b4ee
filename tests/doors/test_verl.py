"""verl's own agent loop manager and workers, unmodified, play pages of a browser with the small policy.

What samples is a stand-in for its vLLM servers.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from devices.config import BrowserConfig, PoolConfig
from devices.drivers import Driver, browser
from devices.drivers.browser.device import BrowserDevice
from guiagent.actions import ACTIONS, Action
from guiagent.errors import Fault, FaultError
from guiagent.seeds import REINFORCEMENT
from guiagent.types import Observation, ObserveSpec, ResetSpec
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from tests.support.doors import ROOT, python_of, run_in
from tests.support.pool_thread import pool_thread
from training.config import SMALL_POLICY
from training.inputs.encoder import Encoder

pytestmark = [pytest.mark.doors, pytest.mark.browser]

EXAMPLE = ROOT / "examples" / "doors" / "verl_suite.py"
PLAYED = [("click-test-2", REINFORCEMENT[0]), ("identify-shape", REINFORCEMENT[1])]
FAULTY = REINFORCEMENT[3]
RESPONSE = 160


class Watched:
    """Browsers that note the seed of each task, the actions that they carry out, and the page's own reward.

    With the seed FAULTY they fail at the first action.
    """

    def __init__(self) -> None:
        self.episodes: list[dict[str, Any]] = []

    async def start(self, config: BrowserConfig) -> BrowserDevice:
        device = await browser.start(config)
        assert isinstance(device, BrowserDevice)
        reset, act = device.reset, device.act
        now: dict[str, Any] = {}

        async def noted_reset(seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
            nonlocal now
            now = {"seed": seed, "actions": [], "reward": 0.0}
            self.episodes.append(now)
            return await reset(seed, baseline, spec)

        async def noted_act(actions: Sequence[Action], spec: ObserveSpec) -> Observation:
            if now["seed"] == FAULTY:
                raise FaultError(Fault("device", "crashed", "the page went away"))
            now["actions"] += ACTIONS.dump_python(list(actions), mode="json")
            shown = await act(actions, spec)
            _, done, raw, _ = shown.probes["state"]
            now["reward"] = float(done and raw > 0)
            return shown

        device.reset, device.act = noted_reset, noted_act  # type: ignore[method-assign]
        return device


def for_verl(folder: Path) -> Path:
    """The small policy with a processor of a class that verl knows. Its pictures are the same."""
    shutil.copytree(SMALL_POLICY, folder)
    for name in ("processor_config.json", "tokenizer_config.json"):
        told = json.loads((folder / name).read_text())
        told["processor_class"] = "Qwen3VLProcessor"
        if name == "processor_config.json":
            told["video_processor"] = {"video_processor_type": "Qwen3VLVideoProcessor"}
        (folder / name).write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What tests/doors/verl_run.py prints, and as `episodes` what the browsers noted."""
    python, folder, watched = python_of("verl"), tmp_path_factory.mktemp("verl"), Watched()
    config = PoolConfig(
        state_dir=folder / "pool", devices=[BrowserConfig(count=2, width=WIDTH, height=HEIGHT)]
    )
    with pool_thread(config, {"browser": Driver(watched.start, browser.sweep)}) as pool:
        words = ["suite=miniwob-demo", "dialect=ui-tars", "devices=2", f"pool={pool.url}", "max_steps=4"]
        options = run_in("verl", EXAMPLE, str(folder / "files"), *words).splitlines()[-2:]
        rollout = ["name=stand-in", "nnodes=1", "n_gpus_per_node=1", "tensor_model_parallel_size=1"]
        rollout += ["agent.num_workers=2", "n=4"]
        asked = {
            "model": str(for_verl(folder / "model")),
            "options": [
                *options,
                *(f"actor_rollout_ref.rollout.{word}" for word in rollout),
                "data.max_prompt_length=256",
                f"data.max_response_length={RESPONSE}",
            ],
            "play": PLAYED,
            "faulty": [("click-test-2", FAULTY), ("identify-shape", REINFORCEMENT[2])],
        }
        done = subprocess.run(
            [str(python), str(ROOT / "tests" / "doors" / "verl_run.py")],
            input=json.dumps(asked),
            env={**os.environ, "PYTHONPATH": str(ROOT), "GUIAGENT_TOKEN": pool.token},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    yield {**json.loads(done.stdout.splitlines()[-1]), "episodes": watched.episodes}


def sampled_places(ran: dict[str, Any], rollout: dict[str, Any]) -> dict[int, float]:
    """The places of a rollout's response that the server sampled, with their log-probs."""
    begun, ids = len(rollout["prompt"]), rollout["prompt"] + rollout["response"]
    places = dict[int, float]()
    for prompt, reply, logprobs in ran["sampled"]:
        if ids[: len(prompt) + len(reply)] == prompt + reply:
            places |= {len(prompt) - begun + place: value for place, value in enumerate(logprobs)}
    return places


def test_the_mask_marks_the_sampled_tokens_and_no_other(ran: dict[str, Any]) -> None:
    assert len(ran["rollouts"]) == 8
    for rollout in ran["rollouts"]:
        places = sampled_places(ran, rollout)
        assert [place for place, mask in enumerate(rollout["mask"]) if mask] == sorted(places)
        assert rollout["masked_padding"] == 0
        expected = [places.get(place, 0.0) for place in range(len(rollout["response"]))]
        assert rollout["logprobs"] == pytest.approx(expected)
        assert len(rollout["response"]) <= RESPONSE
        assert rollout["pictures"] == rollout["came_to"]["steps"] == rollout["turns"] / 2
    assert any(0 in rollout["mask"] for rollout in ran["rollouts"])  # one saw a second screenshot


def acted(encoder: Encoder, rollout: dict[str, Any]) -> list[dict[str, Any]]:
    """The actions that the sampled tokens of a rollout say."""
    replies: list[list[int]] = [[]]
    for token, mask in zip(rollout["response"], rollout["mask"], strict=True):
        if mask:
            replies[-1].append(token)
        elif replies[-1]:
            replies.append([])
    actions = [
        action
        for reply in filter(None, replies)
        for action in encoder.dialect.parse(encoder.decode(reply), (WIDTH, HEIGHT))
    ]
    told: list[dict[str, Any]] = ACTIONS.dump_python(actions, mode="json")
    return told


def test_the_browsers_did_what_the_tokens_say_and_their_pages_reward_is_paid(ran: dict[str, Any]) -> None:
    encoder, rollouts = Encoder(SMALL_POLICY, "ui-tars"), ran["rollouts"]
    said = [(one["row"]["seed"], acted(encoder, one), one["reward"]) for one in rollouts]
    seeds = {seed for _, seed in PLAYED}
    did = [(one["seed"], one["actions"], one["reward"]) for one in ran["episodes"] if one["seed"] in seeds]
    assert sorted(map(repr, said)) == sorted(map(repr, did))
    assert {reward for _, _, reward in said} == {0.0, 1.0}
    for one in rollouts:
        assert one["reward"] == one["came_to"]["score"]
        assert one["paid"] == ([len(one["response"]) - 1] if one["reward"] else [])


def test_a_fault_is_raised_and_nothing_of_its_batch_is_returned(ran: dict[str, Any]) -> None:
    message = f"no reward for click-test-2, seed {FAULTY}: device fault (crashed): the page went away"
    assert message in ran["raised"]
    assert [one["actions"] for one in ran["episodes"] if one["seed"] == FAULTY] == [[]]
