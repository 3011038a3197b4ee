"""Tasks of a suite on one leased device in blocking calls, for doors whose frameworks are synchronous."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from eval.doors.rollouts import Rollout, Row
from eval.stepping import Episode, SuiteTasks
from guiagent.client.sync import Farm, connect
from guiagent.errors import GuiAgentError, UsageError
from guiagent.wire import Endpoint

See = Literal["both", "screen", "elements"]


class Shown(NamedTuple):
    """What a model is shown: a text, and the screen as PNG (b"" where it sees elements alone)."""

    text: str
    picture: bytes


class Seat:
    """One device for one task after the other: leased by `begin`, given back by `close`.

    `pool` is as for `guiagent.connect`; without one, this user's pool is used, or one of a single device is
    started that ends with `close`. `door` labels the lease. An episode has `max_steps` actions, or as many
    as its task allows.

    Calls raise FaultError after a fault, and UsageError, in one line, for what is none; the lease is kept.
    Threads may share it: calls are carried out one at a time, and `close` waits for the one that goes on.
    """

    def __init__(
        self,
        tasks: SuiteTasks,
        *,
        door: str,
        pool: str | None = None,
        see: See = "both",
        max_steps: int | None = None,
    ) -> None:
        self._tasks, self._door, self._pool = tasks, door, pool
        self._see, self._max_steps = see, max_steps
        self._turn = threading.RLock()
        self._farm: Farm | None = None
        self._episode: Episode | None = None
        self._rollout: Rollout | None = None

    def begin(self, task: str, seed: int) -> Shown:
        """Set a task up on the device; its instruction, and what shows."""
        self._tasks.exactly(task, seed)  # what is no task leases nothing
        with self._turn:
            farm, rollout = self._opened()
            self._rollout = None  # should this one fail to begin
            farm.wait(rollout.begin(self._tasks, Row(task=task, seed=seed)))
            self._rollout = rollout
            return self.call("look", {})

    def call(self, tool: str, arguments: dict[str, Any]) -> Shown:
        """Carry out a call of `look` or of an action's tool, and show what came of it."""
        with self._turn:
            farm, rollout = self._begun()
            text = farm.wait(rollout.call(tool, arguments))
            return Shown(text, rollout.picture)

    def score(self) -> float:
        """The score of the task's check. A task that is not over ends here."""
        with self._turn:
            farm, rollout = self._begun()
            return farm.wait(rollout.score())

    @property
    def over(self) -> bool:
        """Whether the task has ended, so that nothing more can be done in it."""
        rollout = self._rollout
        return rollout is not None and rollout.over

    def close(self) -> None:
        """Give the device back, and end a pool that was started for it. `begin` leases another one."""
        with self._turn:
            farm, episode = self._farm, self._episode
            self._farm = self._episode = self._rollout = None
            if farm is None:
                return
            try:
                if episode is not None:
                    with suppress(GuiAgentError):  # the pool takes the device back when the lease runs out
                        farm.wait(episode.close())
            finally:
                farm.close()

    def _opened(self) -> tuple[Farm, Rollout]:
        if self._farm is None:
            self._farm = connect(self._pool, devices=[self._tasks.devices(1)])
        if self._episode is None:
            frame = "none" if self._see == "elements" else "png"
            slot = self._tasks.slot(self._farm.client, self._door)
            self._episode = Episode(slot, self._max_steps, frame, tree=self._see != "screen")
        return self._farm, Rollout(self._episode)

    def _begun(self) -> tuple[Farm, Rollout]:
        if self._farm is None or self._rollout is None:
            raise UsageError("reset first: there is no task, or it could not begin")
        return self._farm, self._rollout


def place_of(pool: str | None, endpoint: Endpoint) -> str:
    """How another process of this user names a pool, without its token: the URL that was given, whose token
    is in $GUIAGENT_TOKEN, or the pool's state folder."""
    if pool is not None:
        return pool
    return str(Path(unquote(urlsplit(endpoint.page).path)).parent)
