"""Fixtures that several test files share: a small untrained checkpoint, a real browser, a real PostgreSQL."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from guiagent.errors import MissingProgram
from guiagent.protocols import Device
from tests.support.skips import SkipList

if TYPE_CHECKING:
    from tests.support.postgres import Server


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers' reports come to the one that prints
        config.pluginmanager.register(SkipList())


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small policy before any training, as a Hugging Face folder that no test may change.

    Its logits are scaled down to about one: every token is likely, and float32 good to 1e-6 of a
    log-probability.
    """
    import torch

    from training.tiny import model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = model.make_tokenizer(["Click on Tab #2.", "Click the button.", 'Point at "Cancel".'])
    network = model.make_model(tokenizer)
    torch.nn.init.constant_(network.model.language_model.norm.weight, 0.05)
    model.save(network, model.make_processor(tokenizer), folder)
    return folder


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """The package, told to stay on loopback and its token before it is imported, as no test does itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)  # a process reads it once
        yield pytest.importorskip("ray", reason="there is no Ray")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["Server"]:
    """A private PostgreSQL, one for all tests of a worker."""
    postgres = pytest.importorskip(
        "tests.support.postgres", reason="there is no psycopg", exc_type=ImportError
    )
    with postgres.server() as server:
        if server is None:
            pytest.skip(postgres.MISSING)
        yield server


@pytest.fixture
def database(postgres_server: "Server") -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with postgres_server.database() as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser_device() -> AsyncIterator[Device]:
    """A headless Chromium of 160x224 pixels, one for all tests of a module, which reset it."""
    from devices.config import BrowserConfig
    from devices.drivers import browser

    try:
        device = await browser.start(BrowserConfig(width=160, height=224))
    except MissingProgram as missing:
        pytest.skip(str(missing))
    yield device
    await device.close()
