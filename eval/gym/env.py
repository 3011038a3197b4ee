"""Gymnasium environments of tasks on leased devices: one, or several that step at the same time."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from eval.frames import Frame
from eval.gym.episode import Episode
from eval.gym.spaces import action_space, actions_of, screen_space
from eval.stepping import SuiteTasks
from guiagent.client.sync import Farm, connect


class _Tasks:
    """A task of a suite by seed, and the connection to the devices that it is played on.

    Raises UsageError for an unknown suite, task or split.
    """

    def __init__(self, suite: str, task: str, split: str, pool: str | None, devices: int) -> None:
        self._tasks, self._name = SuiteTasks(suite, split), task
        self._tasks.require(task)
        self.size = self._tasks.suite.screen
        self.farm: Farm = connect(pool, devices=[self._tasks.devices(devices)])

    def episode(self, max_steps: int | None) -> Episode:
        slot = self._tasks.slot(self.farm.client, "gymnasium")
        return Episode(slot, lambda seed: self._tasks.task(self._name, seed), self.size, max_steps)


class TaskEnv(gymnasium.Env[Frame, Any]):
    """A task of a suite as an environment. Seeds choose its instance; rewards and ends are `Episode`'s.

    `pool` is the address or state folder of a running pool; without one, this user's pool is used, or one is
    started that ends with the environment. `split` says of which range of seeds the instances are.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        suite: str,
        task: str,
        *,
        split: str = "train",
        pool: str | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._tasks = _Tasks(suite, task, split, pool, 1)
        self._episode = self._tasks.episode(max_steps)
        self.observation_space = screen_space(*self._tasks.size)
        self.action_space = action_space()
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = seed if seed is not None else int(self.np_random.integers(2**31))
        return self._tasks.farm.wait(self._episode.reset(drawn))

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        return self._tasks.farm.wait(self._episode.step(actions_of(action, self._tasks.size)))

    def render(self) -> Any:
        return self._episode.frame.copy() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        if not self._tasks.farm.closed:
            self._tasks.farm.wait(self._episode.close())
            self._tasks.farm.close()


class TaskVectorEnv(VectorEnv[NDArray[np.uint8], Any, NDArray[Any]]):
    """Several instances of a task, each on a leased device of its own, stepped at the same time.

    An episode that has ended is reset by the next `step`, whose action for it is ignored.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        suite: str,
        task: str,
        *,
        num_envs: int = 1,
        split: str = "train",
        pool: str | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._tasks = _Tasks(suite, task, split, pool, num_envs)
        self._episodes = [self._tasks.episode(max_steps) for _ in range(num_envs)]
        self._ended = np.zeros(num_envs, bool)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = screen_space(*self._tasks.size)
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """`seed` is that of the first instance, whose neighbours get the seeds after it, or one for each."""
        several = isinstance(seed, Sequence)
        super().reset(seed=None if several else cast("int | None", seed))
        if isinstance(seed, Sequence):
            seeds = [self._draw() if one is None else one for one in seed]
        else:
            seeds = [self._draw() if seed is None else seed + i for i in range(self.num_envs)]
        self._ended[:] = False
        made = self._all(lambda i: self._episodes[i].reset(seeds[i]))
        infos: dict[str, Any] = {}
        for i, (_, info) in enumerate(made):
            infos = self._add_info(infos, info, i)
        return np.stack([frame for frame, _ in made]), infos

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        singles = list(gymnasium.vector.utils.iterate(self.action_space, actions))
        again, seeds = self._ended.copy(), [self._draw() for _ in range(self.num_envs)]

        async def one(i: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
            if again[i]:
                frame, info = await self._episodes[i].reset(seeds[i])
                return frame, 0.0, False, False, info
            return await self._episodes[i].step(actions_of(singles[i], self._tasks.size))

        made = self._all(one)
        infos: dict[str, Any] = {}
        for i, (*_, info) in enumerate(made):
            infos = self._add_info(infos, info, i)
        terminated, truncated = (np.array([step[k] for step in made]) for k in (2, 3))
        self._ended = terminated | truncated
        return (
            np.stack([step[0] for step in made]),
            np.array([step[1] for step in made]),
            terminated,
            truncated,
            infos,
        )

    def render(self) -> Any:
        return tuple(episode.frame.copy() for episode in self._episodes)

    def close_extras(self, **_: Any) -> None:
        if not self._tasks.farm.closed:
            self._all(lambda i: self._episodes[i].close())
            self._tasks.farm.close()

    def _draw(self) -> int:
        return int(self.np_random.integers(2**31))

    def _all(self, work: Callable[[int], Any]) -> list[Any]:
        """Await the work of all instances at the same time."""

        async def together() -> list[Any]:
            return list(await asyncio.gather(*(work(i) for i in range(self.num_envs))))

        return self._tasks.farm.wait(together())
