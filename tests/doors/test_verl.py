"""verl's own agent loops and trainer, unmodified, on pages of a browser with the small policy.

There is no GPU: tests/doors/verl_stand_ins.py is in the place of CUDA and of vLLM's servers.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet
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

HERE = ROOT / "tests" / "doors"
EXAMPLE = ROOT / "examples" / "doors" / "verl_suite.py"
PLAYED = [("click-test-2", REINFORCEMENT[0]), ("identify-shape", REINFORCEMENT[1])]
FAULTY = ("identify-shape", REINFORCEMENT[3])
RESPONSE = 160
ROLLOUTS = {
    "data.max_prompt_length": 256,
    "data.max_response_length": RESPONSE,
    "actor_rollout_ref.rollout.name": "stand-in",
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
    "actor_rollout_ref.rollout.agent.num_workers": 1,
}
TRAINER = {
    **ROLLOUTS,
    "algorithm.adv_estimator": "grpo",
    "data.train_batch_size": 2,
    "data.filter_overlong_prompts": False,
    "data.dataloader_num_workers": 0,
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
    "actor_rollout_ref.model.use_remove_padding": False,
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "++actor_rollout_ref.actor.fsdp_config.mixed_precision": "{param_dtype: fp32, reduce_dtype: fp32}",
    "actor_rollout_ref.actor.optim.lr": 1e-4,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 2,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 2,
    "actor_rollout_ref.rollout.n": 6,
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "ray_kwargs.ray_init.num_cpus": 8,
    "+ray_kwargs.ray_init.num_gpus": 1,
    "trainer.device": "cpu",
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 1,
    "trainer.logger": "[file]",
    "trainer.total_training_steps": 2,
    "trainer.val_before_train": False,
    "trainer.test_freq": -1,
    "trainer.save_freq": -1,
}


class Watched:
    """Browsers that note the seed of each task, the actions that they carry out, and the page's own reward.

    The first one to act with the seed of FAULTY fails.
    """

    def __init__(self) -> None:
        self.episodes: list[dict[str, Any]] = []
        self.failed = False

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
            if now["seed"] == FAULTY[1] and not self.failed:
                self.failed = now["failed"] = True
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


@contextmanager
def prepared(folder: Path, watched: Watched) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Browsers, and what verl is told of them: options, and variables of its environment."""
    config = PoolConfig(
        state_dir=folder / "pool", devices=[BrowserConfig(count=2, width=WIDTH, height=HEIGHT)]
    )
    with pool_thread(config, {"browser": Driver(watched.start, browser.sweep)}) as pool:
        words = ["suite=miniwob-demo", "dialect=ui-tars", "devices=2", f"pool={pool.url}", "max_steps=4"]
        options = run_in("verl", EXAMPLE, str(folder / "files"), *words).splitlines()[-2:]
        options.append(f"actor_rollout_ref.model.path={for_verl(folder / 'model')}")
        yield options, {"PYTHONPATH": f"{ROOT}:{HERE}", "GUIAGENT_TOKEN": pool.token}


def run(words: Sequence[str], variables: dict[str, str], said: str = "") -> str:
    ended = subprocess.run(
        [str(python_of("verl")), *words],
        input=said,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-6000:]
    return ended.stdout


def written(options: dict[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests/doors/verl_run.py prints, and as `episodes` what the browsers noted."""
    python_of("verl")
    watched = Watched()
    with prepared(tmp_path_factory.mktemp("verl"), watched) as (options, variables):
        standalone = {"nnodes": 1, "n_gpus_per_node": 1, "n": 4}
        more = {f"actor_rollout_ref.rollout.{name}": value for name, value in standalone.items()}
        asked = {
            "options": [*options, *written(ROLLOUTS | more)],
            "play": PLAYED,
            "faulty": [FAULTY, ("click-test-2", REINFORCEMENT[2])],
        }
        said = run([str(HERE / "verl_run.py")], variables, json.dumps(asked))
    return {**json.loads(said.splitlines()[-1]), "episodes": watched.episodes}


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
    task, seed = FAULTY
    message = f"no reward for {task}, seed {seed}: device fault (crashed): the page went away"
    assert message in ran["raised"]
    assert [one["actions"] for one in ran["episodes"] if one["seed"] == seed] == [[]]


def test_its_trainer_takes_steps_and_a_fault_is_no_rollout_in_them(tmp_path: Path) -> None:
    python_of("verl")
    watched, rows, log = Watched(), tmp_path / "rows.parquet", tmp_path / "log.jsonl"
    with prepared(tmp_path, watched) as (options, variables):
        table = pyarrow.parquet.read_table(tmp_path / "files" / "train.parquet")
        told = [(one["task"], one["seed"]) for one in table.column("extra_info").to_pylist()]
        pyarrow.parquet.write_table(table.take([told.index(PLAYED[0]), told.index(FAULTY)]), rows)
        files = {
            "data.train_files": rows,
            "data.val_files": rows,
            "trainer.rollout_data_dir": tmp_path / "out",
            "hydra.run.dir": tmp_path / "hydra",
        }
        stand_ins = {"VERL_USE_EXTERNAL_MODULES": "verl_stand_ins", "VERL_PLATFORM": "cpu"}
        # verl lists its FSDP engine for CUDA alone; this is its own variable for another choice.
        stand_ins |= {"VERL_ENGINE_DEVICE": "cuda", "VERL_FILE_LOGGER_PATH": str(log)}
        main = ["-m", "verl.trainer.main_ppo", *options, *written(TRAINER | files)]
        run(main, variables | stand_ins)
    steps = [json.loads(line)["data"] for line in log.read_text().splitlines()]
    assert len(steps) == 2
    for step in steps:  # the engine finds the tokens as probable as the server did, which has its weights
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] < float("inf")
    assert any(step["actor/grad_norm"] > 0 for step in steps)

    seeds = (PLAYED[0][1], FAULTY[1])
    did = [one for one in watched.episodes if one["seed"] in seeds]
    paid = [one["reward"] for one in did if "failed" not in one]
    assert len(did) == 24 and len(paid) == 23
    kept = []
    for number, step in enumerate(steps, 1):
        lines = [json.loads(line) for line in (tmp_path / "out" / f"{number}.jsonl").read_text().splitlines()]
        scores = [one["score"] for one in lines if one["input"]]  # without one, verl filled up its batch
        assert step["critic/rewards/mean"] == pytest.approx(fmean(scores))
        kept += scores
    assert sorted(kept) == sorted(paid)
