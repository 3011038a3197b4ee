"""Tasks as Gymnasium environments: its own checker, on the lab and on a real page; vectors; faults."""

from collections.abc import Iterator
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import eval.gym
from eval.frames import pixel
from eval.gym.env import TaskEnv, TaskVectorEnv
from eval.gym.spaces import WORDS, action_space, actions_of
from guiagent.actions import Answer, Click, Done, Drag, Scroll, Type
from guiagent.errors import Fault, FaultError, UsageError

NAME = f"{eval.gym.__name__}:guiagent/Task-v0"
_NOTHING = {"at": np.zeros(2, np.float32), "to": np.zeros(2, np.float32), "text": ""}
WAIT = {"word": WORDS.index("wait"), **_NOTHING}
DONE = {"word": WORDS.index("done"), **_NOTHING}


@pytest.fixture
def lab() -> Iterator[TaskEnv]:
    env = gymnasium.make(NAME, suite="lab", task="reach-2", max_steps=3)
    yield cast(TaskEnv, env.unwrapped)
    env.close()


def test_a_lab_task_passes_gymnasiums_checker() -> None:
    env = gymnasium.make(NAME, suite="lab", task="reach-2", render_mode="rgb_array")
    check_env(env.unwrapped, skip_close_check=True)
    env.close()


@pytest.mark.browser
def test_a_page_passes_gymnasiums_checker_and_pays_for_what_its_task_asks() -> None:
    env = gymnasium.make(NAME, suite="miniwob-demo", task="click-test-2", render_mode="rgb_array")
    check_env(env.unwrapped, skip_close_check=True)
    rewards = set()
    for seed in range(12):  # which of the two buttons is meant, and where they are, changes with the seed
        frame, info = env.reset(seed=seed)
        assert info["instruction"] == "Click button ONE."
        grey = (frame[52:205] > 230).all(axis=2) & (frame[52:205] < 250).all(axis=2)  # inside of a button
        places = np.argwhere(grey) + np.array([52, 0])
        y, x = places[len(places) // 2]
        action = Click(x=int(x), y=int(y))
        _, reward, terminated, _, _ = env.step(action)
        if terminated:
            rewards.add(float(reward))
    env.close()
    assert max(rewards, default=0.0) == 1.0


@pytest.mark.parametrize("side", [160, 224, 720, 1080, 1280, 1920, 4096])
def test_the_share_of_a_pixel_is_that_pixel_in_float32_too(side: int) -> None:
    shares = np.arange(side, dtype=np.float32) / np.float32(side)
    assert [pixel(float(share), side) for share in shares] == list(range(side))
    assert [pixel((x + 0.5) / side, side) for x in range(side)] == list(range(side))
    assert (pixel(-1.0, side), pixel(1.0, side)) == (0, side - 1)


def test_the_same_seed_is_the_same_task_and_another_seed_another(lab: TaskEnv) -> None:
    first, info = lab.reset(seed=5)
    again, same = lab.reset(seed=5)
    other, _ = lab.reset(seed=6)
    assert np.array_equal(first, again) and info == same and info["instruction"]
    assert not np.array_equal(first, other)


def test_done_terminates_and_the_last_step_truncates(lab: TaskEnv) -> None:
    lab.reset(seed=1)
    _, reward, terminated, truncated, info = lab.step(DONE)
    assert (reward, terminated, truncated, info["score"]) == (0.0, True, False, 0.0)
    with pytest.raises(RuntimeError, match="reset the environment first"):
        lab.step(WAIT)
    lab.reset(seed=1)
    ends = [lab.step(WAIT)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_fault_is_no_score(lab: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.reset(seed=1)

    async def dark(*_: Any) -> None:
        raise FaultError(Fault("device", "crashed", "the screen went dark", retryable=True))

    with monkeypatch.context() as broken:
        broken.setattr("guiagent.client.device.LeasedDevice.act", dark)
        _, reward, terminated, truncated, info = lab.step(WAIT)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["fault"] == {"origin": "device", "code": "crashed", "message": "the screen went dark"}
    assert "score" not in info
    lab.reset(seed=1)  # on another device
    assert lab.step(WAIT)[2:4] == (False, False)


def test_a_vector_steps_its_leases_together_and_begins_ended_ones_again() -> None:
    env = gymnasium.make_vec(
        NAME, num_envs=3, vectorization_mode="vector_entry_point", suite="lab", task="reach-2"
    )
    assert isinstance(env.unwrapped, TaskVectorEnv)
    frames, info = env.reset(seed=7)
    single = gymnasium.make(NAME, suite="lab", task="reach-2")
    expected = [single.reset(seed=7 + i) for i in range(3)]
    single.close()
    assert np.array_equal(frames, np.stack([frame for frame, _ in expected]))
    assert list(info["instruction"]) == [said["instruction"] for _, said in expected]
    words = np.array([DONE["word"], WAIT["word"], WAIT["word"]])
    actions = {"word": words, "at": np.zeros((3, 2)), "to": np.zeros((3, 2)), "text": ("", "", "")}
    _, rewards, terminated, truncated, _ = env.step(actions)
    assert list(terminated) == [True, False, False] and not truncated.any() and not rewards.any()
    began, _, terminated, _, info = env.step(actions)  # the first begins again, its action is ignored
    assert not terminated[0] and not np.array_equal(began[0], frames[0])
    sampled = env.step(env.action_space.sample())
    assert env.observation_space.contains(sampled[0])
    env.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"suite": "labb", "task": "reach-2"}, "no suite 'labb'"),
        ({"suite": "lab", "task": "reach-99"}, "reach-99"),
        ({"suite": "lab", "task": "reach-2", "split": "test"}, "train or evaluation"),
        ({"suite": "lab", "task": "reach-2@graphs"}, "kept unseen"),
    ],
)
def test_what_there_is_not_is_one_line_before_a_farm(words: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        gymnasium.make(NAME, **words)


def test_every_sample_is_an_action() -> None:
    space = action_space()
    space.seed(0)
    seen = {type(actions_of(space.sample(), (160, 224))[0]) for _ in range(200)}
    assert {Click, Drag, Scroll, Type, Answer, Done} <= seen
    with pytest.raises(UsageError, match="action space"):
        actions_of({"word": 99, **_NOTHING}, (160, 224))
