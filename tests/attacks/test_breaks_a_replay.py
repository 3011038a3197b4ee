"""Whoever wrote a stored episode wants the command that repeats it ended, or the terminal that shows it."""

from typing import Any

from eval.replay.repeating import Repetition
from guiagent.cli.evaluate.preflight import Verdict
from guiagent.types import Observation, ObserveSpec, PolicyOutput, Step, Trajectory

BROKEN = b"\x89PNG\r\n\x1a\n" + b"no picture" * 10


class Screen:
    """A device that shows the same picture whatever is done."""

    async def observe(self, spec: ObserveSpec) -> Observation:
        return Observation(64, 64, b"another", "image/png", "hash of another")

    async def act(self, actions: Any, spec: ObserveSpec) -> Observation:
        return await self.observe(spec)


async def test_a_recorded_picture_that_is_none_is_a_step_without_a_picture() -> None:
    step = Step("hash", 64, 64, PolicyOutput("", [{"type": "wait", "ms": 0}]))
    episode = Trajectory("one", "lease", 0, "", [step], "agent_done")
    again = Repetition(episode, Screen(), lambda hash: BROKEN, patience_s=0.0)  # type: ignore[arg-type]
    await again.begin(None)
    assert (await again.step(step)).verdict == "unseen"


def test_what_a_check_says_moves_no_cursor() -> None:
    line = str(Verdict("task\x1b[2J", "fault", "device (died): \x1b]0;title\x07\nsecond line"))
    assert line.isprintable() and "second line" in line
