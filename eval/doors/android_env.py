"""A phone of the farm with the interface of `android_env` (1.3) and `dm_env`: touches in, pixels out.

A device of the farm takes whole gestures, so what the finger does from its touch to its lift is carried out
at the lift, and the screen shows it from then on. Every step stands for `step_ms` of the finger's time.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eval.frames import Frame, decoded, pixel
from eval.stepping import Episode, SuiteTasks
from guiagent.actions import Action, Click, Drag, LongPress, Swipe
from guiagent.client.play import DeviceSlot
from guiagent.client.sync import connect
from guiagent.errors import Fault, FaultError, MissingProgram, UsageError
from guiagent.protocols import Device, Task
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score

TOUCH, LIFT, REPEAT = range(3)

_LONG_PRESS_MS = 500  # Android's own
_SLOP = 0.02  # share of the width that a finger may move within a tap
_LEASE_WAIT_S = 120.0
_MOST_MS = 60_000

Point = tuple[int, int]


class AndroidEnv:
    """A `dm_env.Environment` over a leased phone.

    The first `reset` begins with the instance `seed` of the task, every further one takes the next. The
    reward is the score of the task's own check: it is asked after every gesture, and the episode ends
    (discount 0) with a score of 1. After `max_steps` steps, of which a tap takes two, it is cut off
    (discount 1) with the score that the state then has. Without a task the phone is reset to its seeded start
    and the reward is 0. A fault is no score: `reset` and `step` raise FaultError, and the next call begins an
    episode anew.

    `suite` and `task` name what is to be done, `split` the range of seeds; else `kind` says which device is
    leased ("phone", "android"). `pool` is as for `guiagent.connect`; without one, this user's pool is used,
    or one is started that ends with the environment.

    Raises MissingProgram without the package dm-env, UsageError for an unknown suite, task or split.
    """

    def __init__(
        self,
        suite: str | None = None,
        task: str | None = None,
        *,
        kind: str = "phone",
        split: str = "train",
        pool: str | None = None,
        max_steps: int = 200,
        step_ms: int = 50,
        seed: int = 0,
    ) -> None:
        try:
            import dm_env  # type: ignore[import-not-found]
        except ImportError:
            raise MissingProgram("dm-env is not installed: pip install dm-env") from None
        if (suite is None) != (task is None):
            raise UsageError("a task needs its suite, and a suite the name of a task")
        dm_env.Environment.register(AndroidEnv)
        self._tasks, self._name = (SuiteTasks(suite, split) if suite else None), task or ""
        if self._tasks is not None:
            self._tasks.require(self._name)
        self._farm = connect(pool, devices=[self._tasks.devices(1) if self._tasks else f"{kind}=1"])
        try:
            slot = self._slot(kind)
            capabilities = self._farm.wait(_described(slot))
        except BaseException:
            self._farm.close()
            raise
        self._size = (capabilities.width, capabilities.height)
        self._episode = Episode(slot, max_steps, eager=True)
        self._finger = Finger(self._size, step_ms)
        self._seed, self._over = seed, True
        self._pixels: Frame = np.zeros((self._size[1], self._size[0], 3), np.uint8)
        self._looked = 0.0
        self._told: dict[str, Any] = {}
        self._latest: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # action and observation
        self._counts = {"episodes": 0, "steps": 0, "gestures": 0}

    # -- dm_env's interface ----------------------------------------------------------------------------------

    def reset(self) -> Any:
        import dm_env

        self._over, self._finger = True, self._finger.lifted()
        instruction, shown = self._farm.wait(self._episode.reset(self._task()))
        self._over = False
        self._seed += 1
        self._counts["episodes"] += 1
        self._told = {"instruction": instruction}
        self._looked = time.monotonic()
        return dm_env.restart(self._seen({}, shown, first=True))

    def step(self, action: Mapping[str, Any]) -> Any:
        """Carry out one step; the first one, and one after an end, resets instead.

        Raises UsageError for what is not of the action spec: nothing was done. Raises FaultError.
        """
        import dm_env

        if self._over:
            return self.reset()
        done = self._finger.step(action)
        self._counts["steps"] += 1
        self._counts["gestures"] += done is not None
        self._over = True  # should the step fail
        made = self._farm.wait(self._episode.step([done] if done else []))
        if fault := made.info.get("fault"):
            raise FaultError(Fault(**fault, retryable=True))
        self._told = made.info
        self._over = made.terminated or made.truncated
        observation = self._seen(dict(action), made.shown)
        if made.terminated:
            return dm_env.termination(made.reward, observation)
        if made.truncated:
            return dm_env.truncation(made.reward, observation)
        return dm_env.transition(made.reward, observation)

    def action_spec(self) -> dict[str, Any]:
        from dm_env import specs

        return {
            "action_type": specs.DiscreteArray(3, name="action_type"),
            "touch_position": specs.BoundedArray((2,), np.float32, [0.0, 0.0], [1.0, 1.0], "touch_position"),
        }

    def observation_spec(self) -> dict[str, Any]:
        from dm_env import specs

        return {
            "pixels": specs.BoundedArray(self._pixels.shape, np.uint8, 0, 255, "pixels"),
            "timedelta": specs.Array((), np.int64, "timedelta"),
            "orientation": specs.BoundedArray((4,), np.uint8, 0, 1, "orientation"),
        }

    def reward_spec(self) -> Any:
        from dm_env import specs

        return specs.Array((), float, "reward")

    def discount_spec(self) -> Any:
        from dm_env import specs

        return specs.BoundedArray((), float, 0.0, 1.0, "discount")

    def close(self) -> None:
        if not self._farm.closed:
            self._farm.wait(self._episode.close())
            self._farm.close()

    def __enter__(self) -> "AndroidEnv":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what android_env adds -------------------------------------------------------------------------------

    def task_extras(self, latest_only: bool = True) -> dict[str, Any]:
        """The task's instruction, and why the last gesture had no effect (`action_error`), as strings of
        numpy; with `latest_only=False` as arrays of the one that there is."""
        told = {name: np.array(self._told[name]) for name in _EXTRAS if self._told.get(name)}
        return told if latest_only else {name: text[np.newaxis] for name, text in told.items()}

    @property
    def raw_action(self) -> dict[str, Any]:
        return dict(self._latest[0])

    @property
    def raw_observation(self) -> dict[str, Any]:
        return dict(self._latest[1])

    def stats(self) -> dict[str, Any]:
        """Counts since the start: episodes, steps, gestures."""
        return dict(self._counts)

    # -- inside ----------------------------------------------------------------------------------------------

    def _slot(self, kind: str) -> DeviceSlot:
        client = self._farm.client
        if self._tasks is not None:
            return self._tasks.slot(client, "android_env")
        return DeviceSlot(lambda: client.lease(kind, label="android_env", wait=_LEASE_WAIT_S))

    def _task(self) -> Task:
        return self._tasks.task(self._name, self._seed) if self._tasks else _Nothing(self._seed)

    def _seen(self, action: dict[str, Any], shown: Observation, first: bool = False) -> dict[str, Any]:
        if not shown.unchanged:
            self._pixels = decoded(shown, self._size)
        before, self._looked = self._looked, time.monotonic()
        passed = 0 if first else round((self._looked - before) * 1e6)
        observation = {
            "pixels": self._pixels.copy(),
            "timedelta": np.array(passed, np.int64),
            "orientation": orientation(shown.width, shown.height),
        }
        self._latest = (action, observation)
        return observation


_EXTRAS = ("instruction", "action_error")


def orientation(width: int, height: int) -> Any:
    """One-hot uint8 [4]: upright, or on its side; a picture does not say on which, so it is the first."""
    return np.eye(4, dtype=np.uint8)[int(width > height)]


class Finger:
    """One finger over the steps of an episode; positions are pixels of a screen of `size`."""

    def __init__(self, size: Point, step_ms: int) -> None:
        if not 1 <= step_ms <= _MOST_MS:
            raise UsageError(f"step_ms is 1 to {_MOST_MS}, not {step_ms}")
        self._size, self._step_ms = size, step_ms
        self._path: list[Point] = []

    def lifted(self) -> "Finger":
        """A finger on the same screen that touches nothing."""
        return Finger(self._size, self._step_ms)

    def step(self, action: Mapping[str, Any]) -> Action | None:
        """The gesture that ends with this step, if one does. Raises UsageError for what is no action."""
        try:
            kind, share = int(action["action_type"]), [float(one) for one in action["touch_position"]]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UsageError("an action has an action_type, and a touch_position of two numbers") from None
        if kind not in (TOUCH, LIFT, REPEAT):
            raise UsageError(f"action_type {kind} is not TOUCH (0), LIFT (1) or REPEAT (2)")
        if len(share) != 2 or not all(math.isfinite(one) and 0 <= one <= 1 for one in share):
            raise UsageError(f"touch_position {str(share)[:60]} is not two shares of the screen, 0 to 1")
        if kind == LIFT:
            path, self._path = self._path, []
            return gesture(path, self._step_ms, self._size[0] * _SLOP) if path else None
        if kind == TOUCH:
            self._path.append((pixel(share[0], self._size[0]), pixel(share[1], self._size[1])))
        elif self._path:
            self._path.append(self._path[-1])
        return None


def gesture(path: Sequence[Point], step_ms: int, slop: float) -> Action:
    """What a finger did that was at these points, `step_ms` at each, and then was lifted.

    A finger that stays within `slop` pixels taps or presses long; one that moves swipes in a straight line
    from its first point to its last, or drags if it rested long on the first.
    """
    (x1, y1), (x2, y2) = path[0], path[-1]
    moved = next((i for i, point in enumerate(path) if math.dist(path[0], point) > slop), len(path))
    ms, rested_ms = min(len(path) * step_ms, _MOST_MS), moved * step_ms
    if moved == len(path):
        return Click(x=x1, y=y1) if ms < _LONG_PRESS_MS else LongPress(x=x1, y=y1, ms=ms)
    if rested_ms >= _LONG_PRESS_MS:
        return Drag(path=((x1, y1), (x2, y2)))
    return Swipe(x1=x1, y1=y1, x2=x2, y2=y2, ms=ms)


class _Nothing:
    """The task of no task: a device in its seeded start, where nothing is asked and nothing is paid."""

    id, max_steps = "nothing", 1
    probes: Mapping[str, str] = {}

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        return "", await device.reset(self.seed, ResetSpec(), spec)

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        return Score(0.0, reason="nothing was asked")

    async def teardown(self, device: Device) -> None:
        pass


async def _described(slot: DeviceSlot) -> Any:
    return await (await slot.device()).describe()
