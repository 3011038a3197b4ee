"""Tasks of a suite as TRL's environments (`environment_factory` of its GRPOTrainer, 1.16): the model acts by
calling tools, on a leased device for every rollout of a batch.

The reward is the task's own check. A fault is never a reward: its rollout has none, which TRL masks.
"""

import contextlib
from typing import Any, Literal, Self

from eval.doors.tools import ActionTools, elements, untagged
from eval.stepping import Episode, Stepped, SuiteTasks
from guiagent.actions import Action
from guiagent.client.sync import Farm, connect
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.frames import rgb_of_device
from guiagent.types import Observation

PROMPT = "Do this on the screen, with the tools, and call done when it is done: "

See = Literal["screen", "elements"]


class SuiteEnvironments:
    """What `environment_factory` wants: call it for an environment. Use it in `with`, or call `close`.

    `split` "train" has a suite's training tasks and their seeds. A model that `see`s the "screen" gets
    pictures, as TRL's blocks of content; one that sees "elements" gets text, from the accessibility tree. An
    episode has `max_steps` actions, or as many as its task allows. `pool` is as for `guiagent.connect`;
    without one, this user's pool is used, or one of `devices` is started that ends with this one. A batch
    needs as many devices as it has rollouts.

    A rollout with a fault has no reward. After `most_faults` of them in a row, `get_reward` raises the last
    one's FaultError, so that a run does not go on with nothing to learn from.

    Raises UsageError for an unknown suite or split.
    """

    def __init__(
        self,
        suite: str,
        *,
        split: str = "train",
        see: See = "screen",
        devices: int = 8,
        pool: str | None = None,
        max_steps: int | None = None,
        most_faults: int = 32,
    ) -> None:
        if see not in ("screen", "elements"):
            raise UsageError(f"a model sees the screen or elements, not {see!r}")
        self.tasks, self.see, self.most_faults = SuiteTasks(suite, split), see, most_faults
        self.faults = 0  # in a row
        self._max_steps = max_steps
        self.farm: Farm = connect(pool, devices=[self.tasks.devices(devices)])

    def rows(self, episodes: int = 1) -> list[dict[str, Any]]:
        """The rows of a data set, for `datasets.Dataset.from_list`: every task on its first seeds.

        Raises UsageError where a suite has no tasks to learn from.
        """
        if not self.tasks.names:
            raise UsageError(
                f"{self.tasks.suite.name} has no tasks to learn from: split='evaluation' has all"
            )
        prompt = [{"role": "user", "content": PROMPT}]
        return [
            {"prompt": prompt, "task": name, "seed": seed}
            for name in self.tasks.names
            for seed in self.tasks.seeds(episodes)
        ]

    def __call__(self) -> "SuiteEnvironment":
        frame, tree = ("png", False) if self.see == "screen" else ("none", True)
        slot = self.tasks.slot(self.farm.client, "trl")
        return SuiteEnvironment(self, Episode(slot, self._max_steps, frame, tree=tree))

    def close(self) -> None:
        """Give all devices back, and stop the pool if it was started for this."""
        self.farm.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SuiteEnvironment(ActionTools):
    """One rollout after the other, each on a device that is leased by `reset` and given back by `get_reward`.

    Its public methods, but for these two, are the tools.
    """

    def __init__(self, environments: SuiteEnvironments, episode: Episode) -> None:
        self._all, self._episode = environments, episode
        self._over = True
        self._reward: float | None = None
        self._fault: Fault | None = None

    def reset(self, task: str | None = None, seed: int | None = None, **_: Any) -> Any:
        """Set the row's task up; what follows the row's prompt: the instruction, and what shows.

        Raises UsageError for a row without task and seed, or with those of another split.
        """
        if task is None or seed is None:
            raise UsageError("a row has a task and a seed: train on Dataset.from_list(environments.rows())")
        self._over, self._reward, self._fault = True, None, None
        chosen = self._all.tasks.exactly(task, seed)
        try:
            instruction, shown = self._all.farm.wait(self._episode.reset(chosen))
        except FaultError as error:
            self._fault = error.fault
            return "(the device could not be set up)"
        self._over = False
        return self._told(shown, instruction)

    def get_reward(self) -> float | None:
        """The score of the task's check, and None after a fault. A rollout that is not over ends here."""
        if not self._over:
            self._note(self._all.farm.wait(self._episode.finish()))
        with contextlib.suppress(FaultError):  # the pool takes the device back when the lease runs out
            self._all.farm.wait(self._episode.close())
        self._all.faults = 0 if self._fault is None else self._all.faults + 1
        if self._fault is not None and self._all.faults >= self._all.most_faults:
            raise FaultError(self._fault)
        return self._reward

    def _do(self, action: Action) -> Any:
        if self._over:
            raise UsageError("the episode has ended: nothing was done")
        made = self._all.farm.wait(self._episode.step([action]))
        self._note(made)
        if self._fault is not None:
            raise FaultError(self._fault)
        if self._over:
            return "The episode has ended."
        return self._told(made.shown, made.info.get("action_error", ""))

    def _note(self, made: Stepped) -> None:
        self._over = made.terminated or made.truncated
        if fault := made.info.get("fault"):
            self._fault = Fault(**fault)
        elif self._over:
            self._reward = made.reward

    def _told(self, shown: Observation, said: str) -> Any:
        """What a model is shown: a text, or blocks of content."""
        said = untagged(said)
        if self._all.see == "elements":
            return "\n\n".join(part for part in (said, elements(shown)) if part)
        text = "\n\n".join(part for part in (said, "The screen is as before." * shown.unchanged) if part)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        if not shown.unchanged:
            blocks.append({"type": "image", "image": rgb_of_device(shown.frame)})
        return blocks
