"""The trainer of a run on a Ray cluster: `training.train` in an actor, with a crew in others."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from guiagent.errors import InfrastructureError
from rewards.verdicts import Judge
from training.config import TrainConfig
from training.launch.ray_players import crew_on_ray
from training.mirror import run_folder
from training.train import Progress, Trained, train

OpenJudge = Callable[[], AbstractAsyncContextManager[Judge | None]]


class TrainerHost:
    """The trainer. `run` tells of every update, and of the end."""

    def __init__(self, config: TrainConfig, run: str, engines: list[Any], hosts: list[Any]) -> None:
        self._config = config
        self._run = run
        self._crew = crew_on_ray(engines, hosts)

    async def run(self, open_judge: OpenJudge, goes_on: bool) -> AsyncIterator[Progress | Trained | str]:
        """A line of text is a warning. `goes_on`: another trainer was here before.

        Raises what `training.train.train` raises, and InfrastructureError where the run is not here to go on.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Progress | Trained | str | None] = asyncio.Queue()

        def tell(news: Progress | Trained | str | None) -> None:
            loop.call_soon_threadsafe(told.put_nowait, news)

        def work() -> None:
            try:
                with run_folder(self._run, tell) as folder:
                    if goes_on and not (folder.path / "config.toml").is_file():
                        raise InfrastructureError(
                            f"the trainer was lost, and {folder.path} is not where another one was started: "
                            "keep runs on storage that all nodes share, or at a URL (--run s3://...)"
                        )
                    tell(asyncio.run(self._train(folder.path, folder.check, open_judge, tell)))
            finally:
                tell(None)

        working = asyncio.create_task(asyncio.to_thread(work))  # waits for actors, as this loop must not
        while (news := await told.get()) is not None:
            yield news
        await working

    async def _train(
        self, folder: Path, check: Callable[[], None], open_judge: OpenJudge, tell: Callable[[Progress], None]
    ) -> Trained:
        def progress(update: Progress) -> None:
            check()
            tell(update)

        async with open_judge() as judge:
            return await train(self._config, folder, self._crew, progress, judge)
