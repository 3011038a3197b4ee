"""Device host in a process of its own, to be killed: `guiagent host`, whose devices log what they execute.

python -m tests.drills.host FOLDER NAME COUNT URL...
"""

import asyncio
import contextlib
import logging
import signal
from argparse import ArgumentParser
from pathlib import Path

from devices.config import SimConfig
from devices.drivers import Driver
from devices.hosts.agent import Agent
from tests.drills import mutants
from tests.drills.farm import ACTIONS, TOKEN, Part, Typist


class Host(Part):
    """One host process; it dials the pools at `urls` again whenever it is started."""

    def __init__(self, folder: Path, name: str, count: int, urls: list[str]) -> None:
        self.name = name
        super().__init__("tests.drills.host", str(folder), name, str(count), *urls)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("count", type=int)
    parser.add_argument("urls", nargs="+")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    mutants.seed()

    async def start(_: SimConfig) -> Typist:
        return Typist(asked.folder / ACTIONS)

    slots = {f"sim-{index}": SimConfig(width=64, height=64) for index in range(asked.count)}
    agent = Agent(asked.urls, TOKEN, asked.name, slots, {"sim": Driver(start)})
    asyncio.run(_until_stopped(agent))


async def _until_stopped(agent: Agent) -> None:
    work = asyncio.create_task(agent.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    main()
